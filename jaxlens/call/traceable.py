"""Makes a call `f(*args, **kwargs)` traceable, without running it.

The call is unwrapped first: bound methods and callable pytrees (`call.py`), so that their arrays
are inputs and not captured constants, and a library's jit, down to the `jax.jit` inside it
(`library_jits.py`). A jitted function keeps its jit settings. JAX always gets a new function
object, so it never reuses an earlier trace.
"""

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import jax

from jaxlens import compat
from jaxlens.call import core_program, library_jits
from jaxlens.call.arguments import closed_over_names as closed_over
from jaxlens.call.arguments import in_place, pytrees
from jaxlens.call.arguments.inputs import (
    Leaf,
    as_input,
    is_unregistered,
    leaves,
    static_text,
)
from jaxlens.call.call import Call, bound_values, is_plain, open_call, unbound
from jaxlens.call.library_jits import InnerCall
from jaxlens.call.target import ResolvedTarget
from jaxlens.errors import OptionError
from jaxlens.ir.facts import Input, Static
from jaxlens.ir.graph import Span
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.ir.spans import BOUNDARY

# Bytes; XLA writes no file whose name is too long, and its names of pipelines and passes take up to
# 130 of a file system's 255.
_LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class TraceableCall:
    """A call that is ready to be traced: `traceable.trace(*args, **kwargs)`.

    Attributes:
        name: The function's name.
        function: The Python function that is traced.
        traceable: A new jitted function object, never called before.
        args: Positional arguments, None in place of a static leaf.
        kwargs: Keyword arguments, likewise.
        inputs: Descriptions of the array leaves, in order.
        statics: Arguments that are part of the program.
        span: The function's definition.
        transforms: JAX's transforms of the function, outermost first.
        owner: The object whose method it is, which tracing may write to, or None.
        settings: The settings of its `jax.jit`; None for a function that is not jitted.
        static: Positions and keywords of static arguments.
        leaves: The array leaves, one per item of `inputs`.
        opened: The unwrapped call, from which the keys of JAX's caches are computed.
        core: The unwrapped call of a `jaxlens.core` function, else None.
        engine: Which library makes the program, if it is not JAX: "by jaxlens.core".
        unjitted: Whether neither `jit` nor a library's wrapper of it is applied to the function.
        inner: The call of the jitted function inside a library's jit, or None.
        tracings: The target of each trace so far, of this call and of what `replace` made of it.
    """

    name: str
    function: Callable[..., Any]
    traceable: Any = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    inputs: tuple[Input, ...] = ()
    statics: tuple[Static, ...] = ()
    span: Span | None = None
    transforms: tuple[str, ...] = ()
    owner: Any = None
    settings: Any = None
    static: frozenset[int | str] = frozenset()
    leaves: tuple[Any, ...] = ()
    opened: Call | None = None
    core: Call | None = None
    engine: str = ""
    unjitted: bool = False
    inner: InnerCall | None = None
    tracings: list[ResolvedTarget] = field(default_factory=list, repr=False, compare=False)

    def trace(self, place: ResolvedTarget) -> Any:
        """Returns the `jax.stages.Traced`; the user's function runs once, on tracers."""
        self.tracings.append(place)
        with self.inner.within() if self.inner else nullcontext():
            return place.trace(self.traceable, self.args, self.kwargs)

    @property
    def unwrapped(self) -> Call:
        """The call with its partials and bound methods unwrapped."""
        unwrapped = self.core or self.opened
        assert unwrapped is not None
        return unwrapped

    def dynamic(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments of the compiled program: all but the static ones."""
        args = tuple(a for i, a in enumerate(self.args) if i not in self.static)
        return args, {k: a for k, a in self.kwargs.items() if k not in self.static}


def prepare(
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    name: str | None = None,
    by_core: bool = False,
) -> TraceableCall:
    """Returns a call in the form in which JAX can trace it.

    Args:
        f: A function, jitted or not, a bound method, a partial, or a callable object; what
            `jax.make_jaxpr` returns is taken for its function.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        name: Its name in the user's source ("model.predict"); by default its own name.
        by_core: Whether `jaxlens.core` traces it, even if this cannot be detected from `f` and
            the arguments.

    Raises:
        OptionError: `f` cannot be called, or has no Python to trace.
    """
    _check(f)
    if str(getattr(f, "__qualname__", "")).startswith("make_jaxpr("):
        f = f.__wrapped__  # type: ignore[attr-defined]
    opened = open_call(f, tuple(args), dict(kwargs), (name or "").partition(".")[0])
    core = None
    if by_core or core_program.is_core_call(opened.function, opened.args, opened.kwargs):
        core = opened
        arrays = jax.tree_util.tree_map(core_program.plain, (core.args, core.kwargs))
        function = core_program.jitted(core.function)
        opened = replace(core, function=function, args=arrays[0], kwargs=arrays[1])
    call_leaves = leaves(opened.args, opened.kwargs, opened.signature)
    _check_arrays(call_leaves)
    inner = library_jits.inner_call(opened)
    parts = compat.jit_parts(inner.call.function if inner else opened.function)
    call = TraceableCall(
        name=name or function_name(f),
        function=opened.function,
        args=opened.args,
        kwargs=opened.kwargs,
        statics=(
            # The plain values that a partial binds are constants of the program.
            *(Static(n, static_text(v)) for n, v in bound_values(opened.function) if is_plain(v)),
            *(Static(n, "None") for n, value in opened.arguments.items() if value is None),
        ),
        span=definition(unbound(opened.function)),
        transforms=tuple(transforms(unbound(opened.function))),
        owner=opened.owner,
        opened=opened,
        core=core,
        engine="" if core is None else core_program.engine(core.function),
        inner=inner,
    )
    if parts is None:
        return _plain(call, opened, call_leaves)
    if inner is None:
        return _jitted(call, opened, parts, call_leaves)
    # The jitted function inside a library's jit, with the user's names.
    inner_call = replace(call, args=inner.call.args, kwargs=inner.call.kwargs)
    jitted = _jitted(inner_call, inner.call, parts, inner.leaves)
    statics = jitted.statics if inner.statics is None else (*inner.statics, *call.statics)
    return replace(jitted, function=inner.function, statics=statics)


def _check(f: Any) -> None:
    if isinstance(f, os.PathLike) or (isinstance(f, str) and {*"/.\\"} & {*f}):
        raise OptionError(
            f"there is no file or folder {static_text(str(f))} here, and it is no text of a program"
        )
    if not callable(f):
        raise OptionError(
            f"expected a function to look at, got {static_text(f)} of type {type(f).__name__}; "
            "pass the function and its arguments apart: capture(f, x)"
        )
    if isinstance(f, jax.stages.Compiled):
        raise OptionError(
            "a compiled program holds no Python to trace; look at the function it was made of"
        )


def _check_arrays(call_leaves: Sequence[Leaf]) -> None:
    for leaf in call_leaves:
        if isinstance(leaf.value, jax.core.Tracer):
            raise OptionError(
                f"expected arrays, got a tracer for {leaf.name} ({type_of(leaf.aval)}): it stands "
                "for a value while JAX traces a function, and has none of its own; return the "
                "value from that function, or look at a call outside of it"
            )


def _jitted(
    call: TraceableCall,
    opened: Call,
    parts: tuple[Callable[..., Any], Any],
    call_leaves: list[Leaf],
) -> TraceableCall:
    """Prepares a jitted function: its static_argnums and static_argnames decide what is static."""
    fun, info = parts
    static_roots = {*info.static_argnums, *info.static_argnames}
    donated = {*info.donate_argnums, *info.donate_argnames}
    arrays = [
        leaf for leaf in call_leaves if leaf.root not in static_roots and leaf.aval is not None
    ]
    statics = {n: Static(n, static_text(v)) for n, v in opened.split(static_roots)[0].items()}
    return replace(
        call,
        traceable=compat.rejit(_anew(fun, fun, None), info),
        inputs=tuple(as_input(leaf, leaf.root in donated) for leaf in arrays),
        statics=(*statics.values(), *(s for s in call.statics if s.name not in statics)),
        function=fun,
        settings=info,
        static=frozenset(static_roots),
        leaves=tuple(leaf.value for leaf in arrays),
    )


def _plain(call: TraceableCall, opened: Call, call_leaves: list[Leaf]) -> TraceableCall:
    """Prepares a function that is not jitted: every leaf that is not an array is static."""
    _check_classes(call, opened, call_leaves)
    arrays = [leaf for leaf in call_leaves if not leaf.fixed]
    statics = [leaf for leaf in call_leaves if leaf.fixed]
    args, kwargs = call.args, call.kwargs
    function = in_place.returning(opened.function, opened.signature)
    if statics:
        fixed = {i: leaf.value for i, leaf in enumerate(call_leaves) if leaf.fixed}
        structure = jax.tree_util.tree_structure((args, kwargs))
        dynamic = [None if leaf.fixed else leaf.value for leaf in call_leaves]
        args, kwargs = jax.tree_util.tree_unflatten(structure, dynamic)
        function = _with_statics(function, structure, fixed)
    return replace(
        call,
        traceable=jax.jit(_anew(function, opened.function, opened.signature, _without_text)),
        args=args,
        kwargs=kwargs,
        inputs=tuple(as_input(leaf, donated=False) for leaf in arrays),
        statics=(*(Static(s.name, static_text(s.value)) for s in statics), *call.statics),
        leaves=tuple(leaf.value for leaf in arrays),
        unjitted=True,
    )


def _check_classes(call: TraceableCall, opened: Call, call_leaves: Sequence[Leaf]) -> None:
    """Raises the error of `jax.jit` for an object whose class is not a registered pytree.

    The object whose method is called is exempt: it is closed over.
    """
    for position, leaf in enumerate(call_leaves):
        is_owner = call.owner is not None and leaf.root == 0
        if not leaf.fixed or leaf.aval is not None or is_owner or not is_unregistered(leaf.value):
            continue
        structure = jax.tree_util.tree_structure((call.args, call.kwargs))
        values = [leaf.value if i == position else None for i in range(len(call_leaves))]
        args, kwargs = jax.tree_util.tree_unflatten(structure, values)
        try:
            # JAX rejects the arguments before it calls the function.
            empty = _anew(lambda *_, **__: None, opened.function, opened.signature)
            jax.jit(empty).trace(*args, **kwargs)
        except TypeError as error:
            kind, root = type(leaf.value).__name__, leaf.name.partition("[")[0].partition(".")[0]
            error.add_note(
                f"jaxlens: {leaf.name} is a {kind}, a class that JAX does not know: register it, "
                f"as with jax.tree_util.register_dataclass({kind}), and its arrays are inputs; or "
                f"make it part of the program: jax.jit({call.name}, static_argnames={root!r})"
            )
            raise


def _with_statics(
    function: Callable[..., Any], structure: Any, fixed: Mapping[int, Any]
) -> Callable[..., Any]:
    """Returns a function of the array leaves only, which inserts the static leaves.

    A static leaf in the result, as in an updated Equinox model, becomes None: JAX would reject
    it as an output.
    """
    static = {id(value) for value in fixed.values()}

    def completed(*args: Any, **kwargs: Any) -> Any:
        arrays = iter(jax.tree_util.tree_leaves((args, kwargs)))
        values = [fixed[i] if i in fixed else next(arrays) for i in range(structure.num_leaves)]
        args, kwargs = jax.tree_util.tree_unflatten(structure, values)
        results = function(*args, **kwargs)
        pytrees.check("the result", results)
        return jax.tree_util.tree_map(lambda leaf: None if id(leaf) in static else leaf, results)

    return completed


def _without_text(results: Any) -> Any:
    """Returns results with None for a string, which a function that is not jitted may return."""
    return jax.tree_util.tree_map(lambda leaf: None if isinstance(leaf, str) else leaf, results)


def _anew(
    function: Callable[..., Any],
    named: Callable[..., Any],
    signature: inspect.Signature | None,
    kept: Callable[[Any], Any] = lambda results: results,
) -> Callable[..., Any]:
    """Returns a new function object that calls `function`, with name and signature of `named`.

    It returns what `kept` makes of the results. The name of this function is in the frames of HLO
    text: "_anew.<locals>.traced".
    """

    def traced(*args: Any, **kwargs: Any) -> Any:
        results = function(*args, **kwargs)
        pytrees.check("the result", results)  # JAX flattens it next
        return kept(results)

    # JAX records this frame, with its file name, in every location: readers cut frames there.
    traced.__code__ = traced.__code__.replace(co_filename=BOUNDARY)
    functools.update_wrapper(traced, named, updated=())
    short = function_name(named).encode(errors="replace")[:_LONGEST_NAME]
    traced.__name__ = short.decode("utf-8", "ignore")
    traced.__qualname__ = getattr(unbound(named), "__qualname__", traced.__name__)
    if signature is not None:
        traced.__signature__ = signature  # type: ignore[attr-defined]
    return traced


def function_name(f: Any) -> str:
    """Returns a function's name as a user would write it."""
    outermost = unbound(f)
    for f in compat.layers(outermost):
        if isinstance(f, functools.partial):
            return function_name(f)
        # A transform of a model has no name, or a placeholder of JAX's: use the model's class.
        named = compat.attribute(f, "__name__") not in (None, compat.UNNAMED)
        if named and compat.jit_parts(f) is None and not compat.transform_name(f):
            break
    name = compat.attribute(f, "__name__") or getattr(compat.attribute(f, "fun"), "__name__", None)
    return name if isinstance(name, str) else type(f).__name__


def definition(f: Any) -> Span | None:
    """Returns the span of the innermost wrapped function's definition, or None."""
    *_, inner = compat.layers(f)
    return closed_over.definition(inner) or closed_over.definition(type(inner).__call__)


def transforms(f: Any) -> Iterator[str]:
    """Yields the names of the JAX transforms applied to a function, outermost first.

    Each transform returns a function that wraps the user's. A jit does not change the mathematics
    and is not listed.
    """
    for layer in compat.layers(f):
        name = compat.transform_name(layer) or core_program.transform(layer)
        if name:
            yield name
    if isinstance(layer, functools.partial):
        yield from transforms(layer.func)
