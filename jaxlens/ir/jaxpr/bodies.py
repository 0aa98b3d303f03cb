"""Finds the distinct jaxprs of a program, names them, and counts their uses.

Only attribute names are used (`eqns`, `jaxpr`), so jaxprs of JAX and of `jaxlens.core` are read
alike. A jaxpr that several equations use is one body. Nothing recurses: bodies are walked by
generators on a stack.
"""

import re
from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple

from jaxlens.ir.graph import Node, in_order, unique

_NAME = 80  # characters of a body's name
# The four jaxprs of a `custom_linear_solve`, in the order of JAX's named tuple.
_PARTS = ("matvec", "vecmat", "solve", "transpose_solve")
_COUNT = re.compile(r"\b(\w+)=(\d+)")


@dataclass(slots=True)
class JaxprBody:
    """One distinct jaxpr.

    Attributes:
        jaxpr: The object with `eqns`.
        name: Unique within the program.
        ids: The id of each equation, in program order with nested bodies in place.
        kinds: A number for each equation that equations of equal primitive and parameters share;
            0 where these do not compare.
        inner: The jaxprs in the parameters of an equation, by its index, sorted by parameter.
        times: Number of occurrences when shared bodies are inlined at each use; loops count
            once.
    """

    jaxpr: Any
    name: str
    ids: list[str] = field(default_factory=list)
    kinds: "array[int]" = field(default_factory=lambda: array("i"))
    inner: dict[int, list[Any]] = field(default_factory=dict)
    times: int = 0


class Finder:
    """Finds the jaxprs in parameters, with a cache by type and by value."""

    def __init__(self) -> None:
        self._leaf: set[type] = {int, float, bool, str, type(None)}
        self._plain: dict[Any, int] = {}

    def look(self, eqn: Any) -> tuple[int, list[tuple[str, Any]]]:
        """A number that equations of equal primitive and parameters share, and their jaxprs.

        The number is 0 for an equation with jaxprs or whose parameters do not compare.
        """
        params = eqn.params
        key: tuple[Any, ...] | None = (eqn.primitive, *params.values())
        try:
            kind = self._plain.get(key)
        except Exception:  # whatever a parameter of the user's own class raises
            key, kind = None, None
        if kind is not None:
            return kind, _NOTHING
        jaxprs = self.jaxprs(params)
        if jaxprs or key is None:
            return 0, jaxprs
        number = self._plain[key] = len(self._plain) + 1
        return number, _NOTHING

    def jaxprs(self, params: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Names and jaxprs, sorted by parameter, those inside of a parameter's value last.

        The name is the parameter's, or that of the field or key inside of its value.
        """
        return [(name, opened(value)) for name, value in self.closed_jaxprs(params)]

    def closed_jaxprs(self, params: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """As `jaxprs`, with closed jaxprs where the parameters have these."""
        leaf = self._leaf
        names = [name for name in sorted(params) if type(params[name]) not in leaf]
        pairs = [pair for name in names for pair in self._inside(name, params[name])]
        return sorted(pairs, key=lambda pair: pair[0] not in params)

    def _inside(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        pending, leaf = [(name, value)], self._leaf
        opened_here: set[int] = set()  # a container of the user's may contain itself
        while pending:
            role, part = pending.pop()
            kind = type(part)
            if kind in leaf:
                continue
            inside = contents(part)
            if inside is None:
                if opened(part) is None:
                    leaf.add(kind)
                else:
                    yield role, part
            elif id(part) not in opened_here:
                opened_here.add(id(part))
                pending += [(key or role, x) for key, x in inside[::-1] if type(x) not in leaf]


def contents(value: Any) -> list[tuple[str, Any]] | None:
    """Field names and values of a container, "" for items without a name; None for a leaf.

    Containers are tuples, named or not, lists, mappings and dataclasses, registered with JAX or
    not. A jaxpr, closed or not, is a leaf.
    """
    kind = type(value)
    if kind in (tuple, list):
        return [("", part) for part in value]
    if isinstance(value, tuple | list | deque):
        names = getattr(kind, "_fields", None)
        if isinstance(names, tuple) and len(names) == len(value):
            return list(zip(map(str, names), value, strict=True))
        return [("", part) for part in value]
    try:
        if isinstance(value, Mapping):
            return [(key if isinstance(key, str) else "", value[key]) for key in value]
        jaxpr = hasattr(value, "eqns") or (hasattr(value, "jaxpr") and hasattr(value, "consts"))
        if is_dataclass(value) and not isinstance(value, type) and not jaxpr:
            return [(field.name, getattr(value, field.name, None)) for field in fields(value)]
    except Exception:  # a mapping or an attribute of the user's own class
        return []
    return None


_NOTHING: list[tuple[str, Any]] = []


def opened(value: Any) -> Any:
    """The jaxpr of a value that is one, closed or not; None for anything else."""
    inner = getattr(value, "jaxpr", value)
    return inner if hasattr(inner, "eqns") and hasattr(inner, "outvars") else None


def bodies(jaxpr: Any) -> dict[int, JaxprBody]:
    """Every distinct jaxpr by identity, callers before callees, the whole program first."""
    by_identity: dict[int, JaxprBody] = {}
    names: dict[str, int] = {}
    find = Finder()
    count = [0]

    def enter(inner: Any, name: str) -> tuple[JaxprBody, Iterator[tuple[str, Any]]]:
        # On one line and of bounded length.
        title = unique(" ".join(name.split())[:_NAME], names)
        body = by_identity[id(inner)] = JaxprBody(inner, title)
        return body, _walk(body, find, count)

    stack = [enter(jaxpr, "main")]
    while stack:
        _, steps = stack[-1]
        for name, inner in steps:
            if id(inner) not in by_identity:
                stack.append(enter(inner, name))
                break
        else:
            stack.pop()
    calls = {
        key: [id(callee) for inner in body.inner.values() for callee in inner]
        for key, body in by_identity.items()
    }
    ordered = in_order(by_identity, calls, id(jaxpr))
    _count(ordered)
    return ordered


def _walk(body: JaxprBody, find: Finder, count: list[int]) -> Iterator[tuple[str, Any]]:
    """Numbers a body's equations; yields each jaxpr in their parameters, with a name for it.

    `count` is the number of equations so far.
    """
    kinds, ids, inner = body.kinds, body.ids, body.inner
    for index, eqn in enumerate(body.jaxpr.eqns):
        kind, jaxprs = find.look(eqn)
        kinds.append(kind)
        ids.append(f"e{count[0]}")
        count[0] += 1
        if jaxprs:
            inner[index] = [jaxpr for _, jaxpr in jaxprs]
            yield from zip(_names(eqn, jaxprs), inner[index], strict=True)


def _names(eqn: Any, inner: list[tuple[str, Any]]) -> list[str]:
    """Names for the jaxprs of one equation: the callee's name, "scan body", "branch 0"."""
    primitive = eqn.primitive.name
    if all(name == "branches" for name, _ in inner):
        return [f"branch {i}" for i in range(len(inner))]
    function = ""
    if sum(name in eqn.params for name, _ in inner) == 1:
        names = (eqn.params.get(key) for key in ("name", "name_and_src_info"))
        texts = (getattr(name, "name", name) for name in names)
        function = next((text for text in texts if isinstance(text, str) and text), "")
        body = "jaxpr" if primitive == "pallas_call" else "call_jaxpr"
        function = function or callee(eqn.params.get(body))
    titles = []
    for name, _ in inner:
        # "body" for "body_jaxpr"; a parameter that is just "jaxpr" is the body.
        role = name.replace("call_jaxpr", "").replace("jaxpr", "").strip("_").replace("_", " ")
        own = function if name in eqn.params else ""
        titles.append(own or f"{primitive} {role or 'body'}")
    return titles


def callee(jaxpr: Any) -> str:
    """Name of the function that a jaxpr was traced from, "" where it is not known."""
    name = getattr(getattr(opened(jaxpr), "debug_info", None), "func_name", "")
    return name if isinstance(name, str) else ""


def _count(ordered: dict[int, JaxprBody]) -> None:
    """Fills in `times`; callers come first, so one pass is enough."""
    next(iter(ordered.values())).times = 1
    for body in ordered.values():
        for inner in body.inner.values():
            for jaxpr in inner:
                ordered[id(jaxpr)].times += body.times


def breadth_first(ordered: dict[int, JaxprBody]) -> list[JaxprBody]:
    """The bodies in breadth-first order from the first."""
    start = next(iter(ordered.values()))
    order = {id(start.jaxpr): start}
    queue = deque([start])
    while queue:
        for inner in queue.popleft().inner.values():
            for jaxpr in inner:
                if id(jaxpr) not in order:
                    order[id(jaxpr)] = ordered[id(jaxpr)]
                    queue.append(ordered[id(jaxpr)])
    return list(order.values())


def running(node: Node) -> tuple[str, ...]:
    """Names of the bodies that an equation executes: nearly always all.

    Of a `custom_linear_solve` only `solve` is lowered; the others serve its derivatives.
    """
    if node.opcode != "custom_linear_solve":
        return node.regions
    text = node.attrs.get("jaxprs", "")
    parts = [part for part in _PARTS if f"{part}=None" not in text]
    if len(parts) != len(node.regions):
        return node.regions
    return (node.regions[parts.index("solve")],)


class LoopParts(NamedTuple):
    """How many operands of a `scan` or `while` are what; after the carry a scan has its rows.

    Attributes:
        tests: Constants of the test.
        consts: Constants of the body.
        carry: What an iteration hands to the next.
    """

    tests: int
    consts: int
    carry: int


def loop_parts(node: Node) -> LoopParts:
    """How the operands of a loop are divided; of another equation nothing is carried."""
    names = ("cond_nconsts", "num_consts", "body_nconsts", "num_carry")
    texts = (node.attrs.get(name, "") for name in names)
    tests, *consts, carry = (int(text) if text.isdecimal() else 0 for text in texts)
    return LoopParts(tests, sum(consts), len(node.results) if node.opcode == "while" else carry)


def operand(node: Node, index: int, parameters: int) -> int:
    """Index of the operand of an executed body's parameter, negative, counted from the end.

    Args:
        node: The equation.
        index: Index of the parameter.
        parameters: Number of parameters of the body.
    """
    if node.opcode == "custom_linear_solve":
        counts = {part: int(n) for part, n in _COUNT.findall(node.attrs.get("const_lengths", ""))}
        if index < counts.get("solve", 0):
            return index + counts.get("matvec", 0) + counts.get("vecmat", 0) - len(node.operands)
    return index - parameters
