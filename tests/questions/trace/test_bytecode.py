"""Bytecode beside equations: truths are `dis` itself, and equations counted by hand."""

import dis
import html

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.errors import UnavailableError

RULES = {"square": lambda x: x * x, "shift": lambda x: x + 1}


def inner(x):
    return jnp.sin(x) * 2


def loop(x, double=True):
    print("tracing")
    for _ in range(10):
        x = inner(x + 1)
    if double:  # noqa: SIM108 - two branches
        y = x * 2
    else:
        y = x - 3
    return jnp.tanh(
        y,
    )


def by_text(answer) -> dict[str, jaxlens.View]:
    return {line.text: line for line in answer.lines}


@pytest.fixture(scope="module")
def answer():
    return jaxlens.bytecode(loop, jnp.ones(3))


def test_each_line_has_its_equations(answer) -> None:
    lines = by_text(answer)
    counts = {text: (line.ran, len(line.equations), line.inside) for text, line in lines.items()}
    assert counts["x = inner(x + 1)"] == (10, 10, 20)
    assert counts["return jnp.sin(x) * 2"] == (10, 20, 0)
    assert counts['print("tracing")'] == (1, 0, 0)
    assert counts["if double:  # noqa: SIM108 - two branches"] == (1, 0, 0)
    assert counts["y = x * 2"] == (1, 1, 0)
    assert counts["y = x - 3"] == (0, 0, 0)
    assert counts["return jnp.tanh("] == (1, 1, 0)  # Python comes back to it after its argument
    assert counts["def inner(x):"] == (10, 0, 0)
    made = [id for line in answer.lines for id in line.equations]
    assert sorted(made) == sorted(node.id for node in answer.capture.jaxpr.module.nodes())


def test_instructions_are_those_of_dis(answer) -> None:
    for function, shown in zip((loop, inner), answer.functions, strict=True):
        assert shown.name == function.__qualname__
        rows = sorted((row.offset, row.name) for line in shown.lines for row in line.instructions)
        assert rows == [(each.offset, each.opname) for each in dis.get_instructions(function)]


def test_an_instruction_names_the_text_that_it_came_from(answer) -> None:
    line = by_text(answer)["y = x - 3"]
    pieces = {row.name: piece for row, piece in zip(line.instructions, line.pieces, strict=True)}
    assert pieces["BINARY_OP"] == "x - 3"
    assert line.instructions
    assert all(row.line == line.instructions[0].line for row in line.instructions)


def test_columns_count_bytes() -> None:
    def accents(x):
        return {"é": x + 1}["é"]

    line = jaxlens.bytecode(accents, 1.0).lines[-1]
    pieces = {row.name: piece for row, piece in zip(line.instructions, line.pieces, strict=True)}
    assert pieces["BINARY_OP"] == "x + 1"


def test_two_lambdas_of_one_line_are_two_functions() -> None:
    def both(x):
        return RULES["shift"](RULES["square"](RULES["square"](x)))

    _, square, shift = jaxlens.bytecode(both, 3.0).functions
    assert [len(line.equations) for line in (*square.lines, *shift.lines)] == [2, 1]
    assert [line.ran for line in (*square.lines, *shift.lines)] == [2, 1]


def test_a_backward_pass_has_no_bytecode() -> None:
    answer = jaxlens.bytecode(jax.grad(lambda x: jnp.sin(x) * x), 1.0)
    made = sum(len(line.equations) for line in answer.lines)
    total = len(list(answer.capture.jaxpr.module.nodes()))
    assert answer.after == total - made > 0
    assert "no bytecode of yours made them" in str(answer)


def test_text_and_page_say_the_same(answer) -> None:
    text, page = answer.text(width=160), html.unescape(answer.html())
    assert "did not run, " in text
    for said in ("BINARY_OP", "bytecode of loop", "bytecode of inner", "stands once in the"):
        assert said in text
        assert said in page
    assert " at 0x" not in text


def test_no_sentence_depends_on_the_version_of_python(answer) -> None:
    sentences = [finding.text for finding in answer.report.findings]
    assert (
        sentences[0]
        == "10 lines of 2 functions ran while JAX traced, and 32 equations were recorded."
    )
    assert not any("instruction" in sentence for sentence in sentences)


def test_more_equations_than_instructions_are_cut_unless_all_are_asked_for() -> None:
    def many(x):
        for _ in range(100):
            x = x + 1
        return x

    answer = jaxlens.bytecode(many, 1.0)
    assert "88 more: full=True shows all" in answer.text()
    assert "more: full=True" not in str(jaxlens.jaxpr(answer.capture, bytecode=True, full=True))


def test_a_function_without_bytecode_says_so() -> None:
    from operator import methodcaller

    answer = jaxlens.bytecode(methodcaller("__add__", 1), 1.0)
    assert "a tracer needs no bytecode" in str(answer)


def test_a_saved_capture_has_it_too(tmp_path) -> None:
    capture = jaxlens.capture(loop, np.ones(3, np.float32))
    shown = str(jaxlens.bytecode(capture))
    capture.save(tmp_path / "a.jaxlens", stages=["jaxpr"])
    assert str(jaxlens.bytecode(jaxlens.load(tmp_path / "a.jaxlens"))) == shown


def test_a_saved_capture_without_a_tape_says_so(tmp_path) -> None:
    jaxlens.capture(loop, np.ones(3, np.float32)).save(tmp_path / "a.jaxlens", stages=["jaxpr"])
    with pytest.raises(UnavailableError):
        str(jaxlens.bytecode(jaxlens.load(tmp_path / "a.jaxlens")))
