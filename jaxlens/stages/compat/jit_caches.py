"""JAX's caches of what it traced, lowered and compiled: their keys, and their entries.

Nothing is changed by looking.
"""

from collections.abc import Callable, Sequence
from typing import Any

from jaxlens.stages.compat.import_private import private


def context_names() -> tuple[str, ...]:
    """Names of the settings in a trace key, in the key's order; empty when gone."""
    try:
        config = private("config")
        return tuple(config.trace_context_names())
    except (ImportError, AttributeError, NotImplementedError):
        return ()


def trace_keys(fun: Callable[..., Any]) -> list[tuple[Any, tuple[Any, ...]]] | None:
    """Every key under which JAX has traced `fun`: pairs (trace context, rest of the key).

    Gone: None.
    """
    every = every_trace_key()
    return None if every is None else [(c, rest) for other, c, rest in every if other is fun]


def every_trace_key() -> list[tuple[Callable[..., Any], Any, tuple[Any, ...]]] | None:
    """Every key of JAX's trace cache: (function, trace context, rest), dead functions left out.

    The rest is (jit settings, argument signature, avals, mesh). Nothing is changed.

    Gone: None.
    """
    try:
        keys = private("pjit")._infer_params_cached.cache_keys()
    except (ImportError, AttributeError):
        return None
    found = ((key[0](), key[1], tuple(key[2])) for key in keys)
    return [(fun, context, rest) for fun, context, rest in found if fun and len(rest) == 4]


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
        config = private("config")
        pjit = private("pjit")
        flatten, registry = pjit.jax_jit.parse_arguments, pjit.tree_util.tracing_registry
        context, mesh_of = config.trace_context, pjit.get_ctx_mesh
        abstract = private("core").shaped_abstractify
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

    Gone: never asked, since `trace_keys` gives no key then.
    """
    pjit = private("pjit")
    return pjit._infer_params_cached(fun, *rest).pjit_params


def lower_keys(program: Any) -> list[tuple[Any, tuple[Any, ...], dict[str, Any]]] | None:
    """Every key under which JAX has lowered that program: (context, arguments, keywords).

    Gone: None.
    """
    try:
        pjit = private("pjit")
        keys = pjit._pjit_lower.cache_keys()
        jaxpr = program.params["jaxpr"]
    except (ImportError, AttributeError, KeyError):
        return None
    return [(key[1], tuple(key[2]), dict(key[3])) for key in keys if key[0]() is jaxpr]


def resolved_shardings(program: Any, leaves: Sequence[Any]) -> tuple[Any, ...] | None:
    """The input shardings that this call's lowering would have in its key; None when gone."""
    try:
        pjit = private("pjit")
        types = [pjit.convert_to_metaty(leaf) for leaf in (*program.consts, *leaves)]
        return tuple(pjit._resolve_in_shardings(types, program.params["in_shardings"]))
    except (ImportError, AttributeError, KeyError, TypeError):
        return None


def is_compiled(program: Any, key: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> bool | None:
    """Whether the lowering under an existing key was compiled too; None when gone."""
    pjit = private("pjit")
    computation = pjit._pjit_lower(program.params["jaxpr"], *key[1], **key[2])
    if not hasattr(computation, "_executable"):
        return None
    return computation._executable is not None


def static_values(signature: Any) -> tuple[list[Any], list[str]] | None:
    """A signature's static values (positional, then keyword) and the keywords' names.

    Gone: None.
    """
    try:
        return list(signature.static_args), list(signature.static_arg_names)
    except AttributeError:
        return None


def signature_tree(signature: Any) -> tuple[Any, ...] | None:
    """A signature's pytrees of dynamic arguments and names of keywords; None when gone."""
    try:
        return (*signature.dynamic_arg_treedefs, tuple(signature.dynamic_arg_names))
    except AttributeError:
        return None
