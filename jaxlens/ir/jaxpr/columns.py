"""The columns of a traced program (see `columns`), in one pass over its equations.

An equation takes some microseconds here; what many equations share (types, name stacks,
tracebacks, parameters) is processed once.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from jaxlens.ir.columns import LITERAL, Columns, ColumnsBuilder, Place, Pool, ProgramColumns, blank
from jaxlens.ir.jaxpr.bodies import JaxprBody
from jaxlens.ir.jaxpr.frames import Resolver
from jaxlens.ir.jaxpr.params import printed
from jaxlens.ir.jaxpr.types import type_of

Description = Callable[[Any], Hashable]
"""Describes an equation without its bodies' names: slow, for parameters that do not compare."""


class JaxprColumns(ColumnsBuilder):
    """What equations share. Keys by identity belong to objects that the program keeps alive.

    Args:
        bodies: The bodies, callers before callees.
        spans: Gives the spans of a traceback.
        scope: Gives the text of a name stack.
        description: Describes equations whose parameters do not compare.
        modules: Gives the modules of a name stack.
    """

    def __init__(
        self,
        bodies: Mapping[int, JaxprBody],
        spans: Resolver,
        scope: Callable[[Any], str],
        description: Description,
        modules: Callable[[Any], tuple[str, ...]],
    ) -> None:
        super().__init__()
        self._bodies, self._spans, self._scope, self._modules = bodies, spans, scope, modules
        self._describe = description
        self._type_of: dict[int, int] = {}  # by an aval's identity
        # Places by traceback and by the identity of its spans: of each name stack, by its identity,
        # and of each text of one with its modules.
        self._stack_of: dict[int, dict[Any, int]] = {}
        self._scope_of: dict[tuple[str, tuple[str, ...]], dict[Any, int]] = {}
        self._literals: Pool[Hashable] = Pool()

    def whole(self) -> ProgramColumns:
        """The columns of every body."""
        return self.program({body.name: body for body in self._bodies.values()}, self.region)

    def region(self, body: JaxprBody) -> Columns:
        """The columns of a body, after those of its callees."""
        jaxpr = body.jaxpr
        columns = blank(body.name, body.ids, range(len(jaxpr.eqns)))
        number: dict[int, int] = {}
        for var in (*jaxpr.constvars, *jaxpr.invars):
            number[id(var)] = len(columns.types)
            columns.types.append(self._type(var.aval))
        columns.first_result[0] = len(columns.types)
        for step, inner in body.inner.items():
            columns.calls[step] = tuple(self._bodies[id(callee)].name for callee in inner)
        self._steps(body, columns, number)
        columns.results.extend(number.get(id(atom), -1) for atom in jaxpr.outvars)
        return columns

    def _steps(self, body: JaxprBody, columns: Columns, number: dict[int, int]) -> None:
        """The loop over all equations, inlined but for what is seldom called."""
        back, types, get = columns.distance.append, columns.types.append, number.get
        read, kind = columns.first_operand.append, columns.kind.append
        starts = columns.first_result.append
        place, type_of = columns.place.append, self._type_of.get
        kind_of, stack_of = self.kinds.get, self._stack_of.get
        none: dict[Any, int] = {}
        reads, first = 0, columns.first_result[0]
        calls, literal = columns.calls, self._literal
        for eqn, parameters in zip(body.jaxpr.eqns, body.kinds, strict=True):
            source = eqn.source_info
            where = stack_of(id(source.name_stack), none).get(source.traceback)
            place(self._place(source) if where is None else where)
            literals: tuple[int, ...] = ()
            operands = eqn.invars
            for atom in operands:
                value = get(id(atom))
                if value is None:
                    back(LITERAL)
                    literals += (literal(atom),)
                else:
                    back(first - value)
            reads += len(operands)
            read(reads)
            types_of: tuple[int, ...] = ()
            for var in eqn.outvars:
                number[id(var)] = first
                first += 1
                aval = var.aval
                type_ = type_of(id(aval))
                if type_ is None:
                    type_ = self._type(aval)
                types(type_)
                types_of += (type_,)
            starts(first)
            description: Hashable = parameters
            if not parameters:
                shapes = tuple(self.shape_of[name] for name in calls.get(len(columns.kind), ()))
                description = self._describe(eqn), shapes
            key = description, literals, len(operands), types_of
            number_of_kind = kind_of(key)
            if number_of_kind is None:
                self.opcodes.append(printed(eqn)[0])
                number_of_kind = self.kinds.number(key)
            kind(number_of_kind)

    def _type(self, aval: Any) -> int:
        type_ = self._type_of.get(id(aval))
        if type_ is None:
            type_ = self._type_of[id(aval)] = self.types.number(type_of(aval))
        return type_

    def _place(self, source: Any) -> int:
        """The number of a place whose name stack or traceback is new."""
        stack, traceback = source.name_stack, source.traceback
        scope, modules = self._scope(stack), self._modules(stack)
        places = self._scope_of.setdefault((scope, modules), {})
        self._stack_of[id(stack)] = places
        place = places.get(traceback)
        if place is None:
            spans = self._spans(traceback)
            place = places.get(id(spans))
            if place is None:  # hashing a place is slow
                place = places[id(spans)] = self.places.number(Place(scope, spans, modules))
            places[traceback] = place
        return place

    def _literal(self, atom: Any) -> int:
        """A number that literals of equal text share; the contents of arrays are not compared."""
        value: Any = getattr(atom, "val", None)
        dtype = getattr(value, "dtype", type(value))
        if getattr(value, "shape", ()):
            return self._literals.number((id(value), dtype))
        contents = value.tobytes() if hasattr(value, "tobytes") else repr(value)
        return self._literals.setdefault((contents, dtype), len(self._literals))
