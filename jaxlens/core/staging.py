"""Tracing to a jaxpr: the interpreter that writes down what it is asked to do.

To write a Python function down, call it once on tracers and let each primitive that they meet
record an equation. Python's own `if` and `for` have run by then and leave only what they did: one
branch, every turn of the loop. What the function takes from outside becomes a constant.

After "JAX: composable transformations" (Frostig, Johnson, Leary, MLSys 2018) and Autodidax.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

from jaxlens.core import sources
from jaxlens.core.avals import ShapedArray
from jaxlens.core.jaxprs import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, hoisted, kept
from jaxlens.core.signatures import types_of
from jaxlens.core.tracers import (
    KINDS,
    Interpreter,
    Primitive,
    Tracer,
    aval_of,
    interpreting,
    leaked,
)
from jaxlens.core.trees import TreeDef, tree_flatten

axes: ContextVar[dict[str, int]] = ContextVar("axes", default={})  # noqa: B039 - never changed
named_axes = axes.get  # the axes that are mapped around, by name, and their sizes


class StagedTracer(Tracer):
    """A variable of the jaxpr that is being written."""

    __slots__ = ("var",)

    def __init__(self, interpreter: "Staging", var: Var) -> None:
        self.interpreter = interpreter
        self.aval = var.aval
        self.var = var

    def made(self) -> str:
        assert isinstance(self.interpreter, Staging)
        for eqn in self.interpreter.eqns:
            if self.var in eqn.outvars:
                return sources.said(eqn.source_info)
        return "the arguments"


class Staging(Interpreter):
    """Writes down every primitive that it is asked to apply.

    Attributes:
        eqns: The equations so far.
        consts: What was taken from outside.
        constvars: Variables for these.
    """

    def __init__(self) -> None:
        self.eqns: list[JaxprEqn] = []
        self.consts: list[Any] = []
        self.constvars: list[Var] = []
        self._seen: dict[int, Var] = {}  # by id; `consts` keeps the objects alive

    def parameter(self, aval: ShapedArray) -> StagedTracer:
        """A tracer for a parameter."""
        return StagedTracer(self, Var(aval))

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Writes an equation; its results are new tracers."""
        invars = list(map(self.atom, args))
        types = primitive.abstract(*[atom.aval for atom in invars], **params)
        many = primitive.multiple_results
        outvars = [Var(aval) for aval in types] if many else [Var(types)]
        eqn = JaxprEqn(primitive, invars, outvars, params, sources.here())
        self.eqns.append(eqn)
        if sources.listeners:
            sources.emit("record", primitive.name, eqn=eqn)
        if many:
            return [StagedTracer(self, var) for var in outvars]
        return StagedTracer(self, outvars[0])

    def atom(self, value: Any) -> Atom:
        """What stands in an equation for a value: a variable, a literal or a constant."""
        if type(value) is StagedTracer and value.interpreter is self:
            return value.var
        if isinstance(value, Tracer):
            if value.interpreter.done:
                raise leaked(value)
        else:
            aval = aval_of(value)
            if not aval.shape and isinstance(value, KINDS):
                return Literal(value, aval)
        if id(value) not in self._seen:
            self._seen[id(value)] = Var(aval_of(value))
            self.consts.append(value)
            self.constvars.append(self._seen[id(value)])
        return self._seen[id(value)]

    def closed(self, invars: Sequence[Var], results: Sequence[Any]) -> ClosedJaxpr:
        """The jaxpr of these results."""
        outvars = [self.atom(result) for result in results]
        self.done = True
        return ClosedJaxpr(Jaxpr(self.constvars, invars, outvars, self.eqns), self.consts)


def trace(
    f: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], alone: bool = False
) -> ClosedJaxpr:
    """Writes down a function of a flat list of arrays to one.

    Args:
        f: The function; called once.
        avals: The types of its arguments.
        alone: Whether its steps come from its own lines only, not from those that call it too.
    """
    staging = Staging()
    tracers = [staging.parameter(aval) for aval in avals]
    try:
        with sources.tracing(alone), interpreting(staging):
            results = sources.call_traced(f, *tracers)
        return staging.closed([tracer.var for tracer in tracers], results)
    finally:
        staging.done = True


def flat(f: Callable[..., Any], in_tree: TreeDef) -> tuple[Callable[..., list[Any]], list[TreeDef]]:
    """A function of flat lists that calls `f` of trees.

    Returns:
        It, and a list that holds the tree of the results once it has been called.
    """
    out_trees: list[TreeDef] = []

    def flat_f(*leaves: Any) -> list[Any]:
        args, kwargs = in_tree.unflatten(leaves)
        results, out_tree = tree_flatten(f(*args, **kwargs))
        out_trees[:] = [out_tree]
        return results

    return flat_f, out_trees


class Traced(NamedTuple):
    """A function of trees, written down.

    Attributes:
        jaxpr: It, of its constants and then the leaves of its arguments; has no constants itself.
        consts: Their values.
        out_tree: The tree of the results.
    """

    jaxpr: ClosedJaxpr
    consts: list[Any]
    out_tree: TreeDef


def traced(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Traced:
    """Writes down a function of trees, as calls and loops keep it: closed, constants hoisted.

    A function that was written down before at these types is not called again, so that a loop
    run twice is compiled once.
    """
    leaves, in_tree = tree_flatten((tuple(args), kwargs))
    avals = tuple(types_of(f, in_tree, leaves))
    found: Traced = _traced(f, in_tree, avals, tuple(named_axes().items()))
    return found


@kept
def _traced(f: Callable[..., Any], in_tree: TreeDef, avals: Sequence[Any], _: Any) -> Traced:
    flat_f, out_trees = flat(f, in_tree)
    return Traced(*hoisted(trace(flat_f, avals)), out_trees[0])


def make_jaxpr(f: Callable[..., Any]) -> Callable[..., ClosedJaxpr]:
    """The function of the same arguments that gives the jaxpr of `f` at their types."""

    def jaxpr_of(*args: Any, **kwargs: Any) -> ClosedJaxpr:
        leaves, in_tree = tree_flatten((args, kwargs))
        return trace(flat(f, in_tree)[0], types_of(f, in_tree, leaves))

    return jaxpr_of


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any) -> list[Any]:
    """Applies each equation of a jaxpr in the current interpreter: what every transform does.

    Args:
        jaxpr: The jaxpr.
        consts: Values of its constants.
        args: Values of its parameters.

    Returns:
        Values of its results.
    """
    values: dict[Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    values.update(zip(jaxpr.invars, args, strict=True))

    def read(atom: Atom) -> Any:
        return values[atom] if isinstance(atom, Var) else atom.val

    for eqn in jaxpr.eqns:
        with sources.at(eqn.source_info):
            results = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
        many = eqn.primitive.multiple_results
        values.update(zip(eqn.outvars, results if many else [results], strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def as_function(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """The function of flat lists that a jaxpr writes down."""
    return partial(eval_jaxpr, closed.jaxpr, closed.consts)
