"""The first line of every output."""

import pytest

from jaxlens.ir.facts import Input, Program, Static, Target
from jaxlens.ir.graph import Type
from jaxlens.views.header import header_line, where

CPU = Target("cpu", "cpu")
X = Input("x", Type("f32", (8, 4)))


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (Program("f", (X,), (), CPU), "f(x) with x f32[8,4] on cpu"),
        (
            Program(
                "loss",
                (Input("p['w']", Type("bf16", (2,)), donated=True), X),
                (),
                CPU,
                transforms=("vmap", "grad"),
            ),
            "vmap(grad(loss))(p, x) with p['w'] bf16[2] (donated), x f32[8,4] on cpu",
        ),
        (
            Program("f", (X,), (Static("n", "3"), Static("act", "tanh")), CPU),
            "f(x) with x f32[8,4] and static n=3, act=tanh on cpu",
        ),
        (Program("f", (), (), CPU), "f() without array inputs on cpu"),
        (Program("expression", (X,), (), CPU), "expression with x f32[8,4] on cpu"),
    ],
)
def test_taken(program, words):
    assert header_line(program) == words


def test_many_inputs_are_summed_up_by_argument():
    leaves = tuple(Input(f"params['{i}']", Type("f32", (1000,))) for i in range(24))
    assert header_line(Program("step", (*leaves, X), (), CPU)) == (
        "step(params, x) with params (24 arrays, 96 kB), x f32[8,4] on cpu"
    )


def test_long_names_are_summed_up_by_argument_too():
    names = [f"model.blocks[{i}].kernel" for i in range(4)]
    leaves = tuple(Input(name, Type("f32", (1000, 1000))) for name in names)
    assert header_line(Program("step", (*leaves, X), (), CPU)) == (
        "step(model, x) with model (4 arrays, 16 MB), x f32[8,4] on cpu"
    )


def test_of_many_arguments_the_first_are_named():
    leaves = tuple(Input(f"x{i}", Type("f32", (2,))) for i in range(40))
    line = header_line(Program("f", leaves, (), CPU))
    assert "x7 f32[2] and 32 more on cpu" in line


def test_long_statics_are_cut():
    assert header_line(Program("f", (X,), (Static("c", "y" * 500),), CPU)).count("y") == 60


def test_many_statics_are_counted():
    statics = tuple(Static(f"layers[{n}]", "relu") for n in range(30))
    line = header_line(Program("f", (X,), statics, CPU))
    assert "and static layers[0]=relu, " in line
    assert "layers[5]=relu and 24 more on cpu" in line


def test_where():
    assert where(Target("gpu", "NVIDIA H200", 8)) == "on 8 x NVIDIA H200 (gpu)"
    assert where(Target("tpu", "TPU v5e", 4, absent=True)) == (
        "for 4 x TPU v5e (tpu), which is not here"
    )


def test_a_function_that_is_not_jitted_says_so():
    assert header_line(Program("f", (X,), (), CPU, unjitted=True), "it runs op by op") == (
        "f(x) with x f32[8,4] on cpu, jitted for this look (as written, it runs op by op)"
    )
