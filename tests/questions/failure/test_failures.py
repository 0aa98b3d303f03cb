"""Explanations of failed traces: the line, the traced value, and what to write instead."""

import inspect
import time
import traceback

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.questions.failure.measure import explain as explain_failure
from jaxlens.questions.failure.report import note
from tests.questions.failure import untraceable
from tests.questions.failure.untraceable import (
    CASES,
    SAID,
    X,
    asserted,
    binds_either,
    counts,
    differentiated,
    in_a_dict,
    loops,
    returns_either,
)
from tests.support.paths import run_python

pytestmark = pytest.mark.reads_jax


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


@pytest.mark.parametrize(("call", "text"), SAID, ids=lambda part: getattr(part[0], "__name__", ""))
def test_a_sentence_where_no_line_is_rewritten(call, text):
    remedies = explain_failure.explanation(raised(*call)).remedies
    assert any(text in remedy.text and not remedy.code for remedy in remedies), remedies


def failing_line_by_python(f, args):
    """The innermost line of `untraceable.py` in the traceback of the call under `jax.jit`."""
    try:
        jax.jit(f)(*args)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
    last = [frame for frame in frames if frame.filename == untraceable.__file__][-1]
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
    space = dict(vars(untraceable))
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


@pytest.mark.parametrize(
    "verb", [jaxlens.hlo, jaxlens.compile, jaxlens.explore, jaxlens.tape, jaxlens.cost]
)
def test_every_verb(verb):
    explained = explain_failure.explanation(raised(returns_either, X, verb=verb))
    assert explained.code == "if y.sum() > 0:"


def test_a_line_of_a_function_that_was_called():
    def outer(x):
        return returns_either(jnp.tanh(x)) * 2

    explained = explain_failure.explanation(raised(outer, X))
    assert explained.code == "if y.sum() > 0:"
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
    assert remedy.text.startswith("Give a hashable one: a tuple for a list")


def test_a_static_argument_that_would_not_help_is_not_offered():
    def never(x, n):
        return jnp.zeros(x.sum().astype(int)) * n

    explained = explain_failure.explanation(raised(never, X, 3))
    assert not any("static" in remedy.text for remedy in explained.remedies)


def test_a_loop_that_cannot_be_differentiated_is_not_offered_under_grad():
    def offered(f):
        remedies = explain_failure.explanation(raised(f, X)).remedies
        return any("jax.lax.while_loop(lambda" in remedy.code for remedy in remedies)

    assert offered(loops)
    assert not offered(jax.grad(lambda x: loops(x).sum()))


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


def test_what_the_core_computed_for_all_examples_is_no_argument():
    from jaxlens import core

    def positive(x):
        y = x * 2 > 0
        return x if y else -x

    error = raised(core.vmap(positive), core.array([1.0]), verb=lambda f, x: f(x))
    value = explain_failure.explanation(error).value
    assert (value.text, value.type, value.made_at, value.arguments) == ("y", "bool[]", "", ())


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
    assert [remedy.code for remedy in explained.remedies] == [""]
    explain_failure.explanation(raised(no_calls, X, 10**9))
    assert time.monotonic() - start < 10


def test_a_value_is_named_only_where_it_is_known():
    made = []

    def fails_once(x):
        made.append(1)
        return float(x.sum()) if len(made) == 1 else x

    explained = explain_failure.explanation(raised(fails_once, X))
    assert (explained.value.text, explained.again) == ("x.sum()", 0)

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
    run_python(code)


def test_an_exception_that_nobody_looked_at_is_explained_from_its_traceback():
    try:
        jax.jit(returns_either)(X)
    except jax.errors.TracerBoolConversionError as error:
        text = str(jaxlens.explain(error))
    assert "if y.sum() > 0:" in text
    assert "return jnp.where(y.sum() > 0, y, -y)" in text
    assert text.startswith("TracerBoolConversionError while tracing returns_either")


class Brightness:
    """Neither an array nor a pytree."""

    def __call__(self, image):
        return image + 0.5


def opaque_to_jit():
    jax.jit(lambda t, image: t(image))(Brightness(), X)


def opaque_to_grad():
    jax.grad(lambda t: t(X).sum())(Brightness())


@pytest.mark.parametrize("call", [opaque_to_jit, opaque_to_grad])
def test_an_argument_that_is_no_pytree(call):
    try:
        call()
    except TypeError as error:
        text = str(jaxlens.explain(error))
    assert "must be an array, a number, or a pytree of these" in text
    text = " ".join(text.split())
    assert "make Brightness a pytree: @jax.tree_util.register_dataclass above @dataclass" in text
    assert ("static_argnames='t'" in text) == (call is opaque_to_jit)  # grad has none static


def test_nothing_was_raised():
    assert jaxlens.explain() is None
