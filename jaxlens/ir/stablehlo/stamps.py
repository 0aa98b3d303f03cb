"""Replaces the equation stamps in a lowered module's locations by stamps of its own ops.

A location's name ends up as it would have been without stamps, but for the op's own stamp
before its last part. Ops are numbered as `stablehlo.read` numbers them. What is no op to that
reader (a block's closing op and arguments, the functions, the module) keeps no stamp.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jaxlens.ir.gc_pause import paused
from jaxlens.ir.stamps import escaped, plain, stamp, stamps

CLOSING = frozenset({"stablehlo.return", "func.return", "sdy.return", "mhlo.return"})
Paths = tuple[tuple[str, ...], ...]


def restamp(module: Any, ids: Mapping[str, str]) -> tuple[Paths, ...]:
    """Stamps every op of a module in place.

    Args:
        module: An MLIR module (`lowered.compiler_ir("stablehlo")`).
        ids: Which equation each stamp of the lowering stands for ("e1041" for "e12"); others
            mean nothing.

    Returns:
        For each op, by its number, the paths of equations that its location named.
    """
    from jaxlib.mlir import ir

    known: dict[Any, _Place] = {}

    def place(location: Any) -> _Place:
        key = location.attr
        if key not in known:
            known[key] = _place(location, ids, ir)
        return known[key]

    found: list[Paths] = []
    changes: list[tuple[Any, Any]] = []
    with paused(), module.context:
        for op in (module.operation, *(view.operation for view in module.body.operations)):
            if (at := place(op.location)).changed:
                changes.append((op, _location(at, at.name, ir)))
        for block, around in _blocks(module):
            for argument in block.arguments:
                if (at := place(argument.location)).changed:
                    argument.set_location(_location(at, at.name, ir))
            for view in block.operations:
                op = view.operation
                at = place(op.location)
                if op.name not in CLOSING:
                    name = _stamped(at.name, stamp(f"s{len(found)}"), around.name)
                    changes.append((op, _location(at, name, ir)))
                    found.append(at.paths)
                    if len(op.regions):
                        around.inside.append((op, (at.name, name)))
                elif at.changed:
                    changes.append((op, _location(at, at.name, ir)))
        assign("location", changes)
    return tuple(found)


@dataclass(slots=True)
class _Around:
    """What stands round a block.

    Attributes:
        name: The name of the op that holds it, without and with stamps.
        inside: The ops of the block that hold blocks themselves, with their names.
    """

    name: tuple[str, str] = ("", "")
    inside: list[tuple[Any, tuple[str, str]]] = field(default_factory=list)


def _blocks(module: Any) -> Iterator[tuple[Any, _Around]]:
    """Every block inside a function, in the reader's order; who takes one fills in `inside`."""
    for view in module.body.operations:
        top = view.operation
        if top.name != "func.func" or not len(top.regions[0].blocks):
            continue
        pending = [(top.regions[0].blocks[0], ("", ""))]
        while pending:
            block, name = pending.pop()
            around = _Around(name)
            yield block, around
            pending += [
                (inner, name)
                for op, name in reversed(around.inside)
                for region in reversed(list(op.regions))
                for inner in reversed(list(region.blocks))
            ]


@dataclass(frozen=True, slots=True)
class _Place:
    """One location without stamps; JAX shares one among many ops.

    Attributes:
        name: What the outermost name would have been, "" where there would be none.
        child: The location inside that name.
        paths: The equations that the location named.
        changed: Whether it had stamps.
        kind: A name round it that tells the op's kind ("sort:"), "" for none.
        others: The parts of a fused location behind the first.
        metadata: A fused location's own.
    """

    name: str
    child: Any
    paths: Paths = ()
    changed: bool = False
    kind: str = ""
    others: tuple["_Place", ...] = ()
    metadata: Any = None


def _place(location: Any, ids: Mapping[str, str], ir: Any) -> _Place:
    if isinstance(location, ir.FusedLoc):
        first, *others = (_named(part, ids, ir) for part in location.locations)
        paths = (path for part in (first, *others) for path in part.paths)
        return replace(
            first,
            paths=tuple(dict.fromkeys(paths)),
            changed=any(part.changed for part in (first, *others)),
            others=tuple(others),
            metadata=location.metadata,
        )
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


def _stamped(name: str, word: str, around: tuple[str, str]) -> str:
    """The name with a stamp before its last part.

    Where it goes on from the name of the op around it, so does the result: XLA puts the name of
    what it inlines behind the caller's, unless it begins with that already. The last part stays
    the last: XLA calls instructions by it. A name ends at an `@` there, so the stamp is before.
    """
    outer, stamped = around
    name, at, lost = name.partition("@")
    inside = name.startswith(f"{outer}/") and not at
    head, rest = (stamped, name[len(outer) :]) if inside else ("", name)
    above, slash, last = rest.rpartition("/")
    return f"{head}{above}{slash}{word}/{last}{at}{lost}" if last or slash or at else word


def _location(at: _Place, name: str, ir: Any) -> Any:
    """The place as a location of that name."""
    made = ir.Location.name(name, at.child) if name else at.child
    if at.kind:
        made = ir.Location.name(at.kind, made)
    if not at.others and at.metadata is None:
        return made
    parts = [made, *(_location(part, part.name, ir) for part in at.others)]
    return ir.Location.fused(parts, at.metadata)


def assign(name: str, values: Iterable[tuple[Any, Any]]) -> None:
    """Sets the attribute of each object, in order.

    Args:
        name: The attribute.
        values: Pairs of object and value; gone through again after an interrupt.

    Raises:
        KeyboardInterrupt: The user interrupted; it comes out when all is set.
    """
    interrupt: KeyboardInterrupt | None = None
    while True:
        try:
            for thing, value in values:
                setattr(thing, name, value)
            break
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt
