"""Finds keys that are used twice, by a walk through the jaxpr; nothing is run.

Each value gets a number; values with one number are equal in every run. Arrays of keys, and the
words of raw keys, have a number for each element. A draw or a split uses its keys; `fold_in` does
not, since it is made to be called many times. Where two keys may be equal or not, they count as
different: a reuse may be missed, but none is invented.
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from jaxlens.ir.graph import Module, Node, Type
from jaxlens.ir.run.nonfinite import CALLS, Path

_LIMIT = 4096  # elements of an array that get a number each
_USES = ("random_bits", "random_split", "random_gamma", "rng_bit_generator")
_RANDOM = (*_USES, "random_seed", "random_wrap", "random_unwrap", "random_fold_in", "random_clone")
_STATE = ("get", "swap", "addupdate", "rng_uniform", "infeed")  # equal operands, other results
_SAME = "copy copy_p optimization_barrier pvary sharding_constraint reduce_precision".split()
_AGAIN = ("transpose(", "rematted_computation")  # a backward pass repeats draws on purpose

Numbers = npt.NDArray[np.int64]
Value = Numbers | int
Loops = frozenset[Path]


@dataclass(frozen=True, slots=True)
class KeyUse:
    """An equation that uses a key.

    Attributes:
        path: The equation, within its calls.
        opcode: Its primitive.
        calls: A number for each step of the path; steps with one number have equal results.
        copies: How often the key is among the keys that it uses at once.
        branches: The branches around it, by the path of their `cond`.
        loops: The loops around it in which it surely runs again.
    """

    path: Path
    opcode: str
    calls: tuple[int, ...]
    copies: int = 1
    branches: tuple[tuple[Path, int], ...] = ()
    loops: Loops = frozenset()


@dataclass(frozen=True, slots=True)
class KeyReuse:
    """A key that is used more than once.

    Attributes:
        uses: The equations; a single one runs in a loop, or uses equal keys at once.
        loop: The loop in whose iterations a single equation uses it; None for none.
        carried: Whether one use is that of the next iteration.
        parameter: The index of the program's parameter that it is an element of; None for none.
        made: The equation that made it; None for a parameter's.
        index: Its index in that array.
    """

    uses: tuple[KeyUse, ...]
    loop: Path | None
    carried: bool
    parameter: int | None
    made: Path | None
    index: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _At:
    """The calls, branches and loops around an equation."""

    path: Path = ()
    calls: tuple[int, ...] = ()
    branches: tuple[tuple[Path, int], ...] = ()
    loops: Loops = frozenset()  # in which it surely runs again
    every: Loops = frozenset()
    again: bool = False


_Origin = tuple[int | None, Path | None, tuple[int, ...]]


@dataclass(slots=True)
class _Walk:
    module: Module
    live: frozenset[str]
    numbers: dict[Any, int] = field(default_factory=dict)
    varies: list[Loops] = field(default_factory=list)
    origins: dict[int, _Origin] = field(default_factory=dict)
    # The keys that a key is: those of the first iteration, of the one before, or of the last.
    equal: dict[int, list[tuple[int, str, Path]]] = field(default_factory=lambda: defaultdict(list))
    packed: dict[tuple[int, ...], int] = field(default_factory=dict)  # a key by its words
    rows: dict[int, tuple[int, ...]] = field(default_factory=dict)  # the words of a raw key
    log: list[tuple[int, KeyUse]] = field(default_factory=list)
    random: set[str] = field(default_factory=set)

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

    def fresh(self, key: Any, kind: Type, loops: Loops, origin: _Origin | None = None) -> Value:
        """Returns the value that a key describes, by elements if it can hold keys."""
        return self.elements(self.number(key, (), loops), kind, origin)

    def elements(self, number: int, kind: Type, origin: _Origin | None = None) -> Value:
        raw = kind.dtype == "u32" and bool(kind.shape) and kind.shape[-1] in (2, 4)
        sizes = [size for size in kind.shape if isinstance(size, int)]
        small = len(sizes) == len(kind.shape) and prod(sizes) <= _LIMIT
        if not small or not (raw or kind.dtype.startswith("key<")):
            return number
        shape = tuple(sizes)
        ids = np.empty(shape, np.int64)
        for index in np.ndindex(*shape):
            ids[index] = self.number(("element", number, index), (number,))
            if origin is not None:
                place = index[:-1] if raw else index
                self.origins.setdefault(int(ids[index]), (*origin[:2], place))
        return ids

    def body(self, name: str, args: Sequence[Value], at: _At) -> list[Value]:
        """Walks through a body; returns its results."""
        region = self.module.regions[name]
        extra = len(region.parameters) - len(args)  # constants of the body
        values: dict[str, Value] = {}
        for n, parameter in enumerate(region.parameters):
            constant = n < extra
            values[parameter.name] = (
                self.fresh(("constant", name, n), parameter.type, frozenset())
                if constant
                else args[n - extra]
            )

        def value(name: str) -> Value:
            return values[name] if name in values else self.number(("literal", name))

        for node in region.nodes:
            operands = [value(operand) for operand in node.operands]
            key = (node.opcode, *node.attrs.items(), node.regions, *map(self.whole, operands))
            path = (*at.path, node.id)
            state = node.opcode in _STATE or "callback" in node.opcode
            call = self.number((key, path) if state else key, [self.whole(x) for x in operands])
            again = at.again or any(mark in node.scope for mark in _AGAIN)
            here = replace(at, path=path, calls=(*at.calls, call), again=again)
            results = self.equation(node, operands, here)
            values.update((own.name, x) for own, x in zip(node.results, results, strict=True))
        return [value(result) for result in region.results]

    def equation(self, node: Node, operands: list[Value], at: _At) -> list[Value]:
        """Returns the results of an equation, and notes the keys that it uses."""
        if node.opcode in _USES:
            self.use(node, operands[0], at)
        keys = operands[0] if operands and isinstance(operands[0], np.ndarray) else None
        if node.regions and self.enters(node, operands):
            if node.opcode == "scan":
                return self.scan(node, operands, at)
            if node.opcode == "while":
                return self.loop(node, operands, at)
            if node.opcode == "cond":
                return self.cond(node, operands, at)
            if node.opcode in CALLS or node.opcode == "shard_map":
                inside = reversed(self.module.regions[node.regions[0]].parameters)
                args = [  # a `shard_map` gives each device a part
                    x if isinstance(x, int) or x.shape == own.type.shape else self.whole(x)
                    for x, own in zip(reversed(operands), inside, strict=False)
                ][::-1]
                return self.body(node.regions[0], args, at)
        if node.opcode == "select_n" and len({self.whole(x) for x in operands[1:]}) == 1:
            return [operands[1]]
        moved = None if keys is None else self.moved(node, operands, keys, at)
        return self.made(node, at) if moved is None else moved

    def made(self, node: Node, at: _At) -> list[Value]:
        """Returns new values; those of a split differ from the same split's elsewhere."""
        number = at.calls[-1]
        if node.opcode in ("random_split", "random_clone"):  # the reuse of the parent is reported
            number = self.number(("made", number, at.path), (number,))
        return [
            self.elements(
                self.number(("result", number, n), (number,)), x.type, (None, at.path, ())
            )
            for n, x in enumerate(node.results)
        ]

    def enters(self, node: Node, operands: Sequence[Value]) -> bool:
        """Whether an equation's bodies have to do with keys."""
        tracked = any(isinstance(x, np.ndarray) for x in operands)
        return tracked or any(name in self.random for name in node.regions)

    def moved(
        self, node: Node, operands: Sequence[Value], keys: Numbers, at: _At
    ) -> list[Value] | None:
        """Returns the results of an equation that moves elements or packs keys; else None."""
        shape: Any = node.results[0].type.shape if node.results else ()
        name, attrs = node.opcode, node.attrs
        if name in ("squeeze", "reshape", "expand_dims"):
            return [keys.reshape(shape)]
        if name in _SAME and len(node.results) == len(operands):
            return list(operands)
        if name == "slice":
            start, stop = _ints(attrs, "start_indices"), _ints(attrs, "limit_indices")
            steps = _ints(attrs, "strides") or [1] * len(start)
            return [keys[tuple(map(slice, start, stop, steps))]]
        if name == "broadcast_in_dim":
            sizes = [1] * len(shape)
            for own, n in enumerate(_ints(attrs, "broadcast_dimensions")):
                sizes[n] = keys.shape[own]
            return [np.broadcast_to(keys.reshape(sizes), shape)] if prod(shape) <= _LIMIT else None
        if name == "transpose":
            return [keys.transpose(_ints(attrs, "permutation"))]
        if name == "concatenate":
            arrays = [x for x in operands if isinstance(x, np.ndarray)]
            axis = int(attrs["dimension"])
            return [np.concatenate(arrays, axis)] if len(arrays) == len(operands) else None
        if name == "unstack":
            axis = int(attrs["axis"])
            return [np.take(keys, n, axis) for n in range(len(node.results))]
        if name == "random_wrap" and keys.shape:
            return [self.wrapped(keys)]
        if name == "random_unwrap" and isinstance(shape[-1], int):
            words = [self.words(key, shape[-1]) for key in keys.ravel().tolist()]
            return [np.array(words, np.int64).reshape(shape)]
        if name == "random_fold_in":
            data, many = self.whole(operands[1]), keys.size > 1
            folded = []
            for n, key in enumerate(keys.ravel().tolist()):
                own = self.number(("fold", key, data, n if many else 0), (key, data))
                self.origins.setdefault(own, (None, at.path, ()))
                folded.append(own)
            return [np.array(folded, np.int64).reshape(keys.shape)]
        return None

    def words(self, key: int, count: int) -> list[int]:
        """Returns the numbers of a key's words."""
        words = [self.number(("word", key, n), (key,)) for n in range(count)]
        self.packed[tuple(words)] = key
        return words

    def wrapped(self, words: Numbers) -> Numbers:
        """Returns the keys of words; the words of a key give this key again."""
        rows = map(tuple, words.reshape(-1, words.shape[-1]).tolist())
        return np.array([self.key(row) for row in rows], np.int64).reshape(words.shape[:-1])

    def key(self, row: tuple[int, ...]) -> int:
        if row not in self.packed:
            key = self.packed[row] = self.number(("wrap", *row), row)
            self.rows[key] = row
            self.origins[key] = self.origins.get(row[0], (None, None, ()))
        return self.packed[row]

    def use(self, node: Node, keys: Value, at: _At) -> None:
        """Notes that an equation uses keys."""
        if at.again or node.id not in self.live:
            return
        if node.opcode == "rng_bit_generator" and isinstance(keys, np.ndarray):
            keys = self.wrapped(keys)
        every = [keys] if isinstance(keys, int) else keys.ravel().tolist()
        for key, copies in Counter(every).items():
            use = KeyUse(at.path, node.opcode, at.calls, copies, at.branches, at.loops)
            self.log.append((key, use))

    def scan(self, node: Node, operands: list[Value], at: _At) -> list[Value]:
        """Walks through the body of a `scan`; rows of what it walks along differ, unless equal."""
        n, count = int(node.attrs["num_consts"]), int(node.attrs["num_carry"])
        length = node.attrs.get("length", "")
        parameters = self.module.regions[node.regions[0]].parameters
        inside = self.inside(at, once=length == "1")
        rows = []
        for place, xs in enumerate(operands[n + count :], n + count):
            row = self.fresh(
                ("row", at.path, place, self.whole(xs)), parameters[place].type, inside.every
            )
            if isinstance(xs, np.ndarray) and isinstance(row, np.ndarray):
                if len(xs) and (xs == xs[0]).all():
                    row = xs[0]
                else:
                    for each in xs:
                        self.alias(row, each, "first", at.path)
            rows.append(row)

        def step(carry: list[Value]) -> list[Value]:
            return self.body(node.regions[0], [*operands[:n], *carry, *rows], inside)

        types = [value.type for value in parameters[n : n + count]]
        results, out = self.carried(step, operands[n : n + count], types, at, inside)
        stacked = zip(node.results[count:], out[count:], strict=True)
        ys = [
            self.fresh(("ys", at.path, k, self.whole(y)), own.type, self.outside(y, at))
            for k, (own, y) in enumerate(stacked)
        ]
        return [*results, *ys]

    def loop(self, node: Node, operands: list[Value], at: _At) -> list[Value]:
        """Walks through the test and the body of a `while`."""
        n, m = int(node.attrs["cond_nconsts"]), int(node.attrs["body_nconsts"])
        body, test = node.regions[0], node.regions[-1]
        inside = self.inside(at)

        def step(carry: list[Value]) -> list[Value]:
            self.body(test, [*operands[:n], *carry], inside)
            return self.body(body, [*operands[n : n + m], *carry], inside)

        types = [value.type for value in node.results]
        return self.carried(step, operands[n + m :], types, at, inside)[0]

    @staticmethod
    def inside(at: _At, *, once: bool = False) -> _At:
        loops = at.loops if once else at.loops | {at.path}
        return replace(at, loops=loops, every=at.every | {at.path})

    def outside(self, value: Value, at: _At) -> Loops:
        return self.varies[self.whole(value)] - {at.path}

    def carried(
        self,
        step: Callable[[list[Value]], list[Value]],
        first: list[Value],
        types: Sequence[Type],
        at: _At,
        inside: _At,
    ) -> tuple[list[Value], list[Value]]:
        """Walks through a loop's body until it is known what it carries unchanged.

        Returns:
            What it carries in the end, and the results of the body.
        """
        every = [
            self.fresh(("carry", at.path, k), kind, inside.every, (None, at.path, ()))
            for k, kind in enumerate(types)
        ]
        same: set[int] = set()
        while True:
            carry = [first[k] if k in same else every[k] for k in range(len(first))]
            mark = len(self.log)
            out = step(carry)
            unchanged = {k for k in range(len(first)) if self.whole(out[k]) == self.whole(carry[k])}
            if unchanged <= same:
                break
            same |= unchanged
            del self.log[mark:]
        results = []
        for k, kind in enumerate(types):
            if k in same:
                results.append(first[k])
                continue
            final = self.fresh(("final", at.path, k), kind, self.outside(out[k], at))
            self.alias(carry[k], first[k], "first", at.path)
            self.alias(carry[k], out[k], "next", at.path)
            self.alias(final, out[k], "last", at.path)
            results.append(final)
        return results, out

    def alias(self, value: Value, other: Value, when: str, loop: Path) -> None:
        """Notes that keys are others in the first iteration, in the next one or after the last."""
        if isinstance(value, int) or isinstance(other, int) or value.shape != other.shape:
            return
        for one, two in zip(value.ravel().tolist(), other.ravel().tolist(), strict=True):
            if (two, when, loop) not in self.equal[one]:
                self.equal[one].append((two, when, loop))

    def cond(self, node: Node, operands: list[Value], at: _At) -> list[Value]:
        """Walks through branches; what only one of them does may happen once in a loop."""
        index, *args = operands
        every = [
            self.body(
                name, args, replace(at, branches=(*at.branches, (at.path, n)), loops=frozenset())
            )
            for n, name in enumerate(node.regions)
        ]
        results: list[Value] = []
        for n, own in enumerate(node.results):
            numbers = [self.whole(out[n]) for out in every]
            key = ("cond", self.whole(index), *numbers)
            one = self.elements(
                self.number(key, (self.whole(index), *numbers)), own.type, (None, at.path, ())
            )
            results.append(every[0][n] if len(set(numbers)) == 1 else one)
        return results

    def others(self, key: int) -> list[tuple[int, str, Path]]:
        """Returns the keys that a key is at some time; those of a raw key by its words."""
        found = list(self.equal.get(key, ()))
        words = [self.equal.get(word, []) for word in self.rows.get(key, ())]
        for row in zip(*words, strict=False):
            if len({(when, loop) for _, when, loop in row}) == 1:
                found.append((self.key(tuple(n for n, _, _ in row)), *row[0][1:]))
        return found

    def reuses(self) -> Iterator[KeyReuse]:
        """Yields the keys that are used more than once."""
        uses: dict[int, list[tuple[KeyUse, str]]] = defaultdict(list)
        for key, use in self.log:
            pending, visited = [(key, "", use.loops)], {key}
            while pending:
                one, when, loops = pending.pop()
                uses[one].append((replace(use, loops=loops), when))
                for other, how, loop in self.others(one):
                    if other not in visited and not (when and how != "first"):
                        visited.add(other)
                        later = when if how == "first" else how
                        pending.append((other, later, loops - {loop}))
        for key, every in uses.items():
            parameter, made, index = self.origins.get(key, (None, None, ()))
            for use, when in every:
                again = use.loops - self.varies[key]
                if not when and (again or use.copies > 1):
                    inner = max(again, key=len) if again else None
                    yield KeyReuse((use,), inner, False, parameter, made, index)
            first, start = every[0]
            rest = [
                (use, when)
                for use, when in every[1:]
                if (not when or not start or when == start) and not _exclusive(first, use)
            ]
            if rest:
                carried = any(when == "next" for _, when in (every[0], *rest))
                together = (first, *(use for use, _ in rest))
                yield KeyReuse(together, None, carried, parameter, made, index)


def reused_keys(module: Module, live: frozenset[str]) -> tuple[KeyReuse, ...]:
    """Returns the keys of a program that are used more than once.

    Args:
        module: Its jaxpr.
        live: The equations that count: a draw that no result gets does no harm.
    """
    walk = _Walk(module, live)
    for region in reversed(list(module.regions.values())):  # callees before callers
        for node in region.nodes:
            if node.opcode in _RANDOM or walk.random.intersection(node.regions):
                walk.random.add(region.name)
    if module.entry not in walk.random:
        return ()
    main = module.body()
    args = [
        walk.fresh(("parameter", n), value.type, frozenset(), (n, None, ()))
        for n, value in enumerate(main.parameters)
    ]
    walk.body(main.name, args, _At())
    return tuple(walk.reuses())


def _exclusive(one: KeyUse, other: KeyUse) -> bool:
    branches = dict(one.branches)
    return any(branches.get(path, n) != n for path, n in other.branches)


def _ints(attrs: Mapping[str, str], name: str) -> list[int]:
    found = ast.literal_eval(attrs.get(name, "None"))
    return list(found) if found else []
