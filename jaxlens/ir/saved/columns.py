"""A Module as JSON columns and back: every string, type, span and stack is stored once.

Used for the stages whose text lacks some of JAX's information (columns of a source line in a jaxpr,
locations in StableHLO). A type's parts precede it, so that nothing recurses.
"""

from collections.abc import Callable, Hashable, Iterable
from itertools import chain
from typing import Any, Generic, TypeVar

from jaxlens.ir.graph import Module, Node, Region, Span, Type, Value
from jaxlens.ir.saved.facts import checked

K = TypeVar("K", bound=Hashable)
_SPAN = ("line", "end_line", "column", "end_column")
_DEEPEST = 50  # tuples in each other in a type


class _Pool(dict[K, int], Generic[K]):
    """Distinct items and their numbers, in order of first use: `pool[item]`."""

    def __init__(self, row: Callable[[K], Any]) -> None:
        self.rows: list[Any] = []
        self._row = row

    def __missing__(self, item: K) -> int:
        row = self._row(item)  # may add items itself
        self[item] = number = len(self.rows)
        self.rows.append(row)
        return number


class _Pools:
    """The items that the columns of one module refer to."""

    def __init__(self) -> None:
        self.string: _Pool[str] = _Pool(lambda text: text)
        self.type: _Pool[Type] = _Pool(self._type)
        self.span: _Pool[Span] = _Pool(self._span)
        self.stack: _Pool[tuple[Span, ...]] = _Pool(
            lambda spans: [self.span[span] for span in spans]
        )

    def _type(self, kind: Type) -> list[Any]:
        parts = [self.type[part] for part in kind.parts]
        return [kind.dtype, list(kind.shape), kind.layout, parts, kind.weak]

    def _span(self, span: Span) -> list[Any]:
        texts = self.strings((span.file, span.function, span.key))
        return [*texts, *(getattr(span, name) for name in _SPAN), span.library]

    def strings(self, texts: Iterable[str]) -> list[int]:
        return [self.string[text] for text in texts]

    def values(self, values: Iterable[Value]) -> list[list[int]]:
        return [[self.string[value.name], self.type[value.type]] for value in values]

    def stacks(self, nodes: list[Node]) -> list[int]:
        own = {id(n.spans): n.spans for n in nodes}  # long, slow to hash, shared by many nodes
        numbers = {key: self.stack[spans] for key, spans in own.items()}
        return [numbers[id(n.spans)] for n in nodes]


def to_columns(module: Module) -> dict[str, Any]:
    """The module as JSON data."""
    pools = _Pools()
    regions = [
        {
            "name": region.name,
            "kind": region.kind,
            "parameters": pools.values(region.parameters),
            "results": pools.strings(region.results),
            "nodes": _node_columns(region.nodes, pools),
            **_origin(region, pools),
        }
        for region in module.regions.values()
    ]
    return {
        "name": module.name,
        "stage": module.stage,
        "entry": module.entry,
        "attrs": dict(module.attrs),
        "unknown": list(module.unknown),
        "regions": regions,
        "strings": pools.string.rows,
        "types": pools.type.rows,
        "spans": pools.span.rows,
        "stacks": pools.stack.rows,
    }


def _origin(region: Region, pools: _Pools) -> dict[str, Any]:
    """The number of a region's constants, and the function that it was traced from."""
    constants = {"constants": region.constants} if region.constants else {}
    if not region.function:
        return constants
    arguments = pools.strings(region.arguments)
    return {**constants, "function": region.function, "arguments": arguments}


def _node_columns(nodes: Iterable[Node], pools: _Pools) -> dict[str, list[Any]]:
    nodes = list(nodes)
    columns: dict[str, list[Any]] = {
        "id": pools.strings(n.id for n in nodes),
        "opcode": pools.strings(n.opcode for n in nodes),
        "operands": [pools.strings(n.operands) for n in nodes],
        "results": [pools.values(n.results) for n in nodes],
        "attrs": [pools.strings(w for pair in n.attrs.items() for w in pair) for n in nodes],
        "regions": [pools.strings(n.regions) for n in nodes],
        "scope": pools.strings(n.scope for n in nodes),
        "spans": pools.stacks(nodes),
        "text": pools.strings(n.text for n in nodes),
    }
    if any(n.stamps for n in nodes):
        columns["stamps"] = [[pools.strings(path) for path in n.stamps] for n in nodes]
    if any(n.modules for n in nodes):
        columns["modules"] = [pools.strings(n.modules) for n in nodes]
    return columns


def from_columns(data: Any, most: int = 1 << 30) -> Module:
    """Undoes `to_columns`.

    Args:
        data: JSON data, not trusted.
        most: Bound of the characters of the module as text: a long string, or a type of many
            parts, is stored once and could be referred to at will.

    Raises:
        TypeError, ValueError, KeyError, IndexError, AttributeError: The data has another form, or
            is no legal program.
    """
    strings = [checked(str, text) for text in data["strings"]]
    types = _types(data["types"])
    _check_length(data, strings, types, most)
    spans = [_span(row, strings) for row in data["spans"]]
    stacks = [tuple(spans[i] for i in row) for row in data["stacks"]]
    attrs = {checked(str, key): checked(str, value) for key, value in data["attrs"].items()}
    regions: dict[str, Region] = {}
    for row in data["regions"]:
        nodes = tuple(_nodes(row["nodes"], strings, types, stacks))
        parameters = _values(row["parameters"], strings, types)
        name = checked(str, row["name"])
        results = tuple(strings[i] for i in row["results"])
        function = checked(str, row.get("function", ""))
        arguments = tuple(strings[i] for i in row.get("arguments", ()))
        if arguments and len(arguments) != len(parameters):
            raise ValueError("a region has other arguments than parameters")
        kind = checked(str, row["kind"])
        constants = checked(int, row.get("constants", 0))
        if not regions and "constants" in attrs:  # as it was written once, of the entry alone
            constants = len(attrs.pop("constants").split())
        if not 0 <= constants <= len(parameters):
            raise ValueError("a region has more constants than parameters")
        rest = kind, function, arguments, constants
        regions[name] = Region(name, parameters, nodes, results, *rest)
    unknown = tuple(checked(str, line) for line in data["unknown"])
    entry = checked(str, data["entry"])
    if len(regions) != len(data["regions"]) or next(iter(regions), None) != entry:
        raise ValueError("the entry is not the first region, or two are called alike")
    return Module(
        checked(str, data["name"]), checked(str, data["stage"]), entry, regions, attrs, unknown
    )


def _check_length(data: Any, strings: list[str], types: list[Type], most: int) -> None:
    """Bounds the length of a module as text, before its nodes are made."""
    sizes: list[int] = []  # of each type, with its parts
    depths: list[int] = []
    left = most
    for kind, (_, _, _, parts, _) in zip(types, data["types"], strict=True):
        shape = sum(len(d) if isinstance(d, str) else 20 for d in kind.shape)
        sizes.append(1 + len(kind.dtype) + len(kind.layout) + shape + sum(sizes[i] for i in parts))
        depths.append(1 + max((depths[i] for i in parts), default=0))
        left -= sizes[-1]
        if left < 0 or depths[-1] > _DEEPEST:
            break
    if len(sizes) < len(types):
        raise ValueError("a type stands for more than is plausible")
    lengths = [len(text) for text in strings]
    for region in data["regions"]:
        nodes = region["nodes"]
        for name in ("id", "opcode", "scope", "text"):
            left -= sum(map(lengths.__getitem__, nodes[name]))
        for name in ("operands", "attrs", "regions"):
            left -= sum(map(lengths.__getitem__, chain.from_iterable(nodes[name])))
        values = chain(region["parameters"], chain.from_iterable(nodes["results"]))
        left -= sum(lengths[name] + sizes[kind] for name, kind in values)
        left -= sum(map(lengths.__getitem__, region.get("arguments", ())))
    if left < 0:
        raise ValueError("it stands for more text than is plausible")


def _types(rows: list[Any]) -> list[Type]:
    types: list[Type] = []
    for dtype, shape, layout, parts, weak in rows:
        dims = tuple(checked(int, d) if isinstance(d, int) else checked(str, d) for d in shape)
        if any(isinstance(d, int) and d < 0 for d in dims):
            raise ValueError("a dimension is negative")
        inner = tuple(types[i] for i in parts)
        types.append(Type(checked(str, dtype), dims, checked(str, layout), inner, bool(weak)))
    return types


def _span(row: list[Any], strings: list[str]) -> Span:
    file, function, key, line, end_line, column, end_column, library = row
    lines = (checked(int, line), checked(int, end_line))
    columns = (checked(int, column), checked(int, end_column))
    return Span(strings[file], *lines, *columns, strings[function], strings[key], bool(library))


def _values(rows: list[Any], strings: list[str], types: list[Type]) -> tuple[Value, ...]:
    return tuple(Value(strings[name], types[kind]) for name, kind in rows)


def _nodes(
    columns: Any, strings: list[str], types: list[Type], stacks: list[tuple[Span, ...]]
) -> Iterable[Node]:
    names = ("id", "opcode", "operands", "results", "attrs", "regions", "scope", "spans", "text")
    # The first files have no stamps, and those until jaxlens named modules no modules.
    none: list[list[int]] = [[] for _ in columns["id"]]
    more = columns.get("stamps", none), columns.get("modules", none)
    for id_, opcode, operands, results, attrs, regions, scope, stack, text, paths, modules in zip(
        *(columns[name] for name in names), *more, strict=True
    ):
        texts = [strings[i] for i in attrs]
        if not all(paths):
            raise ValueError("a stamp is empty")
        yield Node(
            strings[id_],
            strings[opcode],
            tuple(strings[i] for i in operands),
            _values(results, strings, types),
            dict(zip(texts[::2], texts[1::2], strict=True)),
            tuple(strings[i] for i in regions),
            strings[scope],
            stacks[stack],
            strings[text],
            tuple(tuple(strings[i] for i in path) for path in paths),
            tuple(strings[i] for i in modules),
        )
