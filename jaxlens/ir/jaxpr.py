"""Reads a jaxpr into a Module: an equation is a Node, a distinct nested jaxpr a Region.

Only attribute names are used (`eqns`, `invars`, `constvars`, `outvars`, `primitive.name`,
`params`, `aval`, `source_info`), so whatever has them can be read. An equation whose
frames are all JAX's own has no spans.
"""

from collections.abc import Callable, Mapping
from typing import Any

from jaxlens.ir import jaxpr_params
from jaxlens.ir.collection import paused
from jaxlens.ir.graph import Module, Node, Region, Type, Value
from jaxlens.ir.jaxpr_bodies import Body, bodies, callee, opened
from jaxlens.ir.jaxpr_frames import Resolver, resolver
from jaxlens.ir.jaxpr_names import Names, is_literal, variables
from jaxlens.ir.jaxpr_params import unsaid
from jaxlens.ir.jaxpr_types import notation, type_of

_NUMBERS: tuple[type, ...] = (bool, int, float, complex)
_PRINTED = {"jvp_jaxpr_fun": "jvp", "fwd_jaxpr_thunk": "fwd"}
_SIMPLE = frozenset({int, bool, str, type(None)})


def read(
    jaxpr: Any,
    name: str = "main",
    spans: Resolver | None = None,
    scope: Callable[[Any], str] = str,
) -> Module:
    """Reads a traced program.

    Args:
        jaxpr: A jaxpr, closed or not. It must not change while it is read.
        name: What the module is called.
        spans: Gives a traceback's spans; by default from Python's own column tables.
        scope: Gives a name stack's text.

    Returns:
        A module whose entry is "main". `attrs["constants"]` lists the entry's parameters
        that are captured constants; they come before the inputs.
    """
    with paused():
        found = bodies(opened(jaxpr))
        reader = _Reader(found, spans or resolver(), scope)
        regions = {body.name: reader.region(body) for body in found.values()}
    main = next(iter(found.values()))
    constants = " ".join(reader.names[id(var)] for var in main.jaxpr.constvars)
    return Module(name, "jaxpr", main.name, regions, {"constants": constants} if constants else {})


def occurrences(module: Module) -> dict[str, int]:
    """How often each region stands in the program when every call is written out.

    Loops count once. Linear in the program's size, however often regions share regions.
    """
    times = dict.fromkeys(module.regions, 0)
    times[module.entry] = 1
    for region in module.regions.values():
        for node in region.nodes:
            for inner in node.regions:
                times[inner] += times[region.name]
    return times


class _Reader:
    """The memories of one reading: names, types, scopes and parameters already put in words.

    Keys are identities of objects that the jaxpr keeps alive.
    """

    def __init__(
        self, found: dict[int, Body], spans: Resolver, scope: Callable[[Any], str]
    ) -> None:
        self.found = found
        self.names: Names = variables(found)
        self._spans = spans
        self._scope = scope
        self._scopes: dict[int, str] = {}
        self._types: dict[int, Type] = {}
        self._words: dict[int, str] = {}

    def region(self, body: Body) -> Region:
        """One body with all its equations."""
        jaxpr = body.jaxpr
        return Region(
            body.name,
            tuple(map(self._value, (*jaxpr.constvars, *jaxpr.invars))),
            tuple(
                self._node(eqn, ident, body.inner.get(index, ()))
                for index, (eqn, ident) in enumerate(zip(jaxpr.eqns, body.ids, strict=True))
            ),
            tuple(map(self._operand, jaxpr.outvars)),
            "jaxpr",
        )

    def _node(self, eqn: Any, ident: str, inner: Any) -> Node:
        source = eqn.source_info
        stack = source.name_stack
        scope = self._scopes.get(id(stack))
        if scope is None:
            scope = self._scopes[id(stack)] = self._scope(stack)
        return Node(
            ident,
            eqn.primitive.name,
            tuple(map(self._operand, eqn.invars)),
            tuple(map(self._value, eqn.outvars)),
            self._attrs(eqn.params) if eqn.params else _NONE,
            tuple(self.found[id(jaxpr)].name for jaxpr in inner),
            scope,
            self._spans(source.traceback),
        )

    def _value(self, var: Any) -> Value:
        return Value(self.names[id(var)], self._type(var.aval))

    def _operand(self, atom: Any) -> str:
        return self._literal(atom) if is_literal(atom) else self.names[id(atom)]

    def _type(self, aval: Any) -> Type:
        known = self._types.get(id(aval))
        if known is None:
            known = self._types[id(aval)] = type_of(aval)
        return known

    def _literal(self, atom: Any) -> str:
        """As JAX prints it: the number with its type; an array's contents are never printed."""
        value = atom.val
        if getattr(value, "shape", ()):
            words = "[...]"
        else:
            words = str(_number(value.item() if hasattr(value, "item") else value))
        return f"{words}:{notation(self._type(atom.aval))}"

    def _attrs(self, params: Mapping[str, Any]) -> dict[str, str]:
        """Sorted, named and left out as JAX prints them, a call's name first."""
        words = {"name": ""} if "name" in params else {}
        if "call_jaxpr" in params and "name" not in params:
            words["name"] = callee(params["call_jaxpr"])
        for key in sorted(params):
            value = params[key]
            if not unsaid(key, value):
                words[_PRINTED.get(key, key)] = self._param(value)
        return words

    def _param(self, value: Any) -> str:
        kind = type(value)
        if kind in _SIMPLE:
            return str(value) if kind is not str else jaxpr_params.bounded(value)
        if issubclass(kind, tuple | list | dict):  # (0,) equals (False,), so never from memory
            return jaxpr_params.text(value, self._reference)
        known = self._words.get(id(value))
        if known is None:
            known = self._words[id(value)] = jaxpr_params.text(value, self._reference)
        return known

    def _reference(self, value: Any) -> str | None:
        jaxpr = opened(value)
        body = None if jaxpr is None else self.found.get(id(jaxpr))
        return None if body is None else body.name


_NONE: dict[str, str] = {}


def _number(value: Any) -> Any:
    """Python's own number: JAX's typed ones print their dtype too."""
    return next((kind(value) for kind in _NUMBERS if isinstance(value, kind)), value)
