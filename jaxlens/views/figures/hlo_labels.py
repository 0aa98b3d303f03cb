"""What a box says of an HLO instruction: its family, its label and its second line."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from jaxlens.ir.graph import Module, Node, Span
from jaxlens.lenses.sentences import fusion_kind
from jaxlens.render.graph.figure import Box, BoxKind
from jaxlens.views.figures.box_kinds import family, literal
from jaxlens.views.listings.hlo import instruction

_TRIPS = re.compile(r'"known_trip_count":\s*\{\s*"n":\s*"(\d+)"')
# What a fusion is taken for: the first of these that it holds.
_HEROES: tuple[BoxKind, ...] = ("matmul", "collective", "reduce", "random", "elementwise", "move")
_QUIET = frozenset({"broadcast", "iota", "copy", "bitcast", "copy-start", "copy-done"})
# The one attribute that says most.
_TELLING: Mapping[str, str] = {
    "transpose": "dimensions",
    "concatenate": "dimensions",
    "compare": "direction",
    "slice": "slice",
    "pad": "padding",
    "iota": "iota_dimension",
    "reverse": "dimensions",
    "sort": "dimensions",
    "all-gather": "dimensions",
    "all-to-all": "dimensions",
    "dynamic-slice": "dynamic_slice_sizes",
    "fft": "fft_type",
    "convolution": "dim_labels",
    "get-tuple-element": "index",
    "rng-bit-generator": "algorithm",
    "gather": "slice_sizes",
}
_REDUCING = frozenset(
    "reduce reduce-window all-reduce all-reduce-start reduce-scatter scatter select-and-scatter "
    "map".split()
)
_OPCODES = 3  # named in a fusion's second line


def box(
    old: Box,
    node: Node,
    shown: Node,
    inner: Node | None,
    module: Module,
    owner: Span | None,
    aside: Sequence[str],
) -> Box:
    """The box of an instruction.

    Args:
        old: The box as it is for any program: its id and what opens in it stay.
        node: The instruction.
        shown: The same without plumbing: what its operands stand for.
        inner: What it applies, where that is one instruction.
        module: Where its computations are.
        owner: The line of Python that it is from.
        aside: Ids of other instructions that the box stands for.
    """
    made = frozenset(name for name in shown.operands if ":" not in name)
    held = (inner,) if inner else _held(node, module)
    words = hint(node)
    return Box(
        old.id,
        label(node),
        detail(node, shown, inner, held, made),
        kind(node, held),
        old.inside,
        f"{words}  ({owner})" if owner else words,
        str(owner) if owner else "",
        (node.id, *aside) if aside else old.nodes,
    )


def _held(node: Node, module: Module) -> tuple[Node, ...]:
    """What a fusion or a call runs."""
    if node.opcode not in ("fusion", "call"):
        return ()
    inside = (n for name in node.regions for n in module.regions[name].nodes)
    return tuple(n for n in inside if n.opcode not in ("parameter", "constant", "bitcast", "tuple"))


def kind(node: Node, held: Sequence[Node]) -> BoxKind:
    """The family; a fusion's is that of the weightiest that it holds."""
    if node.opcode not in ("fusion", "call"):
        return _family(node.opcode)
    families = {_family(n.opcode) for n in held}
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
    """First line: the instruction's own name where that says more than its opcode does."""
    if node.opcode in ("fusion", "call"):
        return node.id
    if node.opcode == "custom-call":
        return node.attrs.get("custom_call_target", "").strip('"') or node.opcode
    if node.opcode == "constant":
        return literal(node.attrs.get("literal", ""))
    return node.opcode


def detail(
    node: Node,
    shown: Node,
    inner: Node | None,
    held: Sequence[Node],
    made: Collection[str],
) -> str:
    """Second line: what a fusion holds, literals, and the attribute that says most."""
    if node.opcode in ("fusion", "call"):
        form = _form(node) if node.opcode == "fusion" else "call"
        words = _one(inner, shown, made) if inner else _many(held)
        return f"{form} · {words}" if form else words
    if node.opcode == "while":
        trips = _TRIPS.search(node.attrs.get("backend_config", ""))
        return f"× {int(trips[1]):,}" if trips else ""
    known = [operand in made for operand in shown.operands]
    says = [_literals(shown, known), _telling(node, inner)]
    return "  ".join(filter(None, says))


def _form(node: Node) -> str:
    """ "loop", "input", "output"; of a custom fusion who makes it ("ynn", "triton gemm")."""
    maker = fusion_kind(node).removeprefix("custom: ").strip("_")
    return maker.removesuffix("_fusion").replace("_", " ")


def _one(inner: Node, shown: Node, made: Collection[str]) -> str:
    """What a fusion of one does, with the literals that come in."""
    known = [operand in made for operand in shown.operands]
    literals = "" if inner.opcode in _REDUCING else _literals(shown, known)
    return "  ".join(filter(None, (inner.opcode, literals, _telling(inner, None))))


def _many(held: Sequence[Node]) -> str:
    """`dot, add, 5 more`: the weightiest first, as they are what the fusion is for."""
    counts = Counter(n.opcode for n in held if n.opcode not in _QUIET) or Counter(
        n.opcode for n in held
    )
    ranks = {name: n for n, name in enumerate(_HEROES)}
    first = sorted(counts, key=lambda name: ranks.get(_family(name), len(ranks)))
    names = [f"{name} ×{n}" if (n := counts[name]) > 1 else name for name in first[:_OPCODES]]
    rest = sum(counts[name] for name in first[_OPCODES:])
    return ", ".join([*names, *([f"{rest} more"] if rest else [])])


def _literals(shown: Node, known: Sequence[bool]) -> str:
    if all(known) or shown.regions or len(known) > 6:
        return ""
    if shown.opcode in _REDUCING:
        return ""  # where a reduction begins: its neutral element
    parts = zip(shown.operands, known, strict=True)
    return ", ".join("·" if k else literal(operand) for operand, k in parts)


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
    return node.attrs.get(_TELLING.get(node.opcode, ""), "")


def _contraction(attrs: Mapping[str, str]) -> str:
    """`1·0` for contracting dimension 1 with 0."""
    sides = [attrs.get(f"{side}_contracting_dims", "").strip("{}") for side in ("lhs", "rhs")]
    batch = attrs.get("lhs_batch_dims", "").strip("{}")
    text = "·".join(sides) if any(sides) else "outer"
    return f"batch {batch}  {text}" if batch else text


def hint(node: Node) -> str:
    """The instruction as XLA prints it, without metadata and layouts."""
    pieces = instruction(node).pieces
    return "".join(piece.text for piece in pieces if piece.kind != "fold")
