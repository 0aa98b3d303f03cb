"""The columns of a traced program (see `columns`), in one pass over its equations.

An equation takes some microseconds here; everything that many equations share (types, name
stacks, tracebacks, parameters) is looked at once.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from jaxlens.ir.columns import LITERAL, Columns, Place, Pool, Program, blank, shape
from jaxlens.ir.graph import Type
from jaxlens.ir.jaxpr.bodies import Body
from jaxlens.ir.jaxpr.frames import Resolver
from jaxlens.ir.jaxpr.types import type_of

Words = Callable[[Any], Hashable]
"""What an equation does apart from its bodies' names, as text: slow, for the few that need it."""


def program(
    found: Mapping[int, Body], spans: Resolver, scope: Callable[[Any], str], words: Words
) -> Program:
    """Columns of every body.

    Args:
        found: The bodies, callers before callees.
        spans: Gives a traceback's spans.
        scope: Gives a name stack's text.
        words: Tells equations apart whose parameters do not compare.
    """
    maker = _Maker(found, spans, scope, words)
    made = {body.name: maker.region(body) for body in reversed(list(found.values()))}
    regions = {body.name: made[body.name] for body in found.values()}
    return Program(regions, maker.opcodes, tuple(maker.places), tuple(maker.types))


class _Maker:
    """What equations share. Keys by identity are of objects that the program keeps alive."""

    def __init__(
        self,
        found: Mapping[int, Body],
        spans: Resolver,
        scope: Callable[[Any], str],
        words: Words,
    ) -> None:
        self.opcodes: list[str] = []
        self.places: Pool[Place] = Pool()
        self.types: Pool[Type] = Pool()
        self._found, self._spans, self._scope, self._words = found, spans, scope, words
        self._kinds: Pool[Hashable] = Pool()
        self._shapes: Pool[Hashable] = Pool()
        self._shape_of: dict[str, int] = {}
        self._type_of: dict[int, int] = {}  # by an aval's identity
        self._stack_of: dict[int, str] = {}  # by a name stack's identity
        self._place_of: dict[tuple[str | None, Any], int] = {}
        self._literals: Pool[Hashable] = Pool()

    def region(self, body: Body) -> Columns:
        """One body; those that it calls are done."""
        jaxpr = body.jaxpr
        made = blank(body.name, body.ids, range(len(jaxpr.eqns)))
        number: dict[int, int] = {}
        for var in (*jaxpr.constvars, *jaxpr.invars):
            number[id(var)] = len(made.types)
            made.types.append(self._type(var.aval))
        made.made[0] = len(made.types)
        for step, inner in body.inner.items():
            made.calls[step] = tuple(self._found[id(held)].name for held in inner)
        self._steps(body, made, number)
        made.results.extend(number.get(id(atom), -1) for atom in jaxpr.outvars)
        self._shape_of[body.name] = self._shapes.number(shape(made))
        return made

    def _steps(self, body: Body, made: Columns, number: dict[int, int]) -> None:
        """The one loop over all equations: what it calls seldom is below, the rest stands here."""
        back, types, get = made.back.append, made.types.append, number.get
        read, kind, starts = made.read.append, made.kind.append, made.made.append
        place, type_of, place_of = made.place.append, self._type_of.get, self._place_of.get
        kind_of, stack_of = self._kinds.get, self._stack_of.get
        reads, first = 0, made.made[0]
        every, told, literal = made.calls.get, self._told, self._literal
        for step, (eqn, known) in enumerate(zip(body.jaxpr.eqns, body.kinds, strict=True)):
            source = eqn.source_info
            where = place_of((stack_of(id(source.name_stack)), source.traceback))
            place(self._place(source) if where is None else where)
            literals: tuple[int, ...] = ()
            for atom in eqn.invars:
                value = get(id(atom))
                if value is None:
                    back(LITERAL)
                    literals += (literal(atom),)
                else:
                    back(first - value)
            reads += len(eqn.invars)
            read(reads)
            results: list[int] = []
            for var in eqn.outvars:
                number[id(var)] = first
                first += 1
                aval = type_of(id(var.aval))
                if aval is None:
                    aval = self._type(var.aval)
                types(aval)
                results.append(aval)
            starts(first)
            kinds = known or told(eqn, every(step, ()))
            key = kinds, literals, len(eqn.invars), *results
            same = kind_of(key)
            kind(self._kind(key, eqn) if same is None else same)

    def _kind(self, key: Hashable, eqn: Any) -> int:
        """The number of a kind that was not met before."""
        self.opcodes.append(eqn.primitive.name)
        return self._kinds.number(key)

    def _told(self, eqn: Any, calls: tuple[str, ...]) -> Hashable:
        return self._words(eqn), tuple(self._shape_of[name] for name in calls)

    def _type(self, aval: Any) -> int:
        known = self._type_of.get(id(aval))
        if known is None:
            known = self._type_of[id(aval)] = self.types.number(type_of(aval))
        return known

    def _place(self, source: Any) -> int:
        """The number of a place, where the name stack or the place was not met before."""
        stack, traceback = source.name_stack, source.traceback
        scope = self._stack_of.get(id(stack))
        if scope is None:
            scope = self._stack_of[id(stack)] = self._scope(stack)
        known = self._place_of.get((scope, traceback))
        if known is None:  # a place takes long to hash
            known = self.places.number(Place(scope, self._spans(traceback)))
            self._place_of[scope, traceback] = known
        return known

    def _literal(self, atom: Any) -> int:
        """A number that literals share which print alike; an array's contents are not looked at."""
        value: Any = getattr(atom, "val", None)
        dtype = getattr(value, "dtype", type(value))
        if getattr(value, "shape", ()):
            return self._literals.number((id(value), dtype))
        told = value.tobytes() if hasattr(value, "tobytes") else repr(value)
        return self._literals.number((told, dtype))
