"""A capture from hand-written texts and tables, whose every figure is known."""

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.driver import RecordedDriver
from jaxlens.ir.facts import (
    Input,
    Kernel,
    Memory,
    Part,
    PassStage,
    Profile,
    Program,
    Source,
    Stage,
    Target,
    Timing,
    Verdict,
)
from jaxlens.ir.graph import Module, Node, Region, Span, Type, Value
from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.stage import BY_NAME
from tests.support.paths import TEXTS

CODE = "def layer(x, w, b):\n    y = x @ w + b\n    return jnp.maximum(y, 0), y > 0\n"

# Dense layer and its mask. Before fusion: dot, broadcast, add, broadcast, maximum, compare.
BEFORE = (TEXTS / "layer.before.hlo.txt").read_text()
# The same after fusion: two fusions, which both compute the sum.
AFTER = (TEXTS / "layer.after.hlo.txt").read_text()

# Two gathers of one channel, as of a `shard_map`, and the fusions into which libtpu splits each:
# one starts it, one computes a sine beside it, one waits for its end.
GATHERS = (TEXTS / "gathers.before.hlo.txt").read_text()
SPLIT_GATHERS = (TEXTS / "gathers.after.hlo.txt").read_text()

BUFFERS = (TEXTS / "layer.buffers.txt").read_text()

LLVM = "define ptr @max_fusion(ptr %0) {\n  ret ptr null\n}\n"


def module(text, stage="hlo"):
    """HLO text, read."""
    return hlo.read(text, stage=stage)


def stage(name, text, title=""):
    """A stage of HLO text."""
    return Stage(BY_NAME[name], lambda: text, lambda: module(text, name), title)


def dump(index, pipeline, name, text, changed=True):
    """The HLO after one pass."""
    title = f"{pipeline} / {name}" if pipeline else BY_NAME["hlo"].title
    return PassStage(index, pipeline, name, stage("passes", text, title), changed)


def dumps():
    """Before optimisation, a pass that changed nothing, and the one that fused."""
    return (
        dump(0, "", "before_optimizations", BEFORE, False),
        dump(1, "simplify", "algsimp", BEFORE, False),
        dump(2, "fuse", "fusion", AFTER),
    )


def at(line):
    """A frame of the cell."""
    return (Span("cell 3", line, line, 4, 20, "layer", "<cell 3>"),)


def jaxpr(*nodes, inputs=None):
    """A jaxpr of one body."""
    values = tuple(Value(name, type_) for name, type_ in (inputs or {}).items())
    region = Region("main", values, nodes, (nodes[-1].name,), "jaxpr")
    return Module("layer", "jaxpr", "main", {"main": region})


def layer():
    """The layer's equations: 2*4*8*2 = 128 flops of dot, 8 each of add, max and gt."""
    out, mask = Type("f32", (4, 2)), Type("bool", (4, 2))
    dot = Node(
        "e0",
        "dot_general",
        ("a", "b"),
        (Value("d", out),),
        {"dimension_numbers": "(((1,), (0,)), ((), ()))"},
        spans=at(2),
    )
    bias = Node("e1", "broadcast_in_dim", ("c",), (Value("e", out),), {}, spans=at(2))
    add = Node("e2", "add", ("d", "e"), (Value("f", out),), spans=at(2))
    top = Node("e3", "max", ("f", "0.0:f32[]"), (Value("g", out),), spans=at(3))
    over = Node("e4", "gt", ("f", "0.0:f32[]"), (Value("h", mask),), spans=at(3))
    inputs = {"a": Type("f32", (4, 8)), "b": Type("f32", (8, 2)), "c": Type("f32", (2,))}
    return jaxpr(dot, bias, add, top, over, inputs=inputs)


# 2 s of compile: 0.5 of passes, of which dce 0.1 + 0.1; 1 s of LLVM; the rest has no name.
PROFILE = Profile(
    2.0,
    (
        Part("Compile", "step", 1.9),
        Part("simplify", "pipeline", 0.5, 1, 0),
        Part("algsimp", "pass", 0.2, 3, 1),
        Part("dce", "pass", 0.1, 1, 1),
        Part("fixpoint", "pass", 0.15, 1, 1),
        Part("inner", "pipeline", 0.12, 2, 4),
        Part("dce", "pass", 0.1, 2, 5),
        Part("Codegen", "step", 1.0, 1, 0),
        Part("max_fusion", "kernel", 0.3, 1, -1, True),
        Part("TaskDispatcher::dispatch", "step", 1.6, 4, -1, True),
        Part("gt_fusion", "kernel", 0.1, 1, 0),
    ),
)


class FixedDriver(RecordedDriver):
    """A driver with the texts above, without the stages named in `missing`."""

    def __init__(self, missing=()):
        self.missing = missing
        self._stages = {
            "jaxpr": Stage(BY_NAME["jaxpr"], lambda: "{ lambda ; }", layer),
            "hlo": stage("hlo", BEFORE),
            "optimized": stage("optimized", AFTER),
        }

    def _check(self, name):
        if name in self.missing:
            raise UnavailableError(f"this backend gives no {name}")

    def stage(self, name):
        self._check(name)
        if name not in self._stages:
            raise UnavailableError(f"{name} was not recorded")
        return self._stages[name]

    def passes(self):
        self._check("passes")
        return dumps()

    def kernels(self):
        self._check("kernels")
        return (
            Kernel("dot.1", "dot.1", "library call", note="the runtime calls a library for dot"),
            Kernel("max_fusion", "max_fusion", "kernel", LLVM, LLVM, "ret"),
            Kernel("gt_fusion", "gt_fusion", "kernel", LLVM, LLVM, "ret"),
        )

    def fusion_log(self):
        raise UnavailableError("XLA gave no reasons for what it fused for layer on cpu")

    def buffers(self):
        self._check("buffers")
        return BUFFERS

    def memory(self):
        self._check("memory")
        return Memory(200, 40, 96, 0)

    def cost(self):
        self._check("cost")
        return {"flops": 160.0, "bytes accessed": 400.0}

    def profile(self):
        self._check("profile")
        return PROFILE

    def times(self):
        return (Timing("trace", 0.002), Timing("compile", 0.25))

    def verdict(self):
        return Verdict(False, "trace", ("x: f32[4,8], was f32[2,8]",), 1)

    def deviations(self):
        return ()

    def outputs(self):
        return (Input("[0]", Type("f32", (4, 2))), Input("[1]", Type("bool", (4, 2))))

    def constants(self):
        return ()

    def sources(self):
        return {"<cell 3>": Source("cell 3", CODE)}


def capture(*missing):
    """The layer at every stage but those in `missing`."""
    inputs = (
        Input("x", Type("f32", (4, 8))),
        Input("w", Type("f32", (8, 2))),
        Input("b", Type("f32", (2,))),
    )
    program = Program("layer", inputs, (), Target("cpu", "cpu"))
    return Capture(program, FixedDriver(missing))
