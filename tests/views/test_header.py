"""The first line of every output."""

from jaxlens.ir.facts import Input, Program, Static, Target
from jaxlens.ir.graph import Type
from jaxlens.views.header import header_line, where
from tests.support.documents import approved

CPU = Target("cpu", "cpu")
X = Input("x", Type("f32", (8, 4)))


P = (Input("p['w']", Type("bf16", (2,)), donated=True), X)
PARAMS = tuple(Input(f"params['{i}']", Type("f32", (1000,))) for i in range(24))
BLOCKS = tuple(Input(f"model.blocks[{i}].kernel", Type("f32", (1000, 1000))) for i in range(4))
FORTY = tuple(Input(f"x{i}", Type("f32", (2,))) for i in range(40))
STATICS = tuple(Static(f"layers[{n}]", "relu") for n in range(30))
PROGRAMS = {
    "one input": Program("f", (X,), (), CPU),
    "transforms and donation": Program("loss", P, (), CPU, transforms=("vmap", "grad")),
    "statics": Program("f", (X,), (Static("n", "3"), Static("act", "tanh")), CPU),
    "no input": Program("f", (), (), CPU),
    "an expression": Program("expression", (X,), (), CPU),
    "many inputs, by argument": Program("step", (*PARAMS, X), (), CPU),
    "long names, by argument": Program("step", (*BLOCKS, X), (), CPU),
    "of many arguments the first": Program("f", FORTY, (), CPU),
    "a long static": Program("f", (X,), (Static("c", "y" * 500),), CPU),
    "many statics": Program("f", (X,), STATICS, CPU),
}


def test_first_lines():
    lines = [f"{name}:\n  {header_line(program)}" for name, program in PROGRAMS.items()]
    approved("headers", "\n".join(lines))


def test_where():
    assert where(Target("gpu", "NVIDIA H200", 8)) == "on 8 x NVIDIA H200 (gpu)"
    assert where(Target("tpu", "TPU v5e", 4, absent=True)) == (
        "for 4 x TPU v5e (tpu), which is not here"
    )


def test_a_function_that_is_not_jitted_says_so():
    assert header_line(Program("f", (X,), (), CPU, unjitted=True), "it runs op by op") == (
        "f(x) with x f32[8,4] on cpu, jitted for this look (as written, it runs op by op)"
    )
