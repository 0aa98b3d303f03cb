"""A program at four stages, written by hand: `relu` is called on lines 3 and 4, and inlined.

cell 1:2   a = x * x          e0  s0
cell 1:3   b = relu(a)        e1  s1   calls e3: s4, s5 (s3 is its literal)
cell 1:4   c = relu(b + 0)    e2  s2   calls e3 again
           (nothing)          e4  sin, which nothing reads and no op computes
"""

from jaxlens.ir.graph import Module, Node, Region, Span, Type, Value
from jaxlens.ir.hlo import reader as hlo
from jaxlens.links.linked import Linked
from tests.support.paths import TEXTS

F32 = Type("f32", (8,))
BEFORE = (TEXTS / "relu.before.hlo.txt").read_text()
AFTER = (TEXTS / "relu.after.hlo.txt").read_text()


def line(number, *outer):
    """Frames of cell 1, innermost first."""
    return tuple(Span("cell 1", n, n, 4, 9, "f", "<cell 1>") for n in (number, *outer))


def node(id, opcode, reads, gives, **more):
    """An equation or op of one result."""
    return Node(id, opcode, tuple(reads.split()), (Value(gives, F32),), **more)  # type: ignore[arg-type]


def jaxpr():
    """The equations."""
    main = (
        node("e0", "mul", "x x", "a", spans=line(2)),
        node("e1", "jit", "a", "b", regions=("relu",), spans=line(3)),
        node("e2", "jit", "b", "c", regions=("relu",), spans=line(4)),
        node("e4", "sin", "a", "unread", spans=line(2)),
    )
    relu = (node("e3", "max", "y 0.0:f32[]", "z"),)
    regions = {
        "main": Region("main", (Value("x", F32),), main, ("c",), "jaxpr"),
        "relu": Region("relu", (Value("y", F32),), relu, ("z",), "jaxpr"),
    }
    return Module("f", "jaxpr", "main", regions)


def stablehlo(stamped=True):
    """The ops; without stamps only scopes and frames tell where they came from."""

    def op(id, opcode, reads, equation, scope, at=0):
        stamps = ((equation,),) if equation and stamped else ()
        spans = line(at) if at else ()
        name = f"stablehlo.{opcode}" if opcode != "call" else "func.call"
        regions = ("relu",) if opcode == "call" else ()
        gives = f"%{id}"
        return node(
            id, name, reads, gives, stamps=stamps, spans=spans, scope=scope, regions=regions
        )

    main = (
        op("s0", "multiply", "%x %x", "e0", "jit(f)/mul", 2),
        op("s1", "call", "%s0", "e1", "jit(f)/jit", 3),
        op("s2", "call", "%s1", "e2", "jit(f)/jit", 4),
    )
    relu = (
        op("s3", "constant", "", "", ""),
        op("s4", "broadcast_in_dim", "%s3", "e3", "max"),
        op("s5", "maximum", "%y %s4", "e3", "max"),
    )
    regions = {
        "main": Region("main", (Value("%x", F32),), main, ("%s2",), "func"),
        "relu": Region("relu", (Value("%y", F32),), relu, ("%s5",), "func"),
    }
    return Module("f", "stablehlo", "main", regions)


def linked(stamped=True):
    """All four stages."""
    before, after = BEFORE, AFTER
    if not stamped:
        for op in range(6):
            before, after = (text.replace(f"_jls{op}_/", "") for text in (before, after))
    return Linked(
        {
            "jaxpr": jaxpr(),
            "stablehlo": stablehlo(stamped),
            "hlo": hlo.read(before, stage="hlo"),
            "optimized": hlo.read(after, stage="optimized"),
        }
    )
