"""Evaluates a jaxpr equation by equation, and measures the values of each on the way.

The result is a function for `jax.jit`: the program runs compiled, with the measurements in it. The
body of a `scan`, `while`, `cond`, `jit`, `custom_jvp`, `custom_vjp`, `checkpoint` or `shard_map` is
evaluated in the same way, and measurements leave it as one small array, carried through loops.
Other equations with bodies, such as `pallas_call`, are measured as a whole.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxlens.ir.jaxpr.bodies import JaxprBody, bodies, opened
from jaxlens.ir.jaxpr.params import with_counts
from jaxlens.ir.run.nonfinite import CALLS, Path
from jaxlens.stages import compat
from jaxlens.stages.call import isolate
from jaxlens.stages.compile.interruptible import interruptible

_LITERAL = compat.extend("core", "Literal")


@dataclass(frozen=True, slots=True)
class Site:
    """Where a measurement is made.

    Attributes:
        path: The equation.
        eqn: The equation itself.
        iterations: Those of the loops around it, outermost first.
        device: The index of the device within the mesh of a `shard_map`; None outside of one.
    """

    path: Path
    eqn: Any
    iterations: tuple[Any, ...]
    device: Any = None


class Probe(Protocol):
    """A measurement of equations: a figure each, of which a body's rows are made at once.

    Attributes:
        rows: Number of rows per equation.
        width: Number of elements of a row.
        dtype: Their dtype.
    """

    rows: int
    width: int
    dtype: Any

    def wants(self, path: Path, eqn: Any) -> bool:
        """Whether an equation is measured."""

    def measure(self, site: Site, operands: Sequence[Any], results: Sequence[Any]) -> Any:
        """Returns the figure of one execution, an array of the same shape for each equation."""

    def collect(self, figures: Any, site: Site) -> Any:
        """Returns the rows of a body's equations, of shape [equations, rows, width].

        Args:
            figures: Their figures, stacked.
            site: One of the equations.
        """

    def merge(self, before: Any, now: Any) -> Any:
        """Joins the rows of two executions, of shape [..., width], `before` being the earlier."""

    def join(self, one: Any, other: Any) -> Any:
        """Joins those of two devices of a `shard_map`."""


Change = Callable[[Site, Sequence[Any], Sequence[Any]], Sequence[Any]]
"""Takes an execution's operands and results, and returns the results to go on with."""


def execute(
    closed: Any, probe: Probe, args: Sequence[Any], change: Change | None = None
) -> tuple[list[Any], dict[Path, Any]]:
    """Compiles and runs a program with measurements in it.

    Args:
        closed: A closed jaxpr of JAX's.
        probe: What is measured.
        args: The program's flat arguments; none is donated.
        change: Changes results of equations.

    Returns:
        The program's flat results, and the rows of each measured equation, of shape [rows, width].
    """
    evaluator = _Evaluator(probe, bodies(opened(closed)), change)
    paths: list[Path] = []
    evaluator.list_paths(closed, (), paths)

    def function(*args: Any) -> tuple[list[Any], Any]:
        return evaluator.body(closed, args, _Context())

    with isolate.untouched(isolate.context()), compat.persistent_cache_off():
        lowered = jax.jit(function).trace(*args).lower()
        program = interruptible(lambda _: lowered.compile())
        results, rows = jax.block_until_ready(program(*args))  # type: ignore[no-untyped-call]
    isolate.retire()
    return list(results), dict(zip(paths, np.asarray(rows), strict=True))


def equation(closed: Any, ident: str) -> Any:
    """Returns the equation with an id."""
    every = (zip(b.ids, b.jaxpr.eqns, strict=True) for b in bodies(opened(closed)).values())
    return next(eqn for pairs in every for own, eqn in pairs if own == ident)


def primitives(closed: Any) -> dict[str, str]:
    """Returns the primitive of each equation by its id."""
    return {
        ident: eqn.primitive.name
        for body in bodies(opened(closed)).values()
        for ident, eqn in zip(body.ids, body.jaxpr.eqns, strict=True)
    }


def deepest(closed: Any) -> int:
    """Returns the most loops around an equation."""
    known = bodies(opened(closed))
    depth = dict.fromkeys(known, 0)
    for key, body in known.items():  # callers come first
        for index, inner in body.inner.items():
            loop = body.jaxpr.eqns[index].primitive.name in ("scan", "while")
            for callee in inner:
                depth[id(callee)] = max(depth[id(callee)], depth[key] + loop)
    return max(depth.values())


@dataclass(frozen=True, slots=True)
class _Context:
    """The calls and loops around a body."""

    path: Path = ()
    iterations: tuple[Any, ...] = ()
    device: Any = None
    axes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Evaluator:
    probe: Probe
    known: dict[int, JaxprBody] = field(repr=False)
    change: Change | None = None

    def list_paths(self, closed: Any, path: Path, paths: list[Path]) -> None:
        """Appends the measured equations of a body, then those of its bodies: as `body`'s rows."""
        jaxpr = opened(closed)
        ids = self.known[id(jaxpr)].ids
        for eqn, ident in zip(jaxpr.eqns, ids, strict=True):
            if self.probe.wants((*path, ident), eqn):
                paths.append((*path, ident))
        for eqn, ident in zip(jaxpr.eqns, ids, strict=True):
            for inner in evaluated_bodies(eqn):
                self.list_paths(inner, (*path, ident), paths)

    def count(self, closed: Any, path: Path) -> int:
        paths: list[Path] = []
        self.list_paths(closed, path, paths)
        return len(paths)

    def empty(self, n: int) -> Any:
        return jnp.zeros((n, self.probe.rows, self.probe.width), self.probe.dtype)

    def body(self, closed: Any, args: Sequence[Any], context: _Context) -> tuple[list[Any], Any]:
        """Evaluates a body; returns its results, and the rows of its equations."""
        jaxpr = opened(closed)
        values = dict(zip(map(id, jaxpr.constvars), getattr(closed, "consts", ()), strict=True))
        values.update(zip(map(id, jaxpr.invars), args, strict=True))
        figures: list[Any] = []
        inside: list[Any] = []
        site: Site | None = None

        def value(atom: Any) -> Any:
            return atom.val if isinstance(atom, _LITERAL) else values[id(atom)]

        for eqn, ident in zip(jaxpr.eqns, self.known[id(jaxpr)].ids, strict=True):
            operands = [value(atom) for atom in eqn.invars]
            path = (*context.path, ident)
            if evaluated_bodies(eqn):
                with eqn.ctx.manager:
                    results, rows = self.call(eqn, operands, replace(context, path=path))
                inside.append(rows)
            else:
                results = list(bind(eqn, operands))
            at = Site(path, eqn, context.iterations, context.device)
            if self.change is not None:
                results = list(self.change(at, operands, results))
            if self.probe.wants(path, eqn):
                site = at
                figures.append(self.probe.measure(at, operands, results))
            values.update(zip(map(id, eqn.outvars), results, strict=True))
        own = self.empty(0) if site is None else self.probe.collect(jnp.stack(figures), site)
        every = jnp.concatenate([own, *inside]) if inside else own
        return [value(atom) for atom in jaxpr.outvars], every

    def call(self, eqn: Any, operands: list[Any], context: _Context) -> tuple[list[Any], Any]:
        """Evaluates an equation with a body."""
        name, params = eqn.primitive.name, with_counts(eqn)
        if name == "scan":
            return self.scan(params, operands, context)
        if name == "while":
            return self.loop(params, operands, context)
        if name == "cond":
            return self.cond(params, operands, context)
        if name == "shard_map":
            return self.shard_map(params, operands, context)
        return self.body(params[CALLS[name]], operands, context)

    def scan(self, params: Any, operands: list[Any], context: _Context) -> tuple[list[Any], Any]:
        closed, consts = params["jaxpr"], operands[: params["num_consts"]]
        stop = params["num_consts"] + params["num_carry"]
        first, xs = operands[params["num_consts"] : stop], operands[stop:]
        empty = self.varying(self.empty(self.count(closed, context.path)), context)

        def step(carry: Any, x: Any) -> Any:
            number, rows, values = carry
            inside = replace(context, iterations=(*context.iterations, number))
            results, now = self.body(closed, [*consts, *values, *x], inside)
            rows = self.probe.merge(rows, now)
            return (number + 1, rows, results[: len(first)]), results[len(first) :]

        start = (self.varying(jnp.int32(0), context), empty, _typed(first, closed, params))
        options = {"length": params["length"], "reverse": params["reverse"]}
        (_, rows, carried), stacked = jax.lax.scan(
            step, start, xs, unroll=params["unroll"], **options
        )
        return [*carried, *stacked], rows

    def loop(self, params: Any, operands: list[Any], context: _Context) -> tuple[list[Any], Any]:
        test, step = params["cond_jaxpr"], params["body_jaxpr"]
        n, m = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        to_test, to_step, first = operands[:n], operands[n:m], operands[m:]
        tests = self.count(test, context.path)
        empty = self.varying(self.empty(self.count(step, context.path)), context)

        def go_on(carry: Any) -> Any:
            number, _, values = carry
            inside = replace(context, iterations=(*context.iterations, number))
            return self.body(test, [*to_test, *values], inside)[0][0]

        def body(carry: Any) -> Any:
            number, rows, values = carry
            inside = replace(context, iterations=(*context.iterations, number))
            results, now = self.body(step, [*to_step, *values], inside)
            return number + 1, self.probe.merge(rows, now), results

        start = (self.varying(jnp.int32(0), context), empty, first)
        _, rows, results = jax.lax.while_loop(go_on, body, start)
        return results, self.in_order(params, rows, tests)

    def in_order(self, params: Any, rows: Any, tests: int) -> Any:
        """Adds empty rows for the test of a `while`, whose measurements cannot leave it."""
        empty = self.empty(tests)
        first = next(name for name in sorted(params) if opened(params[name]) is not None)
        return jnp.concatenate([rows, empty] if first == "body_jaxpr" else [empty, rows])

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
            merged = self.probe.join(merged, rows[n])
        return list(results), merged

    @staticmethod
    def varying(value: Any, context: _Context) -> Any:
        """Marks a value as one that differs between the devices of a `shard_map`."""
        missing = tuple(set(context.axes) - compat.varying_axes(value)) if context.axes else ()
        return jax.lax.pcast(value, missing, to="varying") if missing else value


def evaluated_bodies(eqn: Any) -> list[Any]:
    """The bodies of an equation that are evaluated; none for those measured as a whole."""
    name, params = eqn.primitive.name, eqn.params
    if name == "cond":
        return list(params["branches"])
    if name == "while":
        return [params[key] for key in sorted(params) if opened(params[key]) is not None]
    if name in ("scan", "shard_map"):
        return [params["jaxpr"]]
    return [params[CALLS[name]]] if CALLS.get(name) in params else []


def bind(eqn: Any, operands: Sequence[Any]) -> Sequence[Any]:
    """Executes an equation on operands."""
    with eqn.ctx.manager:
        results = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
    return results if eqn.primitive.multiple_results else [results]


def _typed(values: Sequence[Any], closed: Any, params: Any) -> list[Any]:
    """Gives the initial carry the types of the body's parameters: a literal is a Python number."""
    stop = params["num_consts"] + params["num_carry"]
    avals = [var.aval for var in opened(closed).invars[params["num_consts"] : stop]]
    return [
        value if isinstance(value, jax.Array) else jnp.asarray(value, aval.dtype)
        for value, aval in zip(values, avals, strict=True)
    ]
