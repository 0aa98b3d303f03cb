"""Finds keys that are used twice, by a walk through the jaxpr; nothing is run.

Each value gets a number; values with one number are equal in every run. Arrays of keys have a
number for each element, and all words of a raw key have that of the key. A draw or a split uses its
keys; `fold_in` does not, since it is made to be called many times. Where two keys may be equal or
not, they count as different: a reuse may be missed, but none is invented.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxlens.ir.graph import Module, Node, Type
from jaxlens.ir.jaxpr.bodies import loop_parts
from jaxlens.taps.moves import moved
from jaxlens.taps.primitives import CALLS, LOOPS, Path

_LIMIT = 4096  # elements of an array that get a number each
_USES = ("random_bits", "random_split", "random_gamma")
_STATE = ("get", "swap", "addupdate", "rng_uniform", "infeed")  # equal operands, other results
_SAME = "copy copy_p optimization_barrier pvary sharding_constraint".split()
_AGAIN = ("transpose(", "rematted_computation")  # a backward pass repeats draws on purpose

Numbers = npt.NDArray[np.int64]
Value = Numbers | int
Loops = frozenset[Path]


@dataclass(frozen=True, slots=True)
class KeyUse:
    """An equation that uses a key, and what is around it.

    Attributes:
        path: The equation, within its calls.
        calls: A number for each step of the path; steps with one number have equal results.
        branches: The branches around it, by the path of their `cond`.
        loops: The loops around it in which it surely runs again.
        again: Whether it repeats a draw of the forward pass.
    """

    path: Path = ()
    calls: tuple[int, ...] = ()
    branches: tuple[tuple[Path, int], ...] = ()
    loops: Loops = frozenset()
    again: bool = False


@dataclass(frozen=True, slots=True)
class KeyReuse:
    """A key that is used more than once.

    Attributes:
        uses: The equations; a single one runs in a loop, or uses equal keys at once.
        loop: The loop in whose iterations a single equation uses it; None for none.
        copies: How often it is among the keys of a single equation.
        carried: Whether one use is that of the next iteration.
        origin: The equation that made it, or the index of the program's parameter; None if unknown.
        index: Its index in what was made there.
    """

    uses: tuple[KeyUse, ...]
    loop: Path | None
    copies: int
    carried: bool
    origin: Path | int | None
    index: tuple[int, ...]


@dataclass(slots=True)
class _Walk:
    module: Module
    live: frozenset[str]
    random: set[str] = field(default_factory=set)  # bodies that have to do with keys
    numbers: dict[Any, int] = field(default_factory=dict)
    varies: list[Loops] = field(default_factory=list)
    origins: dict[int, tuple[Path | int, tuple[int, ...]]] = field(default_factory=dict)
    # The keys that a key is: those of the first iteration, of the one before, or of the last.
    equal: dict[int, set[tuple[int, str, Path]]] = field(default_factory=lambda: defaultdict(set))
    log: list[tuple[int, int, KeyUse]] = field(default_factory=list)

    def number(self, key: Any, parts: Sequence[int] = (), loops: Loops = frozenset()) -> int:
        """Returns the number of what a key describes; `parts` are numbers that it depends on."""
        if key not in self.numbers:
            self.numbers[key] = len(self.varies)
            self.varies.append(loops.union(*(self.varies[part] for part in parts)))
        return self.numbers[key]

    def whole(self, value: Value) -> int:
        """Returns one number for a value."""
        if isinstance(value, int):
            return value
        return self.number(("array", value.shape, value.tobytes()), np.unique(value).tolist())

    def elements(self, number: int, kind: Type, origin: Path | int | None = None) -> Value:
        """Returns a value of elements with numbers, if it can hold keys."""
        raw = kind.dtype == "u32" and kind.shape[-1:] in ((2,), (4,))
        sizes = [size for size in kind.shape if isinstance(size, int)]
        small = len(sizes) == len(kind.shape) and prod(sizes) <= _LIMIT
        if not small or not (raw or kind.dtype.startswith("key<")):
            return number
        ids = np.empty(sizes[:-1] if raw else sizes, np.int64)
        for index in np.ndindex(*ids.shape):
            own = self.number(("element", number, index), (number,))
            ids[index] = own
            if origin is not None:
                self.origins.setdefault(own, (origin, index))
        return np.repeat(ids[..., None], sizes[-1], -1) if raw else ids

    def body(self, name: str, args: Sequence[Value], at: KeyUse) -> list[Value]:
        """Walks through a body; returns its results."""
        region = self.module.regions[name]
        values: dict[str, Value] = {}
        for n, parameter in enumerate(reversed(region.parameters), 1):  # its constants come first
            constant = self.number(("constant", name, n)) if n > len(args) else 0
            values[parameter.name] = constant if n > len(args) else args[-n]

        def value(name: str) -> Value:
            return values[name] if name in values else self.number(("literal", name))

        for node in region.nodes:
            operands = [value(operand) for operand in node.operands]
            path, parts = (*at.path, node.id), [self.whole(x) for x in operands]
            key: Any = (node.opcode, *node.attrs.items(), node.regions, *parts)
            state = node.opcode in _STATE or "callback" in node.opcode
            call = self.number((key, path) if state else key, parts)
            again = at.again or any(mark in node.scope for mark in _AGAIN)
            here = replace(at, path=path, calls=(*at.calls, call), again=again)
            results = self.equation(node, operands, here)
            values.update((own.name, x) for own, x in zip(node.results, results, strict=True))
        return [value(result) for result in region.results]

    def equation(self, node: Node, operands: list[Value], at: KeyUse) -> list[Value]:
        """Returns the results of an equation, and notes the keys that it uses."""
        name, keys = node.opcode, next(iter(operands), 0)
        if name in _USES and not at.again and node.id in self.live:
            counts = Counter(np.ravel(keys).tolist())
            self.log += [(key, copies, at) for key, copies in counts.items()]
        tracked = any(isinstance(x, np.ndarray) for x in operands)
        if tracked or self.random.intersection(node.regions):
            if name in LOOPS:
                return self.loop(node, operands, at)
            if name == "cond":
                return self.cond(node, operands, at)
            if name in CALLS or name == "shard_map":  # which gives each device a part
                inside = reversed(self.module.regions[node.regions[0]].parameters)
                pairs = list(zip(reversed(operands), inside, strict=False))[::-1]
                args = [
                    self.whole(x) if np.ndim(x) and np.shape(x) != own.type.shape else x
                    for x, own in pairs
                ]
                return self.body(node.regions[0], args, at)
        if name == "select_n" and len({self.whole(x) for x in operands[1:]}) == 1:
            return [operands[1]]
        moved = self.moved(node, operands, keys, at) if isinstance(keys, np.ndarray) else None
        number = at.calls[-1]
        if name in ("random_split", "random_clone"):  # the reuse of the parent is told
            number = self.number(("made", number, at.path), (number,))
        return moved or [
            self.elements(self.number(("result", number, n), (number,)), own.type, at.path)
            for n, own in enumerate(node.results)
        ]

    def moved(
        self, node: Node, operands: Sequence[Value], keys: Numbers, at: KeyUse
    ) -> list[Value] | None:
        """Returns the results of an equation that moves elements or packs keys; else None."""
        shapes: Any = [value.type.shape for value in node.results]
        match node.opcode:
            case name if name in _SAME and len(node.results) == len(operands):
                return list(operands)
            case "random_wrap" if keys.ndim and (keys == keys[..., :1]).all():
                return [keys[..., 0]]
            case "random_unwrap":
                return [np.repeat(keys[..., None], shapes[0][-1], -1)]
            case "random_fold_in" if keys.size == 1:
                parts = (*keys.ravel().tolist(), self.whole(operands[1]))
                folded = self.number(("fold", *parts), parts)
                self.origins.setdefault(folded, (at.path, ()))
                return [np.full(keys.shape, folded)]
        arrays = [x for x in operands if isinstance(x, np.ndarray)]
        if len(arrays) < len(operands) or any(prod(shape) > _LIMIT for shape in shapes):
            return None
        with suppress(LookupError, SyntaxError, TypeError, ValueError):
            return list(moved(node, arrays, shapes))
        return None

    def loop(self, node: Node, operands: list[Value], at: KeyUse) -> list[Value]:
        """Walks through a loop until it is known what it carries unchanged."""
        body = node.regions[0]
        skip, consts, carried = loop_parts(node)
        n, stop = skip + consts, skip + consts + carried
        again = set() if node.attrs.get("length") == "1" else {at.path}
        inside = replace(at, loops=at.loops | again)
        around = frozenset(at.path[:n] for n in range(1, len(at.path) + 1))
        fresh = [
            self.elements(self.number(("in", at.path, k), (), around), own.type, at.path)
            for k, own in enumerate(self.module.regions[body].parameters[n - skip :])
        ]
        first, rows = operands[n:stop], fresh[stop - n :]
        for k, xs in enumerate(operands[stop:]):
            if isinstance(xs, np.ndarray) and len(xs):
                if (xs == xs[0]).all():
                    rows[k] = xs[0, ...]
                for row in (xs[n, ...] for n in range(len(xs))):
                    self.alias(rows[k], row, "first", at.path)
        same: set[int] = set()
        while True:
            carry = [first[k] if k in same else fresh[k] for k in range(stop - n)]
            mark = len(self.log)
            if node.opcode == "while":
                self.body(node.regions[-1], [*operands[:skip], *carry], inside)
            out = self.body(body, [*operands[skip:n], *carry, *rows], inside)
            unchanged = {k for k, x in enumerate(carry) if self.whole(out[k]) == self.whole(x)}
            if unchanged <= same:
                break
            same |= unchanged
            del self.log[mark:]
        results: list[Value] = []
        for k, own in enumerate(node.results):
            loops = self.varies[self.whole(out[k])] - {at.path}
            final = self.elements(self.number(("after", at.path, k), (), loops), own.type)
            if k < len(carry) and k not in same:
                self.alias(carry[k], first[k], "first", at.path)
                self.alias(carry[k], out[k], "next", at.path)
                self.alias(final, out[k], "last", at.path)
            results.append(first[k] if k in same else final)
        return results

    def alias(self, value: Value, other: Value, when: str, loop: Path) -> None:
        """Notes that keys are others in the first iteration, in the next one or after the last."""
        if isinstance(value, np.ndarray) and isinstance(other, np.ndarray):
            for one, two in zip(value.ravel().tolist(), other.ravel().tolist(), strict=False):
                self.equal[one].add((two, when, loop))

    def cond(self, node: Node, operands: list[Value], at: KeyUse) -> list[Value]:
        """Walks through branches; what only one of them does may happen once in a loop."""
        every = []
        for n, name in enumerate(node.regions):
            branch = replace(at, branches=(*at.branches, (at.path, n)), loops=frozenset())
            every.append(self.body(name, operands[1:], branch))
        results: list[Value] = []
        for n, own in enumerate(node.results):
            parts = [self.whole(operands[0]), *(self.whole(out[n]) for out in every)]
            one = self.elements(self.number(("cond", *parts), parts), own.type, at.path)
            results.append(every[0][n] if len({*parts[1:]}) == 1 else one)
        return results

    def reuses(self) -> Iterator[KeyReuse]:
        """Yields the keys that are used more than once."""
        uses: dict[int, list[tuple[KeyUse, int, str]]] = defaultdict(list)
        for key, copies, use in self.log:
            pending, visited = [(key, "", use.loops)], {key}
            while pending:
                one, when, loops = pending.pop()
                uses[one].append((replace(use, loops=loops), copies, when))
                for other, how, loop in sorted(self.equal.get(one, ())):
                    if other not in visited and not (when and how != "first"):
                        visited.add(other)
                        pending.append((other, when if how == "first" else how, loops - {loop}))
        for key, every in uses.items():
            origin = self.origins.get(key, (None, ()))
            for use, copies, when in every:
                again = use.loops - self.varies[key]
                if not when and (again or copies > 1):
                    inner = max(again, key=len) if again else None
                    yield KeyReuse((use,), inner, copies, False, *origin)
            for n, (first, _, start) in enumerate(every):
                rest = [
                    (use, when)
                    for use, _, when in every[n + 1 :]
                    if (not when or not start or when == start) and not _exclusive(first, use)
                ]
                if rest:
                    carried = "next" in {start, *(when for _, when in rest)}
                    yield KeyReuse((first, *(use for use, _ in rest)), None, 1, carried, *origin)
                    break


def reused_keys(module: Module, live: frozenset[str]) -> tuple[KeyReuse, ...]:
    """Returns the keys of a program that are used more than once.

    Args:
        module: Its jaxpr.
        live: The equations that count: a draw that no result gets does no harm.
    """
    walk = _Walk(module, live)
    for region in reversed(list(module.regions.values())):  # callees before callers
        for node in region.nodes:
            if node.opcode.startswith("random_") or walk.random.intersection(node.regions):
                walk.random.add(region.name)
    parameters = enumerate(module.body().parameters)
    args = [walk.elements(walk.number(("input", n)), own.type, n) for n, own in parameters]
    if module.entry in walk.random:
        walk.body(module.entry, args, KeyUse())
    return tuple(walk.reuses())


def _exclusive(one: KeyUse, other: KeyUse) -> bool:
    branches = dict(one.branches)
    return any(branches.get(path, n) != n for path, n in other.branches)
