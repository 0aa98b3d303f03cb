"""Replaces the equation stamps in a lowered module's locations by stamps of its own ops.

The name of a location becomes what it would be without stamps, with the op's own stamp before its
last part: `jit(f)/jvp(_jle12_)/mul` becomes `jit(f)/jvp()/_jls7_/mul`, and no name becomes
`_jls7_//multiply`, as XLA calls an instruction by the last part of a name. Ops are numbered as
`stablehlo.reader.read` numbers them. What is no node to that reader (terminators and arguments of
blocks, functions, the module) has no stamp.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jaxlens.interrupts import deferred
from jaxlens.ir.graph import paused
from jaxlens.ir.stamps import KERNEL, escaped, plain, stamp, stamps

CLOSING = frozenset({"stablehlo.return", "func.return", "sdy.return", "mhlo.return"})
Paths = tuple[tuple[str, ...], ...]


def restamp(module: Any, ids: Mapping[str, str]) -> tuple[Paths, ...]:
    """Stamps every op of a module in place.

    Args:
        module: An MLIR module (`lowered.compiler_ir("stablehlo")`).
        ids: The equation that each stamp of the lowering stands for ("e1041" for "e12"); other
            stamps are dropped.

    Returns:
        For each op, by its number, the paths of equations in its location.
    """
    from jaxlib.mlir import ir

    places: dict[Any, _Place] = {}

    def place(location: Any) -> _Place:
        key = location.attr
        if key not in places:
            places[key] = _place(location, ids, ir)
        return places[key]

    op_paths: list[Paths] = []
    calls: dict[str, str] = {}  # JAX puts a function after the first op that calls it
    changes: list[tuple[Any, Any]] = []
    with paused(), module.context:
        for op in (module.operation, *(view.operation for view in module.body.operations)):
            if (source := place(op.location)).changed:
                changes.append((op, _location(source, source.name, ir)))
        for block, outer, holders in _blocks(module, calls):
            for argument in block.arguments:
                if (source := place(argument.location)).changed:
                    argument.set_location(_location(source, source.name, ir))
            for view in block.operations:
                op = view.operation
                source = place(op.location)
                if op.name == "func.call":
                    calls.setdefault(op.attributes["callee"].value, source.name)
                if op.name not in CLOSING:
                    word = stamp(f"s{len(op_paths)}")
                    kind = op.name.rpartition(".")[2].replace("_", "-")  # as in HLO, mostly
                    name = _stamped(source.name, word, outer) if source.name else f"{word}//{kind}"
                    changes.append((op, _location(source, name, ir)))
                    op_paths.append(source.paths)
                    if len(op.regions):
                        holders.append((op, (source.name, name)))
                elif source.changed:
                    changes.append((op, _location(source, source.name, ir)))
        assign("location", changes)
    return tuple(op_paths)


Names = tuple[str, str]
"""The name in the location of an op, without and with stamps; "" where no name begins with it."""


def _blocks(
    module: Any, calls: Mapping[str, str]
) -> Iterator[tuple[Any, Names, list[tuple[Any, Names]]]]:
    """Every block of a function, in the reader's order, with the names of the op around it.

    That of a function's own block is an op that calls it; `calls` has its name by function.
    The caller fills the list with the ops of the block that have blocks themselves.
    """
    for view in module.body.operations:
        top = view.operation
        if top.name != "func.func" or not len(top.regions[0].blocks):
            continue
        caller = calls.get(top.attributes["sym_name"].value, "")
        pending = [(top.regions[0].blocks[0], (caller, ""))]
        while pending:
            block, name = pending.pop()
            holders: list[tuple[Any, Names]] = []
            yield block, name, holders
            pending += [
                (inner, name)
                for op, name in reversed(holders)
                for region in reversed(list(op.regions))
                for inner in reversed(list(region.blocks))
            ]


@dataclass(frozen=True, slots=True)
class _Place:
    """A location without stamps, which many ops can share.

    Attributes:
        name: The outermost name without stamps, "" for none.
        child: The location inside that name.
        paths: The paths of equations in its stamps.
        changed: Whether it had stamps.
        kind: An outer name with the op's kind ("sort:"), "" for none.
        rest: The parts of a fused location after the first.
        metadata: The metadata of a fused location.
    """

    name: str
    child: Any
    paths: Paths = ()
    changed: bool = False
    kind: str = ""
    rest: tuple["_Place", ...] = ()
    metadata: Any = None


def _place(location: Any, ids: Mapping[str, str], ir: Any) -> _Place:
    if isinstance(location, ir.FusedLoc):
        parts = [_named(part, ids, ir) for part in location.locations]
        paths = tuple(dict.fromkeys(path for part in parts for path in part.paths))
        changed, metadata = any(part.changed for part in parts), location.metadata
        rest = tuple(parts[1:])
        return replace(parts[0], paths=paths, changed=changed, rest=rest, metadata=metadata)
    return _named(location, ids, ir)


def _named(location: Any, ids: Mapping[str, str], ir: Any) -> _Place:
    kind = ""
    if isinstance(location, ir.NameLoc) and location.name_str.endswith(":"):
        kind, location = location.name_str, location.child_loc
    if not isinstance(location, ir.NameLoc):
        return _Place("", location, kind=kind)
    text = location.name_str
    if "_jl" not in text:
        return _Place(text, location.child_loc, kind=kind)
    if not ids:
        return _Place(escaped(text), location.child_loc, (), True, kind)
    paths = (tuple(ids[s] for s in path if s in ids) for path in stamps(text))
    return _Place(
        plain(text), location.child_loc, tuple(path for path in paths if path), True, kind
    )


def _stamped(name: str, word: str, around: Names) -> str:
    """The name with a stamp before its last part.

    Where it extends the name of the op around it, so does the result: XLA appends the name of
    what it inlines to the caller's, unless it begins with that. The last part stays the last,
    since XLA names instructions by it. XLA ends a name at an `@`, so the stamp is before it.
    libtpu names a Pallas kernel by the part before the last, so the stamp is before that too; a
    kernel without one in its own name is sent that of the op around it, after the word `KERNEL`.
    """
    outer, stamped = around
    name, at, lost = name.partition("@")
    inside = stamped and name.startswith(f"{outer}/") and not at
    head, rest = (stamped, name[len(outer) :]) if inside else ("", name)
    above, slash, last = rest.rpartition("/")
    if last == "pallas_call" and above:
        above, slash, kernel = above.rpartition("/")
        last = f"{kernel}/{last}"
    elif last == "pallas_call" and outer:
        last = f"{KERNEL}/{outer.rpartition('/')[2]}/{last}"
    return f"{head}{above}{slash}{word}/{last}{at}{lost}"


def _location(at: _Place, name: str, ir: Any) -> Any:
    """The location of a place, with that name."""
    child = at.child
    if name != at.name and isinstance(child, ir.FileLineColLoc):
        # XLA takes the name of a bare place for that of the function that it is in.
        around = at.name or at.kind
        none = ir.StringAttr.get("")
        child = ir.Location.name(around, child) if around else ir.Location.fused([child], none)
    location = ir.Location.name(name, child) if name else child
    if at.kind:
        location = ir.Location.name(at.kind, location)
    if not at.rest and at.metadata is None:
        return location
    parts = [location, *(_location(part, part.name, ir) for part in at.rest)]
    return ir.Location.fused(parts, at.metadata)


def assign(name: str, values: Iterable[tuple[Any, Any]]) -> None:
    """Sets the attribute of each object, also when the user interrupts: half a set is no module.

    Args:
        name: The attribute.
        values: Pairs of object and value.

    Raises:
        KeyboardInterrupt: The user interrupted; raised when all attributes are set.
    """
    with deferred():
        for thing, value in values:
            setattr(thing, name, value)
