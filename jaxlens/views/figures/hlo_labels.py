"""Determines the text of an HLO instruction's box: its family, its label and its second line."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from jaxlens.ir.graph import Module, Node, Span
from jaxlens.program.sentences import fusion_kind
from jaxlens.render.graph.figure import Box, BoxKind
from jaxlens.views.figures.box_kinds import family, hint, literal
from jaxlens.views.listings.hlo import instruction

_TRIPS = re.compile(r'"known_trip_count":\s*\{\s*"n":\s*"(\d+)"')
# A fusion has the first of these families that one of its instructions has.
_HEROES: tuple[BoxKind, ...] = ("matmul", "collective", "reduce", "random", "elementwise", "move")
_QUIET = frozenset({"broadcast", "iota", "copy", "bitcast", "copy-start", "copy-done"})
# Attributes that say what an instruction does, of which a box shows the first.
_TELLING = frozenset(
    "dimensions direction slice padding iota_dimension dynamic_slice_sizes fft_type dim_labels "
    "index algorithm slice_sizes".split()
)
_REDUCING = frozenset(
    "reduce reduce-window all-reduce all-reduce-start reduce-scatter scatter select-and-scatter "
    "map".split()
)
_OPCODES = 3  # maximum number of opcodes in a fusion's second line


def box(
    old: Box,
    node: Node,
    shown: Node,
    inner: Node | None,
    module: Module,
    owner: Span | None,
    aside: Sequence[str],
) -> Box:
    """Returns the box of an instruction.

    Args:
        old: The box made by `figures/jaxpr.py`, whose id and inner panel are kept.
        node: The instruction.
        shown: The simplified instruction (`hlo_dataflow.py`), with resolved operands.
        inner: The only instruction of the computation that it applies; None for others.
        module: The module that has its computations.
        owner: The Python line that owns it.
        aside: Ids of other instructions that the box represents.
    """
    fused = (inner,) if inner else _fused(node, module)
    place = str(owner or "")
    return Box(
        old.id,
        label(node),
        detail(node, shown, inner, fused),
        kind(node, fused),
        old.inside,
        hint(instruction(node, place, {}, brief=True)),
        place,
        (node.id, *aside) if aside else old.nodes,
    )


def _fused(node: Node, module: Module) -> tuple[Node, ...]:
    """Returns the computing instructions of a fusion or call."""
    if node.opcode not in ("fusion", "call"):
        return ()
    inside = (n for name in node.regions for n in module.regions[name].nodes)
    return tuple(n for n in inside if n.opcode not in ("parameter", "constant", "bitcast", "tuple"))


def kind(node: Node, fused: Sequence[Node]) -> BoxKind:
    """Returns the family; of a fusion, the first of `_HEROES` among its instructions'."""
    if node.opcode not in ("fusion", "call"):
        return _family(node.opcode)
    families = {_family(n.opcode) for n in fused}
    if families == {"quiet"}:
        return "quiet"
    return next((name for name in _HEROES if name in families), "call")


def _family(opcode: str) -> BoxKind:
    if opcode in _QUIET:
        return "quiet"
    name = opcode.removesuffix("-start").removesuffix("-done").removesuffix("-update")
    if name == "async":
        return "call"
    plain = Node("", opcode if name == "custom-call" else name.replace("-", "_"))
    return "matmul" if name == "custom-call" else family(plain, ())


def label(node: Node) -> str:
    """Returns the first line: the name of a fusion or call, a target, a literal, or the opcode."""
    if node.opcode in ("fusion", "call"):
        return node.id
    if node.opcode == "custom-call":
        return node.attrs.get("custom_call_target", "").strip('"') or node.opcode
    if node.opcode == "constant":
        return literal(node.attrs.get("literal", ""))
    return node.opcode


def detail(node: Node, shown: Node, inner: Node | None, fused: Sequence[Node]) -> str:
    """Returns the second line: fused opcodes, literals, and the most important attribute."""
    if node.opcode in ("fusion", "call"):
        # "loop", "input", "output"; of a custom fusion who makes it ("ynn", "triton gemm").
        maker = fusion_kind(node).removeprefix("custom: ").strip("_").removesuffix("_fusion")
        form = maker.replace("_", " ") if node.opcode == "fusion" else "call"
        text = _many(fused)
        if inner:
            literals = "" if inner.opcode in _REDUCING else _literals(shown)
            text = "  ".join(filter(None, (inner.opcode, literals, _telling(inner, None))))
        return f"{form} · {text}" if form else text
    if node.opcode == "while":
        trips = _TRIPS.search(node.attrs.get("backend_config", ""))
        return f"× {int(trips[1]):,}" if trips else ""
    return "  ".join(filter(None, (_literals(shown), _telling(node, inner))))


def _many(fused: Sequence[Node]) -> str:
    """Returns fused opcodes, most significant family first: `dot, add, 5 more`."""
    opcodes = [node.opcode for node in fused]
    counts = Counter(name for name in opcodes if name not in _QUIET) or Counter(opcodes)
    ranks = {name: n for n, name in enumerate(_HEROES)}
    first = sorted(counts, key=lambda name: ranks.get(_family(name), len(ranks)))
    names = [f"{name} ×{n}" if (n := counts[name]) > 1 else name for name in first[:_OPCODES]]
    rest = sum(counts[name] for name in first[_OPCODES:])
    return ", ".join([*names, *([f"{rest} more"] if rest else [])])


def _literals(shown: Node) -> str:
    if not any(":" in name for name in shown.operands) or len(shown.operands) > 6:
        return ""
    if shown.regions or shown.opcode in _REDUCING:
        return ""  # the init value of a reduction is its neutral element
    return ", ".join(literal(name) if ":" in name else "·" for name in shown.operands)


def _telling(node: Node, inner: Node | None) -> str:
    if node.opcode == "dot":
        return _contraction(node.attrs)
    if node.opcode == "convert":
        return f"to {node.type.dtype}"
    if node.opcode == "custom-call":
        return node.id
    if node.opcode in _REDUCING:
        over = node.attrs.get("dimensions", "")
        applied = inner.opcode if inner else ""
        return " ".join(filter(None, (applied, f"over {over}" if over else "")))
    if node.opcode == "broadcast":
        return ""
    return next((value for key, value in node.attrs.items() if key in _TELLING), "")


def _contraction(attrs: Mapping[str, str]) -> str:
    """Returns `1·0` if dimensions 1 and 0 are contracted."""
    sides = [attrs.get(f"{side}_contracting_dims", "").strip("{}") for side in ("lhs", "rhs")]
    batch = attrs.get("lhs_batch_dims", "").strip("{}")
    text = "·".join(sides) if any(sides) else "outer"
    return f"batch {batch}  {text}" if batch else text
