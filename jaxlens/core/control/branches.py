"""Choices that stay in the program: `cond` and `switch`.

Python's `if` runs while a function is traced, and leaves the branch that it took. Where the choice
depends on numbers, the program needs all branches: they become jaxprs in the parameters of one
equation, and each rule makes branches of branches, as `calls.py` does it. Only where the examples
of a batch choose differently is there no choice left: then all branches run.

After "Structured control flow primitives" (docs.jax.dev, control-flow.html).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.kernel.basics import fronts, selected
from jaxlens.core.kernel.interpreter import Primitive, aval_of
from jaxlens.core.kernel.jaxpr import ClosedJaxpr, as_function
from jaxlens.core.kernel.types import ShapedArray
from jaxlens.core.primitives.elementwise import eq, like, ne_p
from jaxlens.core.primitives.functions import clamp_p, stop_gradient_p
from jaxlens.core.primitives.shapes import convert_element_type
from jaxlens.core.transforms.calls import call_rules, transformed, with_common_consts
from jaxlens.core.transforms.jaxprs import TracedFunction, batch_jaxpr, traced
from jaxlens.core.transforms.trees import paths, tree_flatten, tree_map
from jaxlens.core.transforms.values import as_value

cond_p = Primitive("cond", multiple_results=True)
Branches = tuple[ClosedJaxpr, ...]


def cond(
    pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any
) -> Any:
    """Applies `true_fun` or `false_fun` to the operands, chosen by `pred` when the program runs.

    Args:
        pred: A scalar; a number counts as true if it is not zero.
        true_fun: A function of the operands.
        false_fun: Another, whose results have the same containers and types.
        *operands: Pytrees of arrays.
    """
    aval = aval_of(pred)
    if aval.shape:
        raise TypeError(
            f"Pred must be a scalar, got {aval.str_short()}: choose element by element with "
            f"cnp.where, or reduce it with .any() or .all()."
        )
    if aval.dtype != np.bool_:
        pred = ne_p.bind(pred, like(pred, 0))
    index = convert_element_type(pred, np.int32)
    true = traced(true_fun, operands, {})  # first, as in JAX
    false = traced(false_fun, operands, {})
    return _bind("cond", index, {"false_fun": false, "true_fun": true}, operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Applies `branches[index]` to the operands when the program runs; the index is clamped.

    Args:
        index: An integer scalar.
        branches: Functions of the operands, whose results have the same containers and types.
        *operands: Pytrees of arrays.
    """
    aval = aval_of(index)
    if aval.shape or aval.dtype.kind not in "iu":
        raise TypeError(f"switch: the index must be an integer scalar, got {aval.str_short()}.")
    if not branches:
        raise ValueError("switch: `branches` is empty: give at least one function.")
    if len(branches) == 1:
        return tree_map(as_value, branches[0](*operands))
    index = convert_element_type(index, np.int32)
    index = clamp_p.bind(np.int32(0), index, np.int32(len(branches) - 1))
    bodies = {f"branch {i}": traced(f, operands, {}) for i, f in enumerate(branches)}
    return _bind("switch", index, bodies, operands)


def _bind(
    caller: str, index: Any, bodies: dict[str, TracedFunction], operands: Sequence[Any]
) -> Any:
    (first_name, first), *rest = bodies.items()
    tree = first.out_tree
    for name, other in rest:
        if other.out_tree != tree:
            raise TypeError(
                f"{caller}: the branches must return the same containers, but {first_name} returns "
                f"{tree} and {name} returns {other.out_tree}."
            )
        types = zip(paths(tree), first.jaxpr.out_avals, other.jaxpr.out_avals, strict=True)
        for path, a, b in types:
            if a.strong != b.strong:
                raise TypeError(
                    f"{caller}: the branches must return equal types, but result{''.join(path)} is "
                    f"{a.str_short()} from {first_name} and {b.str_short()} from {name}: convert "
                    f"one with astype, or broadcast it."
                )
    branches, consts = with_common_consts([(body.jaxpr, body.consts) for body in bodies.values()])
    leaves = tree_flatten(operands)[0]
    return tree.unflatten(cond_p.bind(index, *consts, *leaves, branches=tuple(branches)))


@cond_p.rule("abstract")
def _(index: ShapedArray, *avals: ShapedArray, branches: Branches) -> list[ShapedArray]:
    columns = zip(*(branch.out_avals for branch in branches), strict=True)
    return [column[0].update(weak_type=all(a.weak_type for a in column)) for column in columns]


@cond_p.rule("lower")
def _(ctx: Any, index: Any, *operands: Any, branches: Branches) -> list[Any]:
    case = hlo.CaseOp(list(map(ctx.type, ctx.avals_out)), index, len(branches))
    for n, (region, branch) in enumerate(zip(case.regions, branches, strict=True)):
        with ir.InsertionPoint(region.blocks.append()):
            hlo.return_(ctx.inline(branch, *operands, scope=f"cond/branch_{n}_fun"))
    return list(case.results)


call_rules(cond_p, "branches", before=1)
_of_all = cond_p.batch


@cond_p.rule("batch")
def _(size: int, args: Any, dims: Any, *, branches: Branches) -> Any:
    """Where examples choose differently, all branches run, and each example takes its own.

    A branch that an example did not choose must not spoil its gradient (0 * inf is nan): what it
    works on has no derivative there.
    """
    if dims[0] is None:
        return _of_all(size, args, dims, branches=branches)
    index, *operands = fronts(size, args, dims)
    every, outs = (True,) * len(operands), []
    for number, branch in enumerate(branches):
        chooses = eq(index, np.int32(number))
        own = [selected(chooses, stop_gradient_p.bind(x), x) for x in operands]
        results = (True,) * len(branch.out_avals)
        whole, new, _ = transformed(branch, batch_jaxpr, size, every, results)
        outs.append(as_function(whole)(*new, *own))
    chosen = [selected(index, *cases) for cases in zip(*outs, strict=True)]
    return chosen, [0] * len(chosen)
