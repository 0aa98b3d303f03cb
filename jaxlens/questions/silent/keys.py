"""Finds keys that are used twice, by a walk through the jaxpr; nothing is run.

Each value gets a number; values with one number are equal in every run. Arrays of keys have a
number for each element, and all words of a raw key have that of the key. A draw or a split uses its
keys; `fold_in` does not, since it is made to be called many times. Of a loop, two iterations are
walked. Where two keys may be equal or not, they count as different: a reuse may be missed, but none
is invented.

JAX's own checker (`jax_debug_key_reuse`) raises at the first reuse of a typed key; it knows no raw
keys, no equal `fold_in`, and not the place of the other use.
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


@dataclass(frozen=True, slots=True)
class KeyUse:
    """An equation that uses a key, and what is around it.

    Attributes:
        path: The equation, within its calls.
        calls: A number for each step of the path; steps with one number have equal results.
        branches: The branches around it, by the path of their `cond`.
        loops: The iterations of the loops around it, by their paths.
        again: Whether it repeats a draw of the forward pass.
    """

    path: Path = ()
    calls: tuple[int, ...] = ()
    branches: tuple[tuple[Path, int], ...] = ()
    loops: tuple[tuple[Path, int], ...] = ()
    again: bool = False

    def later(self, other: "KeyUse") -> Path | None:
        """Returns the outermost loop of which another use is in another iteration."""
        before = dict(self.loops)
        return next((loop for loop, n in other.loops if before.get(loop, n) != n), None)

    def excludes(self, other: "KeyUse") -> bool:
        """Whether only one of two uses happens in a run, or may."""
        branches, loop = dict(self.branches), self.later(other)
        if self.path == other.path and loop is not None:  # a branch may be taken once in a loop
            return any(path[: len(loop)] == loop for path in branches)
        return any(branches.get(path, n) != n for path, n in other.branches)


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
    origins: dict[int, tuple[Path | int, tuple[int, ...]]] = field(default_factory=dict)
    log: dict[int, list[tuple[KeyUse, int]]] = field(default_factory=lambda: defaultdict(list))

    def number(self, *key: Any) -> int:
        """Returns the number of what a key describes."""
        return self.numbers.setdefault(key, len(self.numbers))

    def whole(self, value: Value) -> int:
        """Returns one number for a value."""
        return value if isinstance(value, int) else self.number(value.shape, value.tobytes())

    def elements(self, number: int, kind: Type, origin: Path | int | None = None) -> Value:
        """Returns a value of elements with numbers, if it can hold keys."""
        raw = kind.dtype == "u32" and kind.shape[-1:] in ((2,), (4,))
        sizes = [size for size in kind.shape if isinstance(size, int)]
        small = len(sizes) == len(kind.shape) and prod(sizes) <= _LIMIT
        if not small or not (raw or kind.dtype.startswith("key<")):
            return number
        ids = np.empty(sizes[:-1] if raw else sizes, np.int64)
        for index in np.ndindex(*ids.shape):
            own = self.number("element", number, index)
            ids[index] = own
            if origin is not None:
                self.origins.setdefault(own, (origin, index))
        return np.repeat(ids[..., None], sizes[-1], -1) if raw else ids

    def body(self, name: str, args: Sequence[Value], at: KeyUse) -> list[Value]:
        """Walks through a body; returns its results."""
        region = self.module.regions[name]
        values: dict[str, Value] = {}
        for n, parameter in enumerate(reversed(region.parameters), 1):  # its constants come first
            is_constant = n > len(args)
            values[parameter.name] = self.number("constant", name, n) if is_constant else args[-n]

        def value(name: str) -> Value:
            return values[name] if name in values else self.number("literal", name)

        for node in region.nodes:
            operands = [value(operand) for operand in node.operands]
            path, parts = (*at.path, node.id), [self.whole(x) for x in operands]
            state = node.opcode in _STATE or "callback" in node.opcode
            place = (path, at.loops) if state else ()
            call = self.number(node.opcode, *node.attrs.items(), node.regions, *parts, *place)
            again = at.again or any(mark in node.scope for mark in _AGAIN)
            here = replace(at, path=path, calls=(*at.calls, call), again=again)
            results = self.equation(node, operands, here)
            values.update((own.name, x) for own, x in zip(node.results, results, strict=True))
        return [value(result) for result in region.results]

    def equation(self, node: Node, operands: list[Value], at: KeyUse) -> list[Value]:
        """Returns the results of an equation, and notes the keys that it uses."""
        name, keys = node.opcode, next(iter(operands), 0)
        if name in _USES and not at.again and node.id in self.live:
            for key, copies in Counter(np.ravel(keys).tolist()).items():
                self.log[key].append((at, copies))
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
        moved = self.moved(node, operands, keys) if isinstance(keys, np.ndarray) else None
        number = at.calls[-1]
        if name in ("random_split", "random_clone"):  # the reuse of the parent is told
            number = self.number("made", number, at.path)
        return moved or [
            self.elements(self.number("result", number, n), own.type, at.path)
            for n, own in enumerate(node.results)
        ]

    def moved(self, node: Node, operands: Sequence[Value], keys: Numbers) -> list[Value] | None:
        """Returns the results of an equation that moves elements or packs keys; else None."""
        shapes: Any = [value.type.shape for value in node.results]
        match node.opcode:
            case name if name in _SAME and len(node.results) == len(operands):
                return list(operands)
            case "random_wrap" if keys.ndim and (keys == keys[..., :1]).all():
                return [keys[..., 0]]
            case "random_unwrap":
                return [np.repeat(keys[..., None], shapes[0][-1], -1)]
        arrays = [x for x in operands if isinstance(x, np.ndarray)]
        if len(arrays) < len(operands) or any(prod(shape) > _LIMIT for shape in shapes):
            return None
        with suppress(LookupError, SyntaxError, TypeError, ValueError):
            return list(moved(node, arrays, shapes))
        return None

    def loop(self, node: Node, operands: list[Value], at: KeyUse) -> list[Value]:
        """Walks through two iterations, of rows through the first and the last."""
        skip, consts, carried = loop_parts(node)
        n, stop = skip + consts, skip + consts + carried
        first = carry = operands[n:stop]
        parameters = self.module.regions[node.regions[0]].parameters[consts + carried :]
        mark, same, out = len(self.numbers), set(range(carried)), list[Value]()
        for step in range(1 if node.attrs.get("length") == "1" else 2):
            inside = replace(at, loops=(*at.loops, (at.path, step)))
            if node.opcode == "while":
                self.body(node.regions[-1], [*operands[:skip], *carry], inside)
            rows = [
                xs[-step, ...]
                if isinstance(xs, np.ndarray) and len(xs)
                else self.elements(self.number("row", self.whole(xs), step), own.type, at.path)
                for xs, own in zip(operands[stop:], parameters, strict=True)
            ]
            out = self.body(node.regions[0], [*operands[skip:n], *carry, *rows], inside)
            carry = out[:carried]
            same = {k for k in same if self.whole(carry[k]) == self.whole(first[k])}
        results: list[Value] = []
        for k, own in enumerate(node.results):
            # The keys of the last iteration; what was there before may be elsewhere by then.
            made = k < carried and isinstance(out[k], np.ndarray) and np.all(out[k] >= mark)
            after = self.number("after", at.path, at.loops, k)
            results.append(
                first[k] if k in same else out[k] if made else self.elements(after, own.type)
            )
        return results

    def cond(self, node: Node, operands: list[Value], at: KeyUse) -> list[Value]:
        """Walks through branches."""
        every = []
        for n, name in enumerate(node.regions):
            branch = replace(at, branches=(*at.branches, (at.path, n)))
            every.append(self.body(name, operands[1:], branch))
        results: list[Value] = []
        for n, own in enumerate(node.results):
            parts = [self.whole(operands[0]), *(self.whole(out[n]) for out in every)]
            one = self.elements(self.number("cond", *parts), own.type, at.path)
            results.append(every[0][n] if len({*parts[1:]}) == 1 else one)
        return results

    def reuses(self) -> Iterator[KeyReuse]:
        """Yields the keys that are used more than once."""
        for key, uses in self.log.items():
            origin = self.origins.get(key, (None, ()))
            for n, (use, copies) in enumerate(uses):
                again = (o for o, _ in uses[n + 1 :] if o.path == use.path)
                loops = (use.later(o) for o in again if not use.excludes(o))
                loop = next(loops, None)
                if loop is not None or copies > 1:
                    yield KeyReuse((use,), loop, copies, False, *origin)
            by_path = {use.path: use for use, _ in reversed(uses)}
            several = [by_path[path] for path in dict.fromkeys(use.path for use, _ in uses)]
            for n, first in enumerate(several):
                rest = [use for use in several[n + 1 :] if not first.excludes(use)]
                if rest:
                    carried = any(first.later(use) is not None for use in rest)
                    yield KeyReuse((first, *rest), None, 1, carried, *origin)
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
    args = [walk.elements(walk.number("input", n), own.type, n) for n, own in parameters]
    if module.entry in walk.random:
        walk.body(module.entry, args, KeyUse())
    return tuple(walk.reuses())
