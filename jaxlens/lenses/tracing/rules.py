"""What JAX's rules for a primitive do, in a sentence each: derivative, transposition, batching.

`grad` is three steps: the derivative at a point (`jvp`), split into what depends on the inputs
alone (forward) and what is linear in the tangents, then the linear part turned round
(`transpose`), which is the backward pass. Source: "You Only Linearize Once" (Radul et al., 2022,
arXiv:2204.10923). `vmap` rewrites each equation for one more axis. The sentences are in
`rules.tsv`; a test runs each rule and compares.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one primitive.

    Attributes:
        forward: What `grad` adds to the forward pass, and what is kept.
        backward: What the backward pass does with the cotangent `ct` of the result.
        makes: Primitives that both add, to tell equations of one line apart.
        batch: What `vmap` does.
    """

    forward: str
    backward: str
    makes: frozenset[str]
    batch: str


def _read() -> dict[str, Rules]:
    """The table; a line that begins with "#" is a heading."""
    text = files("jaxlens.lenses.tracing").joinpath("rules.tsv").read_text("utf-8")
    rows = (line.split("\t") for line in text.splitlines()[1:] if not line.startswith("#"))
    return {
        name: Rules(forward, backward, frozenset(makes.split()), batch)
        for name, forward, backward, makes, batch in rows
    }


RULES: Mapping[str, Rules] = _read()
"""By primitive."""
