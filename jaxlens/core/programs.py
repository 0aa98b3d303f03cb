"""jit: trace once, compile once, then only run.

The first call with arguments of certain types traces the function to a jaxpr, lowers and compiles
it; later calls of the same types look the program up and start it. What makes two calls "the same"
is the key: the types of the arrays, the containers that they came in, the values of what was not
traced. Under another transformation nothing runs: `jit` is a primitive whose parameter is a jaxpr,
with rules made of the rules for its equations.

After "Just-in-time compilation" (docs.jax.dev) and Autodidax.
"""

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any

from jaxlens.core.avals import ShapedArray
from jaxlens.core.batching import batch_jaxpr, to_front
from jaxlens.core.device import Array, Executable, compile_module, put
from jaxlens.core.forward import jvp_jaxpr
from jaxlens.core.jaxprs import ClosedJaxpr, hoisted
from jaxlens.core.lower import lower_jaxpr
from jaxlens.core.reverse import Partial, partial_jaxpr, transpose_jaxpr
from jaxlens.core.staging import aval_of, flat, trace
from jaxlens.core.tracers import GROUND, Linear, Primitive, Zero, interpreting
from jaxlens.core.trees import TreeDef, tree_flatten

jit_p = Primitive("jit", multiple_results=True)


class Jitted:
    """A function with its programs."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f
        self._traced: dict[Any, tuple[ClosedJaxpr, list[Any], TreeDef]] = {}
        update_wrapper(self, f)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = tree_flatten((args, kwargs))
        key = (in_tree, tuple(map(aval_of, leaves)))
        if key not in self._traced:
            flat_f, out_trees = flat(self.f, in_tree)
            closed, consts = hoisted(trace(flat_f, key[1]))
            self._traced[key] = closed, consts, out_trees[0]
        closed, consts, out_tree = self._traced[key]
        name = getattr(self.f, "__name__", "f")
        return out_tree.unflatten(jit_p.bind(*consts, *leaves, jaxpr=closed, name=name))


def jit(f: Callable[..., Any]) -> Jitted:
    """Compiles a function."""
    return Jitted(f)


@jit_p.rule("abstract")
def _(*avals: ShapedArray, jaxpr: ClosedJaxpr, name: str) -> list[ShapedArray]:
    return jaxpr.out_avals


@jit_p.rule("lower")
def _(ctx: Any, *operands: Any, jaxpr: ClosedJaxpr, name: str) -> list[Any]:
    found: list[Any] = ctx.call(name, jaxpr, *operands)
    return found


@jit_p.rule("jvp")
def _(primals: Any, tangents: Any, *, jaxpr: ClosedJaxpr, name: str) -> Any:
    nonzero = [type(tangent) is not Zero for tangent in tangents]
    both, flags = jvp_jaxpr(jaxpr, nonzero)
    moving = [tangent for tangent in tangents if type(tangent) is not Zero]
    inner, consts = hoisted(both)
    results = jit_p.bind(*consts, *primals, *moving, jaxpr=inner, name=name)
    count = len(jaxpr.out_avals)
    given = iter(results[count:])
    outs = zip(jaxpr.out_avals, flags, strict=True)
    return results[:count], [next(given) if has else Zero(aval) for aval, has in outs]


@jit_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, jaxpr: ClosedJaxpr, name: str) -> Any:
    batched = [dim is not None for dim in dims]
    whole, flags = batch_jaxpr(jaxpr, size, batched)
    inner, consts = hoisted(whole)
    fronts = [
        to_front(size, x, dim) if dim is not None else x for x, dim in zip(args, dims, strict=True)
    ]
    results = jit_p.bind(*consts, *fronts, jaxpr=inner, name=name)
    return results, [0 if has else None for has in flags]


@jit_p.rule("partial")
def _(interpreter: Partial, args: Any, params: dict[str, Any]) -> list[Any]:
    unknown = list(map(interpreter.unknown, args))
    now, later, flags = partial_jaxpr(params["jaxpr"], unknown)
    inner, consts = hoisted(now)
    known = [x for x, wait in zip(args, unknown, strict=True) if not wait]
    with interpreting(interpreter.parent):
        results = jit_p.bind(*consts, *known, jaxpr=inner, name=params["name"])
    count = flags.count(False)
    waiting = [x for x, wait in zip(args, unknown, strict=True) if wait]
    rest = super(Partial, interpreter).process(
        jit_p, [*results[count:], *waiting], {"jaxpr": later, "name": params["name"]}
    )
    given, held = iter(results[:count]), iter(rest)
    return [next(held) if wait else next(given) for wait in flags]


@jit_p.rule("transpose")
def _(cts: Any, *args: Any, jaxpr: ClosedJaxpr, name: str) -> list[Any]:
    linear = [type(x) is Linear for x in args]
    nonzero = [type(ct) is not Zero for ct in cts]
    back, flags = transpose_jaxpr(jaxpr, linear, nonzero)
    inner, consts = hoisted(back)
    known = [x for x in args if type(x) is not Linear]
    moving = [ct for ct in cts if type(ct) is not Zero]
    found = iter(jit_p.bind(*consts, *known, *moving, jaxpr=inner, name=name))
    has = iter(flags)
    return [next(found) if is_linear and next(has) else None for is_linear in linear]


# ---- running ------------------------------------------------------------------------------------

_compiled: dict[Any, tuple[Executable, list[ShapedArray]]] = {}


def _run(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Applies a primitive on the device: by a program of one equation, compiled once."""
    avals = tuple(map(aval_of, args))
    key = (primitive, avals, tuple(params.items()))
    if key not in _compiled:
        if primitive is jit_p:
            closed = params["jaxpr"]
        else:
            closed = trace(lambda *xs: _listed(primitive, xs, params), avals)
        name = params.get("name", primitive.name)
        module = lower_jaxpr(closed, f"jit_{name}")
        _compiled[key] = compile_module(module), closed.out_avals
    executable, out_avals = _compiled[key]
    buffers = executable([put(x, aval) for x, aval in zip(args, avals, strict=True)])
    results = list(map(Array, buffers, out_avals))
    return results if primitive.multiple_results else results[0]


def _listed(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    found = primitive.bind(*args, **params)
    return found if primitive.multiple_results else [found]


GROUND.run = _run
