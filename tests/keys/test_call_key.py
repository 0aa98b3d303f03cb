"""The cache key of a call, computed before it, compared with what JAX then does."""

import functools
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
import jaxlens.core.numpy as cnp
from jaxlens import core

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]

X = np.ones((3, 4), np.float32)
P = {"w": np.ones((4, 2), np.float32)}


@pytest.fixture
def step():
    @functools.partial(jax.jit, static_argnames="n")
    def step(params, x, n=1):
        return (x @ params["w"]).sum() * n

    return step


def rows(answer):
    return {part.name: (part.kind, part.text) for part in answer.parts}


class Node:
    """A pytree that names none of its leaves."""

    def __init__(self, leaves, size):
        self.leaves, self.size = leaves, size


jax.tree_util.register_pytree_node(Node, lambda n: (n.leaves, n.size), lambda n, c: Node(c, n))


def test_a_class_without_field_names_is_named(step):
    shown = str(jaxlens.key(jax.jit(lambda p: p), Node((X, X), 3)))
    assert "p leaf 1 " in shown
    assert "PyTreeDef(Node(3, [*, *]))" in shown
    assert "flat index" not in shown


def test_the_parts_of_a_key(step):
    answer = jaxlens.key(step, P, jnp.asarray(X), n=2)
    assert rows(answer)["params['w']"] == ("input", "f32[4,2]")
    assert rows(answer)["n"] == ("static", "2")
    assert rows(answer)["params"] == ("structure", "PyTreeDef({'w': *})")
    places = {part.name: (part.holder, part.place) for part in answer.parts}
    assert places["params['w']"] == ("numpy.ndarray", "")
    assert places["x"] == ("jax.Array", "not committed to a device")
    assert any(part.name == "jax_enable_x64" for part in answer.rest)
    assert "static value" in str(answer)
    assert "<table" in answer.html()


def test_hit_and_miss_are_what_the_call_does(step):
    assert (jaxlens.key(step, P, X).hit, jaxlens.key(step, P, X).layer) == (False, "trace")
    step(P, X)
    for args in ((P, X), (P, X[:2]), (P, X.astype(np.float16)), (P, jnp.asarray(X))):
        key = jaxlens.key(step, *args)
        with jaxlens.recompiles() as log:
            step(*args)
        assert key.hit is (log.compiles == 0)
        assert jaxlens.key(step, *args).hit is True


def test_shapes_alone_will_do(step):
    shape = jax.ShapeDtypeStruct
    step(P, X)
    abstract = {"w": shape((4, 2), np.float32)}
    assert jaxlens.key(step, abstract, shape((3, 4), np.float32)).hit is True
    miss = jaxlens.key(step, abstract, shape((9, 4), np.float32))
    assert miss.reasons == ("x: f32[9,4], was f32[3,4]",)


def test_asking_makes_no_entry(step):
    with jaxlens.recompiles() as log:
        jaxlens.key(step, P, X)
    assert log.log.calls == ()
    assert step._cache_size() == 0
    assert jaxlens.key(step, P, X).reasons == ("never called before",)


def test_what_jax_would_refuse(step):
    answer = jaxlens.key(step, P, X, n=[2])
    assert answer.hit is None
    assert "cannot be hashed" in answer.reasons[0]
    assert jaxlens.key(step, P, "text").hit is None


def test_a_function_that_is_not_jitted_has_the_key_of_its_jit():
    answer = jaxlens.key(lambda x: x, 3)
    assert answer.hit is None
    assert rows(answer) == {"x": ("input", "weak i32[]")}


def test_a_function_of_the_core():
    f = core.jit(lambda a, n: a * n, static_argnums=1)
    f(cnp.ones(3), 2)
    answer = jaxlens.key(f, cnp.ones(4), 2)
    assert answer.hit is False
    assert answer.reasons == ("a: f32[4], was f32[3]",)
    assert rows(answer)["n"] == ("static", "2")
    assert jaxlens.key(f, cnp.ones(3), 2).hit is True


# ---- the core's calls in a log ---------------------------------------------------------------


def test_the_core_is_watched_in_the_same_log():
    inner = core.jit(lambda x: x * 2)
    f = core.jit(lambda a, n: inner(a) * n, static_argnums=1)
    with jaxlens.recompiles() as log:
        for n in (3, 4, 3):
            f(cnp.ones(n), 2)
        f(cnp.ones(3), 5)
        jax.jit(lambda x: x + 1)(X)
    calls = [call for call in log.log.calls if call.role == "user"]
    assert [call.reason for call in calls] == [
        "never called before",
        "a: f32[4], was f32[3]",
        "n: static value 5, was 2",
        "never called before",
    ]
    assert [step.kind for step in calls[1].steps] == ["trace", "lower", "compile"]
    assert log.compiles == 4
    assert "test_call_key.py" in calls[0].line.file


def test_a_function_that_the_core_jits_anew():
    with jaxlens.recompiles() as log:
        for _ in range(3):
            core.jit(lambda a: a + 1)(cnp.ones(3))
    assert [call.main.kind for call in log.log.recompiles] == ["function"] * 2


def test_the_core_has_no_listener_left():
    before = core.kernel.interpreter.observer.listeners
    with pytest.raises(KeyError), jaxlens.recompiles():
        raise KeyError
    assert core.kernel.interpreter.observer.listeners == before


LATE = """
    import sys
    import numpy as np
    import jaxlens
    finders = list(sys.meta_path)
    with jaxlens.recompiles() as log:
        assert "jaxlens.core" not in sys.modules
        from jaxlens import core
        f = core.jit(lambda a: a * 2)
        for n in (3, 4, 3):
            f(np.ones(n, np.float32))
    assert sys.meta_path == finders
    assert core.kernel.interpreter.observer.listeners == ()
    assert type(core.transforms.events.__loader__).__name__ == "SourceFileLoader"
    print([call.reason for call in log.log.calls])
    with jaxlens.recompiles():
        pass
    assert sys.meta_path == finders
"""


def test_a_core_that_is_imported_while_somebody_watches():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LATE)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['never called before', 'a: f32[4], was f32[3]']"
