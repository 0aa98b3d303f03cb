"""Guests: primitives of JAX that the core does not have, with JAX's rules.

JAX applies each rule to the one equation; what it traces is read as any other jaxpr of JAX.

    jvp          jax.jvp of the equation
    transpose    jax.linear_transpose
    batch        jax.vmap
    lower        the StableHLO that JAX writes for it, moved into the core's module
"""

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from typing import Any

import jax
from jax.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext

from jaxlens.core.interop.types import jax_type, type_of
from jaxlens.core.kernel.basics import Linear, instantiate
from jaxlens.core.kernel.interpreter import Primitive, aval_of
from jaxlens.core.kernel.jaxpr import ClosedJaxpr, eval_jaxpr
from jaxlens.core.kernel.run import Context
from jaxlens.core.kernel.types import ShapedArray, float0, is_inexact, x64
from jaxlens.core.transforms.flags import Flags, merge, nonzero, split, with_tangents

_LOCATION = re.compile(r"^(#loc\d*) = .*$", re.MULTILINE)  # as MLIR writes it, once for all its ops
Types = tuple[ShapedArray, ...]
Make = Callable[..., Callable[..., Any]]  # the function that JAX traces, of the equation's


@cache
def guest(primitive: Any, read: Callable[[Any], ClosedJaxpr]) -> Primitive:
    """Returns a primitive of JAX's as one of the core's.

    Args:
        primitive: JAX's.
        read: Returns a closed jaxpr of JAX as one of the core's.
    """
    many = primitive.multiple_results
    own = Primitive(primitive.name, multiple_results=many)

    @lru_cache(maxsize=4096)
    def made(params: Any, types: Types, make: Make, how: Any, _: bool) -> Any:
        f = make(_function(primitive, dict(params)), *how)
        with jax.enable_x64(x64()):
            return jax.make_jaxpr(f)(*map(jax_type, types))

    @lru_cache(maxsize=4096)
    def closed(*of: Any) -> ClosedJaxpr:
        return read(made(*of))

    def applied(make: Make, how: Any, params: dict[str, Any], args: Sequence[Any]) -> list[Any]:
        types = tuple(map(aval_of, args))
        ours = closed(tuple(params.items()), types, make, how, x64())
        return eval_jaxpr(ours.jaxpr, ours.consts, *args)

    @own.rule("abstract")
    def _(*avals: ShapedArray, **params: Any) -> Any:
        types = list(map(type_of, made(tuple(params.items()), avals, _itself, (), x64()).out_avals))
        return types if many else types[0]

    @own.rule("jvp")
    def _(primals: Any, tangents: Any, **params: Any) -> Any:
        has = nonzero(tangents)
        moving = split(has, tangents)[1]
        both = applied(_jvp, (has,), params, [*primals, *moving])
        avals = own.as_list(own.abstract(*map(aval_of, primals), **params))
        values, out = with_tangents(both, [is_inexact(aval.dtype) for aval in avals])
        return (values, out) if many else (values[0], out[0])

    @own.rule("transpose")
    def _(cts: Any, *args: Any, **params: Any) -> list[Any]:
        linear = tuple(type(x) is Linear for x in args)
        fixed, moving = split(linear, args)
        how = linear, tuple(x.aval for x in moving)
        own_cts = list(map(instantiate, own.as_list(cts)))
        return merge(linear, [None] * len(fixed), applied(_back, how, params, [*fixed, *own_cts]))

    @own.rule("batch")
    def _(size: int, args: Any, dims: Any, **params: Any) -> Any:
        results = applied(_every, tuple(dims), params, args)
        return (results, [0] * len(results)) if many else (results[0], 0)

    @own.rule("lower")
    def _(ctx: Any, *operands: Any, **params: Any) -> Any:
        if "call_jaxpr" in params:  # with the user's lines in it
            return ctx.inline(params["call_jaxpr"], *operands)
        types = tuple(ctx.avals_in)
        return emitted(ctx, _written(primitive, tuple(params.items()), types, x64()), operands)

    return own


# ---- what JAX traces ----------------------------------------------------------------------------


def _function(primitive: Any, params: dict[str, Any]) -> Callable[..., Any]:
    """Returns the function of an equation; `rules` is that of one whose rules are the user's."""
    rules: Callable[..., Any] = params.get("rules", partial(primitive.bind, **params))
    return rules


def _itself(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


def _jvp(f: Callable[..., Any], has: Flags) -> Callable[..., Any]:
    """Of primals and the tangents of those that have one: results and inexact ones' tangents."""

    def both(*args: Any) -> Any:
        fixed, moved = split(has, args[: len(has)])
        results, out = jax.jvp(
            lambda *xs: f(*merge(has, fixed, xs)), tuple(moved), tuple(args[len(has) :])
        )
        tangents = [t for t in jax.tree.leaves(out) if t.dtype != float0]
        return [*jax.tree.leaves(results), *tangents]

    return both


def _back(f: Callable[..., Any], linear: Flags, types: Types) -> Callable[..., Any]:
    """Of the arguments that it is not linear in, and the cotangents of the results."""

    def back(*args: Any) -> Any:
        fixed, cts = args[: linear.count(False)], list(args[linear.count(False) :])
        of_linear = lambda *xs: jax.tree.leaves(f(*merge(linear, fixed, xs)))  # noqa: E731
        return jax.linear_transpose(of_linear, *map(jax_type, types))(cts)

    return back


def _every(f: Callable[..., Any], *dims: int | None) -> Callable[..., Any]:
    return jax.vmap(f, dims)


# ---- its StableHLO ------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _written(primitive: Any, params: Any, types: Types, _: bool) -> str:
    """Returns JAX's module for one equation, as text."""
    f = jax.jit(_function(primitive, dict(params)), keep_unused=True)
    with jax.enable_x64(x64()):
        text: str = f.lower(*map(jax_type, types)).as_text(debug_info=True)
        return text


def emitted(ctx: Context, text: str, operands: Sequence[ir.Value]) -> list[ir.Value]:
    """Emits the ops of a module's `main` here; they get the location of the equation."""
    here = str(ir.Location.current)
    module = ir.Module.parse(_LOCATION.sub(lambda alias: f"{alias[1]} = {here}", text))
    aside: list[ir.Operation] = []

    def noted(op: ir.Operation) -> ir.WalkResult:
        if op.name.startswith("sdy."):  # the layout of keys, on no mesh
            aside.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(noted)
    for op in aside:
        for old, new in zip(op.results, op.operands, strict=True):
            old.replace_all_uses_with(new)
        op.erase()
    symbols = ctx.program.symbols
    main = symbols[mlir.merge_mlir_modules(ctx.program.module, "guest", module, symbols)]
    results: list[ir.Value] = _jax_mlir_ext.inlined_func_call(main.operation, operands)
    symbols.erase(main)
    return results
