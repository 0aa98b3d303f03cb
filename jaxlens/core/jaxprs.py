"""Jaxprs: the language that a traced function is written down in.

A jaxpr is a list of equations, each the application of one primitive, in an order in which each
variable is given its value once, before it is used. It is typed, has no Python left in it, and is
closed: what the function took from outside is listed as constants. That makes it easy to
interpret again in another way, which is all that the transformations do.

After "Understanding jaxprs" (docs.jax.dev, jaxpr.html), whose notation `print` uses.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from jaxlens.core.avals import ShapedArray, short_name, x64
from jaxlens.core.sources import SourceInfo, said
from jaxlens.core.tracers import Primitive, Tracer, mapped_axis

_WIDTH = 80


@dataclass(slots=True, eq=False)
class Var:
    """A name for a value; two are the same only if they are one object."""

    aval: ShapedArray


@dataclass(slots=True, eq=False)
class Literal:
    """A scalar that stands in an equation as it is."""

    val: Any
    aval: ShapedArray


Atom = Var | Literal


@dataclass(slots=True, eq=False)
class JaxprEqn:
    """`outvars = primitive[params] invars`, and where it came from."""

    primitive: Primitive
    invars: Sequence[Atom]
    outvars: Sequence[Var]
    params: dict[str, Any]
    source_info: SourceInfo

    def __str__(self) -> str:
        return "\n".join(_equation(self, _Names(), set(self.outvars)))


@dataclass(slots=True, eq=False, repr=False, weakref_slot=True)
class Jaxpr:
    """A function written down.

    Attributes:
        constvars: Variables for what the function took from outside.
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
        jaxpr: It.
        consts: The values.
        eqns: What it computes.
    """

    jaxpr: Jaxpr
    consts: Sequence[Any]
    eqns = property(lambda self: self.jaxpr.eqns)

    @property
    def in_avals(self) -> list[ShapedArray]:
        """The types of its parameters."""
        return [var.aval for var in self.jaxpr.invars]

    @property
    def out_avals(self) -> list[ShapedArray]:
        """The types of its results."""
        return [atom.aval for atom in self.jaxpr.outvars]

    def __str__(self) -> str:
        return str(self.jaxpr)

    __repr__ = __str__


def hoisted(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """A jaxpr whose constants have become its first parameters, and their values."""
    inner = closed.jaxpr
    params = [*inner.constvars, *inner.invars]
    return ClosedJaxpr(Jaxpr([], params, inner.outvars, inner.eqns), []), list(closed.consts)


def subjaxprs(params: Mapping[str, Any]) -> Iterator[Jaxpr]:
    """The jaxprs in the parameters of an equation."""
    for value in params.values():
        for item in value if isinstance(value, list | tuple) else (value,):
            if isinstance(item, Jaxpr | ClosedJaxpr):
                yield item.jaxpr if isinstance(item, ClosedJaxpr) else item


def used(eqns: Sequence[JaxprEqn], needed: set[Var]) -> list[JaxprEqn]:
    """The equations that these variables need; the variables that those need join them.

    Args:
        eqns: In order.
        needed: Variables; changed.
    """
    kept = []
    for eqn in reversed(eqns):
        if not needed.isdisjoint(eqn.outvars):
            needed.update(atom for atom in eqn.invars if type(atom) is Var)
            kept.append(eqn)
    return kept[::-1]


def split(flags: Iterable[bool], items: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """The items whose flag is off, and those whose flag is on."""
    halves: tuple[list[Any], list[Any]] = [], []
    for flag, item in zip(flags, items, strict=True):
        halves[flag].append(item)
    return halves


def merge(flags: Iterable[bool], off: Iterable[Any], on: Iterable[Any]) -> list[Any]:
    """What `split` took apart."""
    halves = iter(off), iter(on)
    return [next(halves[flag]) for flag in flags]


def kept(transform: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a jaxpr, of several, or of a function, that remembers what it made of them.

    A loop that is differentiated twice then has one derivative, which is compiled once. What was
    made is forgotten with the jaxpr. What holds tracers of a trace that will end is made again.
    """
    memory: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()

    @wraps(transform)
    def remembering(jaxprs: Any, *args: Any) -> Any:
        first, *rest = jaxprs if isinstance(jaxprs, tuple) else (jaxprs,)
        try:
            found = memory.setdefault(first, {})
        except TypeError:  # a callable object that does not hash, or that nobody may watch
            found = {}
        key = (*rest, *args, mapped_axis(), x64())
        if key in found:
            return found[key]
        made = transform(jaxprs, *args)
        parts = made if isinstance(made, tuple) else ()
        consts = (item for part in parts if isinstance(part, list) for item in part)
        if not any(isinstance(item, Tracer) for item in consts):
            found[key] = made
        return made

    return remembering


# ---- the type checker --------------------------------------------------------------------------


def check_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> None:
    """Checks that each variable is defined once and before use, and that all types agree.

    Raises:
        TypeError: They do not; says which equation breaks which rule.
    """
    inner = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    known = {*inner.constvars, *inner.invars}
    if len(known) != len(inner.constvars) + len(inner.invars):
        raise TypeError("a jaxpr's parameters must be different variables")
    for eqn in inner.eqns:
        _check_known(eqn.invars, known, eqn)
        for sub in subjaxprs(eqn.params):
            check_jaxpr(sub)
        types = eqn.primitive.abstract(*(atom.aval for atom in eqn.invars), **eqn.params)
        types = list(types) if eqn.primitive.multiple_results else [types]
        found = [var.aval for var in eqn.outvars]
        if [aval.strong for aval in types] != [aval.strong for aval in found]:
            raise TypeError(f"{eqn}: its rule gives {types}, its results are {found}{_at(eqn)}")
        for var in eqn.outvars:
            if var in known:
                raise TypeError(f"{eqn}: a result is defined already{_at(eqn)}")
            known.add(var)
    _check_known(inner.outvars, known, None)


def _check_known(atoms: Sequence[Atom], known: set[Var], eqn: JaxprEqn | None) -> None:
    for atom in atoms:
        if isinstance(atom, Var) and atom not in known:
            where = f"{eqn}{_at(eqn)}" if eqn else "the results"
            raise TypeError(f"{where}: a variable is used before it is defined")


def _at(eqn: JaxprEqn) -> str:
    return f" (from {said(eqn.source_info)})"


# ---- JAX's notation ----------------------------------------------------------------------------


class _Names(dict[Var, str]):
    """Names in the order in which they are asked for: a to z, then ba, bb, ..."""

    def __missing__(self, var: Var) -> str:
        number, letters = len(self), ""
        while number or not letters:
            number, letter = divmod(number, 26)
            letters = chr(ord("a") + letter) + letters
        self[var] = letters
        return letters


def _typed(variables: Sequence[Var], names: _Names, read: Container[Any] | None = None) -> str:
    """Variables and their types; without names those that nobody reads."""
    called = ((names[v] if read is None or v in read else "_", v.aval) for v in variables)
    return " ".join(f"{name}:{aval.str_short()}" for name, aval in called)


def _atom(atom: Atom, names: _Names) -> str:
    if isinstance(atom, Literal):
        return f"{np.asarray(atom.val).item()}:{atom.aval.str_short()}"
    return names[atom]


def _jaxpr(jaxpr: Jaxpr, names: _Names) -> list[str]:
    consts, params = _typed(jaxpr.constvars, names), _typed(jaxpr.invars, names)
    head = f"{{ lambda {consts + ' ' if consts else ''}; {params}. let"
    read = {atom for eqn in jaxpr.eqns for atom in eqn.invars}.union(jaxpr.outvars)
    lines = [line for eqn in jaxpr.eqns for line in _equation(eqn, names, read)]
    results = ", ".join(_atom(atom, names) for atom in jaxpr.outvars)
    tail = f"in ({results}{',' if len(jaxpr.outvars) == 1 else ''}) }}"
    short = " ".join([head, *lines, tail])
    if len(lines) <= 1 and len(short) <= _WIDTH:
        return [short]
    return [head, *(f"    {line}" for line in lines), f"  {tail}"]


def _equation(eqn: JaxprEqn, names: _Names, read: Container[Any]) -> list[str]:
    """An equation; its results get their names before what is in its nested jaxprs."""
    operands = " ".join(_atom(atom, names) for atom in eqn.invars)
    results = _typed(eqn.outvars, names, read)
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
    return [f"{key}={_plain(_lists(value) if key == 'dimension_numbers' else value)}"]


def _lists(value: Any) -> Any:
    """Axes of a product as lists, which is how JAX prints them."""
    nested = isinstance(value, tuple) and not hasattr(value, "_fields")
    if nested and all(isinstance(x, int) for x in value):
        return list(value)
    return tuple(map(_lists, value)) if nested else value


def _plain(value: Any) -> str:
    if isinstance(value, np.dtype):
        return value.name if value.names is None else short_name(value)
    return getattr(value, "__name__", None) or str(value)
