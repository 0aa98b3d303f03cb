"""Why collectives are there, on eight virtual devices: the steps of Shardy, against XLA and JAX."""

from functools import cache

import pytest

from jaxlens.errors import UnavailableError
from jaxlens.questions.sharding.measure import steps
from tests.questions.sharding.in_a_process import answers, line

NAMES = ("column_then_row", "left_to_xla", "constrained", "resharded", "of_a_tree")


@cache
def _all() -> dict[str, dict]:
    return answers("-", *(f"?{name}" for name in NAMES))


H = "constraint(jnp.tanh(x @ w), across)"
STEP = "lax.scan(lambda c, _: (jnp.sin(c)"
TURNED = "constraint(x * 2, turned)"
REASONS = [
    (
        "column_then_row",
        ("all-reduce", "model", "dot_general", "h @ w2"),
        [("operand 0", 1, "input w1"), ("operand 1", 0, "input w2")],
    ),
    (
        "left_to_xla",
        ("all-reduce", "data", "dot_general", "jax.grad(lambda w: ((x @ w)"),
        [("operand 0", 0, "input x"), ("operand 1", 0, "input x")],
    ),
    (
        "constrained",
        ("all-to-all", "model", "multiply", "return c * 2"),
        [
            ("operand 0", 1, f"the constraint at {line(H)}"),
            ("operand 1", 0, "output result"),
            ("result", 0, "output result"),
        ],
    ),
    (
        "constrained",
        ("all-reduce", "data", "dot_general", STEP),
        [("operand 0", 1, "input w"), ("operand 1", 0, "input w")],
    ),
    (
        "resharded",
        ("collective-permute", "v", "multiply", TURNED),
        [("result", 0, f"the constraint at {line(TURNED)}")],
    ),
]


@pytest.mark.parametrize(("name", "of", "cuts"), REASONS)
def test_what_asked_for_the_cuts_of_a_collective_s_op(name: str, of: tuple, cuts: list) -> None:
    kind, axis, opcode, words = of
    answer = _all()[f"?{name}"]
    opcodes = {id: opcode for id, opcode, *_ in answer["collectives"]}
    found = [
        [(value, dimension, asks) for value, by, dimension, asks in all_ if by == axis]
        for id, (op, where, all_) in answer["reasons"].items()
        if (opcodes[id], op, where) == (kind, opcode, line(words))
    ]
    assert cuts in found


@pytest.mark.parametrize("name", [name for name in NAMES if name != "resharded"])
def test_shardy_cuts_here_as_it_did_for_xla(name: str) -> None:
    specs = [(here, given) for here, given in _all()[f"?{name}"]["specs"] if here]
    assert len(specs) > 2
    assert [here for here, _ in specs] == [given for _, given in specs]


def test_a_sharding_that_is_tried_is_the_program_that_jax_lowers_with_it() -> None:
    others = _all()["?left_to_xla"]["others"]
    assert others["input x not cut by data"] == _all()["left_to_xla, x whole"]
    assert others[""] == 2 * 3 / 4 * 64 * 128 * 4  # as it is: the gradient, in a ring of four


def test_an_argument_of_several_arrays_is_tried_as_one() -> None:
    answer = _all()["?of_a_tree"]
    gradients = 2 * 3 / 4 * 2 * 64 * 128 * 4  # of both layers, in a ring of four
    assert answer["others"]["input p not cut by data"] == gradients < answer["others"][""]
    assert "and of 1 more value: its operands are cut by data" in " ".join(answer["text"].split())


def test_a_process_that_ends_is_no_answer() -> None:
    with pytest.raises(UnavailableError, match="cannot be followed"):
        steps('sdy.mesh @mesh = <["x"=')


def test_the_second_sentence_says_why() -> None:
    words = " ".join(_all()["?column_then_row"]["text"].split())
    assert (
        f"all-reduce is of the dot_general at {line('h @ w2')}: its operands are cut by "
        "model in dimension 1 (as input w1 asks) and in dimension 0 (as input w2 asks); its result "
        "is not."
    ) in words
    assert "Of 3 other shardings that could be compiled, none sends less. [compared]" in words
