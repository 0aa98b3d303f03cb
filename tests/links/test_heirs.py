"""What the compiler merged, folded or hoisted belongs to every line that it was made of."""

import jax
import jax.numpy as jnp
import pytest

import jaxlens

pytestmark = pytest.mark.reads_jax


def whole(x, w):
    mean = x - x.mean()  # mean
    again = x - x.mean()  # again
    numbers = jnp.array([1.0, 2.0, 3.0, 4.0])
    double = numbers * 2  # double
    waves = jnp.sin(double)  # waves
    first = jax.lax.scan(lambda c, _: (c * jnp.sin(w), None), x, None, length=5)  # hoisted
    tall = jax.lax.scan(lambda c, _: (jnp.tanh(c) + c, None), x, None, length=7)  # tall
    high = jax.lax.scan(lambda c, _: (jnp.tanh(c) + c, None), x, None, length=7)  # high
    unused = jnp.cos(x) + jnp.cos(x)  # unused
    del unused
    return jnp.sin(mean) * again + waves + first[0] + tall[0] - high[0].T


@pytest.fixture(scope="module")
def cap():
    x = jnp.arange(16.0).reshape(4, 4)
    return jaxlens.capture(jax.jit(whole), x, x)


@pytest.fixture(scope="module")
def lines():
    code = whole.__code__
    with open(code.co_filename, encoding="utf-8") as file:
        text = file.read().split("\n")
    return {
        line.rpartition("  # ")[2]: f"test_heirs.py:{number}"
        for number, line in enumerate(text, 1)
        if "  # " in line
    }


@pytest.mark.parametrize(
    ("pair", "equation", "opcodes"),
    [
        ("mean again", "sub", {"subtract", "broadcast"}),
        ("mean again", "reduce_sum", {"reduce", "add"}),
        ("mean again", "div", {"multiply"}),
        ("double waves", "mul", {"constant"}),
        ("hoisted", "sin", {"sine"}),
        ("tall high", "tanh", {"tanh"}),
        ("tall high", "scan", {"while"}),
    ],
)
def test_an_instruction_of_two_lines_names_both(cap, lines, pair, equation, opcodes) -> None:
    both = {lines[name] for name in pair.split()}
    nodes = {n.id: n for n in cap.optimized.module.nodes()}
    equations = {
        n.id for n in cap.jaxpr.module.nodes() if n.opcode == equation and str(n.owner) in both
    }
    assert equations
    found = set()
    for id in equations:
        for instruction in cap.links.forward(id, "optimized", "jaxpr"):
            opcode = nodes[instruction].opcode
            if opcode in opcodes:
                found.add(opcode)
                assert both <= set(cap.links.back(instruction, "source", "optimized")), instruction
    assert found == opcodes


def test_what_is_dead_has_no_heir(cap, lines) -> None:
    assert cap.links.forward(lines["unused"], "optimized") == ()


def test_the_program_of_a_pass_has_heirs_too(cap, lines) -> None:
    last = f"passes[{len(cap.passes) - 1}]"
    both = {lines["mean"], lines["again"]}
    merged = [n.id for n in cap.passes[-1].stage.module.nodes() if n.opcode == "subtract"]
    assert any(both <= set(cap.links.back(id, "source", last)) for id in merged)
