"""Above the panes of a compile stand the findings that matter for that program."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.render.document import Findings, Fold, Tabs

pytestmark = pytest.mark.backend

LARGE = jax.ShapeDtypeStruct((512, 1024), jnp.float32)
TABLE = np.linspace(0, 1, 1 << 19, dtype=np.float32).reshape(512, 1024)


def unrolled(x: Any) -> Any:
    for _ in range(200):
        x = jnp.sin(x) * 1.5 + jnp.cos(x)
    return x


def product(x: Any, w: Any) -> Any:
    y = x @ w
    return y + 1


def lead(cap: jaxlens.Capture) -> str:
    return jaxlens.compile(cap).document.blocks[0].findings[0].text


def test_what_would_save_most_leads() -> None:
    small, wide = jnp.ones((16, 16)), jnp.ones((16, 17))
    cases: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "a loop of 200 steps was unrolled": (unrolled, (jnp.ones(16),)),
        "Donation could save at most": (jax.jit(lambda x: x + 1), (LARGE,)),
        "One array is closed over": (lambda x: x * TABLE, (jnp.ones(1024),)),
        "2 equations became 1 kernel and 1 library call": (product, (small, wide)),
    }
    for words, (f, args) in cases.items():
        assert words in lead(jaxlens.capture(f, *args)), words


def test_a_call_that_compiles_again_says_so_first() -> None:
    @jax.jit
    def f(x: Any) -> Any:
        return x * 2

    assert "Cache" not in lead(jaxlens.capture(f, jnp.ones(3)))
    f(jnp.ones(3))
    assert lead(jaxlens.capture(f, jnp.ones(4))).startswith("Cache: this call would miss: it is")


@pytest.mark.parametrize("verb", [jaxlens.jaxpr, jaxlens.hlo, jaxlens.compile, jaxlens.explore])
def test_at_most_three_sentences_stand_above_the_panes(verb: Callable[..., Any]) -> None:
    view = verb(unrolled, jnp.ones(16))
    above = []
    for block in view.document.blocks:
        if isinstance(block, Tabs):
            break
        above += block.findings if isinstance(block, Findings) else []
    assert 0 < len(above) <= 3
    for block in view.document.blocks:  # the others stand behind one heading, in the text too
        if isinstance(block, Fold):
            folded = block.blocks[0].findings
            assert block.title == f"and {len(folded)} more"
            text = " ".join(view.text(full=True).split())
            assert all(" ".join(finding.text.split()) in text for finding in folded)
