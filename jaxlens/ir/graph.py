"""One graph model for every stage: a Module of Regions of Nodes.

A jaxpr, a StableHLO function and an HLO module all become a `Module`: a set of
regions (jaxpr bodies, MLIR functions and blocks, HLO computations), each a list
of nodes (equations, ops, instructions) in program order. A region that several
nodes call is stored once, so a module has the size of the program's text. Nodes
name the regions they call; nothing here recurses, however deep a program nests.
"""

import gc
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import TypeVar

from jaxlens.interrupts import uninterrupted

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

# Bits of an element in memory; other types have no known size.
_BITS: Mapping[str, int] = {
    dtype: bits
    for bits, dtypes in {
        0: "token opaque",
        2: "i2 u2 s2",
        4: "i4 u4 s4 f4e2m1fn",
        8: "pred bool i8 u8 s8 f8e5m2 f8e4m3 f8e4m3fn f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz f8e3m4 "
        "f8e8m0fnu",
        16: "i16 u16 s16 f16 bf16",
        32: "i32 u32 s32 f32",
        64: "key<fry> i64 u64 s64 f64 c64",
        128: "c128",
    }.items()
    for dtype in dtypes.split()
}


@dataclass(frozen=True, slots=True)
class Type:
    """A value's type in the short notation that JAX and HLO share.

    Attributes:
        dtype: Element type as the stage prints it ("f32", "i32" or "s32"), "" for a tuple.
        shape: Dimensions; a string where a dimension is symbolic or dynamic.
        layout: HLO layout text ("{1,0}"), empty elsewhere.
        parts: Element types of a tuple.
        weak: Whether JAX calls the type weak.
    """

    dtype: str
    shape: tuple[int | str, ...] = ()
    layout: str = ""
    parts: tuple["Type", ...] = ()
    weak: bool = False

    def __str__(self) -> str:
        if not self.dtype:
            return f"({', '.join(map(str, self.parts))})"
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def bytes(self) -> int | None:
        """Bytes of the values, without padding; None where a size is unknown."""
        total = 0
        pending = [self]
        while pending:
            part = pending.pop()
            if not part.dtype:
                pending.extend(part.parts)
                continue
            bits = _BITS.get(part.dtype)
            if bits is None:
                return None
            for size in part.shape:
                if isinstance(size, str):
                    return None
                bits *= size
            total += -(-bits // 8)  # rounded up
        return total


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of Python text: one frame of the stack that made a node.

    Attributes:
        file: A short stable name: "cell 3" in a notebook, else the file's base name.
        line: First line, from 1. Cell lines count the magic's own line, as editors do.
        end_line: Last line.
        column: First column, from 0; -1 where unknown.
        end_column: Column after the last; -1 where unknown.
        function: Qualified name of the function, "" where unknown.
        key: The file name that Python knows, the key of `Capture.sources`; "" where unknown.
        library: Whether the file belongs to an installed package and not to the user.
    """

    file: str
    line: int
    end_line: int = 0
    column: int = -1
    end_column: int = -1
    function: str = ""
    key: str = ""
    library: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def __hash__(self) -> int:
        """Hashes three fields, which nearly always suffice: stacks are dictionary keys often."""
        return hash((self.file, self.line, self.column))


def owner(spans: Sequence[Span]) -> Span | None:
    """The innermost frame of a stack that is not a library's; else the innermost there is."""
    for span in spans:
        if not span.library:
            return span
    return spans[0] if spans else None


@dataclass(frozen=True, slots=True)
class Value:
    """A result of a node or a parameter of a region, unique by name within its region."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Node:
    """One equation, op or instruction.

    Attributes:
        id: Unique within the module and stable from run to run ("e12"; HLO: the instruction's
            name, which HLO keeps unique within a module).
        opcode: Primitive, op or opcode name.
        operands: Names of the values it reads, in the same region or one around it; a literal
            stands as its text and has a name that no value has.
        results: The values that it defines; one in HLO, where tuples are values.
        attrs: Parameters and attributes as printed, in printed order.
        regions: Names of the regions it calls.
        scope: Name stack or op_name ("jit(f)/jvp()/dot_general"), without the stage's own tags.
        spans: Frames of the user's and libraries' code, innermost first; JAX's own are left out.
        text: The line as the stage printed it, where the reader read text.
        stamps: The nodes of the stage before that it came from, by exact id (see `stamps.py`):
            one path for each, the calls that lead to it first, itself last. Ids of equations in
            StableHLO, of ops in HLO. Empty where nothing was stamped or the compiler kept none.
        modules: Of an equation, the modules whose calls made it, outermost first, each by its
            attribute path ("model", "model.layers[0]"), with the named scopes among them; empty
            where no module was called, or none is known.
    """

    id: str
    opcode: str
    operands: tuple[str, ...] = ()
    results: tuple[Value, ...] = ()
    attrs: Mapping[str, str] = field(default_factory=dict)
    regions: tuple[str, ...] = ()
    scope: str = ""
    spans: tuple[Span, ...] = ()
    text: str = ""
    stamps: tuple[tuple[str, ...], ...] = ()
    modules: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What the program calls it: the names of its results."""
        return ", ".join(value.name for value in self.results) or self.id

    @property
    def type(self) -> Type:
        """Type of its one result, or a tuple of them."""
        if len(self.results) == 1:
            return self.results[0].type
        return Type("", parts=tuple(value.type for value in self.results))

    @property
    def owner(self) -> Span | None:
        """The innermost frame that is not a library's; else the innermost frame there is."""
        return owner(self.spans)


@dataclass(frozen=True, slots=True)
class Region:
    """A body: parameters, nodes in program order, results.

    Attributes:
        name: Unique within the module ("main", "relu", "fused_computation.3").
        parameters: Its parameters. HLO has `parameter` instructions for them, which are among
            `nodes` too.
        nodes: In program order.
        results: Names of the values that it returns (HLO: the root).
        kind: "jaxpr", "func", "block" or "computation".
        function: Name of the user's or a library's function that it was traced from; "" where
            it is unknown or JAX's own.
        arguments: What that function calls each parameter ("h", "carry[0]"), "" where unknown;
            empty where all are.
        constants: How many of the first parameters are constants of its own, which no call gives.
    """

    name: str
    parameters: tuple[Value, ...]
    nodes: Sequence[Node]
    results: tuple[str, ...]
    kind: str
    function: str = ""
    arguments: tuple[str, ...] = ()
    constants: int = 0

    def types(self) -> dict[str, Type]:
        """The types of its values, parameters first, by name."""
        values = chain(self.parameters, chain.from_iterable(node.results for node in self.nodes))
        return {value.name: value.type for value in values}


@dataclass(frozen=True, slots=True)
class Module:
    """A whole program at one stage.

    Attributes:
        name: What the stage calls it ("jit_step").
        stage: Its stage's name in `ir.stage.STAGES`.
        entry: Name of the region where it starts.
        regions: Every region by name, the entry first, callers before callees.
        attrs: The module's own attributes as printed.
        unknown: Lines that the reader could not parse.
    """

    name: str
    stage: str
    entry: str
    regions: Mapping[str, Region]
    attrs: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    def nodes(self) -> Iterator[Node]:
        """Every node once, region by region."""
        return chain.from_iterable(map(attrgetter("nodes"), self.regions.values()))

    @property
    def size(self) -> int:
        """The number of nodes, those of fusions and reducers included."""
        return sum(len(region.nodes) for region in self.regions.values())

    def body(self) -> Region:
        """The entry region."""
        return self.regions[self.entry]


def unique(name: str, counts: dict[str, int]) -> str:
    """The name, numbered from its second use on: "relu 2"; `counts` has the names in use."""
    numbered = name
    while numbered in counts:
        counts[name] += 1
        numbered = f"{name} {counts[name]}"
    counts[numbered] = 1
    return numbered


def callers_first(regions: Mapping[str, Region], entry: str) -> dict[str, Region]:
    """Orders regions by the calls of their nodes: the entry first, callers before callees."""
    calls = {
        name: [called for node in region.nodes for called in node.regions]
        for name, region in regions.items()
    }
    return in_order(regions, calls, entry)


def in_order(regions: Mapping[K, R], calls: Mapping[K, Iterable[K]], entry: K) -> dict[K, R]:
    """Orders regions in reverse postorder of a depth-first walk over their calls.

    Regions that the entry does not reach are ordered likewise. In a cycle of calls, which only
    broken text has, one call is ignored. Of several callees of a region the first called is first.
    """
    edges = {
        name: list(reversed({called: None for called in calls[name] if called in regions}))
        for name in regions
    }
    placed: dict[K, None] = {}
    reached, pending = {entry}, [entry]
    while pending:
        names = set(edges[pending.pop()]) - reached
        reached |= names
        pending += names
    for start in [name for name in regions if name not in reached] + [entry]:
        _place(start, edges, placed)
    order = [name for name in reversed(placed) if name != entry]
    return {name: regions[name] for name in [entry, *order]}


def _place(start: K, edges: Mapping[K, list[K]], placed: dict[K, None]) -> None:
    if start in placed:
        return
    open_: set[K] = {start}
    path = [(start, iter(edges[start]))]
    while path:
        name, calls = path[-1]
        for called in calls:
            if called not in placed and called not in open_:
                open_.add(called)
                path.append((called, iter(edges[called])))
                break
        else:
            placed[name] = None
            path.pop()


def check_calls(module: Module) -> None:
    """Checks the two rules that following calls relies on: callees exist, and come after callers.

    Raises:
        ValueError: A node calls a region that does not exist, or calls form a cycle.
    """
    earlier: set[str] = set()
    for region in module.regions.values():
        earlier.add(region.name)
        for node in region.nodes:
            for name in node.regions:
                if name not in module.regions:
                    raise ValueError(f"{node.id!r} calls {name!r}, which does not exist")
                if name in earlier:
                    raise ValueError(f"{name!r} stands before {region.name!r}, which calls it")


@uninterrupted
def paused() -> Iterator[None]:
    """Pauses the garbage collector while a reader makes many nodes, all of which stay.

    It would scan all of them every few hundred, and free none.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
