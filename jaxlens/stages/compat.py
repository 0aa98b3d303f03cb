"""Every private thing that we borrow from JAX, one function each, and what happens without it.

Tried with jax 0.10.2 and 0.12.0.1. Each function says what is lost when the thing is gone;
none raises for that reason. Public JAX is used directly where it is needed.
"""

import importlib
import importlib.metadata
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple


def _private(name: str) -> Any:
    """A module inside `jax._src`. Raises ImportError where there is none."""
    return importlib.import_module(f"jax._src.{name}")


def context_value() -> Any:
    """A value that `apart` can put into JAX's cache keys.

    It is a small jit fast-path cache: the one thing that JAX expects in the context that
    `apart` borrows. Jits made at top level in there keep their fast-path entries in it.

    Gone: any object tells keys apart as well.
    """
    try:
        pjit = _private("pjit")
        return pjit.make_jit_cpp_cache(64)
    except (ImportError, AttributeError):
        return object()


def apart(value: Any) -> AbstractContextManager[Any]:
    """Within it, JAX traces, lowers and compiles under cache keys of their own.

    `jax.make_user_context` would do the same in public, but a new context changes every key
    once, so that the user's functions would all compile again. `jax_jit_cpp_cache_obj` is a
    user context that JAX itself has made; nobody's key changes outside of this block.

    Gone: a public user context, with that cost, once per process.
    """
    try:
        config = _private("config")
        borrowed: AbstractContextManager[Any] = config.jax_jit_cpp_cache_obj(value)
        return borrowed
    except (ImportError, AttributeError):
        own: AbstractContextManager[Any] = _own_context()(value)
        return own


def _own_context(made: list[Any] = []) -> Any:  # noqa: B006 - one context per process
    import jax

    make: Any = jax.make_user_context
    if not made:
        made.append(make(None))
    return made[0]


# What JAX remembered before the first of the compiles that overlap: an interrupted one ends in its
# thread while the next begins. One entry per compile; the last to end puts the first entry back.
_off: list[list[Any]] = []
_overlap = threading.Lock()


@contextmanager
def persistent_cache_off() -> Iterator[None]:
    """Within it, compiling neither reads nor writes JAX's persistent compilation cache.

    JAX decides once per process whether that cache is used and remembers the answer, so the
    switch `jax_enable_compilation_cache` would stay off for the user too if our compile were
    the first; the remembered answer is set and put back instead.

    Gone: the switch, which is right unless our compile is the first.
    """
    compilation_cache = _private("compilation_cache")
    names = ("_cache_checked", "_cache_used")
    if not all(hasattr(compilation_cache, name) for name in names):
        with _switched_off():
            yield
        return
    with _overlap:
        if not _off:
            _off.append([getattr(compilation_cache, name) for name in names])
            for name, value in zip(names, (True, False), strict=True):
                setattr(compilation_cache, name, value)
        else:
            _off.append([])
    try:
        yield
    finally:
        with _overlap:
            before = _off[0]
            _off.pop()
            if not _off:
                for name, value in zip(names, before, strict=True):
                    setattr(compilation_cache, name, value)


@contextmanager
def _switched_off() -> Iterator[None]:
    import jax

    config: Any = jax.config
    before = config.jax_enable_compilation_cache
    try:
        config.update("jax_enable_compilation_cache", False)
        yield
    finally:
        config.update("jax_enable_compilation_cache", before)


def jit_parts(f: Any) -> tuple[Callable[..., Any], Any] | None:
    """The Python function inside a jitted one, and its jit's settings; None if it is not jitted.

    The settings have `static_argnums`, `static_argnames`, `donate_argnums`,
    `donate_argnames`, `device`, `backend` and `in_shardings_leaves`.

    A decorator that uses `functools.wraps` copies the attributes that are read here, so the
    function must be a jitted one by JAX's own protocol too.

    Gone: a jitted function counts as a plain one; jit's settings act inside the program.
    """
    import jax

    if not isinstance(f, jax.stages.Wrapped):
        return None
    fun, info = getattr(f, "_fun", None), getattr(f, "_jit_info", None)
    if callable(fun) and hasattr(info, "static_argnums") and hasattr(info, "donate_argnums"):
        return fun, info
    return None


def inner_jit(f: Any) -> bool:
    """Whether a callable that is not jitted itself is a library's wrapper of a jitted function.

    Equinox and Flax keep one in an attribute, decorators under `__wrapped__`; what `jax.pmap`
    returns can be lowered though it is a plain function.

    Gone: as with `jit_parts`.
    """
    while (inner := getattr(f, "__wrapped__", None)) is not None:
        held = (inner, *getattr(f, "__dict__", {}).values())
        if hasattr(f, "lower") or any(jit_parts(value) for value in held):
            return True
        f = inner
    return False


def rejit(fun: Callable[..., Any], info: Any) -> Any:
    """Jits `fun` with the settings `info` that `jit_parts` gave.

    Gone: jit with the public settings among them.
    """
    try:
        pjit = _private("pjit")
        return pjit._cpp_pjit(fun, info)
    except (ImportError, AttributeError):
        import jax

        return jax.jit(
            fun,
            static_argnums=info.static_argnums,
            static_argnames=info.static_argnames,
            donate_argnums=info.donate_argnums,
            donate_argnames=info.donate_argnames,
        )


# What JAX calls a function that its user left without a name, such as `jax.vmap(model)`.
UNNAMED = "<unnamed function>"


def transform_name(f: Any) -> str:
    """Which of JAX's transforms returned the function `f` ("grad"), or "".

    JAX's transforms return a function of their own, most of them inside one that filters
    tracebacks; both are told by the name of their code.

    Gone: "", and the transform is not named in what was taken.
    """
    code: Any = getattr(f, "__code__", None)
    if getattr(code, "co_name", "") == "reraise_with_filtered_traceback":
        cells = dict(zip(code.co_freevars, f.__closure__ or (), strict=True))
        f = cells["fun"].cell_contents if "fun" in cells else None
        code = getattr(f, "__code__", None)
    if code is None or not code.co_filename.endswith(("jax/_src/api.py", "jax\\_src\\api.py")):
        return ""
    if code.co_name == "jacfun":
        return "jacrev" if any("vjp" in name for name in code.co_names) else "jacfwd"
    return _TRANSFORMS.get(code.co_name, "")


def settings(f: Any) -> dict[str, Any]:
    """What a transform was told when it made the function `f`: `{"in_axes": (0, None), ...}`.

    Gone: {}, as if it had been told nothing.
    """
    for _ in range(2):  # JAX's stands inside one that filters tracebacks
        code: Any = getattr(f, "__code__", None)
        cells = dict(zip(getattr(code, "co_freevars", ()), f.__closure__ or (), strict=True))
        if getattr(code, "co_name", "") != "reraise_with_filtered_traceback":
            return {name: cell.cell_contents for name, cell in cells.items()}
        f = cells["fun"].cell_contents
    return {}


_TRANSFORMS = {
    "grad_f": "grad", "grad_f_aux": "grad", "value_and_grad_f": "value_and_grad", "vmap_f": "vmap",
}  # fmt: skip


def is_checkpoint(f: Any) -> bool:
    """Whether `jax.checkpoint` returned the function `f`.

    Gone: False, and a ladder has no step of its own for it.
    """
    for _ in range(2):  # it stands inside one that filters tracebacks
        code: Any = getattr(f, "__code__", None)
        if getattr(code, "co_name", "") == "fun_remat":
            return bool(code.co_filename.endswith("ad_checkpoint.py"))
        if getattr(code, "co_name", "") != "reraise_with_filtered_traceback":
            return False
        f = dict(zip(code.co_freevars, f.__closure__ or (), strict=True))["fun"].cell_contents
    return False


def named_axes(sizes: Mapping[Any, int]) -> AbstractContextManager[Any]:
    """Within it, axes have names, as within a `vmap` that was given one.

    Gone: a ladder cannot show what stands inside a `vmap` whose axis is named.
    """
    try:
        named: AbstractContextManager[Any] = _private("core").extend_axis_env_nd(
            list(sizes.items())
        )
        return named
    except (ImportError, AttributeError):
        return nullcontext()


def recorded() -> tuple[int, list[Any]] | None:
    """The equations that the innermost trace has recorded so far, and a number for that trace.

    Gone: None, and a tape of tracing does not say which line recorded an equation.
    """
    try:
        trace = _private("core").trace_ctx.trace
        while not hasattr(trace, "frame"):
            trace = trace.parent_trace
        frame = trace.frame
        return id(frame), frame.tracing_eqns
    except (ImportError, AttributeError):
        return None


def constants_as_arguments() -> AbstractContextManager[Any]:
    """Within it, tracing keeps closed-over arrays as literals, which lowering can hoist.

    Gone: nothing is hoisted.
    """
    try:
        config = _private("config")
        kept: AbstractContextManager[Any] = config.use_simplified_jaxpr_constants(True)
        return kept
    except (ImportError, AttributeError):
        return nullcontext()


def lower_hoisting(traced: Any, platforms: tuple[str, ...] | None) -> Any:
    """Lowers so that array literals become arguments, which JAX passes by itself at a call.

    Gone: an ordinary lowering, which copies the constants into the program.
    """
    try:
        mlir = _private("interpreters.mlir")
        parameters = mlir.LoweringParameters(hoist_constants_as_args=True)
        return traced.lower(lowering_platforms=platforms, _private_parameters=parameters)
    except (ImportError, AttributeError, TypeError):
        return traced.lower(lowering_platforms=platforms)


def leaked_tracers(traced: Any) -> Sequence[Any]:
    """The tracers of other traces that a traced function closed over.

    Gone: none; that there are some is known without (`Traced.in_tree`).
    """
    import jax

    held = getattr(traced, "_consts", ())
    return [value for value in held if isinstance(value, jax.core.Tracer)]


def hlo_text(computation: Any) -> str:
    """Text of an HLO module as XLA prints compiled ones, with metadata and large constants elided.

    Args:
        computation: What `lowered.compiler_ir("hlo")` gives.

    Gone: JAX's own print, which writes constants in full.
    """
    try:
        from jaxlib import _hlo

        options = _hlo.HloPrintOptions()
        options.print_large_constants = False
        return str(computation.as_hlo_module().to_string(options))
    except (ImportError, AttributeError):
        return str(computation.as_hlo_text())


def is_apart(context: Sequence[Any], here: Sequence[Any]) -> bool:
    """Whether a key's context is one that `apart` made, and not the one we are in.

    Gone: such keys count as the user's.
    """
    try:
        kind = _private("pjit")._jax.PjitFunctionCache
    except (ImportError, AttributeError):
        return False
    return any(type(v) is kind and all(v is not own for own in here) for v in context)


def context_names() -> tuple[str, ...]:
    """Names of the settings in a trace key, in the key's order; empty when gone."""
    try:
        config = _private("config")
        return tuple(config.trace_context_names())
    except (ImportError, AttributeError, NotImplementedError):
        return ()


def trace_keys(fun: Callable[..., Any]) -> list[tuple[Any, tuple[Any, ...]]] | None:
    """Every key under which JAX has traced `fun`: pairs (trace context, rest of the key).

    The rest is (jit settings, argument signature, avals, mesh). Nothing is changed.

    Gone: None.
    """
    try:
        pjit = _private("pjit")
        keys = pjit._infer_params_cached.cache_keys()
    except (ImportError, AttributeError):
        return None
    return [(key[1], tuple(key[2])) for key in keys if key[0]() is fun and len(key[2]) == 4]


def trace_key(
    info: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[tuple[Any, tuple[Any, ...]], list[Any]] | None:
    """The key under which JAX would look this call up, as `trace_keys` gives them.

    Returns:
        The key and the dynamic leaves in JAX's order. None when gone.

    Raises:
        TypeError: An argument is no array and not marked static.
        ValueError: A static argument cannot be hashed.
    """
    try:
        config = _private("config")
        pjit = _private("pjit")
        flatten, registry = pjit.jax_jit.parse_arguments, pjit.tree_util.tracing_registry
        context, mesh_of = config.trace_context, pjit.get_ctx_mesh
        abstract = _private("core").shaped_abstractify
    except (ImportError, AttributeError):
        return None
    signature, leaves = flatten(
        tuple(args),
        tuple(kwargs.values()),
        tuple(kwargs),
        info.static_argnums,
        info.static_argnames,
        registry,
    )
    avals = tuple(abstract(leaf) for leaf in leaves)
    rest = (info, signature, avals, mesh_of(info.use_resource_env))
    return (context(), rest), list(leaves)


def traced_program(fun: Callable[..., Any], rest: tuple[Any, ...]) -> Any:
    """What JAX keeps under a trace key that exists now, or None where tracing had failed.

    Asking for a key that exists changes nothing but the order of eviction.
    """
    pjit = _private("pjit")
    return pjit._infer_params_cached(fun, *rest).pjit_params


def lower_keys(program: Any) -> list[tuple[Any, tuple[Any, ...], dict[str, Any]]] | None:
    """Every key under which JAX has lowered that program: (context, arguments, keywords).

    Gone: None.
    """
    try:
        pjit = _private("pjit")
        keys = pjit._pjit_lower.cache_keys()
        jaxpr = program.params["jaxpr"]
    except (ImportError, AttributeError, KeyError):
        return None
    return [(key[1], tuple(key[2]), dict(key[3])) for key in keys if key[0]() is jaxpr]


def resolved_shardings(program: Any, leaves: Sequence[Any]) -> tuple[Any, ...] | None:
    """The input shardings that this call's lowering would have in its key; None when gone."""
    try:
        pjit = _private("pjit")
        types = [pjit.convert_to_metaty(leaf) for leaf in (*program.consts, *leaves)]
        return tuple(pjit._resolve_in_shardings(types, program.params["in_shardings"]))
    except (ImportError, AttributeError, KeyError, TypeError):
        return None


def is_compiled(program: Any, key: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> bool | None:
    """Whether the lowering under an existing key was compiled too; None when gone."""
    pjit = _private("pjit")
    computation = pjit._pjit_lower(program.params["jaxpr"], *key[1], **key[2])
    if not hasattr(computation, "_executable"):
        return None
    return computation._executable is not None


def static_values(signature: Any) -> tuple[list[Any], list[str]] | None:
    """Static values of an argument signature (positional, then keyword) and the keywords' names."""
    try:
        return list(signature.static_args), list(signature.static_arg_names)
    except AttributeError:
        return None


def signature_tree(signature: Any) -> tuple[Any, ...] | None:
    """The pytree structures of a signature's dynamic arguments and the names of its keywords."""
    try:
        return (*signature.dynamic_arg_treedefs, tuple(signature.dynamic_arg_names))
    except AttributeError:
        return None


_CUDA_PLUGINS = ("xla_cuda13", "xla_cuda12")


def has_cuda_plugin() -> bool:
    """Whether one of JAX's CUDA plugins is installed; nothing is imported."""
    if importlib.util.find_spec("jax_plugins") is None:
        return False
    return any(importlib.util.find_spec(f"jax_plugins.{name}") for name in _CUDA_PLUGINS)


def cuda_plugin_version() -> str:
    """Version of the compiler in JAX's CUDA plugin, which is XLA's; "" where it is not known."""
    for name in ("jax-cuda13-pjrt", "jax-cuda12-pjrt"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


def register_cuda() -> None:
    """Registers JAX's CUDA plugin where it is not, so that it can describe GPUs and compile.

    JAX registers its plugins when it first looks for devices. This one refuses where CUDA's
    libraries are missing, and is tried once more here, under an environment that lets it pass.
    Call it when the process's devices are settled: then it cannot become the default backend.

    Gone: the plugin is as JAX left it, and describing a GPU says why it cannot.
    """
    try:
        registered = "cuda" in _private("xla_bridge")._topology_factories
    except (ImportError, AttributeError):
        return
    name = next((n for n in _CUDA_PLUGINS if importlib.util.find_spec(f"jax_plugins.{n}")), "")
    if name and not registered:
        importlib.import_module(f"jax_plugins.{name}").initialize()


def has_idle_tpu_plugin() -> bool:
    """Whether libtpu is loaded in a process that has no TPU, as for compiling for one elsewhere.

    JAX's profiler starts the tracers of all loaded plugins, and that of a libtpu from another
    day than jaxlib's ends the process (0.10.2 with libtpu 0.0.4x: a segmentation fault).

    Gone: whether the package was imported, which is so whenever JAX has looked for TPUs.
    """
    from jax.extend import backend

    try:
        from jaxlib import xla_client

        loaded = bool(xla_client.pjrt_plugin_loaded("tpu"))
    except (ImportError, AttributeError):
        loaded = "libtpu" in sys.modules
    return loaded and "tpu" not in backend.backends()


class _End(NamedTuple):
    """An element of a name stack that stands behind all others, however the stack is extended.

    A plain scope would change what transforms print: `jvp(while)/body` would be
    `jvp(stamp)/while/body`, and nobody could tell how it was.
    """

    name: str

    def wrap(self, parts: list[str]) -> None:
        """Adds its name to the parts of the stack's text, which are the last first."""
        ends = next((i for i, part in enumerate(parts) if not part.startswith("_jl")), len(parts))
        parts.insert(ends, self.name)


def named_last() -> Callable[[Any, str], Any] | None:
    """Makes an equation's source info whose scope ends in a word more, and is the same otherwise.

    Gone: None; equations are not stamped.
    """
    from jax.extend import source_info_util

    def named(source: Any, word: str) -> Any:
        stack = source.name_stack
        return type(source)(source.traceback, type(stack)((*stack.stack, _End(word))))

    try:
        plain = source_info_util.new_source_info()
        outer = source_info_util.new_name_stack("f").transform("jvp")
        outer = named(plain.replace(name_stack=outer), "_jle1_").name_stack
        inner = source_info_util.new_name_stack("g")
        inner = named(plain.replace(name_stack=inner), "_jle2_").name_stack
        works = str(outer + inner) == "f/jvp(g)/_jle1_/_jle2_" and str(outer) == "f/jvp(_jle1_)"
    except (AttributeError, TypeError):
        return None
    return named if works else None


@contextmanager
def differentiated(
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> Iterator[bool]:
    """Within it, reverse-mode differentiation (vjp, grad, value_and_grad) wraps its function first.

    Yields whether it does. Gone: it does not, and what `jax.checkpoint` changes cannot be tried.
    """
    import jax

    try:
        api = _private("api")
        original = api.vjp
    except (ImportError, AttributeError):
        yield False
        return

    def vjp(fun: Callable[..., Any], *primals: Any, **options: Any) -> Any:
        return original(wrap(fun), *primals, **options)

    places: list[Any] = [place for place in (api, jax) if place.vjp is original]
    for place in places:
        place.vjp = vjp
    try:
        yield True
    finally:
        for place in places:
            place.vjp = original


def scope_names(source: Any) -> Iterable[Any]:
    """The parts of an equation's name stack, each with a `name`; they can be hashed."""
    parts: Iterable[Any] = source.name_stack.stack
    return parts


def has_location_parts() -> bool:
    """Whether MLIR's bindings can take locations apart and change an op's.

    Gone: nothing is stamped.
    """
    from jax.extend.mlir import ir

    return all(hasattr(ir, name) for name in ("NameLoc", "FusedLoc", "CallSiteLoc"))
