"""The constants lens on live programs: arrays of known size, captured in every way Python has."""

import functools
import types
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens import core
from jaxlens.call.arguments.closed_over_names import closed_over
from jaxlens.call.core_program import is_core, is_core_call
from jaxlens.ir.facts import Constant
from jaxlens.program.closed_over import alarm
from jaxlens.stages.trace import captured_arrays
from tests.support.paths import marked_line

pytestmark = pytest.mark.backend

GLOBAL = np.random.default_rng(0).random((16, 16), dtype=np.float32)
X = np.ones(16, np.float32)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).random(shape, dtype=np.float32)


def through_a_function(x):  # the holder
    return x @ GLOBAL  # reads it


def by_global(x):
    return through_a_function(x) + through_a_function(2 * x)


def by_closure():
    table = numbers(16)

    def inner(x):
        return x * table

    def outer(x):
        return inner(x) + 1

    return outer


def by_default():
    def f(x, *, scale=numbers(16)):  # noqa: B008
        return x * scale

    return lambda x: f(x)


def by_partial():
    def scaled(table, x):
        return x * table

    bound = functools.partial(scaled, numbers(16))
    return lambda x: bound(x)


class Model:
    def __init__(self) -> None:
        self.params = {"w": [numbers(16, 4)]}

    def __call__(self, x):
        return x @ self.params["w"][0]

    def method(self, x):
        return x @ self.params["w"][0]


def by_object():
    model = Model()
    return lambda x: model(x)


def by_method():
    method = Model().method
    return lambda x: method(x)


def only(f) -> Constant:
    (constant,) = jaxlens.capture(f, X).constants
    return constant


@pytest.mark.parametrize(
    ("f", "name", "held", "holder", "bytes"),
    [
        (by_global, "GLOBAL", "global", "through_a_function", 16 * 16 * 4),
        (by_closure(), "table", "closure", "by_closure.<locals>.inner", 16 * 4),
        (by_default(), "scale", "default argument", "by_default.<locals>.f", 16 * 4),
        (by_partial(), "table", "argument of a partial", "by_partial.<locals>.scaled", 16 * 4),
        (by_object(), "model.params['w'][0]", "attribute", "Model", 16 * 4 * 4),
        (by_method(), "method.params['w'][0]", "attribute", "Model", 16 * 4 * 4),
    ],
)
def test_who_holds_it(f, name, held, holder, bytes) -> None:
    constant = only(f)
    assert (constant.name, constant.held, constant.holder, constant.bytes) == (
        name,
        held,
        holder,
        bytes,
    )


def test_where_and_how_often() -> None:
    constant = only(by_global)
    assert constant.reads == 2
    assert constant.defined.line == marked_line(__file__, "the holder")
    assert constant.span.line == marked_line(__file__, "reads it")
    jitted = jax.jit(lambda x: x @ GLOBAL)
    twice = only(lambda x: jitted(x) + x @ GLOBAL + jitted(x + 1))
    assert (twice.reads, twice.bodies) == (2, 2)


def test_nothing_of_the_users_is_called() -> None:
    class Careful:
        @property
        def table(self):
            raise AssertionError("asked for a property")

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            raise AssertionError("asked for an attribute")

    careful = Careful()
    found = closed_over(lambda x: careful and x * 2)
    assert [held.name for names in found.values() for held in names] == ["careful"]


def test_an_object_that_jit_refuses_is_not_to_be_an_argument() -> None:
    constant = only(by_object())
    assert constant.argument == "model.params"
    (finding,) = alarm([replace(constant, bytes=10**7)])
    assert ": pass `model.params` as an argument, and its values" in finding.text
    tree = jax.tree_util.Partial(lambda table, x: x * table, numbers(16))
    assert not only(lambda x: tree(x)).argument


def test_an_attribute_is_no_global_of_the_same_name() -> None:
    names = {"table": X, "np": np, "core": core}
    exec("def f(x):\n    return x * np.table + np.core.one", names)
    assert id(X) not in closed_over(names["f"])
    assert not is_core_call(names["f"], (X,), {})
    exec("def g(x):\n    return core.sin(x) * table + [table for _ in x]", names)
    assert [b.name for b in closed_over(names["g"])[id(X)]] == ["table"]
    assert is_core_call(names["g"], (X,), {})


def test_cycles_and_many_things_end() -> None:
    class Node:
        pass

    nodes = [Node() for _ in range(10_000)]
    for one, other in zip(nodes, [*nodes[1:], nodes[0]], strict=True):
        one.next, one.all = other, nodes
    nodes[2].table = X
    first = nodes[0]
    assert closed_over(lambda x: x * first.next.next.table)


def test_the_array_and_the_cure_are_said() -> None:
    answer = jaxlens.captured(by_global, X)
    assert answer.bytes == GLOBAL.nbytes
    first = answer.findings[0].text
    assert first.startswith("One array is closed over, `GLOBAL` (f32[16,16], 1.02 kB), a global of")
    assert "pass it as an argument" in first


def test_a_known_fold() -> None:
    def f(x):
        ones = jnp.ones(300).at[3].set(2.0)  # folds
        return ones * x.sum()

    answer = jaxlens.captured(f, X)
    (one,) = [c for c in answer.folded if c.type == "f32[300]"]
    assert (one.opcode, one.bytes) == ("scatter", 300 * 4)
    assert one.line == f"test_constants_live.py:{marked_line(__file__, 'folds')}"
    before, after = (answer.capture.passes[n].stage.text for n in (one.step - 1, one.step))
    assert "f32[300]{0} constant({" in after or "f32[300] constant({" in after
    assert "f32[300]{0} scatter(" in before or "f32[300] scatter(" in before
    assert "scatter(" not in after
    assert answer.bytes == 0
    assert answer.findings[0].text.startswith("No array is closed over; XLA folded ")
    assert f"(f32[300], 1.2 kB) the result of scatter at {one.line}:" in answer.findings[0].text


def test_what_is_not_computed_is_not_said_to_be() -> None:
    def folded(f):
        return jaxlens.captured(f, X).folded

    assert folded(lambda x: (GLOBAL + x) @ x + jnp.zeros(16) * 2) == ()
    assert folded(lambda x: GLOBAL @ (x * 2)) == ()
    assert folded(lambda x: jax.lax.fori_loop(0, 3, lambda _, c: GLOBAL @ c, x)) == ()


def test_nothing_is_captured() -> None:
    answer = jaxlens.captured(lambda x: x * 2, X)
    assert answer.findings[0].text == "No array is closed over, and nothing was folded."
    assert not answer.tables


def test_without_a_compile() -> None:
    cap = jaxlens.capture(by_global, X)
    words = " ".join(str(jaxlens.jaxpr(cap, captured=True)).split())
    assert "One array is closed over, `GLOBAL`" in words
    assert [t.step for t in cap.times] == ["trace"]


def test_of_arrays_that_are_too_large_the_bytes_are_known(monkeypatch) -> None:
    monkeypatch.setattr(captured_arrays, "MOST", 16_000_000)
    large = numbers(2200, 2000)
    answer = jaxlens.captured(lambda x: large @ x, numbers(2000))
    assert answer.bytes == 2200 * 2000 * 4
    assert "What was folded is not known: jax.jit would copy" in " ".join(str(answer).split())


def test_a_saved_capture_answers_the_same(tmp_path) -> None:
    cap = jaxlens.capture(by_global, X)
    cap.save(tmp_path / "saved")
    assert str(jaxlens.captured(jaxlens.load(tmp_path / "saved"))) == str(jaxlens.captured(cap))


RAN = []


class Lends:
    def __getattr__(self, name):
        RAN.append(name)
        return Lends()


class Computes:
    __code__ = __wrapped__ = __func__ = __dict__ = property(lambda self: RAN.append("property"))


class Observes:
    def __getattribute__(self, name):
        if name != "__class__":  # `isinstance` reads it
            RAN.append(name)
        return object.__getattribute__(self, name)


class LoadsLate(types.ModuleType):
    __getattribute__ = Observes.__getattribute__


OBJECTS = {
    "lends attributes": Lends,
    "computes attributes": Computes,
    "observes": Observes,
    "a lazy module": lambda: LoadsLate("late"),
    "is bound by a partial": lambda: functools.partial(max, Lends()),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_what_a_function_can_reach_is_not_asked(kind):
    thing = OBJECTS[kind]()

    def f(x, thing_by_default=thing):
        return x + 1 if x.ndim else thing

    assert not is_core(f)
    assert closed_over(f) is not None
    assert RAN == []
