"""Tries `lax.scan` in the place of loops that tracing has written out, and measures both programs.

The body of the scan is made of the equations of one repetition, as they stand in the jaxpr: what a
repetition reads of the one before becomes the carry, what is the same for all a constant, what
each has of its own a stacked input. What anybody reads later is stacked on the way out. A step's
own index into an array (`w[i]`) becomes a dynamic slice.
"""

import itertools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from jaxlens.errors import UnavailableError
from jaxlens.ir.driver import Loop
from jaxlens.ir.facts import Trial, TrialSide
from jaxlens.ir.jaxpr.bodies import bodies, opened
from jaxlens.stages import compat
from jaxlens.stages.call import isolate
from jaxlens.stages.compile.interruptible import interruptible

Step = Callable[[Any, Any], Any]
"""The body of a scan."""

_KEY: Any = jax.dtypes.prng_key
_INSTRUCTION = re.compile(r"^ +(?:ROOT )?%?[\w.\-]+ = ", re.MULTILINE)


def trial(jaxpr: Any, region: str, loops: Sequence[Loop], run: bool) -> Trial:
    """Traces, lowers and compiles a body as it is, and with its loops as scans.

    Args:
        jaxpr: A traced program of JAX's.
        region: The body's name, as `ir.jaxpr.read` gives it.
        loops: Its loops, in order, none within another.
        run: Execute both on random inputs, and compare.

    Raises:
        UnavailableError: A loop cannot be written as a scan by us; says why.
    """
    body = next((b.jaxpr for b in bodies(opened(jaxpr)).values() if b.name == region), None)
    if body is None:
        raise UnavailableError(f"there is no body {region!r} in this program")
    plans = [_plan(body, span) for span in loops]
    abstract: Any = jax.ShapeDtypeStruct
    inputs = [abstract(v.aval.shape, v.aval.dtype) for v in _inputs(body)]
    context = isolate.context()
    sides, compiled = [], []
    for function in (_as_written(body), _rolled(body, plans)):
        with isolate.untouched(context):
            side, executable = _measured(function, inputs)
        sides.append(side)
        compiled.append(executable)
    error = _difference(compiled, inputs) if run else None
    return Trial(region, sides[0], sides[1], error)


def checkpointed(closed: Any, args: Sequence[Any], loops: Sequence[Loop]) -> list[Any]:
    """The results of a jaxpr whose loops are scans with a body under `jax.checkpoint`.

    Args:
        closed: A closed jaxpr.
        args: Its arguments, arrays or tracers.
        loops: Its loops, in order, none within another.

    Raises:
        UnavailableError: A loop cannot be written as a scan by us; says why.
    """
    body = closed.jaxpr
    plans = [_plan(body, span) for span in loops]
    # XLA cannot merge what the backward scan's body computes again with the pass before it.
    function = _rolled(body, plans, partial(jax.checkpoint, prevent_cse=False))
    results: list[Any] = function(*closed.consts, *args)
    return results


def _as_it_is(step: Step) -> Step:
    return step


def _inputs(body: Any) -> list[Any]:
    return [*body.constvars, *body.invars]


def _measured(function: Callable[..., Any], inputs: Sequence[Any]) -> tuple[TrialSide, Any]:
    """One program's size and how long its stages take."""
    start = time.perf_counter()
    traced = jax.jit(function).trace(*inputs)
    traced_at = time.perf_counter()
    lowered = traced.lower()
    lowered_at = time.perf_counter()
    text = str(lowered.compiler_ir("stablehlo").operation.get_asm(large_elements_limit=16))
    begun = time.perf_counter()
    with compat.persistent_cache_off():
        executable = interruptible(lambda _: lowered.compile(compiler_options=_unseen()))
    seconds = time.perf_counter() - begun
    side = TrialSide(
        equations=written_out(traced.jaxpr),
        characters=len(text),
        trace=traced_at - start,
        lower=lowered_at - traced_at,
        compile=seconds,
        instructions=len(_INSTRUCTION.findall(executable.as_text() or "")),
    )
    return side, executable


_number = itertools.count(100_000)


def _unseen() -> dict[str, int]:
    """An option of no effect that differs each time, which keeps compiles in memory out."""
    return {"xla_dump_max_hlo_modules": next(_number)}


def written_out(jaxpr: Any) -> int:
    """Equations of a program, every call written out and loop bodies once."""
    found = bodies(opened(jaxpr))
    return sum(len(body.jaxpr.eqns) * body.times for body in found.values())


@dataclass(slots=True)
class _Plan:
    """A loop as a scan.

    Attributes:
        first: Its first equation.
        size: Equations of a repetition.
        count: Repetitions.
        carry: Per carried value: the value before the loop, and where a repetition makes it.
        each: Per operand with values of its own: those values.
        slices: Per slice or pad with places of its own: those places.
        reads: Per equation and operand of a repetition, where it comes from.
        later: Values of repetitions that are read after the loop: by place, in a repetition.
    """

    first: int
    size: int
    count: int
    carry: list[tuple[Any, tuple[int, int]]] = field(default_factory=list)
    each: list[list[Any]] = field(default_factory=list)
    slices: dict[int, list[Any]] = field(default_factory=dict)
    reads: list[list[tuple[str, Any]]] = field(default_factory=list)
    later: list[tuple[int, int]] = field(default_factory=list)

    @property
    def stop(self) -> int:
        return self.first + self.size * self.count


def _plan(body: Any, span: Loop) -> _Plan:
    first, size, count = span
    plan = _Plan(first, size, count)
    made: dict[int, tuple[int, int]] = {}  # per variable: its equation, counted from the loop's
    for step in range(size * count):
        for n, var in enumerate(body.eqns[first + step].outvars):
            made[id(var)] = step, n
    carried: dict[tuple[int, int, int, int], int] = {}
    for offset in range(size):
        copies = [body.eqns[first + c * size + offset] for c in range(count)]
        plan.reads.append(
            [
                _read(plan, [eqn.invars[n] for eqn in copies], made, carried)
                for n in range(len(copies[0].invars))
            ]
        )
        plan.slices.update(_places(offset, copies))
    plan.later = _later(body, plan, made)
    return plan


def _places(offset: int, copies: Sequence[Any]) -> Iterator[tuple[int, list[Any]]]:
    """Where each copy of a slice begins, or puts what it pads, if they differ."""
    name, each = copies[0].primitive.name, [eqn.params for eqn in copies]
    if name == "slice" and any(own != each[0] for own in each):
        if any(set(own["strides"] or ()) - {1} for own in each):
            raise UnavailableError("its slices have strides, and other places in each step")
        yield offset, [own["start_indices"] for own in each]
    elif name == "pad" and any(own != each[0] for own in each):
        configs = [own["padding_config"] for own in each]
        if any(inner or min(low, high) < 0 for config in configs for low, high, inner in config):
            raise UnavailableError("its pads are no plain ones, and differ from step to step")
        yield offset, [tuple(low for low, _, _ in config) for config in configs]


def _read(
    plan: _Plan,
    atoms: Sequence[Any],
    made: dict[int, tuple[int, int]],
    carried: dict[tuple[int, int, int, int], int],
) -> tuple[str, Any]:
    """Where an operand comes from, by what it is in each copy."""
    last = None if isinstance(atoms[-1], Literal) else made.get(id(atoms[-1]))
    copy = plan.count - 1
    if last is not None and last[0] >= copy * plan.size:
        return "own", (last[0] - copy * plan.size, last[1])
    if last is not None:
        delay = copy - last[0] // plan.size
        source = last[0] % plan.size, last[1]
        return "carry", _carried(plan, atoms, source, delay, carried)
    if all(atom is atoms[0] for atom in atoms) or _equal_literals(atoms):
        return "same", atoms[0]
    plan.each.append(list(atoms))
    return "each", len(plan.each) - 1


def _carried(
    plan: _Plan,
    atoms: Sequence[Any],
    source: tuple[int, int],
    delay: int,
    carried: dict[tuple[int, int, int, int], int],
) -> int:
    """The carry slot that holds a value some repetitions old; older ones pass through others."""
    # The first repetitions read from before the loop: atoms[0] is what is `delay` old at first.
    number = -1
    for age in range(1, delay + 1):
        before = atoms[delay - age]
        key = (*source, age, id(before))
        if key not in carried:
            carried[key] = len(plan.carry)
            plan.carry.append((before, source if age == 1 else (-1, number)))
        number = carried[key]
    return number


def _equal_literals(atoms: Sequence[Any]) -> bool:
    if not all(isinstance(atom, Literal) for atom in atoms):
        return False
    values = [np.asarray(atom.val) for atom in atoms]
    return all(v.dtype == values[0].dtype and np.array_equal(v, values[0]) for v in values)


def _later(body: Any, plan: _Plan, made: dict[int, tuple[int, int]]) -> list[tuple[int, int]]:
    """The places in a repetition of what is read after the loop."""
    after = [atom for eqn in body.eqns[plan.stop :] for atom in eqn.invars]
    read = filter(None, (made.get(id(atom)) for atom in (*after, *body.outvars)))
    carried = {place for _, place in plan.carry}
    last = plan.size * (plan.count - 1)
    places = ((step < last, (step % plan.size, n)) for step, n in read)
    # What the last repetition hands on is the scan's carry: no stack of all is needed for it.
    return sorted({place for earlier, place in places if earlier or place not in carried})


def _as_written(body: Any) -> Callable[..., Any]:
    def function(*values: Any) -> list[Any]:
        known = dict(zip(map(id, _inputs(body)), values, strict=True))
        _evaluate(body.eqns, known)
        return [_value(atom, known) for atom in body.outvars]

    return function


def _rolled(
    body: Any, plans: Sequence[_Plan], wrap: Callable[[Step], Step] = _as_it_is
) -> Callable[..., Any]:
    def function(*values: Any) -> list[Any]:
        known = dict(zip(map(id, _inputs(body)), values, strict=True))
        stacks: dict[int, tuple[Any, int]] = {}  # what a scan stacked, by variable
        at = 0
        for plan in plans:
            _evaluate(body.eqns[at : plan.first], _Later(known, stacks))
            _scan(body, plan, _Later(known, stacks), stacks, wrap)
            at = plan.stop
        _evaluate(body.eqns[at:], _Later(known, stacks))
        return [_value(atom, _Later(known, stacks)) for atom in body.outvars]

    return function


class _Later(dict[int, Any]):
    """Values by variable; those that a scan stacked are taken out when they are looked up."""

    def __init__(self, known: dict[int, Any], stacks: dict[int, tuple[Any, int]]) -> None:
        super().__init__()
        self._known, self.stacks = known, stacks

    def __setitem__(self, key: int, value: Any) -> None:
        self._known[key] = value

    def __missing__(self, key: int) -> Any:
        if key not in self._known:
            stack, place = self.stacks[key]
            self._known[key] = stack[place]
        return self._known[key]


def _value(atom: Any, known: dict[int, Any]) -> Any:
    return atom.val if isinstance(atom, Literal) else known[id(atom)]


def _evaluate(eqns: Sequence[Any], known: dict[int, Any]) -> None:
    for eqn in eqns:
        results = _bind(eqn, [_value(atom, known) for atom in eqn.invars])
        for var, value in zip(eqn.outvars, results, strict=True):
            known[id(var)] = value


def _bind(eqn: Any, operands: Sequence[Any]) -> Sequence[Any]:
    with eqn.ctx.manager:
        results = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
    return results if eqn.primitive.multiple_results else [results]


def _scan(
    body: Any,
    plan: _Plan,
    known: _Later,
    stacks: dict[int, tuple[Any, int]],
    wrap: Callable[[Step], Step],
) -> None:
    """Runs a loop as a scan, its body wrapped."""
    # The last repetition's: the first may compute with Python's numbers where others have arrays.
    eqns = body.eqns[plan.stop - plan.size : plan.stop]
    before = [
        _as_carried(_value(atom, known), aval)
        for (atom, _), aval in zip(plan.carry, _carried_avals(eqns, plan), strict=True)
    ]
    given = [_stacked(atoms, known) for atoms in plan.each]
    places = {n: jnp.asarray(np.asarray(at, np.int32)) for n, at in plan.slices.items()}

    def step(carry: list[Any], own: tuple[list[Any], dict[int, Any]]) -> Any:
        each, starts = own
        results: list[Sequence[Any]] = []

        def operand(how: str, what: Any) -> Any:
            if how == "own":
                return results[what[0]][what[1]]
            if how == "same":
                return _value(what, known)
            return carry[what] if how == "carry" else each[what]

        for n, eqn in enumerate(eqns):
            operands = [operand(how, what) for how, what in plan.reads[n]]
            if n in starts:
                results.append([_at(eqn, operands, list(starts[n]))])
            else:
                results.append(_bind(eqn, operands))
        after = [carry[m] if at < 0 else results[at][m] for _, (at, m) in plan.carry]
        after = [_like(new, old) for new, old in zip(after, carry, strict=True)]
        return after, [results[at][m] for at, m in plan.later]

    after, later = jax.lax.scan(wrap(step), before, (given, places), length=plan.count)
    for (at, m), stack in zip(plan.later, later, strict=True):
        for copy in range(plan.count):
            var = body.eqns[plan.first + copy * plan.size + at].outvars[m]
            stacks[id(var)] = stack, copy
    for (_, (at, m)), value in zip(plan.carry, after, strict=True):
        if at >= 0:  # no older value that passes through
            known[id(body.eqns[plan.stop - plan.size + at].outvars[m])] = value


def _carried_avals(eqns: Sequence[Any], plan: _Plan) -> Iterator[Any]:
    """What each carried value is once a repetition has made it."""
    for _, (step, n) in plan.carry:
        while step < 0:  # an older value, which passes through another slot
            step, n = plan.carry[n][1]
        yield eqns[step].outvars[n].aval


def _as_carried(value: Any, aval: Any) -> Any:
    """A loop's first value in the type of the later ones: 0.0 may stand for an array of zeros."""
    value = _strong(value)
    if jnp.issubdtype(aval.dtype, _KEY) or np.shape(value) not in ((), tuple(aval.shape)):
        return value
    if jnp.promote_types(value.dtype, aval.dtype) == aval.dtype:
        value = value.astype(aval.dtype)
    return jnp.broadcast_to(value, aval.shape)


def _at(eqn: Any, operands: Sequence[Any], place: list[Any]) -> Any:
    """A slice from a place that the step says, or what is padded put at such a place."""
    shape = eqn.outvars[0].aval.shape
    if eqn.primitive.name == "slice":
        return jax.lax.dynamic_slice(operands[0], place, shape)
    room = jax.lax.full(shape, operands[1], operands[0].dtype)
    return jax.lax.dynamic_update_slice(room, operands[0], place)


def _stacked(atoms: Sequence[Any], known: _Later) -> Any:
    """The values of all repetitions in one array: that of an earlier scan, if they are its own."""
    held = [known.stacks.get(id(atom)) for atom in atoms]
    first = held[0]
    if first is not None and all(h is not None and h[0] is first[0] for h in held):
        order = [h[1] for h in held if h is not None]
        if len(order) == len(first[0]) and order == sorted(order):
            return first[0]
        if len(order) == len(first[0]) and order == sorted(order, reverse=True):
            return jnp.flip(first[0], 0)
        return first[0][np.asarray(order)]
    return jnp.stack([_value(atom, known) for atom in atoms])


def _strong(value: Any) -> Any:
    return jax.lax.convert_element_type(value, jnp.result_type(value))


def _like(new: Any, old: Any) -> Any:
    return _strong(new) if jnp.result_type(new) == jnp.result_type(old) else new.astype(old.dtype)


def _difference(compiled: Sequence[Any], inputs: Sequence[Any]) -> float:
    """How far the results of both programs are apart on random inputs, beside their size."""
    values = [_random(n, like) for n, like in enumerate(inputs)]
    one, other = (executable(*values) for executable in compiled)
    return max((_apart(a, b) for a, b in zip(one, other, strict=True)), default=0.0)


def _random(seed: int, like: Any) -> Any:
    if jnp.issubdtype(like.dtype, _KEY):
        return (
            jax.random.split(jax.random.key(seed), like.shape)
            if like.shape
            else (jax.random.key(seed))
        )
    numbers = np.random.default_rng(seed)
    if jnp.issubdtype(like.dtype, jnp.inexact):
        return jnp.asarray(0.5 * numbers.standard_normal(like.shape), like.dtype)
    return jnp.asarray(numbers.integers(0, 2, like.shape), like.dtype)


def _apart(one: Any, other: Any) -> float:
    if jnp.issubdtype(one.dtype, _KEY):
        one, other = jax.random.key_data(one), jax.random.key_data(other)
    a, b = np.asarray(one, np.complex128).ravel(), np.asarray(other, np.complex128).ravel()
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    scale = max(float(np.max(np.abs(a[np.isfinite(a)]), initial=0.0)), 1e-30)
    return float(np.max(np.abs(a - b)[~same])) / scale
