"""Reads keys and entries of JAX's trace, lowering and compile caches, and changes none."""

from collections.abc import Callable, Sequence
from typing import Any

from jaxlens.compat.import_private import private, when_gone


@when_gone((), NotImplementedError)
def context_names() -> tuple[str, ...]:
    """Returns the names of the settings in a trace key, in the key's order; empty when gone."""
    return tuple(private("config").trace_context_names())


def trace_keys(fun: Callable[..., Any]) -> list[tuple[Any, tuple[Any, ...]]] | None:
    """Returns the keys of `fun` in JAX's trace cache, as pairs (trace context, rest of the key).

    Gone: None.
    """
    keys = every_trace_key()
    return None if keys is None else [(c, rest) for other, c, rest in keys if other is fun]


@when_gone(None)
def every_trace_key() -> list[tuple[Callable[..., Any], Any, tuple[Any, ...]]] | None:
    """Returns the keys of JAX's trace cache with a live function: (function, trace context, rest).

    The rest is (jit settings, argument signature, avals, mesh). The cache is not changed.

    Gone: None.
    """
    cached = private("pjit")._infer_params_cached.cache_keys()
    keys = ((key[0](), key[1], tuple(key[2])) for key in cached)
    return [(fun, context, rest) for fun, context, rest in keys if fun and len(rest) == 4]


def trace_key(
    info: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[tuple[Any, tuple[Any, ...]], list[Any]] | None:
    """Returns the key of a call in JAX's trace cache, in the form of `trace_keys`.

    Returns:
        The key and the dynamic leaves in JAX's order. None when gone.

    Raises:
        TypeError: An argument is neither an array nor static.
        ValueError: A static argument is not hashable.
    """
    try:
        config, pjit = private("config"), private("pjit")
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
    """Returns the entry of an existing trace key; None if that trace failed.

    Looking up an existing key changes only the order of eviction.

    Gone: never called, since `trace_keys` returns no key then.
    """
    return private("pjit")._infer_params_cached(fun, *rest).pjit_params


@when_gone(None, KeyError)
def lower_keys(program: Any) -> list[tuple[Any, tuple[Any, ...], dict[str, Any]]] | None:
    """Returns the keys of a program in JAX's lowering cache: (context, arguments, keywords).

    Gone: None.
    """
    keys = private("pjit")._pjit_lower.cache_keys()
    jaxpr = program.params["jaxpr"]
    return [(key[1], tuple(key[2]), dict(key[3])) for key in keys if key[0]() is jaxpr]


@when_gone(None, KeyError, TypeError)
def resolved_shardings(program: Any, leaves: Sequence[Any]) -> tuple[Any, ...] | None:
    """Returns the input shardings in the lowering key of a call; None when gone."""
    pjit = private("pjit")
    types = [pjit.convert_to_metaty(leaf) for leaf in (*program.consts, *leaves)]
    return tuple(pjit._resolve_in_shardings(types, program.params["in_shardings"]))


@when_gone(None)
def is_compiled(program: Any, key: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> bool | None:
    """Whether the lowering under an existing key has an executable; None when gone."""
    computation = private("pjit")._pjit_lower(program.params["jaxpr"], *key[1], **key[2])
    return computation._executable is not None


@when_gone(None)
def static_values(signature: Any) -> tuple[list[Any], list[str]] | None:
    """Returns a signature's static values (positional, then keyword) and the keywords' names.

    Gone: None.
    """
    return list(signature.static_args), list(signature.static_arg_names)


@when_gone(None)
def signature_tree(signature: Any) -> tuple[Any, ...] | None:
    """Returns a signature's treedefs of dynamic arguments and keyword names; None when gone."""
    return (*signature.dynamic_arg_treedefs, tuple(signature.dynamic_arg_names))
