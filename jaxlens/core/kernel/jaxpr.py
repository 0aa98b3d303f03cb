"""Jaxprs: the language that a traced function is written in.

A jaxpr is a list of equations, each the application of one primitive. Every variable is assigned
once, before it is used; all types are known; no Python is left in it. What the function took from
outside is listed as constants. That makes it easy to run again in another way (`eval_jaxpr`), which
is all that the transformations do.

    { lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = mul b 2.0:f32[] in (c,) }

In JAX: jax/_src/core.py (`Jaxpr`, `eval_jaxpr`); the notation is explained in "Understanding
jaxprs" (docs.jax.dev, jaxpr.html).
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from jaxlens.core.kernel.interpreter import Primitive
from jaxlens.core.kernel.sources import SourceInfo, at
from jaxlens.core.kernel.types import ShapedArray, short_name

_WIDTH = 80


@dataclass(slots=True, eq=False)
class Var:
    """A variable: compared by identity, named only when it is printed."""

    aval: ShapedArray


@dataclass(slots=True, eq=False)
class Literal:
    """A scalar written into an equation."""

    val: Any
    aval: ShapedArray


Atom = Var | Literal


@dataclass(slots=True, eq=False)
class JaxprEqn:
    """`outvars = primitive[params] invars`, and where it comes from."""

    primitive: Primitive
    invars: Sequence[Atom]
    outvars: Sequence[Var]
    params: dict[str, Any]
    source_info: SourceInfo

    def __str__(self) -> str:
        return "\n".join(_equation(self, _Names(), set(self.outvars)))


@dataclass(slots=True, eq=False, repr=False, weakref_slot=True)
class Jaxpr:
    """A function as equations.

    Attributes:
        constvars: Variables for what the function takes from outside.
        invars: Its parameters.
        eqns: What it computes, in order.
        outvars: Its results.
    """

    constvars: Sequence[Var]
    invars: Sequence[Var]
    outvars: Sequence[Atom]
    eqns: Sequence[JaxprEqn]

    def __str__(self) -> str:
        return "\n".join(_jaxpr(self, _Names()))

    __repr__ = __str__


@dataclass(frozen=True, slots=True, eq=False, repr=False, weakref_slot=True)
class ClosedJaxpr:
    """A jaxpr with the values of its constants.

    Attributes:
        jaxpr: The jaxpr.
        consts: The values of its `constvars`.
        eqns: The equations of the jaxpr.
    """

    jaxpr: Jaxpr
    consts: Sequence[Any]
    eqns = property(lambda self: self.jaxpr.eqns)

    @property
    def in_avals(self) -> list[ShapedArray]:
        """The types of the parameters."""
        return [var.aval for var in self.jaxpr.invars]

    @property
    def out_avals(self) -> list[ShapedArray]:
        """The types of the results."""
        return [atom.aval for atom in self.jaxpr.outvars]

    def __str__(self) -> str:
        return str(self.jaxpr)

    __repr__ = __str__


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any) -> list[Any]:
    """Applies each equation of a jaxpr in the current interpreter.

    Args:
        jaxpr: The jaxpr.
        consts: The values of its constants.
        args: The values of its parameters.

    Returns:
        The values of its results.
    """
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(atom: Atom) -> Any:
        return env[atom] if isinstance(atom, Var) else atom.val

    for eqn in jaxpr.eqns:
        with at(eqn.source_info):
            results = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
        env.update(zip(eqn.outvars, eqn.primitive.as_list(results), strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def as_function(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """Returns the jaxpr as a function of its parameters."""
    return partial(eval_jaxpr, closed.jaxpr, closed.consts)


def hoisted(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """Turns the constants of a jaxpr into its first parameters; returns also their values."""
    inner = closed.jaxpr
    params = [*inner.constvars, *inner.invars]
    return ClosedJaxpr(Jaxpr([], params, inner.outvars, inner.eqns), []), list(closed.consts)


def subjaxprs(params: Mapping[str, Any]) -> Iterator[Jaxpr]:
    """Yields the jaxprs among the parameters of an equation."""
    for value in params.values():
        for item in value if isinstance(value, list | tuple) else (value,):
            if isinstance(item, Jaxpr | ClosedJaxpr):
                yield item.jaxpr if isinstance(item, ClosedJaxpr) else item


# ---- printing, in JAX's notation ----------------------------------------------------------------


class _Names(dict[Var, str]):
    """Names variables in the order of their first lookup: a to z, then ba, bb, ..."""

    def __missing__(self, var: Var) -> str:
        number, letters = len(self), ""
        while number or not letters:
            number, letter = divmod(number, 26)
            letters = chr(ord("a") + letter) + letters
        self[var] = letters
        return letters


def _typed(variables: Sequence[Var], names: _Names, used: Container[Any] | None = None) -> str:
    """Formats variables with their types; `_` for those that are not used."""
    named = ((names[v] if used is None or v in used else "_", v.aval) for v in variables)
    return " ".join(f"{name}:{aval.str_short()}" for name, aval in named)


def _atom(atom: Atom, names: _Names) -> str:
    if isinstance(atom, Literal):
        return f"{np.asarray(atom.val).item()}:{atom.aval.str_short()}"
    return names[atom]


def _jaxpr(jaxpr: Jaxpr, names: _Names) -> list[str]:
    consts, params = _typed(jaxpr.constvars, names), _typed(jaxpr.invars, names)
    head = f"{{ lambda {consts + ' ' if consts else ''}; {params}. let"
    used = {atom for eqn in jaxpr.eqns for atom in eqn.invars}.union(jaxpr.outvars)
    lines = [line for eqn in jaxpr.eqns for line in _equation(eqn, names, used)]
    results = ", ".join(_atom(atom, names) for atom in jaxpr.outvars)
    tail = f"in ({results}{',' if len(jaxpr.outvars) == 1 else ''}) }}"
    short = " ".join([head, *lines, tail])
    if len(lines) <= 1 and len(short) <= _WIDTH:
        return [short]
    return [head, *(f"    {line}" for line in lines), f"  {tail}"]


def _equation(eqn: JaxprEqn, names: _Names, used: Container[Any]) -> list[str]:
    """Formats an equation; its results are named before what is in its nested jaxprs."""
    operands = " ".join(_atom(atom, names) for atom in eqn.invars)
    results = _typed(eqn.outvars, names, used)
    ordered = sorted(eqn.params.items(), key=lambda item: (item[0] != "name", item[0]))
    params = [_param(key, value, names) for key, value in ordered]
    start = f"{results} = {eqn.primitive.name}" if results else eqn.primitive.name
    inside = " ".join(param[0] for param in params)
    short = f"{start}{f'[{inside}]' if params else ''} {operands}".rstrip()
    if all(len(param) == 1 for param in params) and (len(short) <= _WIDTH or not params):
        return [short]
    inner = [f"  {line}" for param in params for line in param]
    return [f"{start}[", *inner, f"] {operands}".rstrip()]


def _param(key: str, value: Any, names: _Names) -> list[str]:
    if isinstance(value, Jaxpr | ClosedJaxpr):
        lines = _jaxpr(value.jaxpr if isinstance(value, ClosedJaxpr) else value, names)
        return [f"{key}={lines[0]}", *lines[1:]]
    if isinstance(value, tuple | list) and any(subjaxprs({"": value})):
        nested = [line for item in value for line in _param("", item, names)]
        return [f"{key}=(", *(f"  {line.removeprefix('=')}" for line in nested), ")"]
    if isinstance(value, np.dtype):
        return [f"{key}={value.name if value.names is None else short_name(value)}"]
    return [f"{key}={getattr(value, '__name__', None) or value}"]
