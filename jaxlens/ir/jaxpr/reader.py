"""Reads a jaxpr into a Module: an equation is a Node, a distinct nested jaxpr a Region.

Only attribute names are used (`eqns`, `invars`, `constvars`, `outvars`, `primitive.name`,
`params`, `aval`, `source_info`), so whatever has them can be read. An equation whose
frames are all JAX's own has no spans.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

from jaxlens.ir.columns import LITERAL, ColumnsModule, ProgramColumns, locator
from jaxlens.ir.graph import Module, Node, Region, Value, paused
from jaxlens.ir.jaxpr import params as jaxpr_params
from jaxlens.ir.jaxpr.arguments import arguments, function
from jaxlens.ir.jaxpr.bodies import Finder, JaxprBody, bodies, callee, opened
from jaxlens.ir.jaxpr.columns import JaxprColumns
from jaxlens.ir.jaxpr.frames import resolver
from jaxlens.ir.jaxpr.names import Names
from jaxlens.ir.jaxpr.pallas import with_blocks
from jaxlens.ir.jaxpr.params import unsaid
from jaxlens.ir.jaxpr.types import notation, type_of
from jaxlens.ir.lazy import LazyFields, LazySequence, same_fields, unfilled

_NUMBERS: tuple[type, ...] = (bool, int, float, complex)
_PRINTED = {"jvp_jaxpr_fun": "jvp", "fwd_jaxpr_thunk": "fwd"}
_SIMPLE = frozenset({int, bool, str, type(None)})


def read(
    jaxpr: Any,
    name: str = "main",
    scope: Callable[[Any], str] = str,
    modules: Callable[[Any], tuple[str, ...]] = lambda stack: (),
) -> Module:
    """Reads a traced program.

    Args:
        jaxpr: A jaxpr, closed or not. It must not change while the module is used.
        name: What the module is called.
        scope: Gives a name stack's text.
        modules: Gives the modules of a name stack, for `Node.modules`.

    Returns:
        A module whose entry is "main". Nodes are made when they are looked at.
    """
    with paused():
        by_identity = bodies(opened(jaxpr))
        reader = _Reader(by_identity)
        columns = JaxprColumns(by_identity, resolver(), scope, reader.description, modules)
        program = columns.whole()
    reader.columns = program
    regions: dict[str, Region] = {
        body.name: unfilled(
            _Region,
            name=body.name,
            kind="jaxpr",
            constants=len(body.jaxpr.constvars),
            _body=body,
            _reader=reader,
        )
        for body in by_identity.values()
    }
    return unfilled(
        ColumnsModule,
        name=name,
        stage="jaxpr",
        entry=next(iter(regions)),
        regions=regions,
        attrs={},
        unknown=(),
        columns=program,
        locate=locator(program),
        value_name=reader.name,
    )


class _Region(LazyFields, Region):
    """A Region whose parameters, nodes and results are made on first use."""

    __slots__ = ("_body", "_reader")
    _body: JaxprBody
    _reader: "_Reader"
    _makers = {  # noqa: RUF012
        "parameters": lambda region: region._reader.parameters(region._body),
        "nodes": lambda region: region._reader.nodes(region._body),
        "results": lambda region: region._reader.results(region._body),
        "function": lambda region: function(region._body.jaxpr),
        "arguments": lambda region: arguments(region._body.jaxpr),
    }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Region) and same_fields(Region, self, other)

    __hash__ = None  # type: ignore[assignment]


class _Reader:
    """Makes the nodes of one program, with a cache of the text of parameters.

    Attributes:
        columns: The columns of the program; set before any method but `description` is called.
    """

    columns: ProgramColumns

    def __init__(self, bodies: dict[int, JaxprBody]) -> None:
        self.bodies = bodies
        self._texts: dict[int, str] = {}  # of parameters, by identity

    @cached_property
    def _names(self) -> Names:
        return Names(self.bodies, self.columns)

    def nodes(self, body: JaxprBody) -> Sequence[Node]:
        """The equations of a body."""
        return LazySequence(len(body.ids), partial(self._node, body))

    def parameters(self, body: JaxprBody) -> tuple[Value, ...]:
        """Constants and inputs of a body."""
        return tuple(self._values(body.name, range(self.columns.regions[body.name].parameters)))

    def results(self, body: JaxprBody) -> tuple[str, ...]:
        """Names of the results of a body."""
        values = self.columns.regions[body.name].results
        return tuple(
            self._literal(atom) if value < 0 else self.name(body.name, value)
            for atom, value in zip(body.jaxpr.outvars, values, strict=True)
        )

    def name(self, region: str, value: int) -> str:
        """The name of a value."""
        return self._names.name(region, value)

    def description(self, eqn: Any) -> tuple[object, ...]:
        """Describes an equation without the names of its bodies."""
        bodies = {self.bodies[id(inner)].name for _, inner in Finder().jaxprs(eqn.params)}
        attrs = self._attrs(eqn).items()
        pairs = (pair for pair in attrs if not any(name in pair[1] for name in bodies))
        return jaxpr_params.printed(eqn)[0], *pairs

    def _node(self, body: JaxprBody, step: int) -> Node:
        region, eqn = self.columns.regions[body.name], body.jaxpr.eqns[step]
        place = self.columns.places[region.place[step]]
        first = region.first_result[step]
        return Node(
            body.ids[step],
            self.columns.opcodes[region.kind[step]],
            tuple(
                self._literal(atom)
                if distance == LITERAL
                else self.name(body.name, first - distance)
                for atom, distance in zip(eqn.invars, region.distances(step), strict=True)
            ),
            tuple(self._values(body.name, region.values(step))),
            self._attrs(eqn) if eqn.params else _NONE,
            region.calls.get(step, ()),
            place.scope,
            place.spans,
            modules=place.modules,
        )

    def _values(self, region: str, values: Iterable[int]) -> Iterator[Value]:
        types = self.columns.regions[region].types
        for value in values:
            yield Value(self.name(region, value), self.columns.types[types[value]])

    def _literal(self, atom: Any) -> str:
        """As JAX prints it: the number with its type; the contents of an array are not printed."""
        value = getattr(atom, "val", "?")  # an undefined variable, which no legal jaxpr has
        text = "[...]"
        if not getattr(value, "shape", ()):
            number = value.item() if hasattr(value, "item") else value
            # Python's own number: JAX's typed ones print their dtype too.
            text = str(
                next((kind(number) for kind in _NUMBERS if isinstance(number, kind)), number)
            )
        return f"{text}:{notation(type_of(atom.aval))}"

    def _attrs(self, eqn: Any) -> dict[str, str]:
        """Parameters as JAX prints them: sorted, some renamed or omitted, a call's name first."""
        _, params = jaxpr_params.printed(eqn)
        attrs = {"name": ""} if "name" in params else {}
        if "call_jaxpr" in params and "name" not in params:
            attrs["name"] = callee(params["call_jaxpr"])
        kernel = "grid_mapping" in params
        for key, value in (with_blocks(params) if kernel else dict(sorted(params.items()))).items():
            if not unsaid(key, value):
                attrs[_PRINTED.get(key, key)] = self._param(value)
        return attrs

    def _param(self, value: Any) -> str:
        kind = type(value)
        if kind in _SIMPLE:
            return str(value) if kind is not str else jaxpr_params.bounded(value)
        if issubclass(kind, tuple | list | dict):  # not cached: (0,) equals (False,)
            return jaxpr_params.text(value, self._reference)
        cached = self._texts.get(id(value))
        if cached is None:
            cached = self._texts[id(value)] = jaxpr_params.text(value, self._reference)
        return cached

    def _reference(self, value: Any) -> str | None:
        jaxpr = opened(value)
        body = None if jaxpr is None else self.bodies.get(id(jaxpr))
        return None if body is None else body.name


_NONE: dict[str, str] = {}
