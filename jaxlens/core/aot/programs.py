"""jit: trace once, compile once, then only run.

The first call with arguments of certain types traces the function to a jaxpr, lowers and compiles
it; later calls of the same types look the program up and start it. What makes two calls "the same"
is the key: the types of the arrays, the containers that they came in, the values of what was not
traced. Under another transformation nothing runs: `jit` is a primitive whose parameter is a jaxpr,
with rules made of the rules for its equations.

After "Just-in-time compilation" (docs.jax.dev) and Autodidax.
"""

from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from types import MethodType
from typing import Any, NamedTuple

from jaxlens.core.aot.device import common_device
from jaxlens.core.aot.stages import Lowered, Traced
from jaxlens.core.kernel.interpreter import GROUND, Tracer, current, observer
from jaxlens.core.kernel.run import jit_p
from jaxlens.core.kernel.trace import trace
from jaxlens.core.kernel.types import ShapedArray, x64
from jaxlens.core.transforms import signatures
from jaxlens.core.transforms.batching import named_axes
from jaxlens.core.transforms.trees import TreeDef, flat, tree_flatten


class Key(NamedTuple):
    """The cache key of `jit`: two calls with equal keys run the same program.

    Attributes:
        function: The function's name.
        in_avals: Types of the leaves of its arguments, weak and strong ones being different.
        in_tree: The containers that they came in.
        static: Position or name, class and value of each static argument.
        device: Where the arguments were put; None for the default device.
        axes: Names and sizes of the axes that are mapped around.
        x64: Whether arrays may have 64-bit elements.
    """

    function: str
    in_avals: tuple[ShapedArray, ...]
    in_tree: TreeDef
    static: signatures.Static
    device: Any
    axes: tuple[tuple[str, int], ...]
    x64: bool


class CacheInfo(NamedTuple):
    """Cache hits, misses and entries."""

    hits: int
    misses: int
    entries: int


class Jitted:
    """A jitted function with its cache of programs.

    Attributes:
        f: The function.
        name: Its name.
        static: Positions and names of the arguments that are compared, not traced.
        donated: Positions and names of the arguments whose memory may be used for results.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        static_argnums: int | Sequence[int] = (),
        static_argnames: str | Sequence[str] = (),
        donate_argnums: int | Sequence[int] = (),
        donate_argnames: str | Sequence[str] = (),
    ) -> None:
        self.f = f
        self.name = signatures.name_of(f)
        self.static = signatures.chosen(f, static_argnums, static_argnames, "static_arg")
        self.donated = signatures.chosen(f, donate_argnums, donate_argnames, "donate_arg")
        self._programs: dict[Key, Traced] = {}
        self._hits = self._misses = 0
        update_wrapper(self, f, updated=())

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, traced = self._look_up(args, kwargs)
        if current() is not GROUND:
            closed, consts = traced.hoisted
            results = jit_p.bind(*consts, *leaves, jaxpr=closed, name=self.name)
            return traced.out_tree.unflatten(results)
        if observer.listeners:
            params = {"jaxpr": traced.jaxpr, "name": self.name}
            observer.emit("bind", "jit", interpreter=GROUND, args=leaves, params=params)
            observer.emit("run", self.name, executable=traced.compiled.executable)
        return traced.compiled.run(leaves)

    def key(self, *args: Any, **kwargs: Any) -> Key:
        """Returns the cache key of a call with these arguments."""
        return self._leaves_and_key(args, kwargs)[1]

    def _leaves_and_key(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], Key]:
        static: signatures.Static = ()
        if self.static:
            args, kwargs, static = signatures.without_static(self.static, args, kwargs)
        leaves, in_tree = tree_flatten((args, kwargs))
        avals = tuple(signatures.types_of(self.f, in_tree, leaves, static))
        axes = tuple(named_axes().items())
        return leaves, Key(self.name, avals, in_tree, static, common_device(leaves), axes, x64())

    def _look_up(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Traced]:
        leaves, key = self._leaves_and_key(args, kwargs)
        try:
            traced = self._programs.get(key)
        except TypeError:
            raise signatures.unhashable(self.f, key.static) from None
        if observer.listeners:
            observer.emit("cache", self.name, hit=traced is not None, key=key)
        if traced is not None:
            self._hits += 1
            return leaves, traced
        self._misses += 1
        traced = self._traced(key)
        if not any(isinstance(const, Tracer) for const in traced.jaxpr.consts):
            self._programs[key] = traced  # what takes tracers takes other ones next time
        return leaves, traced

    def _traced(self, key: Key) -> Traced:
        flat_f, out_trees = flat(signatures.filled(self.f, key.static), key.in_tree)
        closed = trace(flat_f, key.in_avals)
        if observer.listeners:
            observer.emit("trace", self.name, jaxpr=closed)
        leaves = signatures.arguments(self.f, key.in_tree, key.static)
        names, donated = [name for _, name in leaves], [arg in self.donated for arg, _ in leaves]
        return Traced(self.name, closed, key.in_tree, out_trees[0], names, donated, key.device)

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Traces the function at the types of these arguments, which may be `ShapedArray`s."""
        return self._look_up(args, kwargs)[1]

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Traces and lowers the function at the types of these arguments."""
        return self.trace(*args, **kwargs).lower()

    def cache_info(self) -> CacheInfo:
        """Cache hits, misses and entries."""
        return CacheInfo(self._hits, self._misses, len(self._programs))

    def cache_keys(self) -> list[Key]:
        """The cache keys, oldest first."""
        return list(self._programs)


def jit(f: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compiles a function for the types that it is called with.

    Python's side effects in it (printing, appending to a list) happen while it is traced, so once
    for each new key, not once a call.

    Args:
        f: A function of pytrees of arrays. Left out in a decorator with options.
        **options: `static_argnums`, `static_argnames`: arguments that are not traced but compared;
            another value is another program. `donate_argnums`, `donate_argnames`: arguments whose
            memory may be used for results; they cannot be used afterwards.

    Returns:
        A `Jitted`: the function, with `trace`, `lower`, `key`, `cache_keys`, `cache_info`.
    """
    return partial(Jitted, **options) if f is None else Jitted(f, **options)


def eval_shape(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Returns the types of a function's results without computing them."""
    traced = Jitted(f).trace(*args, **kwargs)
    return traced.out_tree.unflatten(traced.jaxpr.out_avals)
