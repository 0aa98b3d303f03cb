"""No stage of a program has the line that calls jaxlens in its frames."""

import types

import jax
import jax.numpy as jnp
import pytest

import jaxlens

pytestmark = pytest.mark.backend

X = jnp.ones((64, 32))
HERE = __name__.rpartition(".")[2] + ".py"


@pytest.fixture(scope="module")
def library() -> types.ModuleType:
    """A function whose file name is that of an installed package."""
    text = (
        "import jax, jax.numpy as jnp\n"
        "def loss(x):\n"
        "    y = jnp.exp(x - x.max())\n"
        "    return (y / y.sum()).mean()\n"
    )
    module = types.ModuleType("somelib")
    exec(compile(text, "/env/site-packages/somelib/losses.py", "exec"), module.__dict__)
    return module


def spans(cap: jaxlens.Capture) -> set[tuple[str, bool]]:
    """Files in the frames of every node, of every stage that has frames."""
    modules = (cap.jaxpr.module, cap.stablehlo.module, cap.hlo.module, cap.optimized.module)
    return {(s.file, s.library) for m in modules for node in m.nodes() for s in node.spans}


def test_no_stage_has_a_frame_of_the_callers(library) -> None:
    for f in (library.loss, jax.jit(library.loss), jax.grad(library.loss)):
        assert spans(jaxlens.capture(f, X)) == {("somelib/losses.py", True)}
    assert spans(jaxlens.capture(jnp.tanh, X)) == set()


def test_a_loaded_file_has_none_either(library, tmp_path) -> None:
    jaxlens.capture(library.loss, X).save(tmp_path / "a")
    assert spans(jaxlens.load(tmp_path / "a")) == {("somelib/losses.py", True)}


def test_a_line_of_the_users_within_the_program_owns_what_a_library_does_for_it(library) -> None:
    cap = jaxlens.capture(lambda x: library.loss(x) * 2, X)
    owners = {node.owner.file for node in cap.optimized.module.nodes() if node.owner}
    assert owners == {HERE}


def test_the_lenses_name_the_librarys_line_and_say_that_it_is_one(library) -> None:
    for answer in (jaxlens.memory(library.loss, X), jaxlens.cost(library.loss, X)):
        text = str(answer)
        assert HERE not in text
        assert "somelib/losses.py:" in text
        assert "(a library's line" in text


def test_the_tape_says_that_no_line_was_followed(library) -> None:
    text = " ".join(str(jaxlens.tape(library.loss, X)).split())
    assert "No line of yours ran while this was traced: its equations came from libraries" in text
    assert "somelib/losses.py:4" in text  # in the jaxpr
    assert "recorded 0 equations" not in text
