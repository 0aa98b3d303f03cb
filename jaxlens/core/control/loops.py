"""Loops whose number of iterations depends on the data: `while_loop`.

The condition and the body are jaxprs in the parameters of one equation; the constants of both come
before the carry. A rule needs a fixpoint: if the body gives a carried value a tangent, the value
has one from the start, which may give others one. The examples of a batch iterate together until
the last is done. Reverse mode is not possible: it would have to store the values of every
iteration, in memory of unknown size.

After "Structured control flow primitives" (docs.jax.dev, control-flow.html).
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NoReturn

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.kernel.basics import instantiate, selected
from jaxlens.core.kernel.interpreter import Primitive, Value, aval_of, interpreting
from jaxlens.core.kernel.jaxpr import ClosedJaxpr, Var, as_function, hoisted
from jaxlens.core.kernel.trace import Staging, trace
from jaxlens.core.kernel.types import ShapedArray
from jaxlens.core.kernel.vjp import Partial
from jaxlens.core.primitives.contractions import reduce_or_p
from jaxlens.core.primitives.shapes import convert_element_type
from jaxlens.core.transforms.calls import first_results, reordered, transformed
from jaxlens.core.transforms.flags import Flags, cut, in_front, merge, nonzero, split, with_tangents
from jaxlens.core.transforms.jaxprs import (
    TracedFunction,
    batch_jaxpr,
    jvp_jaxpr,
    memoized,
    partial_jaxpr,
    traced,
)
from jaxlens.core.transforms.promotion import promote
from jaxlens.core.transforms.trees import TreeDef, paths, tree_flatten, tree_leaves

while_p = Primitive("while", multiple_results=True)


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init: Any) -> Any:
    """Applies `body_fun` to a value as long as `cond_fun` of it is true.

    Args:
        cond_fun: The value to a boolean scalar.
        body_fun: The value to the next one, which has the same containers and types.
        init: The first: a pytree of arrays.
    """
    test = traced(cond_fun, (init,), {})  # first, as in JAX
    body, leaves = loop_body("while_loop", body_fun, init)
    tree = body.out_tree
    if list(map(aval_of, leaves)) != list(map(aval_of, tree_leaves(init))):
        test = traced(cond_fun, (tree.unflatten(leaves),), {})
    types = test.jaxpr.out_avals
    if [aval.strong for aval in types] != [ShapedArray((), np.dtype(bool))]:
        listed = ", ".join(aval.str_short() for aval in types)
        raise TypeError(f"while_loop: cond_fun must return a boolean scalar, got {listed}.")
    return tree.unflatten(loop(test.jaxpr, test.consts, body.jaxpr, body.consts, leaves))


def loop(
    test: ClosedJaxpr, tests: Sequence[Any], body: ClosedJaxpr, consts: Sequence[Any], carry: Any
) -> Any:
    """Binds `while_p`: condition and its constants, body and its constants, initial carry."""
    return while_p.bind(
        *tests,
        *consts,
        *carry,
        cond_jaxpr=test,
        cond_nconsts=len(tests),
        body_jaxpr=body,
        body_nconsts=len(consts),
    )


def _parts(items: Sequence[Any], params: dict[str, Any]) -> list[list[Any]]:
    """Cuts a list into the condition's constants, the body's, and the carry."""
    return cut(items, params["cond_nconsts"], params["body_nconsts"])


def loop_body(
    caller: str,
    f: Callable[..., Any],
    init: Any,
    carry_of: Callable[[TreeDef], TreeDef] = lambda tree: tree,
    after: Sequence[Any] = (),
) -> tuple[TracedFunction, list[Any]]:
    """Traces the body of a loop, and checks that its carry keeps its type.

    A first value that is weakly typed, such as a Python 0, gets the dtype of the next one.

    Args:
        caller: The loop, for the errors.
        f: The body.
        init: What it is given first.
        carry_of: Where in its results the next value is; raises if there is none.
        after: Its arguments after the carry.

    Returns:
        The body, and the leaves of `init`.
    """
    leaves, tree = tree_flatten(init)
    while True:
        body = traced(f, (tree.unflatten(leaves), *after), {})
        out_tree = carry_of(body.out_tree)
        if out_tree != tree:
            raise TypeError(
                f"{caller}: the body must return a carry with the containers that it is given, "
                f"{tree}, but it returns {out_tree}."
            )
        pairs = list(zip(map(aval_of, leaves), body.jaxpr.out_avals, strict=False))
        if all(old.strong == new.strong for old, new in pairs):
            return body, leaves
        for place, (path, (old, new)) in enumerate(zip(paths(tree), pairs, strict=True)):
            if old.strong == new.strong:
                continue
            dtype = promote(old, new)[0]
            if not old.weak_type or old.shape != new.shape or dtype == old.dtype:
                kind = "shapes" if old.shape != new.shape else "dtypes"
                raise TypeError(
                    f"{caller}: the body must return a carry of the types that it is given, but "
                    f"carry{''.join(path)} goes in as {old.str_short()} and comes out as "
                    f"{new.str_short()}: the {kind} do not match. Convert one of them."
                )
            leaves[place] = converted(leaves[place], dtype)


def converted(x: Any, dtype: np.dtype) -> Any:
    """Converts an array or a Python scalar to a dtype."""
    if aval_of(x).dtype == dtype:
        return x
    return convert_element_type(x, dtype) if isinstance(x, Value) else np.asarray(x, dtype)[()]


# ---- transforms of a body -----------------------------------------------------------------------


@memoized
def looped(
    closed: ClosedJaxpr,
    transform: Callable[..., Any],
    consts: Flags,
    carry: Flags,
    xs: Flags = (),
    *args: Any,
) -> tuple[Any, ...]:
    """Transforms the body of a loop until the carry has the same flags in and out: a fixpoint.

    Args:
        closed: The body, of constants, what is carried, and rows.
        transform: The transformation of a jaxpr, such as `jvp_jaxpr`.
        consts: The flags of the constants.
        carry: Those of what is carried, to begin with.
        xs: Those of the rows.
        args: Further arguments of the transform.

    Returns:
        What it makes, with the body's constants behind it; then the flags of what is carried.
    """
    # Flags are only ever added, so this ends. With a tangent for y alone, x, y = y, x * y gives x
    # one in the first round; in the second round both have one, and nothing changes.
    ys = [False] * (len(closed.out_avals) - len(carry))
    while True:
        body, *rest = transform(closed, *args, [*consts, *carry, *xs], [*carry, *ys])
        grown = tuple(rest[-1][: len(carry)])
        if grown == carry:
            return *hoisted(body), *rest, carry
        carry = grown


def _woven(values: Sequence[Any], moving: Sequence[Any]) -> list[Any]:
    """Returns constants, carry and rows, each followed by its tangents."""
    return list(chain(*chain(*zip(values, moving, strict=True))))


@memoized
def _jvp_of(closed: ClosedJaxpr, *flags: Flags) -> tuple[Any, ...]:
    """Applies `looped` with `jvp_jaxpr`; each of constants, carry, rows is followed by tangents."""
    both, new, results, carry = looped(closed, jvp_jaxpr, *flags)
    own, values, moving = cut(both.jaxpr.invars, len(new), len(closed.in_avals))
    sizes = [(len(group), sum(group)) for group in (flags[0], carry)]
    counts, moved_counts = zip(*sizes, strict=True)
    invars = _woven(cut(values, *counts), cut(moving, *moved_counts))
    outs, moved = cut(both.jaxpr.outvars, len(results))
    outvars = _woven(cut(outs, len(carry)), cut(moved, sum(carry)))
    return reordered(both, [*own, *invars], outvars), new, results, carry


def loop_jvp(
    closed: ClosedJaxpr, primals: Sequence[list[Any]], tangents: Sequence[list[Any]]
) -> tuple[ClosedJaxpr, list[list[Any]], list[bool], Flags]:
    """Returns the jvp of the body of a loop.

    Args:
        closed: The body.
        primals: Its constants, what is carried, and rows.
        tangents: Their tangents.

    Returns:
        The body with tangents, what it is given, and which results and which carries have one.
    """
    has = [nonzero(group) for group in tangents]
    both, new, flags, has[1] = _jvp_of(closed, *has)
    moving = [list(map(instantiate, split(*pair)[1])) for pair in zip(has, tangents, strict=True)]
    consts, *rest = ([*values, *own] for values, own in zip(primals, moving, strict=True))
    return both, [[*new, *consts], *rest], flags, has[1]


# ---- while --------------------------------------------------------------------------------------


@while_p.rule("abstract")
def _(*avals: ShapedArray, body_jaxpr: ClosedJaxpr, **_: Any) -> list[ShapedArray]:
    return body_jaxpr.out_avals


def while_op(state: Sequence[Any], test: Callable[..., Any], body: Callable[..., Any]) -> list[Any]:
    """Emits a while op whose condition and body are emitted by two functions."""
    types = [x.type for x in state]
    op = hlo.WhileOp(types, list(state))
    for region, write in ((op.cond, test), (op.body, body)):
        with ir.InsertionPoint(region.blocks.append(*types)) as point:
            hlo.return_(write(*point.block.arguments))
    return list(op.results)


@while_p.rule("lower")
def _(ctx: Any, *operands: Any, **params: Any) -> list[Any]:
    test, body = params["cond_jaxpr"], params["body_jaxpr"]
    tests, consts, init = _parts(operands, params)
    return while_op(
        init,
        lambda *state: ctx.inline(test, *tests, *state, scope="while/cond"),
        lambda *state: ctx.inline(body, *consts, *state, scope="while/body"),
    )


@while_p.rule("jvp")
def _(primals: Any, tangents: Any, **params: Any) -> Any:
    tests, *parts = _parts(primals, params)
    both, (consts, carry), _, flags = loop_jvp(
        params["body_jaxpr"], parts, _parts(tangents, params)[1:]
    )
    count = len(flags)
    test = _with_more(params["cond_jaxpr"], tuple(map(aval_of, carry[count:])))
    return with_tangents(loop(test, tests, both, consts, carry), flags)


@memoized
def _with_more(closed: ClosedJaxpr, types: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    return reordered(closed, [*closed.jaxpr.invars, *map(Var, types)])


@while_p.rule("batch")
def _(size: int, args: Any, dims: Any, **params: Any) -> Any:
    (tests, consts, init), places = _parts(args, params), _parts(dims, params)
    in_tests, in_consts, carry = (tuple(dim is not None for dim in group) for group in places)
    while True:
        body, new, _, carry = looped(params["body_jaxpr"], batch_jaxpr, in_consts, carry, (), size)
        flags = in_tests + carry
        test, new_tests, (differs,) = transformed(params["cond_jaxpr"], batch_jaxpr, size, flags)
        if not differs or all(carry):
            break
        carry = (True,) * len(carry)
    tests = [*new_tests, *in_front(size, tests, places[0])]
    consts = [*new, *in_front(size, consts, places[1])]
    if differs:
        test, body = until_the_last((test, body), len(tests))
        consts = tests + consts
    results = loop(test, tests, body, consts, in_front(size, init, places[2], carry))
    return results, [0 if has else None for has in carry]


@memoized
def until_the_last(
    jaxprs: tuple[ClosedJaxpr, ClosedJaxpr], num_tests: int
) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """Returns a loop that goes on until all examples are done; one that is done keeps its carry.

    Args:
        jaxprs: The condition, which is true for some examples, and the body.
        num_tests: How many constants the condition has, which the new body has before its own.
    """
    test, body = map(as_function, jaxprs)
    tests, state = cut(jaxprs[0].in_avals, num_tests)

    def some(*args: Any) -> list[Any]:
        (going,) = test(*args)
        return [reduce_or_p.bind(going, axes=tuple(range(aval_of(going).ndim)))]

    def iteration(*args: Any) -> list[Any]:
        tests, rest = cut(args, num_tests)
        old = rest[len(rest) - len(state) :]
        (going,) = test(*tests, *old)
        return [selected(going, *pair) for pair in zip(old, body(*rest), strict=True)]

    return trace(some, [*tests, *state]), trace(iteration, [*tests, *jaxprs[1].in_avals])


@while_p.rule("partial")
def _(interpreter: Partial, args: Any, params: dict[str, Any]) -> list[Any]:
    """Runs the known part now if the condition is known; records the whole loop for the rest."""
    tests, consts, carry = (tuple(map(interpreter.unknown, part)) for part in _parts(args, params))
    body, new, *_, carry = looped(params["body_jaxpr"], partial_jaxpr, consts, carry)
    test, new_tests, waits = transformed(params["cond_jaxpr"], partial_jaxpr, (*tests, *carry))
    if waits == [True]:
        whole: list[Any] = Staging.process(interpreter, while_p, args, params)
        return whole
    body = first_results(body, carry.count(False))
    pairs = zip((tests, consts, carry), _parts(args, params), strict=True)
    known_tests, known_consts, init = (split(waits, xs)[0] for waits, xs in pairs)
    with interpreting(interpreter.parent):
        done = loop(test, [*new_tests, *known_tests], body, [*new, *known_consts], init)
    whole = Staging.process(interpreter, while_p, args, params) if any(carry) else done
    return merge(carry, done, split(carry, whole)[1])


@while_p.rule("transpose")
def _(cts: Any, *args: Any, **params: Any) -> NoReturn:
    raise ValueError(
        "Reverse-mode differentiation does not work for while_loop, or for fori_loop with a number "
        "of turns that is not known while tracing: the values of each turn would have to be kept. "
        "Use scan, or fori_loop with Python integers as bounds; jvp and jacfwd work."
    )
