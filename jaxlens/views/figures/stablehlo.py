"""Draws a StableHLO module: the entry function as a DAG whose calls, loops and branches open.

The figure is made as for a jaxpr (`figures/jaxpr.py`), from a module that is written like one:
a constant with one value is a literal of the ops that read it, a call has its function's name.
"""

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from jaxlens.ir.facts import Input
from jaxlens.ir.graph import Module, Node, Region
from jaxlens.ir.jaxpr.types import notation
from jaxlens.ir.lazy import lazy
from jaxlens.program.subject import Subject
from jaxlens.render.document import GraphPane
from jaxlens.render.graph.figure import Figure
from jaxlens.report import count
from jaxlens.views.figures import jaxpr as jaxpr_figure

_ONE_VALUE = re.compile(r"dense<([^\[\]<>\",]+)>")


def figure(module: Module, inputs: Sequence[Input] = (), outputs: Sequence[str] = ()) -> Figure:
    """Returns the figure of a StableHLO module; every panel that can be opened, the entry first.

    Args:
        module: A StableHLO module.
        inputs: The program's inputs, where they are known.
        outputs: Names of the program's results, where they are known.
    """
    names = {leaf.path: leaf.name for leaf in inputs if leaf.path}
    texts = [
        module.attrs.get(f"main arg{n}", "").partition(" {")[0] or value.name
        for n, value in enumerate(module.body().parameters)
    ]
    plain = jaxpr_figure.figure(
        like_a_jaxpr(module),
        depth=jaxpr_figure.AUTO,
        inputs=[names.get(text, text) for text in texts],
        outputs=outputs,
    )
    return replace(plain, stage="stablehlo")


def pane(subject: Subject) -> GraphPane:
    """Returns the graph of the lowered program, made on first use: the text form has no graph."""
    module = subject.stage("stablehlo").module

    def describe(pane: GraphPane) -> str:
        boxes = count(len(pane.figure.panels[0].boxes), "box", "boxes")
        return f"Graph of {subject.program.name} as lowered: {boxes} at the top level."

    def draw(_: GraphPane) -> Figure:
        outputs = [leaf.name for leaf in subject.outputs]
        return figure(module, subject.program.inputs, outputs)

    return lazy(GraphPane, {"figure": draw, "alt": describe})


def like_a_jaxpr(module: Module) -> Module:
    """Returns the module with short names of ops, callees by name, and constants as literals."""
    literals: dict[str, Mapping[str, str]] = {}  # by region; a block reads those of its function
    regions: dict[str, Region] = {}
    for name, region in module.regions.items():  # callers first
        known = {**literals.get(name, {}), **dict(_literals(region))}
        regions[name] = replace(
            region,
            nodes=tuple(
                _node(node, known, module) for node in region.nodes if not _is_literal(node)
            ),
            results=tuple(known.get(result, result) for result in region.results),
        )
        for node in region.nodes:
            for inner in node.regions:
                if module.regions[inner].kind != "func":
                    literals[inner] = known
    return Module(module.name, module.stage, module.entry, regions, module.attrs)


def _literals(region: Region) -> Iterator[tuple[str, str]]:
    for node in region.nodes:
        if _is_literal(node):
            (value,) = node.results
            yield value.name, f"{_number(node)}:{notation(value.type)}"


def _is_literal(node: Node) -> bool:
    return node.opcode == "stablehlo.constant" and _number(node) != ""


def _number(node: Node) -> str:
    """Returns the value of a constant whose elements are all equal; "" for others."""
    match = _ONE_VALUE.fullmatch(node.attrs.get("value", ""))
    if match is None:
        return ""
    text, dtype = match[1], node.results[0].type.dtype
    if text.startswith("0x"):  # an infinity or a NaN
        return _of_bits(bytes.fromhex(text[2:]), dtype) or text
    try:
        return text if text.lstrip("-").isdigit() else repr(float(text))
    except ValueError:  # true, a complex number
        return text


def _of_bits(bits: bytes, dtype: str) -> str:
    """Returns the number of these bits, the highest first; "" for a dtype that is not known."""
    if dtype == "bf16":
        bits, dtype = bits + b"\0\0", "f32"  # the upper half of a float32
    form = {"f16": ">e", "f32": ">f", "f64": ">d"}.get(dtype, "")
    return repr(struct.unpack(form, bits)[0]) if form else ""


def _node(node: Node, literals: Mapping[str, str], module: Module) -> Node:
    name = node.opcode.partition(".")[2] or node.opcode
    attrs = dict(node.attrs)
    applied = [n.opcode.partition(".")[2] for r in node.regions for n in module.regions[r].nodes]
    if name == "reduce" and len(applied) == 1:
        attrs["by"] = f"{applied[0]} over {attrs.get('dimensions', '')}"
    if "callee" in attrs:
        attrs["name"] = attrs.pop("callee").removeprefix("@")
    inside = node.scope.partition("/")[2].rpartition("/")[0]  # without jit(f) and the primitive
    operands = tuple(literals.get(operand, operand) for operand in node.operands)
    return replace(node, opcode=name, attrs=attrs, operands=operands, scope=inside)
