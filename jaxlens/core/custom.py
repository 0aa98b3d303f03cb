"""Derivatives by the user's own rules: `custom_jvp`, `custom_vjp`.

A function may know its derivative better than its equations do: to be stable, cheap, or defined at
all. A decorated function is traced to a call (`custom_calls.py`) that carries the user's rules,
made functions of flat lists, and checked: a rule that returns other containers, shapes or dtypes
than the function is the common mistake. JAX traces the function only under `jit`; here it always
is, so that Python's `if` in it cannot look at numbers. And JAX forgets a jvp rule inside a scan
once that is differentiated, so that the second derivative is the function's own; here it stays.

After "Custom derivative rules for JAX-transformable Python functions" (docs.jax.dev).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce, update_wrapper, wraps
from inspect import signature
from typing import Any, cast

from jaxlens.core.avals import float0, tangent_aval
from jaxlens.core.calls import same_type
from jaxlens.core.custom_calls import Residuals, custom_jvp_call_p, custom_vjp_call_p
from jaxlens.core.primitives.elementwise import add_any_p
from jaxlens.core.staging import aval_of, traced
from jaxlens.core.tracers import Zero
from jaxlens.core.trees import (
    TreeDef,
    prefix_leaves,
    register_pytree_node,
    tree_flatten,
    tree_map,
)


@dataclass(frozen=True, slots=True)
class Static:
    """An argument that is not traced: a container without leaves, compared by its value."""

    kind: type
    value: Any


register_pytree_node(Static, lambda s: ((), (s.kind, s.value)), lambda data, _: Static(*data))


class WithRules:
    """A function whose derivative the user defines.

    Args:
        f: The function.
        nondiff_argnums: Which arguments are no arrays to differentiate by, such as functions. They
            are not traced, and come before the others when a rule is called.
    """

    def __init__(self, f: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> None:
        self.f = f
        self.nondiff_argnums = tuple(nondiff_argnums)
        self.opened = opening(f)
        update_wrapper(cast(Callable[..., Any], self), f)

    @property
    def name(self) -> str:
        """The function's."""
        return getattr(self.f, "__name__", "f")

    def positional(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """All arguments in their places, those that are not traced wrapped."""
        bound = signature(self.f).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(
                f"{self.name} has rules for its derivative, which are given positional arguments "
                f"only: it cannot take the keyword-only {', '.join(bound.kwargs)}."
            )
        return closing(self.name, bound.args, self.nondiff_argnums)

    def split(self, tree: TreeDef, leaves: Sequence[Any]) -> tuple[list[Any], tuple[Any, ...]]:
        """The values of the arguments that are not traced, and the other arguments."""
        args = tree.unflatten(leaves)
        static = [arg.value for arg in args if type(arg) is Static]
        return static, tuple(arg for arg in args if type(arg) is not Static)


def opening(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function of arguments of which some are wrapped."""

    @wraps(f)
    def opened(*args: Any, **kwargs: Any) -> Any:
        return f(*(arg.value if type(arg) is Static else arg for arg in args), **kwargs)

    return opened


def closing(name: str, args: Sequence[Any], places: Sequence[int]) -> list[Any]:
    """The arguments, those at these places wrapped."""
    closed = list(args)
    for place in places:
        try:
            hash(args[place])
        except (TypeError, IndexError):
            got = type(args[place]).__name__ if place < len(args) else "no such argument"
            raise TypeError(
                f"{name}: argument {place} is not to be traced, so it must hash, such as a "
                f"function, a number or a tuple; got {got}."
            ) from None
        closed[place] = Static(type(args[place]), args[place])
    return closed


def _pair(found: Any, name: str, rule: str, parts: str) -> tuple[Any, Any]:
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise TypeError(
            f"The {rule} rule of {name} must return a pair ({parts}), got {type(found).__name__}."
        )
    return found[0], found[1]


class custom_jvp(WithRules):  # noqa: N801 - as in jax
    """A function whose tangent the user computes: a decorator, completed by `defjvp`."""

    jvp: Callable[..., Any] | None = None

    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:
        """Sets the rule: `jvp(*nondiff, primals, tangents) -> (value, tangent)`."""
        self.jvp = jvp
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Sets the rule from one per argument, `(tangent, value, *primals) -> tangent`, or None."""

        def jvp(primals: Any, tangents: Any) -> Any:
            value = self(*primals)
            pairs = zip(tangents, jvps, strict=True)
            parts = [part(t, value, *primals) for t, part in pairs if part is not None]
            return value, reduce(partial(tree_map, add_any_p.bind), parts)

        self.jvp = jvp

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.jvp is None:
            raise AttributeError(
                f"No JVP defined for custom_jvp function {self.name} using defjvp."
            )
        given = self.positional(args, kwargs)
        body = traced(self.opened, given, {})
        leaves, in_tree = tree_flatten(tuple(given))
        results = custom_jvp_call_p.bind(
            *body.consts, *leaves, name=self.name, call_jaxpr=body.jaxpr,
            jvp=JVP(self, in_tree, body.out_tree), num_consts=len(body.consts),
        )  # fmt: skip
        return body.out_tree.unflatten(results)


@dataclass(frozen=True, slots=True, repr=False)
class Rule:
    """A rule of the user's as a function of flat lists.

    Attributes:
        f: The function that it is for.
        in_tree: The containers of that function's arguments.
        out_tree: Those of its value.
    """

    f: Any
    in_tree: TreeDef
    out_tree: TreeDef

    def __repr__(self) -> str:
        return getattr(getattr(self.f, type(self).__name__.lower()), "__name__", "rule")


class JVP(Rule):
    """Of primals and tangents to a value and its tangents."""

    __slots__ = ()

    def __call__(
        self, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        name, jvp = self.f.name, self.f.jvp
        assert jvp is not None
        static, args = self.f.split(self.in_tree, primals)
        moving = self.f.split(self.in_tree, tangents)[1]
        value, tangent = _pair(jvp(*static, args, moving), name, "jvp", "value, tangent")
        results, tree = tree_flatten(value)
        moved, tangent_tree = tree_flatten(tangent)
        if not tree == tangent_tree == self.out_tree:
            raise TypeError(
                f"The jvp rule of {name} must return a value and a tangent with the containers of "
                f"{name}'s value, {self.out_tree}, got {tree} and {tangent_tree}."
            )
        triples = zip(tree.paths(), results, moved, strict=True)
        return results, [_tangent(name, "".join(path), x, t) for path, x, t in triples]


def _tangent(name: str, path: str, x: Any, tangent: Any) -> Any:
    """A tangent of the value that it is for."""
    expected, got = tangent_aval(aval_of(x)), aval_of(tangent)
    if expected.dtype == float0:
        return Zero(expected)
    if not same_type(expected, got):
        raise TypeError(
            f"The jvp rule of {name} must return tangents of the types of the values: "
            f"tangent{path} must be {expected.str_short()}, got {got.str_short()}."
        )
    return tangent


class custom_vjp(WithRules):  # noqa: N801 - as in jax
    """A function whose gradient the user computes: a decorator, completed by `defvjp`.

    It has reverse mode only: nothing says what its tangent is.
    """

    fwd: Callable[..., Any] | None = None
    bwd: Callable[..., Any]

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Sets the rules.

        Args:
            fwd: Of the same arguments as the function: `(value, residuals)`.
            bwd: `(*nondiff, residuals, cotangent)` to a tuple with a cotangent for each argument
                that is differentiated; None where it is zero.
        """
        self.fwd, self.bwd = fwd, bwd

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fwd is None:
            raise AttributeError(
                f"No VJP defined for custom_vjp function {self.name} using defvjp."
            )
        given = self.positional(args, kwargs)
        body = traced(self.opened, given, {})
        leaves, in_tree = tree_flatten(tuple(given))
        results = custom_vjp_call_p.bind(
            *body.consts, *leaves, name=self.name, call_jaxpr=body.jaxpr,
            fwd=Fwd(self, in_tree, body.out_tree), bwd=Bwd(self, in_tree, body.out_tree),
            num_consts=len(body.consts),
        )  # fmt: skip
        return body.out_tree.unflatten(results)


class Fwd(Rule):
    """Of primals to a value and the residuals."""

    __slots__ = ()

    def __call__(self, primals: Sequence[Any]) -> tuple[list[Any], Residuals]:
        assert self.f.fwd is not None
        args = self.in_tree.unflatten(primals)
        found = opening(self.f.fwd)(*args)
        value, residuals = _pair(found, self.f.name, "fwd", "value, residuals")
        results, tree = tree_flatten(value)
        if tree != self.out_tree:
            raise TypeError(
                f"The fwd rule of {self.f.name} must return a value with the containers that "
                f"{self.f.name} returns, {self.out_tree}, got {tree}."
            )
        return results, tree_flatten(residuals)


class Bwd(Rule):
    """Of residuals and the cotangents of a value to a cotangent per leaf, or None."""

    __slots__ = ()

    def __call__(self, residuals: Residuals, cts: Sequence[Any]) -> list[Any]:
        leaves, tree = residuals
        static, _ = self.f.split(self.in_tree, [None] * self.in_tree.num_leaves)
        found = self.f.bwd(*static, tree.unflatten(leaves), self.out_tree.unflatten(cts))
        trees = [child for child in self.in_tree.children if child.kind is not Static]
        if not isinstance(found, tuple | list) or len(found) != len(trees):
            raise TypeError(
                f"The bwd rule of {self.f.name} must return a tuple with a cotangent for each of "
                f"the {len(trees)} arguments, got {found!r}."
            )
        try:
            pairs = zip(found, trees, strict=True)
            every = [leaf for ct, tree in pairs for leaf in prefix_leaves(ct, tree, "bwd")]
        except ValueError as wrong:
            raise TypeError(
                f"The bwd rule of {self.f.name} must return cotangents with the containers of the "
                f"arguments: {wrong}."
            ) from None
        return [None if x is None or aval_of(x).dtype == float0 else x for x in every]
