"""What is said of products at low precision, of sums that cancel to nothing, and of modules."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.questions.numerics.facts import DigitLoss
from jaxlens.questions.numerics.report import report, ulps_text
from jaxlens.questions.numerics.rounding import DotRounding

X = np.random.default_rng(0).normal(size=(16, 16)).astype(np.float32)


def sentence(dot: DotRounding | None, value=-1.1228, exact=-1.1243) -> str:
    """The first sentence on a product, as if it had been measured on another device."""
    facts = jaxlens.numerics(lambda x: x @ x, X).facts
    (one,) = facts.run.executions
    one = replace(one, own=8192.0, total=8192.0, value=value, exact=exact)
    result = facts.run.results[0]
    span = facts.spans[one.path[-1]]
    loss = DigitLoss("rounding", one, result, "dot_general", span, ("", ""), 0.0, 1)
    dots = {} if dot is None else {one.path: dot}
    facts = replace(facts, run=replace(facts.run, dots=dots), losses=(loss,))
    return report(facts).findings[0].text


def test_a_product_at_low_precision_is_named_with_what_highest_gives():
    text = sentence(DotRounding("DEFAULT", 8192.0, 8.0))
    assert text.endswith(
        "loses 4 of the 7 digits of float32 by its own rounding: it gives -1.123, the program in "
        "float64 -1.124. At precision=HIGHEST its own error here is 8 ulps instead of 8,192: "
        "`jax.default_matmul_precision('highest')`, or `precision=jax.lax.Precision.HIGHEST` in "
        "the call."
    )


def test_a_precision_of_the_call_is_changed_in_the_call():
    text = sentence(DotRounding("HIGH", 8192.0, 8.0))
    assert "8,192: `precision=jax.lax.Precision.HIGHEST` in the call." in text


@pytest.mark.parametrize("highest", [8192.0, 4096.0, None])
def test_nothing_is_said_where_highest_gives_no_less(highest):
    text = sentence(DotRounding("DEFAULT", 8192.0, highest))
    assert "HIGHEST" not in text


def test_both_values_have_the_digits_that_tell_them_apart():
    assert "gives 2.00001, the program in float64 2.00002." in sentence(None, 2.00001, 2.00002)
    assert "gives 2, the program in float64 3." in sentence(None, 2.0, 3.0)
    assert "gives 0.123456789, the program" in sentence(None, 0.123456789012, 0.123456789013)


def test_a_gradient_that_is_0_by_construction_is_no_loss_of_digits():
    def loss(bias, x):
        return jnp.sum(jax.nn.softmax(x * 3 + bias) ** 2)  # the same for each: softmax ignores it

    first, *_ = jaxlens.numerics(jax.grad(loss), np.float32(0.7), X[0]).findings
    assert first.text.startswith("`reduce_sum` in test_numerics_sentences.py:")
    assert "adds terms that cancel: it gives " in first.text
    assert first.text.endswith("Most likely its exact result is 0, and both are rounding errors.")


def layers(x):
    first, second = jax.named_scope("First"), jax.named_scope("Second")
    net = lambda x: jnp.sum(second(lambda h: jnp.tanh(jnp.sin(h) * h) * h)(first(lambda x: jnp.exp(x) * x * 3)(x)))  # noqa: E501, E731  # fmt: skip
    return jax.grad(net)(x)


def test_errors_by_module_are_the_largest_of_its_equations():
    answer = jaxlens.numerics(layers, X)
    table = next(t for t in answer.report.tables if t.title == "Error by module")
    rows = {(row[0].text, row[1].text): row for row in table.rows}
    assert list(rows)[:2] == [("First", ""), ("Second", "")]
    assert {("First", "backward"), ("Second", "backward")} <= set(rows)
    assert sum(row[2].value for row in table.rows) == len(answer.equations)
    inside = [e for e in answer.equations if e.module == ("Second",) and not e.backward]
    own, total, lost = rows["Second", ""][4:]
    assert own.value == max(e.own for e in inside)
    assert total.value == max(e.total for e in inside)
    assert lost.value == round(max(e.lost for e in inside))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (0.3, "<1"),
        (10.0, "10"),
        (99.0, "99"),
        (120.0, "128"),
        (9000.0, "8,192"),
        (7e5, "524,288"),
        (1e6 - 1, "1e+06"),
    ],
)
def test_errors_are_written_in_one_manner_by_their_size(error, text):
    assert ulps_text(error) == text


def test_the_digits_of_a_sentence_are_those_of_the_type_that_loses_them():
    def rounded(x):
        return ((x.astype(jnp.bfloat16) + 8) - 8).astype(jnp.float32)

    answer = jaxlens.numerics(rounded, np.float32(0.28125))
    assert answer.losses[0].execution.total == 16  # in ulps of bfloat16, a digit; in float32's, 6
    assert "loses 1 of the 2 digits of bfloat16" in answer.findings[0].text


def test_no_more_digits_are_lost_than_the_narrowest_type_has():
    def rounded(x):
        x = x.astype(jnp.bfloat16)
        return ((x + 100) - 100 - x * 1.0078).astype(jnp.float32) * 3

    (*_, last) = jaxlens.numerics(rounded, np.float32(0.3)).equations
    assert (last.dtype, last.lost) == ("float32", 8 * math.log10(2))


@pytest.mark.parametrize("function", [jnp.exp, jnp.cos])
def test_what_computes_a_difference_from_1_is_named_for_no_other(function):
    x = np.float32(0.7)
    y = function(x) * np.float32(1 + 1e-6)
    text = jaxlens.numerics(lambda x, y: function(x) - y, x, y).findings[0].text
    assert "by cancellation" in text
    assert text.endswith("digits.")  # and no sentence more


def test_types_whose_errors_are_not_measured_are_not_called_float64():
    x = jnp.ones(3, jnp.float8_e4m3fn)
    texts = [one.text for one in jaxlens.numerics(lambda x: x * x, x).findings]
    assert texts[-1].endswith("it computes no float32, float16, bfloat16 or complex64.")


def test_tables_are_short_where_no_line_loses_digits_and_whole_if_full():
    def chain(x):
        for _ in range(9):
            x = jnp.sin(x) * 1.1
        return [x * n for n in range(2, 9)]

    facts = jaxlens.numerics(chain, X).facts
    assert not facts.losses
    rows = {one.title: len(one.rows) for one in report(facts).tables}
    whole = {one.title: len(one.rows) for one in report(facts, full=True).tables}
    assert rows["Error of the results"] == 5
    assert whole["Error of the results"] == 7
    assert rows["Error by equation"] == 5 < whole["Error by equation"]
    assert "2 more, with smaller errors." in next(
        one.note for one in report(facts).tables if one.title == "Error of the results"
    )
