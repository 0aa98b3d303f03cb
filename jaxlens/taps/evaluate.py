"""Evaluates a jaxpr equation by equation, and measures the values of each on the way.

The result is a function for `jax.jit`, which `execute.py` compiles: the program with the
measurements in it. The body of a `scan`, `while`, `cond`, `jit`, `custom_jvp`, `custom_vjp`,
`checkpoint` or `shard_map` is evaluated in the same way, and measurements leave it as one small
array, carried through loops. Other equations with bodies, such as `pallas_call`, are measured as a
whole.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxlens import compat
from jaxlens.ir.jaxpr.bodies import JaxprBody, bodies, opened
from jaxlens.ir.jaxpr.params import with_counts
from jaxlens.taps.pieces import (
    OpenedEquation,
    ProgramPiece,
    WrittenOperand,
    open_calls,
)
from jaxlens.taps.primitives import LOOPS, Path
from jaxlens.taps.refs import bind


@dataclass(frozen=True, slots=True)
class Site:
    """Where a measurement is made.

    Attributes:
        eqn: The equation.
        iterations: Those of the loops around it, outermost first.
        device: The index of the device within the mesh of a `shard_map`; None outside of one.
    """

    eqn: Any
    iterations: tuple[Any, ...]
    device: Any = None


class Probe(ABC):
    """A measurement of equations: a figure each, of which a body's rows are made at once.

    By default an equation has one row, whose first element says whether it was measured. The
    evaluator adds the iterations of the loops around the equation to the end of each row.

    Attributes:
        width: Number of elements of a row, without the iterations.
        dtype: Their dtype.
        key: Equal for probes that measure the same; what is compiled for one serves the other.
    """

    width: int
    dtype: Any
    key: Hashable

    @abstractmethod
    def wants(self, path: Path, eqn: Any) -> bool:
        """Whether an equation is measured."""

    @abstractmethod
    def measure(self, site: Site, operands: Sequence[Any], results: Sequence[Any]) -> Any:
        """Returns the figure of one execution."""

    def rows(self, eqn: Any) -> int:
        """Number of rows of an equation that is measured."""
        return 1

    def stack_equations(self, figures: Sequence[Any], compiled_separately: bool) -> tuple[Any, ...]:
        """Stacks the figures of a body's equations.

        Args:
            figures: Their figures.
            compiled_separately: Whether `to_rows` is compiled by itself. Figures may then be
                padded at the end, so that few different shapes are compiled.
        """
        return (jnp.stack(figures),)

    def to_rows(self, stacked: tuple[Any, ...], device: Any) -> Any:
        """Returns the rows of a body's equations, of shape [rows, width].

        Args:
            stacked: Their figures, from `stack_equations`.
            device: The index of the device, as in `Site`.
        """
        return stacked[0]

    def merge_executions(self, before: Any, now: Any) -> Any:
        """Joins the rows of two executions, `before` being the earlier, with their iterations.

        By default the earlier execution is kept, if it was measured.
        """
        return jnp.where(before[..., :1] > 0, before, now)

    def merge_devices(self, one: Any, other: Any) -> Any:
        """Joins the rows of two devices of a `shard_map`."""
        return self.merge_executions(one, other)


Change = Callable[[Any, Sequence[Any], Sequence[Any]], Sequence[Any]]
"""Takes an equation, its operands and its results, and returns the results to go on with."""


def padding(n: int) -> int:
    """Returns how many figures to add to `n`, so that few different numbers are compiled."""
    power = 1 << (n - 1).bit_length()
    steps = (64, 256, power * 3 // 4, power)  # finer where the work counts more than a compile
    return min(step for step in steps if step >= n) - n


def equations(closed: Any) -> dict[str, Any]:
    """Returns the equations of a program, those of its bodies too, by id."""
    return {
        ident: eqn
        for body in bodies(opened(closed)).values()
        for ident, eqn in zip(body.ids, body.jaxpr.eqns, strict=True)
    }


def deepest(known: Mapping[int, JaxprBody]) -> int:
    """Returns the most loops around an equation; `known` are a program's bodies."""
    depth = dict.fromkeys(known, 0)
    for key, body in known.items():  # callers come first
        for index, inner in body.inner.items():
            loop = body.jaxpr.eqns[index].primitive.name in LOOPS
            for callee in inner:
                depth[id(callee)] = max(depth[id(callee)], depth[key] + loop)
    return max(depth.values())


def loops_around(path: Path, eqns: Mapping[str, Any]) -> int:
    """Returns the number of loops around an equation; `eqns` are those of the program, by id."""
    return sum(eqns[step].primitive.name in LOOPS for step in path[:-1])


@dataclass(frozen=True, slots=True)
class _Context:
    """The calls and loops around a body."""

    path: Path = ()
    iterations: tuple[Any, ...] = ()
    device: Any = None
    axes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Evaluates a program's equations.

    Attributes:
        probe: What is measured.
        known: The program's bodies.
        change: Changes the results of some equations.
        changed: These equations.
        depth: The most loops around an equation.
    """

    probe: Probe
    known: dict[int, JaxprBody] = field(repr=False)
    change: Change | None
    changed: frozenset[Path]
    depth: int

    def own(self, steps: Sequence[OpenedEquation]) -> list[tuple[Path, int]]:
        """Returns the measured ones of some equations, and the rows of each."""
        wanted = (step for step in steps if self.probe.wants(step.path, step.eqn))
        return [(step.path, self.probe.rows(step.eqn)) for step in wanted]

    def inside(self, steps: Sequence[OpenedEquation]) -> list[tuple[Path, int]]:
        """Returns those of their bodies."""
        found: list[tuple[Path, int]] = []
        for step in steps:
            for body in evaluated_bodies(step.eqn):
                inner = open_calls(body, step.path, self.known).steps
                found += self.own(inner) + self.inside(inner)
        return found

    def measured(self, step: OpenedEquation) -> Any:
        """Returns what steps must share, besides the equation, to be compiled once."""
        n = len(step.path)
        inside = tuple(path[n:] for path, _ in self.inside([step]))
        changed = tuple(path[n:] for path in sorted(self.changed) if path[:n] == step.path)
        return self.probe.wants(step.path, step.eqn), inside, changed

    def function(self, piece: ProgramPiece) -> Callable[..., Any]:
        """Returns a piece as a function; it returns results, figures, and the rows of bodies."""

        def function(*operands: Any) -> tuple[list[Any], tuple[Any, ...], list[Any]]:
            values = dict(zip(piece.reads, operands, strict=True))
            figures, inside = self.steps(piece.steps, values, _Context())
            stacked = self.probe.stack_equations(figures, True) if figures else ()
            return [values[n] for n in piece.writes], stacked, inside

        return function

    def count(self, closed: Any, path: Path) -> int:
        """Returns the number of rows of a body."""
        steps = open_calls(closed, path, self.known).steps
        return sum(n for _, n in (*self.own(steps), *self.inside(steps)))

    def empty(self, n: int) -> Any:
        return jnp.zeros((n, self.probe.width + self.depth), self.probe.dtype)

    def with_iterations(self, rows: Any, iterations: Sequence[Any]) -> Any:
        """Adds the iterations of an execution to its rows, and zeros up to the deepest loop."""
        steps = [*iterations, *[0] * (self.depth - len(iterations))]
        columns = [jnp.full((len(rows), 1), n, self.probe.dtype) for n in steps]
        return jnp.concatenate([rows, *columns], axis=1)

    def body(self, closed: Any, args: Sequence[Any], context: _Context) -> tuple[list[Any], Any]:
        """Evaluates a body; returns its results, and the rows of its equations."""
        program = open_calls(closed, context.path, self.known)
        values = program.consts | dict(zip(program.inputs, args, strict=True))
        figures, inside = self.steps(program.steps, values, context)
        own = self.empty(0)
        if figures:
            stacked = self.probe.stack_equations(figures, compiled_separately=False)
            rows = self.probe.to_rows(stacked, context.device)
            own = self.with_iterations(rows, context.iterations)
        rows = jnp.concatenate([own, *inside]) if inside else own
        return [_value(n, values) for n in program.results], rows

    def steps(
        self, steps: Sequence[OpenedEquation], values: dict[int, Any], context: _Context
    ) -> tuple[list[Any], list[Any]]:
        """Evaluates equations and adds their results to the values.

        Returns:
            The figures of the equations, and the rows of their bodies.
        """
        figures: list[Any] = []
        inside: list[Any] = []
        for step in steps:
            path, eqn = step.path, step.eqn
            operands = [_value(n, values) for n in step.reads]
            if evaluated_bodies(eqn):
                with eqn.ctx.manager:
                    results, rows = self.call(eqn, operands, replace(context, path=path))
                inside.append(rows)
            else:
                results = bind(eqn, operands)
            at = Site(eqn, context.iterations, context.device)
            if self.change is not None and path in self.changed:
                results = list(self.change(eqn, operands, results))
            if self.probe.wants(path, eqn):
                figures.append(self.probe.measure(at, operands, results))
            values.update(zip(step.writes, results, strict=True))
        return figures, inside

    def call(self, eqn: Any, operands: list[Any], context: _Context) -> tuple[list[Any], Any]:
        """Evaluates an equation with a body."""
        name, params = eqn.primitive.name, with_counts(eqn)
        if name == "scan":
            return self.scan(params, operands, context)
        if name == "while":
            return self.loop(params, operands, context)
        if name == "cond":
            return self.cond(params, operands, context)
        return self.shard_map(params, operands, context)

    def scan(self, params: Any, operands: list[Any], context: _Context) -> tuple[list[Any], Any]:
        closed, consts = params["jaxpr"], operands[: params["num_consts"]]
        stop = params["num_consts"] + params["num_carry"]
        first, xs = operands[params["num_consts"] : stop], operands[stop:]
        empty = self.varying(self.empty(self.count(closed, context.path)), context)

        def step(carry: Any, x: Any) -> Any:
            number, rows, values = carry
            inside = replace(context, iterations=(*context.iterations, number))
            results, now = self.body(closed, [*consts, *values, *x], inside)
            rows = self.probe.merge_executions(rows, now)
            return (number + 1, rows, results[: len(first)]), results[len(first) :]

        start = (self.varying(jnp.int32(0), context), empty, first)
        options = {"length": params["length"], "reverse": params["reverse"]}
        (_, rows, carried), stacked = jax.lax.scan(
            step, start, xs, unroll=params["unroll"], **options
        )
        return [*carried, *stacked], rows

    def loop(self, params: Any, operands: list[Any], context: _Context) -> tuple[list[Any], Any]:
        test, step = params["cond_jaxpr"], params["body_jaxpr"]
        n, m = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        to_test, to_step, first = operands[:n], operands[n:m], operands[m:]
        empty = self.varying(self.empty(self.count(step, context.path)), context)

        def unfinished(carry: Any) -> Any:
            number, _, values = carry
            inside = replace(context, iterations=(*context.iterations, number))
            return self.body(test, [*to_test, *values], inside)[0][0]

        def body(carry: Any) -> Any:
            number, rows, values = carry
            inside = replace(context, iterations=(*context.iterations, number))
            results, now = self.body(step, [*to_step, *values], inside)
            if opened(test).outvars[0].aval.shape:  # under `vmap`: those that are done stay
                results = list(map(partial(_chosen, unfinished(carry)), results, values))
            return number + 1, self.probe.merge_executions(rows, now), results

        start = (self.varying(jnp.int32(0), context), empty, first)
        _, rows, results = jax.lax.while_loop(lambda carry: jnp.any(unfinished(carry)), body, start)
        return results, rows

    def cond(self, params: Any, operands: list[Any], context: _Context) -> tuple[list[Any], Any]:
        index, *given = operands
        branches = params["branches"]
        counts = [self.count(branch, context.path) for branch in branches]

        def taken(n: int) -> Callable[..., Any]:
            def branch(*args: Any) -> Any:
                results, rows = self.body(branches[n], args, context)
                around = [self.varying(self.empty(count), context) for count in counts]
                around[n] = self.varying(rows, context)
                return results, jnp.concatenate(around)

            return branch

        which = jnp.asarray(index).astype(jnp.int32)
        results, rows = jax.lax.switch(which, [taken(n) for n in range(len(branches))], *given)
        return results, rows

    def shard_map(
        self, params: Any, operands: list[Any], context: _Context
    ) -> tuple[list[Any], Any]:
        jaxpr, mesh = params["jaxpr"], params["mesh"]
        axes = tuple(name for name in mesh.axis_names if name in params["newly_manual_axes"])
        everywhere: Any = jax.sharding.PartitionSpec(axes)  # type: ignore[no-untyped-call]
        checked = bool(params.get("check_vma", False))

        def local(*args: Any) -> Any:
            device = jax.lax.axis_index(axes)
            inside = replace(context, device=device, axes=axes if checked else ())
            results, rows = self.body(jaxpr, args, inside)
            return tuple(results), self.varying(rows, inside)[None]

        specs = tuple(params["in_specs"])
        results, rows = jax.shard_map(
            local,
            mesh=mesh,
            in_specs=specs,
            out_specs=(tuple(params["out_specs"]), everywhere),
            axis_names=set(axes),
            check_vma=checked,
        )(*operands)
        merged = rows[0]
        for n in range(1, rows.shape[0]):
            merged = self.probe.merge_devices(merged, rows[n])
        return list(results), merged

    @staticmethod
    def varying(value: Any, context: _Context) -> Any:
        """Marks a value as one that differs between the devices of a `shard_map`."""
        missing = tuple(set(context.axes) - compat.varying_axes(value)) if context.axes else ()
        return jax.lax.pcast(value, missing, to="varying") if missing else value


def evaluated_bodies(eqn: Any) -> list[Any]:
    """The bodies of an equation that are measured; none for those measured as a whole.

    Calls have none: they are opened before. Nothing leaves the test of a `while`.
    """
    name, params = eqn.primitive.name, eqn.params
    if name == "cond":
        return list(params["branches"])
    if name == "while":
        return [params["body_jaxpr"]]
    return [params["jaxpr"]] if name in ("scan", "shard_map") else []


def _value(number: int | WrittenOperand, values: dict[int, Any]) -> Any:
    return number.value if isinstance(number, WrittenOperand) else values[number]


def _chosen(which: Any, one: Any, other: Any) -> Any:
    axes = (1,) * (jnp.ndim(one) - which.ndim)
    return jnp.where(which.reshape(*which.shape, *axes), one, other)
