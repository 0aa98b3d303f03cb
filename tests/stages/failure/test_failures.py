"""Explanations of failed traces: the line, the traced value, and what to write instead."""

import inspect
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxlens
from jaxlens.ir.failure import note
from jaxlens.stages.failure import explain as explain_failure

X = jnp.arange(6.0) - 2


def returns_either(x):
    y = x * 2
    if y.sum() > 0:
        return y
    return -y


def binds_either(x):
    if 0 < x[0] < 1:
        x = x + 1
    return x


def either(x, training):
    return x * 2 if training else x


def and_(x):
    return x[0] > 0 and x[1] > 0


def larger(x):
    return max(x[0], x[1])


def asserted(x):
    assert x.sum() > 0
    return x


def loops(x):
    while x.max() > 1:
        x = x / 2
    return x


def counts(x, n):
    for i in range(n):
        x = x * i
    return x


def whole(x, n):
    return x + int(n)


def taken_out(x):
    return x / x.sum().item()


def selected(x):
    return x[x > 0].max()


def replaced(x):
    x[x > 0] = 1
    return x


def increased(x):
    x[0] -= 2
    return x


def by_numpy(x):
    return np.sin(x) + 1


def of_shape(x, n):
    return jnp.zeros(n) + x[0]


def of_size(x):
    return jnp.nonzero(x)[0]


def first(x, n):
    return x[:n]


def window(x, n):
    return x[n : n + 3]


def listed(x, i):
    names = [1, 2, 3]
    return x * names[i]


def in_a_dict(x):
    return {x: 1}[x]


def formatted(x):
    return f"{x[0]:.2f}"


def key_as_number(k):
    return k * 2


def number_as_key(x):
    return jax.random.normal(x, (3,))


def carries(x):
    return lax.scan(lambda c, _: (c * 2.5, c), jnp.int32(1), None, length=3)


def branches(x):
    return lax.cond(x[0] > 0, lambda v: v, lambda v: v.astype(jnp.int32), x)


def mapped(x):
    return jax.vmap(lambda v: v if v > 0 else -v)(x)


def differentiated(x):
    def loss(x):
        s = (x**2).sum()
        return s if s > 1 else 2 * s

    return jax.grad(loss)(x)


@dataclass(frozen=True)
class Case:
    """A call that cannot be traced.

    Attributes:
        call: The function and its arguments.
        value: The traced value, what it is and where it came from.
        code: What is offered and was tried.
        gives: What that gives.
    """

    call: tuple
    value: str
    code: str
    gives: str = "f32[6]"


KEY = jax.random.key(0)
CASES = [
    Case(
        (returns_either, X),
        "y.sum() > 0 bool[] from x of returns_either",
        "return jnp.where(y.sum() > 0, y, -y)",
    ),
    Case(
        (returns_either, X),
        "y.sum() > 0 bool[] from x of returns_either",
        "return jax.lax.cond(y.sum() > 0, lambda: y, lambda: -y)",
    ),
    Case(
        (binds_either, X),
        "0 < x[0] < 1 bool[] from x of binds_either",
        "x = jnp.where(jnp.logical_and(0 < x[0], x[0] < 1), x + 1, x)",
    ),
    Case(
        (either, X, jnp.array(True)),
        "training bool[] from training of either",
        "return jnp.where(training, x * 2, x)",
    ),
    Case(
        (and_, X),
        "x[0] > 0 and x[1] > 0 bool[] from x of and_",
        "return jnp.logical_and(x[0] > 0, x[1] > 0)",
        "bool[]",
    ),
    Case((larger, X), " bool[] from x of larger", "return jnp.maximum(x[0], x[1])", "f32[]"),
    Case(
        (loops, X),
        "x.max() > 1 bool[] from x of loops",
        "x = jax.lax.while_loop(lambda x: x.max() > 1, lambda x: x / 2, x)",
    ),
    Case(
        (counts, X, 3), "n i32[] from n of counts", "jax.jit(counts, static_argnames='n')", "counts"
    ),
    Case(
        (counts, X, 3),
        "n i32[] from n of counts",
        "x = jax.lax.fori_loop(0, n, lambda i, x: x * i, x)",
    ),
    Case((whole, X, 3), "n i32[] from n of whole", "return x + n.astype(int)"),
    Case((taken_out, X), " f32[] from x of taken_out", "return x / x.sum()"),
    Case(
        (selected, X),
        "x > 0 bool[6] from x of selected",
        "return x.max(where=x > 0, initial=-jnp.inf)",
        "f32[]",
    ),
    Case(
        (selected, X),
        "x > 0 bool[6] from x of selected",
        "return jnp.where(x > 0, x, 0).max()",
        "f32[]",
    ),
    Case((replaced, X), "x f32[6] from x of replaced", "x = jnp.where(x > 0, 1, x)"),
    Case((increased, X), "x f32[6] from x of increased", "x = x.at[0].add(-2)"),
    Case((by_numpy, X), "x f32[6] from x of by_numpy", "return jnp.sin(x) + 1"),
    Case(
        (of_shape, X, 3),
        "n i32[] from n of of_shape",
        "jax.jit(of_shape, static_argnames='n')",
        "of_shape",
    ),
    Case(
        (of_size, X),
        "x f32[6] from x of of_size",
        "return jnp.nonzero(x, size=x.size)[0]",
        "i32[6]",
    ),
    Case(
        (first, X, 3),
        "n i32[] from n of first",
        "return jnp.where(jnp.arange(x.size) < n, x, 0)",
    ),
    Case(
        (window, X, 1),
        "n i32[] from n of window",
        "return jax.lax.dynamic_slice_in_dim(x, n, 3)",
        "f32[3]",
    ),
    Case((listed, X, 1), "i i32[] from i of listed", "return x * jnp.array(names)[i]"),
    Case((formatted, X), "x f32[6] from x of formatted", "jax.debug.print('{}', x)", ""),
    Case(
        (key_as_number, KEY),
        "k key<fry>[] from k of key_as_number",
        "jax.random.uniform(k)",
        "f32[]",
    ),
    Case(
        (number_as_key, X),
        "x f32[6] from x of number_as_key",
        "return jax.random.normal(jax.random.key(0), (3,))",
        "f32[3]",
    ),
    Case(
        (carries, X),
        "",
        "return lax.scan(lambda c, _: (c * 2.5, c), jnp.asarray(jnp.int32(1), jnp.float32), None, "
        "length=3)",
        "f32[], f32[3]",
    ),
    Case(
        (branches, X),
        "",
        "return lax.cond(x[0] > 0, lambda v: v, lambda v: v.astype(jnp.int32).astype(jnp.float32), "
        "x)",
    ),
    Case((mapped, X), "v > 0 bool[] from x of mapped", "jnp.where(v > 0, v, -v)", "f32[]"),
    Case(
        (differentiated, X),
        "s > 1 bool[] from x of differentiated",
        "return jnp.where(s > 1, s, 2 * s)",
        "f32[]",
    ),
]


def raised(f, *args, verb=jaxlens.jaxpr):
    """The exception of a look at a call."""
    try:
        verb(f, *args).text()
    except Exception as error:
        return error
    raise AssertionError(f"{f.__name__} can be traced")


def described(value):
    """A traced value in one line, for comparison."""
    if value is None:
        return ""
    of = f" of {value.function}" if value.function else ""
    return f"{value.text} {value.type} from {', '.join(value.arguments)}{of}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.call[0].__name__}: {case.code}")
def test_the_value_and_what_to_write(case):
    error = raised(*case.call)
    explained = explain_failure.explanation(error)
    line = failing_line_by_python(case.call[0], case.call[1:])
    assert (explained.place.rpartition(":")[2], explained.code) == line
    assert described(explained.value) == case.value
    outcomes = {remedy.code: remedy.outcome for remedy in explained.remedies}
    assert case.code in outcomes, outcomes
    assert outcomes[case.code], "it was not tried"
    assert outcomes[case.code].endswith((f"gives {case.gives}", f"{case.gives} traces", "traces"))


def failing_line_by_python(f, args):
    """The innermost line of this file in the traceback of the call itself, under `jax.jit`."""
    try:
        jax.jit(f)(*args)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
    last = [frame for frame in frames if frame.filename == __file__][-1]
    return str(last.lineno), last.line


COMPOUND = (returns_either, binds_either, loops, counts)  # there the code replaces several lines
SIMPLE = [
    case
    for case in CASES
    if case.code.startswith(("return ", "x = ")) and case.call[0] not in (*COMPOUND, differentiated)
]


@pytest.mark.parametrize("case", SIMPLE, ids=lambda case: case.call[0].__name__)
def test_the_function_can_be_traced_with_the_code_in_place_of_the_line(case):
    f, *args = case.call
    text = inspect.getsource(f)
    line = explain_failure.explanation(raised(f, *args)).code
    assert text.count(line) == 1
    space = dict(globals())
    exec(text.replace(line, case.code), space)
    jax.jit(space[f.__name__]).trace(*args)


def test_the_exception_is_the_users():
    error = raised(returns_either, X)
    assert type(error) is jax.errors.TracerBoolConversionError
    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert frames[-1] == "returns_either"
    assert "Attempted boolean conversion" in str(error)
    [ours] = [text for text in error.__notes__ if text.startswith("jaxlens: ")]
    assert ours == note(explain_failure.explanation(error))
    assert len(ours.splitlines()) < 10
    assert all(len(line) < 130 for line in ours.splitlines())


def test_the_lines_that_ran_before():
    explained = explain_failure.explanation(raised(returns_either, X))
    assert [(step.code, step.recorded, step.raised) for step in explained.steps] == [
        ("def returns_either(x):", (), ""),
        ("y = x * 2", ("f32[6] = mul f32[6] 2.0",), ""),
        ("if y.sum() > 0:", explained.steps[-1].recorded, "TracerBoolConversionError"),
    ]
    assert explained.steps[1].bound == ("y = tracer f32[6]",)
    text = str(jaxlens.explain(raised(returns_either, X)))
    assert "y = x * 2" in text
    assert "0x" not in text


@pytest.mark.parametrize(
    "verb", [jaxlens.hlo, jaxlens.compile, jaxlens.explore, jaxlens.tape, jaxlens.cost]
)
def test_every_verb(verb):
    assert explain_failure.explanation(raised(returns_either, X, verb=verb)).steps


def test_a_line_of_a_function_that_was_called():
    def outer(x):
        return returns_either(jnp.tanh(x)) * 2

    explained = explain_failure.explanation(raised(outer, X))
    assert explained.code == "if y.sum() > 0:"
    assert [step.depth for step in explained.steps] == [0, 0, 1, 1, 1]
    assert explained.value.arguments == ("x",)


def test_what_cannot_be_tried_does_not_say_so():
    for f in (asserted, in_a_dict):
        explained = explain_failure.explanation(raised(f, X))
        assert explained.remedies
        assert not any(remedy.outcome for remedy in explained.remedies)
        assert "(not tried)" in note(explained)
        assert "(tried" not in note(explained)


def test_a_leaked_tracer():
    kept = []

    def keeps(x):
        kept.append(x * 2)
        return x

    def uses(x):
        y = x + 1
        return y + kept[0]

    jax.jit(keeps)(X)
    explained = explain_failure.explanation(raised(uses, X))
    assert explained.code == "return y + kept[0]"
    assert (explained.value.text, explained.value.type) == ("kept[0]", "f32[6]")
    assert explained.value.function.endswith("keeps")
    assert explained.value.made_at == f"test_failures.py:{keeps.__code__.co_firstlineno + 1}"


def test_a_static_argument_without_a_hash():
    power = jax.jit(lambda x, n: x ** sum(n), static_argnums=1)
    [remedy] = explain_failure.explanation(raised(power, X, [1, 2])).remedies
    assert (remedy.code, remedy.outcome) == ("(1, 2)", "<lambda> traces")


def test_a_static_argument_that_would_not_help_is_not_offered():
    def never(x, n):
        return jnp.zeros(x.sum().astype(int)) * n

    explained = explain_failure.explanation(raised(never, X, 3))
    assert not any("static" in remedy.text for remedy in explained.remedies)


def test_a_loop_that_cannot_be_differentiated_is_not_offered_under_grad():
    def loss(x, n):
        for _ in range(n):
            x = x * 2
        return x.sum()

    def forwards(x, n):
        for _ in range(n):
            x = x * 2
        return x

    loops = "jax.lax.fori_loop(0, n, lambda _, x: x * 2, x)"
    offered = explain_failure.explanation(raised(forwards, X, 3)).remedies
    assert any(loops in remedy.code for remedy in offered)
    offered = explain_failure.explanation(raised(jax.grad(loss), X, 3)).remedies
    assert offered
    assert not any(loops in remedy.code for remedy in offered)


def by_core(f, *args):
    from jaxlens import core

    return explain_failure.explanation(raised(f, core.array([1.0, 2.0, 3.0]), *args))


def test_a_program_of_the_core_is_offered_what_the_core_has():
    from jaxlens.core import numpy as cnp

    def either(x):
        y = cnp.tanh(x)
        if y.sum() > 0:
            return y
        return -y

    explained = by_core(either)
    assert (explained.value.text, explained.value.type) == ("y.sum() > 0", "bool[]")
    assert explained.value.made_at == f"test_failures.py:{either.__code__.co_firstlineno + 2}"
    assert [(remedy.code, remedy.outcome) for remedy in explained.remedies] == [
        ("return cnp.where(y.sum() > 0, y, -y)", "it traces and gives f32[3]"),
        (
            "return core.lax.cond(y.sum() > 0, lambda: y, lambda: -y)",
            "it traces and gives f32[3]",
        ),
    ]
    assert [step.code for step in explained.steps] == [
        "def either(x):",
        "y = cnp.tanh(x)",
        "if y.sum() > 0:",
    ]


def test_what_the_core_lacks_is_not_offered():
    def selected(x):
        return x[x > 0].sum()

    codes = [remedy.code for remedy in by_core(selected).remedies]
    assert codes == ["return cnp.where(x > 0, x, 0).sum()"]


def test_a_static_argument_of_the_core():
    def repeated(x, n):
        for _ in range(n):
            x = x * 2
        return x

    first = by_core(repeated, 3).remedies[0]
    assert (first.code, first.outcome) == (
        "core.jit(repeated, static_argnames='n')",
        "repeated traces",
    )


def test_a_trial_that_would_not_end_is_given_up():
    def endless(x, n):
        for _ in range(n):
            x = x * 2
        return x

    def no_calls(x, n):
        return x * sum(1 for _ in range(n))

    start = time.monotonic()
    explained = explain_failure.explanation(raised(endless, X, 10**9))
    assert [remedy.code for remedy in explained.remedies] == [
        "x = jax.lax.fori_loop(0, n, lambda _, x: x * 2, x)"
    ]
    explain_failure.explanation(raised(no_calls, X, 10**9))
    assert time.monotonic() - start < 10


def test_a_value_is_named_only_where_it_is_known():
    made = []

    def fails_once(x):
        made.append(1)
        return float(x.sum()) if len(made) == 1 else x

    explained = explain_failure.explanation(raised(fails_once, X))
    assert explained.value is None
    assert not explained.steps

    def a_part(x, shape):
        return jnp.zeros(shape) + x[0]

    explained = explain_failure.explanation(raised(a_part, X, (2, 3)))
    assert (explained.value.text, explained.value.arguments) == ("shape[0]", ("shape[0]",))
    assert explained.remedies[0].code == "jax.jit(a_part, static_argnames='shape')"


def test_endless_recursion_is_not_about_tracing():
    def calls_itself(x):
        return calls_itself(x + 1)

    error = raised(calls_itself, X)
    assert isinstance(error, RecursionError)
    assert explain_failure.explanation(error) is None


def test_a_long_line_is_cut():
    space = {}
    exec(f"def long(x):\n    return float(x.sum()) {'+ 1 ' * 500}", space)
    assert len(note(explain_failure.explanation(raised(space["long"], X)))) < 2_000


def test_shapes_that_do_not_fit_say_the_types():
    def product(x):
        w = jnp.ones((4, 2))
        return jnp.dot(x, w)

    explained = explain_failure.explanation(raised(product, X))
    assert explained.operands == ("x: f32[6]", "w: f32[4,2]")


def test_the_users_own_exception_is_left_alone():
    def own(x):
        raise KeyError("mine")

    error = raised(own, X)
    assert jaxlens.explain(error) is None
    assert not any("jaxlens" in text for text in getattr(error, "__notes__", ()))


def test_nothing_is_printed_twice_and_no_setting_changes(capsys):
    def prints(x):
        print("once")
        return int(x.sum())

    before = dict(jax.config.values)
    raised(prints, X)
    assert capsys.readouterr().out == "once\n"
    assert dict(jax.config.values) == before


def test_a_trace_that_succeeds_pays_nothing():
    code = (
        "import jaxlens, sys; jaxlens.jaxpr(lambda x: x + 1, 1.0).text(); "
        "assert not [name for name in sys.modules if 'failures' in name or 'remedies' in name]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_slow_trace_is_not_made_again(monkeypatch):
    monkeypatch.setattr(explain_failure, "_PATIENCE", 0.0)
    explained = explain_failure.explanation(raised(returns_either, X))
    assert not explained.steps
    assert explained.code == "if y.sum() > 0:"


def test_an_exception_that_nobody_looked_at_is_explained_from_its_traceback():
    try:
        jax.jit(returns_either)(X)
    except jax.errors.TracerBoolConversionError as error:
        text = str(jaxlens.explain(error))
    assert "if y.sum() > 0:" in text
    assert "return jnp.where(y.sum() > 0, y, -y)" in text
    assert text.startswith("TracerBoolConversionError while tracing returns_either")


def test_nothing_was_raised():
    assert jaxlens.explain() is None
