"""Reverse mode: linearise by partial evaluation, then transpose.

There is no third set of derivative rules. The derivative of f at x is a linear map of the tangent,
and `jvp` knows it; two general steps make a gradient of that.

1. **Partial evaluation.** Run `jvp` with the tangent unknown (`Partial`). What depends on x alone
   is computed at once; what depends on the tangent is recorded. The record is the linear map, and
   the values that it takes from the first half are the residuals that reverse mode keeps.

       f(x) = sin(x) * x      computed: s = sin(x), c = cos(x), y = s * x
                              recorded: dy = (dx * c) * x + s * dx         residuals: c, x, s

2. **Transposition.** Run the record from its last equation to its first (`backward_pass`), with
   each equation replaced by its transpose: it maps the cotangent of its result to cotangents of
   its arguments. A variable that is used twice gets the sum of two (`add_any`).

       ct_dx = (ct_y * x) * c + s * ct_y

For a scalar f one run of the transposed map gives the whole gradient, whatever the size of x.

In JAX: `linearize` and `backward_pass` in jax/_src/interpreters/ad.py, `JaxprTrace` in
partial_eval.py. After "You Only Linearize Once" (Radul et al., POPL 2023, arXiv:2204.10923).
"""

from collections.abc import Callable, Sequence
from typing import Any

from jaxlens.core.kernel.basics import Linear, Zero, add_any_p, instantiate
from jaxlens.core.kernel.interpreter import (
    Primitive,
    aval_of,
    current,
    interpreting,
    observer,
)
from jaxlens.core.kernel.jaxpr import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Var
from jaxlens.core.kernel.jvp import jvp_flat
from jaxlens.core.kernel.sources import at, named_scope
from jaxlens.core.kernel.trace import Flat, StagedTracer, Staging
from jaxlens.core.kernel.types import float0, tangent_aval

Values = Sequence[Any]

# ---- 1. partial evaluation ----------------------------------------------------------------------


class Partial(Staging):
    """Computes what is known, in the interpreter below; records what is not."""

    def __init__(self) -> None:
        super().__init__()
        self.parent = current()  # it computes too

    def unknown(self, value: Any) -> bool:
        """Whether a value is a variable of the record."""
        return type(value) is StagedTracer and value.interpreter is self

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if not any(map(self.unknown, args)):
            with interpreting(self.parent):
                return primitive.bind(*args, **params)
        if primitive.partial is not None:
            return primitive.partial(self, args, params)
        return super().process(primitive, args, params)


def linearize_flat(f: Flat, primals: Sequence[Any]) -> tuple[Sequence[Any], ClosedJaxpr]:
    """Returns the value of a function of flat lists, and its derivative there as a linear jaxpr.

    The constants of the jaxpr are the residuals. It maps a tangent per primal to a tangent per
    result.
    """
    # JVP on top of Partial: the jvp rules run in `partial`, which computes or records each
    # primitive that they apply.
    partial = Partial()
    tangents = [partial.parameter(tangent_aval(aval_of(primal))) for primal in primals]
    moving = [Zero(t.aval) if t.dtype == float0 else t for t in tangents]
    with interpreting(partial), named_scope("jvp()"):
        results, out = jvp_flat(f, primals, moving)
        out = list(map(instantiate, out))
    return results, partial.closed([tracer.variable for tracer in tangents], out)


# ---- 2. transposition ---------------------------------------------------------------------------


def backward_pass(
    jaxpr: Jaxpr, consts: Values, args: Values, cts: Values, inside: bool = False
) -> list[Any]:
    """Runs a linear jaxpr from its last equation to its first.

    Args:
        jaxpr: A jaxpr that is linear in those parameters whose argument is `Linear`.
        consts: The values of its constants: the residuals.
        args: `Linear` or a value per parameter.
        cts: The cotangent of each result; may be `Zero`.
        inside: Whether the jaxpr is in an equation whose name stack says `transpose` already.

    Returns:
        The cotangent of each `Linear` argument; may be `Zero`.
    """
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(atom: Atom) -> Any:
        return env[atom] if isinstance(atom, Var) else atom.val

    linear = []
    for eqn in jaxpr.eqns:
        operands = list(map(read, eqn.invars))
        if any(type(x) is Linear for x in operands):
            linear.append(eqn)
            env.update((var, Linear(var.aval)) for var in eqn.outvars)
        else:  # depends on residuals alone: what `checkpoint` computes again, for example
            with at(eqn.source_info):
                results = eqn.primitive.bind(*operands, **eqn.params)
            env.update(zip(eqn.outvars, eqn.primitive.as_list(results), strict=True))

    ct_of: dict[Var, Any] = {}

    def accumulate(atom: Atom, ct: Any) -> None:
        if isinstance(atom, Var) and ct is not None and type(ct) is not Zero:
            ct_of[atom] = add_any_p.bind(ct_of[atom], ct) if atom in ct_of else ct

    for atom, ct in zip(jaxpr.outvars, cts, strict=True):
        if type(read(atom)) is Linear:
            accumulate(atom, ct)
    for eqn in reversed(linear):
        cts_out = [ct_of.pop(var, None) for var in eqn.outvars]
        if all(ct is None for ct in cts_out):
            continue  # no result of this equation is used
        with at(eqn.source_info, transposed=not inside):
            for atom, ct in zip(eqn.invars, _transposed(eqn, cts_out, read), strict=True):
                accumulate(atom, ct)
    pairs = zip(jaxpr.invars, args, strict=True)
    return [ct_of.get(var, Zero(var.aval)) for var, arg in pairs if type(arg) is Linear]


def _transposed(eqn: JaxprEqn, cts: list[Any], read: Callable[[Atom], Any]) -> Sequence[Any]:
    """Returns the cotangents of an equation's arguments, by the transpose rule."""
    pairs = zip(cts, eqn.outvars, strict=True)
    dense = [Zero(var.aval) if ct is None else ct for ct, var in pairs]
    observer.emit("rule", eqn.primitive.name, rule="transpose")
    ct = dense if eqn.primitive.multiple_results else dense[0]
    cts_in = eqn.primitive.transpose(ct, *map(read, eqn.invars), **eqn.params)
    if not isinstance(cts_in, tuple | list) or len(cts_in) != len(eqn.invars):
        raise eqn.primitive.misfit("transpose", "a cotangent or None per argument", cts_in)
    return cts_in
