"""Gives variables the letters that JAX prints: a, b, ..., z, ba, ...

A reader who prints the same jaxpr should see the same names. JAX names a variable when
it first prints it, prints shared and long bodies before the rest, and lets the inputs
and outputs of a `jit` body share the names outside; so the same order is walked here.
Values that nothing reads print as `_`; here each is called `_1`, `_2`, ..., because
names within a region are unique.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from jaxlens.ir.jaxpr_bodies import Body, breadth_first

LONG = 10  # a body with more equations than this is printed before the rest


class Names(dict[int, str]):
    """Name by the identity of a variable; asking for an unknown one names it."""

    def __init__(self) -> None:
        super().__init__()
        self._fresh = _letters()
        self._dropped = 0

    def __missing__(self, key: int) -> str:
        name = self[key] = next(self._fresh)
        return name

    def drop(self, var: Any) -> None:
        """Names a variable that nothing reads."""
        self._dropped += 1
        self[id(var)] = f"_{self._dropped}"

    def share(self, inner: Sequence[Any], outer: Sequence[Any]) -> None:
        """Gives the inner variables the outer ones' names, each name to one at most."""
        used: set[int] = set()
        if len(inner) != len(outer):
            return
        for var, like in zip(inner, outer, strict=True):
            if is_literal(var) or is_literal(like) or id(like) in used or id(var) in self:
                continue
            used.add(id(like))
            name = self[id(like)]
            if name.startswith("_"):
                self.drop(var)
            else:
                self[id(var)] = name


def is_literal(atom: Any) -> bool:
    """Whether an operand is a value and not a variable."""
    return hasattr(atom, "val")


def variables(ordered: dict[int, Body]) -> Names:
    """Names every variable of a program.

    Args:
        ordered: Its bodies, the whole program first.

    Returns:
        Names by `id` of the variable object.
    """
    names = Names()
    main = next(iter(ordered.values()))
    _drop_unread(main.jaxpr, names)
    first = [b for b in breadth_first(ordered) if _stands_first(b, main)]
    hoisted = {id(body.jaxpr) for body in first}
    for start in [*first, main]:
        stack = [_walk(start, names, hoisted)]
        while stack:
            inner = next(stack[-1], None)
            if inner is None:
                stack.pop()
            else:
                stack.append(_walk(ordered[id(inner)], names, hoisted))
    return names


def _stands_first(body: Body, main: Body) -> bool:
    return body is not main and (body.times > 1 or len(body.jaxpr.eqns) > LONG)


def _walk(body: Body, names: Names, hoisted: set[int]) -> Iterator[Any]:
    """Names a body's variables in printing order; yields the bodies printed in the middle."""
    jaxpr = body.jaxpr
    for var in (*jaxpr.constvars, *jaxpr.invars):
        names[id(var)]
    for index, eqn in enumerate(jaxpr.eqns):
        inner = body.inner.get(index)
        if inner is not None and eqn.primitive.name == "jit" and id(inner[0]) not in hoisted:
            names.share(inner[0].invars, eqn.invars)
            names.share(inner[0].outvars, eqn.outvars)
        for var in eqn.outvars:
            if type(var).__name__ == "DropVar":
                names.drop(var)
            else:
                names[id(var)]
        if inner is not None:
            for held in inner:
                if id(held) not in hoisted:
                    yield held


def _drop_unread(jaxpr: Any, names: Names) -> None:
    """JAX looks for unread values in the outermost body alone, and so do we."""
    read = {id(atom) for atom in jaxpr.outvars}
    for eqn in reversed(jaxpr.eqns):
        for var in eqn.outvars:
            if id(var) not in read:
                names.drop(var)
        read.update(map(id, eqn.invars))


def _letters() -> Iterator[str]:
    """Numbers in base 26, digits a to z: a, ..., z, ba, bb, ..."""
    n = 0
    while True:
        digits, rest = chr(97 + n % 26), n // 26
        while rest:
            digits, rest = chr(97 + rest % 26) + digits, rest // 26
        yield digits
        n += 1
