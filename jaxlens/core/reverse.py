"""Reverse mode: linearise by partial evaluation, then transpose.

The derivative of f at x is a linear map of the tangent. Running `jvp` with the tangent unknown
splits the work: what depends on x alone is computed at once, what depends on the tangent is
written down, and that jaxpr is the linear map. Transposing it, from its last equation to its
first, turns a map of tangents into a map of cotangents: for a scalar f, the gradient for the price
of one. What the linear map took from the first half are the residuals that reverse mode keeps.

After "You Only Linearize Once" (Radul et al., POPL 2023, arXiv:2204.10923).
"""

from collections.abc import Callable, Sequence
from typing import Any

from jaxlens.core import sources
from jaxlens.core.avals import float0, tangent_aval
from jaxlens.core.forward import forced, instantiate, jvp_flat, nonzero, with_zeros
from jaxlens.core.jaxprs import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Var, merge, split, used
from jaxlens.core.primitives.elementwise import add_any_p
from jaxlens.core.staging import StagedTracer, Staging, as_function, trace
from jaxlens.core.tracers import (
    Interpreter,
    Linear,
    Primitive,
    Zero,
    aval_of,
    current,
    interpreting,
)


class Partial(Staging):
    """Computes what is known, in the interpreter below; writes down what is not."""

    def __init__(self, parent: Interpreter) -> None:
        super().__init__()
        self.parent: Interpreter = parent

    def unknown(self, value: Any) -> bool:
        """Whether a value has to wait."""
        return type(value) is StagedTracer and value.interpreter is self

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if not any(map(self.unknown, args)):
            with interpreting(self.parent):
                return primitive.bind(*args, **params)
        if primitive.partial is not None:
            return primitive.partial(self, args, params)
        return super().process(primitive, args, params)


def linearize_flat(
    f: Callable[..., Sequence[Any]], primals: Sequence[Any]
) -> tuple[list[Any], ClosedJaxpr]:
    """The value of a function of flat lists, and its derivative there as a linear jaxpr.

    The jaxpr's constants are the residuals. It has a parameter for each primal, and a result for
    each of the function's.
    """
    partial = Partial(current())
    tangents = [partial.parameter(tangent_aval(aval_of(primal))) for primal in primals]
    given = [Zero(t.aval) if t.dtype == float0 else t for t in tangents]
    with interpreting(partial), sources.named_scope("jvp()"):
        results, out = jvp_flat(f, primals, given)
        out = list(map(instantiate, out))
    return results, partial.closed([tracer.var for tracer in tangents], out)


def partial_jaxpr(
    closed: ClosedJaxpr, unknown: Sequence[bool], force: Sequence[bool] | None = None
) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool]]:
    """Splits a jaxpr in two: what can be computed now, and what must wait.

    Args:
        closed: The jaxpr.
        unknown: Which parameters must wait.
        force: Which results must wait even where they need not.

    Returns:
        A jaxpr of the known parameters, with the known results, then the residuals. A jaxpr of
        the residuals, then the unknown parameters, with the other results. And which these are.
        Neither computes what no result needs.
    """
    later: list[Any] = []
    flags: list[bool] = []

    def now(*known: Any) -> list[Any]:
        partial = Partial(current())
        waiting = list(map(partial.parameter, split(unknown, closed.in_avals)[1]))
        with interpreting(partial):
            results = as_function(closed)(*merge(unknown, known, waiting))
        flags[:] = forced(list(map(partial.unknown, results)), force)
        done, others = split(flags, results)
        rests = partial.closed([tracer.var for tracer in waiting], others)
        needed = {atom for atom in rests.jaxpr.outvars if type(atom) is Var}
        eqns = used(rests.eqns, needed)
        has = [var in needed for var in rests.jaxpr.constvars]
        params = [*split(has, rests.jaxpr.constvars)[1], *rests.jaxpr.invars]
        later[:] = [ClosedJaxpr(Jaxpr([], params, rests.jaxpr.outvars, eqns), [])]
        return [*done, *split(has, rests.consts)[1]]

    known = trace(now, split(unknown, closed.in_avals)[0])
    inner = known.jaxpr
    eqns = used(inner.eqns, {atom for atom in inner.outvars if type(atom) is Var})
    known = ClosedJaxpr(Jaxpr(inner.constvars, inner.invars, inner.outvars, eqns), known.consts)
    return known, later[0], flags


def backward_pass(
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    args: Sequence[Any],
    cts: Sequence[Any],
    inside: bool = False,
) -> list[Any]:
    """Goes through a linear jaxpr from its last equation to its first.

    Args:
        jaxpr: A jaxpr that is linear in those parameters whose argument is `Linear`.
        consts: Values of its constants: the residuals.
        args: `Linear` or a value for each parameter.
        cts: The cotangent of each result; may be `Zero`.
        inside: Whether it is in an equation, whose name says already that it goes backward.

    Returns:
        The cotangent of each `Linear` argument; may be `Zero`.
    """
    values: dict[Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    values.update(zip(jaxpr.invars, args, strict=True))

    def read(atom: Atom) -> Any:
        return values[atom] if isinstance(atom, Var) else atom.val

    linear = []
    for eqn in jaxpr.eqns:
        operands = list(map(read, eqn.invars))
        if any(type(x) is Linear for x in operands):
            linear.append(eqn)
            values.update((var, Linear(var.aval)) for var in eqn.outvars)
        else:  # computed from residuals alone, such as what `checkpoint` computes again
            with sources.at(eqn.source_info):
                results = eqn.primitive.bind(*operands, **eqn.params)
            many = eqn.primitive.multiple_results
            values.update(zip(eqn.outvars, results if many else [results], strict=True))

    found: dict[Var, Any] = {}

    def give(atom: Atom, ct: Any) -> None:
        if isinstance(atom, Var) and ct is not None and type(ct) is not Zero:
            found[atom] = add_any_p.bind(found[atom], ct) if atom in found else ct

    for atom, ct in zip(jaxpr.outvars, cts, strict=True):
        if type(read(atom)) is Linear:
            give(atom, ct)
    for eqn in reversed(linear):
        out = [found.pop(var, None) for var in eqn.outvars]
        if all(ct is None for ct in out):
            continue
        source = eqn.source_info
        with sources.at(source if inside else sources.transposed(source)):
            for atom, ct in zip(eqn.invars, _transposed(eqn, out, read), strict=True):
                give(atom, ct)
    pairs = zip(jaxpr.invars, args, strict=True)
    return [found.get(var, Zero(var.aval)) for var, arg in pairs if type(arg) is Linear]


def _transposed(eqn: JaxprEqn, out: list[Any], read: Callable[[Atom], Any]) -> Sequence[Any]:
    """The cotangents that an equation's rule gives its arguments."""
    pairs = zip(out, eqn.outvars, strict=True)
    cts = [Zero(var.aval) if ct is None else ct for ct, var in pairs]
    if sources.listeners:
        sources.emit("rule", eqn.primitive.name, rule="transpose")
    ct = cts if eqn.primitive.multiple_results else cts[0]
    found: Sequence[Any] = eqn.primitive.transpose(ct, *map(read, eqn.invars), **eqn.params)
    return found


def transpose_jaxpr(
    closed: ClosedJaxpr,
    linear: Sequence[bool],
    moves: Sequence[bool],
    force: Sequence[bool] | None = None,
) -> tuple[ClosedJaxpr, list[bool]]:
    """The jaxpr of a jaxpr's transpose, which the rules of calls and loops are made of.

    Args:
        closed: The jaxpr.
        linear: Which parameters it is linear in.
        moves: Which results have a cotangent.
        force: Which linear parameters must get one, be it zeros.

    Returns:
        A jaxpr of the other parameters, then the cotangents of those results; of the cotangents
        of those linear parameters that have one. And which these are.
    """
    flags: list[bool] = []
    known, moving = split(linear, closed.in_avals)
    given = split(moves, closed.out_avals)[1]

    def back(*values: Any) -> list[Any]:
        args = merge(linear, values[: len(known)], map(Linear, moving))
        cts = with_zeros(closed.out_avals, moves, values[len(known) :])
        found = backward_pass(closed.jaxpr, closed.consts, args, cts, inside=True)
        flags[:] = forced(nonzero(found), force)
        return list(map(instantiate, split(flags, found)[1]))

    return trace(back, [*known, *given]), flags
