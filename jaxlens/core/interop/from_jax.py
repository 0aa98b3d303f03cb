"""`from_jax`: JAX traces a function, the core differentiates, batches, lowers and runs it.

The core's primitives have the names and parameters of JAX's. So a jaxpr of JAX is read as
`eval_jaxpr` reads the core's: each equation binds the primitive of its name, in the interpreter
that is current. What differs is in `equations.py` (jaxprs in equations, rules of the user's) and in
`operations.py` (other parameters, random numbers).

    core.grad(core.from_jax(lambda x: jnp.tanh(x).sum()))(x)  # the derivative of tanh is the core's
"""

from collections.abc import Callable, Sequence
from functools import cache, partial, wraps
from importlib import import_module
from typing import Any

import jax
import numpy as np
from jax import tree_util

from jaxlens.core.interop.equations import EQUATIONS, WHOLE
from jaxlens.core.interop.guests import guest
from jaxlens.core.interop.operations import OPERATIONS, MissingPrimitiveError, primitives
from jaxlens.core.interop.parameters import UnreadParameterError, taken
from jaxlens.core.interop.types import compared, is_array, jax_type, type_of
from jaxlens.core.kernel.basics import number
from jaxlens.core.kernel.interpreter import Primitive, aval_of
from jaxlens.core.kernel.jaxpr import ClosedJaxpr, eval_jaxpr, hoisted
from jaxlens.core.kernel.sources import NameStack, SourceInfo, at, here, user_file
from jaxlens.core.kernel.trace import trace
from jaxlens.core.kernel.types import is_key, x64
from jaxlens.core.transforms import signatures
from jaxlens.core.transforms.values import as_value

_MOST = 1024  # programs of a function


def from_jax(
    f: Callable[..., Any],
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    of_library: bool = False,
) -> Callable[..., Any]:
    """Returns a function that JAX traces, and that the core transforms, compiles and runs.

    Args:
        f: A function of pytrees that JAX can trace. It is traced once for the types of its
            arguments; what it takes from outside must not be traced by the core.
        static_argnums: Arguments that are not traced but compared, as are those that hold neither
            arrays nor numbers.
        static_argnames: The same, by name.
        of_library: Whether it is a function of JAX's, as those of `library`: numbers are not traced
            (an axis, a shape), the calls in it are written out, and its equations have the line
            that calls it.

    Raises:
        MissingPrimitiveError: When the function is called: it calls Python, or is a `shard_map`.
    """
    chosen = signatures.chosen(f, static_argnums, static_argnames, "static_arg")
    programs: dict[Any, tuple[ClosedJaxpr, Any]] = {}
    traces = partial(is_array, numbers=not of_library)

    @wraps(f)
    def traced_by_jax(*args: Any, **kwargs: Any) -> Any:
        static: signatures.Static = ()
        if chosen:
            args, kwargs, static = signatures.without_static(chosen, args, kwargs)
        leaves, in_tree = tree_util.tree_flatten((args, kwargs))
        arrays = [leaf for leaf in leaves if traces(leaf)]
        plain = tuple([aval_of(leaf) if traces(leaf) else compared(leaf) for leaf in leaves])
        key = in_tree, plain, static, x64()
        if key not in programs:

            def flat(*values: Any) -> Any:
                given = iter(values)
                filled = [next(given) if traces(x) else x for x in leaves]
                args, kwargs = tree_util.tree_unflatten(in_tree, filled)
                return signatures.filled(f, static)(*args, **kwargs)

            if len(programs) == _MOST:
                programs.pop(next(iter(programs)))
            programs[key] = _traced(flat, list(map(aval_of, arrays)), _Reader(of_library))
        closed, out_tree = programs[key]
        results = eval_jaxpr(closed.jaxpr, closed.consts, *arrays)
        return out_tree.unflatten(map(as_value, results))

    return traced_by_jax


@cache
def library(module: str, name: str) -> Callable[..., Any]:
    """Returns a function of a module of JAX's, such as `jax.numpy`, as one of the core's."""
    function = getattr(import_module(f"jax.{module}"), name, None)
    if name.startswith("_") or not callable(function) or isinstance(function, type):
        raise AttributeError(f"core.{module} has no {name}")
    return from_jax(function, of_library=True)


def _traced(
    f: Callable[..., Any], types: Sequence[Any], reader: "_Reader"
) -> tuple[ClosedJaxpr, Any]:
    """Lets JAX trace a function of arrays; returns the core's jaxpr, and the tree of results."""
    with jax.enable_x64(x64()):
        try:
            made, types_out = jax.make_jaxpr(f, return_shape=True)(*map(jax_type, types))
        except (TypeError, ValueError, IndexError) as error:
            if reader.of_library:  # the rest of the text is about JAX's tracing
                vars(error).pop("__notes__", None)
                error.args = (f"{here()}: {str(error).splitlines()[0]}",)
            raise
        return reader.closed(made.jaxpr, made.consts), tree_util.tree_structure(types_out)


def _source(eqn: Any) -> SourceInfo:
    """Returns the position of an equation of JAX; without calls if none is in the user's files."""
    name, calls = str(eqn.source_info.name_stack), eqn.source_info.traceback
    known = calls is not None and any(map(user_file, calls.raw_frames()[0]))
    return SourceInfo(calls if known else None, NameStack((name,)) if name else NameStack())


def _read(closed: Any) -> ClosedJaxpr:
    """Returns a closed jaxpr of JAX's library as one of the core's."""
    return _Reader(of_library=True).closed(closed.jaxpr, closed.consts)


class _Reader:
    """Reads jaxprs of JAX in the current interpreter of the core; each nested one once.

    Args:
        of_library: See `from_jax`.
    """

    def __init__(self, of_library: bool) -> None:
        self.of_library = of_library
        self._closed: dict[int, tuple[Any, ClosedJaxpr]] = {}  # with the jaxpr, which keeps its id

    def closed(self, jaxpr: Any, consts: Sequence[Any] = ()) -> ClosedJaxpr:
        """Returns a jaxpr of JAX as one of the core's."""
        if id(jaxpr) not in self._closed:
            types = [type_of(var.aval) for var in jaxpr.invars]
            made = trace(partial(self.results, jaxpr, consts), types)
            for eqn in made.eqns if self.of_library else ():  # they are of the line that calls it
                eqn.source_info.traceback = None
            self._closed[id(jaxpr)] = jaxpr, made
        return self._closed[id(jaxpr)][1]

    def nested(self, closed: Any) -> tuple[ClosedJaxpr, list[Any]]:
        """Returns a closed jaxpr of JAX with its constants as its first parameters."""
        return hoisted(self.closed(closed.jaxpr, closed.consts))

    def results(self, jaxpr: Any, consts: Sequence[Any], *args: Any) -> list[Any]:
        """Applies each equation of a jaxpr of JAX: `eval_jaxpr`."""
        env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))

        def read(atom: Any) -> Any:
            if not hasattr(atom, "val"):
                return env[atom]
            if not atom.aval.shape:
                return number(atom.val, type_of(atom.aval).dtype, atom.aval.weak_type)
            return np.asarray(atom.val)

        for eqn in jaxpr.eqns:
            with at(_source(eqn)):
                results = self.apply(eqn, list(map(read, eqn.invars)))
            results = results if isinstance(results, list | tuple) else [results]
            env.update(zip(eqn.outvars, results, strict=True))
        return list(map(read, jaxpr.outvars))

    def apply(self, eqn: Any, args: list[Any]) -> Any:
        """Applies an equation of JAX to values of the core."""
        name = eqn.primitive.name
        if name == "jit" and self.of_library:
            called = eqn.params["jaxpr"]
            return self.results(called.jaxpr, called.consts, *args)
        if name in WHOLE:
            return WHOLE[name](self, eqn, args)
        if name in EQUATIONS:
            return EQUATIONS[name](self, eqn, args, **self.taken(eqn, EQUATIONS[name]))
        return self.bind(eqn, *args)

    def bind(self, eqn: Any, *args: Any) -> Any:
        """Binds the core's primitive of the name; a guest if there is none that reads it."""
        name = eqn.primitive.name
        keys = any(is_key(atom.aval.dtype) for atom in (*eqn.invars, *eqn.outvars))
        own = None if keys else primitives().get(name)  # JAX's alone know how keys lie
        try:
            if own is not None:
                reads = OPERATIONS.get(name, own.abstract)
                apply: Callable[..., Any] = OPERATIONS.get(name, own.bind)
                return apply(*args, **taken(name, reads, eqn.params))
        except UnreadParameterError:
            pass
        if eqn.effects or "callback" in name:
            raise self.missing(f"has no {name}, which calls Python when it runs: leave it out.")
        return self.guest(eqn).bind(*args, **eqn.params)

    def guest(self, eqn: Any) -> Primitive:
        """Returns the primitive of an equation as one of the core's."""
        return guest(eqn.primitive, _read)

    def taken(self, eqn: Any, rule: Callable[..., Any]) -> dict[str, Any]:
        """Returns the parameters of an equation that a rule reads, if the others say nothing."""
        try:
            return taken(eqn.primitive.name, rule, eqn.params)
        except UnreadParameterError as error:
            raise self.missing(str(error)) from None

    def again(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Returns another function of JAX for the core."""
        return from_jax(f, of_library=self.of_library)

    def missing(self, says: str) -> MissingPrimitiveError:
        """Returns the error for the equation that is read, which the core cannot apply."""
        return MissingPrimitiveError(f"{here()}: jaxlens.core {says}")
