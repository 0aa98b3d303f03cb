"""Rewrites unrolled Python loops in a jaxpr as `lax.scan`.

The scan's body consists of the eqns of one iteration. An operand that an earlier iteration defines
becomes a carry, an operand that is the same in all iterations a constant, and one that differs a
stacked input (xs). A value that is read after the loop becomes a stacked output (ys). A static
slice whose start differs per iteration (`w[i]`) becomes a dynamic slice.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlens.errors import UnavailableError
from jaxlens.ir.driver import Loop
from jaxlens.taps.refs import LITERAL, bind, evaluate, value_of

_KEY: Any = jax.dtypes.prng_key


def checkpointed(closed: Any, args: Sequence[Any], loops: Sequence[Loop]) -> list[Any]:
    """Evaluates a jaxpr with its loops as scans whose bodies are under `jax.checkpoint`.

    Args:
        closed: A closed jaxpr.
        args: Its arguments, arrays or tracers.
        loops: Its loops, in order, not nested.

    Raises:
        UnavailableError: jaxlens cannot rewrite a loop as a scan; says why.
    """
    body = closed.jaxpr
    plans = [plan_of(body, span) for span in loops]
    results: list[Any] = rolled_body(body, plans, remat=True)(*closed.consts, *args)
    return results


def inputs_of(body: Any) -> list[Any]:
    return [*body.constvars, *body.invars]


@dataclass(slots=True)
class _Plan:
    """A loop as a scan. A place is (eqn index within an iteration, index of its output).

    For the loop `for w in ws: x = x @ w` of three iterations, one eqn each: size 1, count 3,
    carry [(x, (0, 0))], each [[w0, w1, w2]], reads [[("carry", 0), ("each", 0)]].

    Attributes:
        first: Index of its first eqn.
        size: Number of eqns per iteration.
        count: Number of iterations.
        carry: Per carry slot: its initial value, and the place of its next value; the place
            (-1, n) copies slot n.
        each: Per operand that differs between iterations: its atoms, one per iteration.
        slices: Per slice or pad eqn whose start differs: its starts, one per iteration.
        reads: Per eqn and operand: its kind ("own", "carry", "same", "each"), and its place,
            slot, atom or index in `each`.
        later: Places whose values are read after the loop.
        sources: By id of var: index of its eqn in the loop, and of the output.
        slots: Carry slot by (place of the value, age, id of the initial value).
    """

    first: int
    size: int
    count: int
    carry: list[tuple[Any, tuple[int, int]]] = field(default_factory=list)
    each: list[list[Any]] = field(default_factory=list)
    slices: dict[int, list[Any]] = field(default_factory=dict)
    reads: list[list[tuple[str, Any]]] = field(default_factory=list)
    later: list[tuple[int, int]] = field(default_factory=list)
    sources: dict[int, tuple[int, int]] = field(default_factory=dict)
    slots: dict[tuple[int, int, int, int], int] = field(default_factory=dict)

    @property
    def stop(self) -> int:
        return self.first + self.size * self.count


def plan_of(body: Any, span: Loop) -> _Plan:
    first, size, count = span
    plan = _Plan(first, size, count)
    for step, eqn in enumerate(body.eqns[first : plan.stop]):
        plan.sources.update((id(var), (step, n)) for n, var in enumerate(eqn.outvars))
    for offset in range(size):
        copies = body.eqns[first + offset : plan.stop : size]
        operands = zip(*(eqn.invars for eqn in copies), strict=True)
        plan.reads.append([_read(plan, atoms) for atoms in operands])
        plan.slices.update(_starts(offset, copies))
    plan.later = _later(body, plan)
    return plan


def _starts(offset: int, copies: Sequence[Any]) -> Iterator[tuple[int, list[Any]]]:
    """Yields the starts of a slice, or the offsets of a pad, per iteration, if they differ."""
    name, params = copies[0].primitive.name, [eqn.params for eqn in copies]
    if name not in ("slice", "pad") or all(own == params[0] for own in params):
        return
    if name == "slice":
        if any(set(own["strides"] or ()) - {1} for own in params):
            raise UnavailableError("its slices have strides, and other places in each step")
        yield offset, [own["start_indices"] for own in params]
    else:
        configs = [own["padding_config"] for own in params]
        if any(inner or min(low, high) < 0 for config in configs for low, high, inner in config):
            raise UnavailableError("its pads are no plain ones, and differ from step to step")
        yield offset, [tuple(low for low, _, _ in config) for config in configs]


def _read(plan: _Plan, atoms: Sequence[Any]) -> tuple[str, Any]:
    """Classifies an operand by its atoms in all iterations; returns its kind and source.

    The last iteration decides: its operand is "own" if this iteration defines it, and a "carry"
    if an earlier one does. Early iterations cannot tell, since they read values from before the
    loop: in `x = x @ w`, the first iteration reads an input and the last one an earlier `x`.
    """
    last = None if isinstance(atoms[-1], LITERAL) else plan.sources.get(id(atoms[-1]))
    if last is not None:
        delay = plan.count - 1 - last[0] // plan.size
        source = last[0] % plan.size, last[1]
        return ("carry", _slot(plan, atoms, source, delay)) if delay else ("own", source)
    if all(atom is atoms[0] for atom in atoms) or _equal_literals(atoms):
        return "same", atoms[0]
    plan.each.append(list(atoms))
    return "each", len(plan.each) - 1


def _slot(plan: _Plan, atoms: Sequence[Any], source: tuple[int, int], delay: int) -> int:
    """Returns the carry slot of a value that was computed `delay` iterations ago.

    A delay of n needs n slots; each copies the previous slot once per iteration. For example,
    `a, b = b, a + b` reads the sum with delays 1 (as b) and 2 (as a): slot 0 is b, and slot 1
    copies slot 0, which gives a.
    """
    # Slot `age` starts with the value that iteration `delay - age` reads, from before the loop.
    number = -1
    for age in range(1, delay + 1):
        before = atoms[delay - age]
        key = (*source, age, id(before))
        if key not in plan.slots:
            plan.slots[key] = len(plan.carry)
            plan.carry.append((before, source if age == 1 else (-1, number)))
        number = plan.slots[key]
    return number


def _equal_literals(atoms: Sequence[Any]) -> bool:
    if not all(isinstance(atom, LITERAL) for atom in atoms):
        return False
    values = [np.asarray(atom.val) for atom in atoms]
    return all(v.dtype == values[0].dtype and np.array_equal(v, values[0]) for v in values)


def _later(body: Any, plan: _Plan) -> list[tuple[int, int]]:
    """Returns the places of the values that are read after the loop, except final carries."""
    after = [atom for eqn in body.eqns[plan.stop :] for atom in eqn.invars]
    read = filter(None, (plan.sources.get(id(atom)) for atom in (*after, *body.outvars)))
    carried = {place for _, place in plan.carry}
    last = plan.size * (plan.count - 1)
    places = ((step < last, (step % plan.size, n)) for step, n in read)
    # The last iteration's value of a carry is the scan's final carry: it needs no stacked output.
    return sorted({place for earlier, place in places if earlier or place not in carried})


def rolled_body(body: Any, plans: Sequence[_Plan], remat: bool = False) -> Callable[..., Any]:
    """Returns a function that evaluates a body with these loops as scans."""

    def function(*inputs: Any) -> list[Any]:
        values = _Values(zip(map(id, inputs_of(body)), inputs, strict=True))
        at = 0
        for plan in plans:
            evaluate(body.eqns[at : plan.first], values)
            _scan(body, plan, values, remat)
            at = plan.stop
        evaluate(body.eqns[at:], values)
        return [value_of(atom, values) for atom in body.outvars]

    return function


class _Values(dict[int, Any]):
    """Values by id of var; elements of stacked outputs are indexed on first lookup.

    Attributes:
        stacks: By id of var: a stacked output, and the index of the var's value in it.
    """

    def __init__(self, values: Iterable[tuple[int, Any]]) -> None:
        super().__init__(values)
        self.stacks: dict[int, tuple[Any, int]] = {}

    def __missing__(self, key: int) -> Any:
        stack, index = self.stacks[key]
        self[key] = stack[index]
        return self[key]


def _scan(body: Any, plan: _Plan, values: _Values, remat: bool) -> None:
    """Runs a loop as a scan, and adds its results to `values`."""
    # The eqns of the last iteration: the first may have Python scalars where others have arrays.
    eqns = body.eqns[plan.stop - plan.size : plan.stop]
    before = [
        _as_carried(value_of(atom, values), aval)
        for (atom, _), aval in zip(plan.carry, _carried_avals(eqns, plan), strict=True)
    ]
    stacked = [_stacked(atoms, values) for atoms in plan.each]
    offsets = {n: jnp.asarray(np.asarray(at, np.int32)) for n, at in plan.slices.items()}

    def step(carry: list[Any], slices: tuple[list[Any], dict[int, Any]]) -> Any:
        xs, starts = slices
        results: list[Sequence[Any]] = []

        def operand(kind: str, source: Any) -> Any:
            if kind == "own":
                return results[source[0]][source[1]]
            if kind == "same":
                return value_of(source, values)
            return carry[source] if kind == "carry" else xs[source]

        for n, eqn in enumerate(eqns):
            operands = [operand(kind, source) for kind, source in plan.reads[n]]
            if n in starts:
                results.append([_at(eqn, operands, list(starts[n]))])
            else:
                results.append(bind(eqn, operands))
        after = [carry[m] if at < 0 else results[at][m] for _, (at, m) in plan.carry]
        after = [_like(new, old) for new, old in zip(after, carry, strict=True)]
        return after, [results[at][m] for at, m in plan.later]

    # prevent_cse=False: forward and backward scan have separate bodies, so XLA's CSE cannot
    # merge recomputed ops with those of the forward pass anyway.
    f: Any = jax.checkpoint(step, prevent_cse=False) if remat else step
    after, later = jax.lax.scan(f, before, (stacked, offsets), length=plan.count)
    for (at, m), stack in zip(plan.later, later, strict=True):
        for copy in range(plan.count):
            var = body.eqns[plan.first + copy * plan.size + at].outvars[m]
            values.stacks[id(var)] = stack, copy
    for (_, (at, m)), value in zip(plan.carry, after, strict=True):
        if at >= 0:  # not a copy of another slot
            values[id(eqns[at].outvars[m])] = value


def _carried_avals(eqns: Sequence[Any], plan: _Plan) -> Iterator[Any]:
    """Yields the aval of each carry slot after an iteration."""
    for _, (step, n) in plan.carry:
        while step < 0:  # follow the copies to the slot that an eqn sets
            step, n = plan.carry[n][1]
        yield eqns[step].outvars[n].aval


def _as_carried(value: Any, aval: Any) -> Any:
    """Casts an initial carry to the later type: 0.0 may initialise an array of zeros."""
    value = _strong(value)
    if jnp.issubdtype(aval.dtype, _KEY) or np.shape(value) not in ((), tuple(aval.shape)):
        return value
    if jnp.promote_types(value.dtype, aval.dtype) == aval.dtype:
        value = value.astype(aval.dtype)
    return jnp.broadcast_to(value, aval.shape)


def _at(eqn: Any, operands: Sequence[Any], start: list[Any]) -> Any:
    """Evaluates a slice or pad eqn with a dynamic start."""
    shape = eqn.outvars[0].aval.shape
    if eqn.primitive.name == "slice":
        return jax.lax.dynamic_slice(operands[0], start, shape)
    room = jax.lax.full(shape, operands[1], operands[0].dtype)
    return jax.lax.dynamic_update_slice(room, operands[0], start)


def _stacked(atoms: Sequence[Any], values: _Values) -> Any:
    """Stacks the values of all iterations; reuses the stacked output of an earlier scan.

    If the values are all elements of one such output, it is returned whole, reversed (as in a
    backward pass) or permuted, instead of being unstacked and stacked again.
    """
    elements = [element for atom in atoms if (element := values.stacks.get(id(atom)))]
    if len(elements) < len(atoms) or any(e[0] is not elements[0][0] for e in elements):
        return jnp.stack([value_of(atom, values) for atom in atoms])
    whole, order = elements[0][0], [index for _, index in elements]
    if len(order) == len(whole) and order == sorted(order):
        return whole
    if len(order) == len(whole) and order == sorted(order, reverse=True):
        return jnp.flip(whole, 0)
    return whole[np.asarray(order)]


def _strong(value: Any) -> Any:
    return jax.lax.convert_element_type(value, jnp.result_type(value))


def _like(new: Any, old: Any) -> Any:
    return _strong(new) if jnp.result_type(new) == jnp.result_type(old) else new.astype(old.dtype)
