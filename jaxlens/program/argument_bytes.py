"""Counts the bytes that the equations of a jaxpr read of its arguments, and write of its results.

Of an argument whose users all slice it or gather from it, the parts are what is read, in a loop
those of all trips, at most all of it; of a donated one that is updated in place, the updates are
what is written. Any other user reads all of it. An argument is followed through what only renames
its elements, and into the bodies of calls and loops:

    scan of length 8 { dynamic_slice(table, i) -> f32[1,512] }    8 * 2048 bytes of the table
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from jaxlens.ir.facts import Input
from jaxlens.ir.graph import Module, Node, Region, Type, Value
from jaxlens.ir.hlo.instructions import users_of
from jaxlens.ir.jaxpr.bodies import loop_parts
from jaxlens.ir.trips import counted_trips

_VIEWS = frozenset(
    "bitcast_convert_type convert_element_type copy copy_p expand_dims optimization_barrier "
    "reshape rev squeeze stop_gradient transpose".split()
)
_TAKING = frozenset({"slice", "dynamic_slice", "gather"})
_CALLS = frozenset(
    "checkpoint closed_call cond core_call custom_jvp_call custom_vjp_call jit pjit remat remat2 "
    "shard_map".split()
)


@dataclass(frozen=True, slots=True)
class _Use:
    """What becomes of a value.

    Attributes:
        read: Bytes that are read of it; infinite where their number or a size is unknown.
        written: Bytes of it that are updated in place, likewise.
        kept: Indices of the results that are the value, as it was or updated in place.
    """

    read: float
    written: float = 0
    kept: tuple[int, ...] = ()


def bytes_of_arguments(
    module: Module, inputs: Sequence[Input], outputs: Sequence[Input], trips: Mapping[str, int]
) -> int | None:
    """Returns the bytes read of all arguments and written of all results.

    Args:
        module: A jaxpr.
        inputs: The arguments; what the program closes over is not counted.
        outputs: The results.
        trips: Trips of `while` equations that their conditions do not tell.

    Returns:
        The sum; None where a size is unknown, or how often a loop reads a part.
    """
    uses = _Uses(module, trips).of[module.entry]
    sizes = [_bytes(output.type) for output in outputs]
    parameters = module.body().parameters
    for value, leaf in zip(reversed(parameters), reversed(inputs), strict=False):
        use = uses[value.name]
        in_place = leaf.donated and use.written > 0 and len(use.kept) == 1
        if in_place:
            sizes[use.kept[0]] = min(sizes[use.kept[0]], use.written)
        sizes.append(_bytes(leaf.type) if use.kept and not in_place else use.read)
    return None if inf in sizes else int(sum(sizes))


def _bytes(type_: Type | None) -> float:
    size = type_.bytes if type_ else 0  # a literal
    return inf if size is None else size


class _Uses:
    """The uses of the parameters of every region of a jaxpr.

    Attributes:
        of: By region, the use of each parameter by name.
    """

    def __init__(self, module: Module, trips: Mapping[str, int]) -> None:
        self._module, self._trips = module, trips
        self.of: dict[str, dict[str, _Use]] = {}
        for region in reversed(tuple(module.regions.values())):  # callees before callers
            users = users_of(region)
            types = region.types()
            self.of[region.name] = {
                value.name: self._use(value, region, users, types) for value in region.parameters
            }

    def _use(
        self,
        value: Value,
        region: Region,
        users: Mapping[str, Sequence[Node]],
        types: Mapping[str, Type],
    ) -> _Use:
        """Returns what a region does with a parameter, under all names that it has there."""
        whole, names, read, written = _bytes(value.type), [value.name], 0.0, 0.0
        for name in names:
            size = _bytes(types[name])
            for node in users.get(name, ()):
                for index in (n for n, other in enumerate(node.operands) if other == name):
                    use = self._operand(node, index, types)
                    if not size or inf in (size, whole):
                        return _Use(whole)
                    read += use.read * whole / size  # a name may be of another type
                    written += use.written * whole / size
                    made = [value.name for n in use.kept for value in node.results[n : n + 1]]
                    names += [new for new in made if new not in names]
        kept = tuple(n for n, name in enumerate(region.results) if name in names)
        return _Use(read if read == inf else min(read, whole), written, kept)

    def _operand(self, node: Node, index: int, types: Mapping[str, Type]) -> _Use:
        """Returns what an equation does with one of its operands."""
        names, whole = node.operands, _bytes(types[node.operands[index]])
        if node.opcode in _VIEWS:
            return _Use(0, 0, (index,))
        if index == 0 and names.count(names[0]) == 1:
            if node.opcode in _TAKING:
                return _Use(_bytes(node.type))
            if node.opcode == "dynamic_update_slice":
                return _Use(0, _bytes(types.get(names[1])), (0,))
            if node.opcode.startswith("scatter"):
                update = _bytes(types.get(names[2]))
                return _Use(update, update, (0,))
        try:
            bodies = [*self._bodies(node, index)]
        except LookupError:  # an equation of another JAX
            bodies = []
        uses = [self._body(*body, whole) for body in bodies]
        if not uses:
            return _Use(whole)
        kept = dict.fromkeys(n for use in uses for n in use.kept)
        read, written = max(use.read for use in uses), max(use.written for use in uses)
        return _Use(read if read == inf else min(read, whole), written, tuple(kept))

    def _bodies(
        self, node: Node, index: int
    ) -> Iterator[tuple[str, int, float, tuple[int, ...] | None]]:
        """Yields the bodies that have an operand: parameter, runs, and results that may be it.

        These are () for an operand that is no carry, and None for any.
        """
        attrs = node.attrs
        tests, consts, carried = loop_parts(node)
        if node.opcode == "scan":
            carry = (index - consts,) if 0 <= index - consts < carried else ()
            is_row = index >= consts + carried  # of which each trip has a part
            yield node.regions[0], index, 1 if is_row else int(attrs["length"]), carry
        elif node.opcode == "while":
            count = self._trips.get(node.id, counted_trips(node, self._module))
            times, after = inf if count is None else count, index - tests - consts
            if index < tests or after >= 0:
                yield attrs["cond_jaxpr"], min(index, index - consts * (after >= 0)), times + 1, ()
            if index >= tests:
                yield attrs["body_jaxpr"], index - tests, times, (after,) if after >= 0 else ()
        elif node.opcode in _CALLS:
            for name in node.regions:
                place = index - len(node.operands) + len(self._module.regions[name].parameters)
                if place >= 0:  # not the index of a cond
                    yield name, place, 1, None

    def _body(
        self, name: str, place: int, times: float, carry: tuple[int, ...] | None, whole: float
    ) -> _Use:
        """Returns what the runs of a body do with an operand of `whole` bytes."""
        value = self._module.regions[name].parameters[place]
        use, size = self.of[name][value.name], _bytes(value.type)
        if not size or (carry is not None and not set(use.kept) <= set(carry)):
            return _Use(whole)
        scale = whole / size  # a part of the rows of a scan, or of what devices share
        read, written = (n and n * scale * times for n in (use.read, use.written))
        if use.read * scale >= whole:  # in one pass, however many there are
            read = whole
        return _Use(read, written, use.kept)
