"""`--core`: copies a function written for `jax.numpy`, so that it calls `jaxlens.core` instead.

A function looks up `jnp` and `jax` in its globals and closure. The function, and every user
function that it can reach, is copied with the core's modules in their place. The copies share the
code objects of the originals, so source lines are the same. No object of the user is modified.
"""

import functools
import types
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any

from jaxlens.errors import OptionError, nearest
from jaxlens.ir.spans import describe
from jaxlens.stages import compat
from jaxlens.stages.arguments.closed_over_names import closure, code_globals

_MODULES = {
    "jax": "jaxlens.core",
    "jax.numpy": "jaxlens.core.numpy",
    "jax.lax": "jaxlens.core.lax",
    "jax.random": "jaxlens.core.random",
    "jax.nn": "jaxlens.core.nn",
    "jax.tree": "jaxlens.core.tree",
    "jax.tree_util": "jaxlens.core",
}


def on_core(f: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a copy of a function that calls the core's functions instead of JAX's.

    Raises:
        OptionError: When the copy is traced, if the core lacks a function that it calls.
    """
    copy: Callable[..., Any] = _Rewriting().value(f)
    return copy


def names_on_core(names: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a namespace that replaces JAX by the core; each name is replaced at its look-up."""
    return _Names(names)


class _Names(dict[str, Any]):
    """A dict that looks names up in another namespace, and replaces JAX in their values.

    It can be the globals of a lambda in an evaluated expression: for a subclass of dict, Python
    calls `__missing__` when it looks up a global.
    """

    def __init__(self, names: Mapping[str, Any]) -> None:
        super().__init__(__name__=names.get("__name__"))
        self._names = names
        self._rewriting = _Rewriting()

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._names

    def __missing__(self, name: str) -> Any:
        return self._rewriting.value(self._names[name])


class MissingError(OptionError, AttributeError):
    """The core lacks a function. An AttributeError too, so that `hasattr` returns False."""


class _Stand:
    """Replaces a module of JAX: has the core's functions under JAX's names."""

    __module__ = "jaxlens.core"  # so that `core.program.is_core` recognises it

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        qualified = f"{self._name}.{name}"
        if qualified in _MODULES:
            return _Stand(qualified)
        import importlib

        module = importlib.import_module(_MODULES[self._name])
        try:
            return getattr(module, name)
        except AttributeError:
            public = [n for n in dir(module) if not n.startswith("_")]
            raise MissingError(
                f"--core: jaxlens.core has no {qualified}; {nearest(name, public)}; without --core "
                f"JAX traces it"
            ) from None


class _Rewriting:
    """Copies functions, each once, so that functions which call each other call the copies."""

    def __init__(self) -> None:
        self._copies: dict[int, Any] = {}
        self._originals: list[Any] = []  # keeps objects alive, so that ids stay unique
        self._globals: dict[int, dict[str, Any]] = {}

    def value(self, obj: Any) -> Any:
        """Returns the replacement of a value; the value itself if it does not involve JAX."""
        if id(obj) not in self._copies:
            self._originals.append(obj)
            self._copies[id(obj)] = obj  # ends the recursion of a cyclic reference
            self._copies[id(obj)] = self._copy(obj)
        return self._copies[id(obj)]

    def _copy(self, obj: Any) -> Any:
        if isinstance(obj, _Stand):
            return obj
        if isinstance(obj, ModuleType):
            return _Stand(obj.__name__) if obj.__name__ in _MODULES else obj
        if isinstance(obj, functools.partial):
            return functools.partial(self.value(obj.func), *obj.args, **obj.keywords)
        if isinstance(obj, types.MethodType):
            return types.MethodType(self.value(obj.__func__), obj.__self__)
        if (parts := compat.jit_parts(obj)) is not None:
            return self._jitted(*parts)
        if callable(obj) and _is_jax(obj):
            return _counterpart(obj)
        if isinstance(obj, FunctionType) and not describe(obj.__code__.co_filename).library:
            return self._function(obj)
        return obj

    def _jitted(self, fun: Callable[..., Any], info: Any) -> Any:
        if _is_jax(fun):
            return _counterpart(fun)
        from jaxlens import core

        return core.jit(
            self.value(fun),
            static_argnums=tuple(info.static_argnums),
            static_argnames=tuple(info.static_argnames),
            donate_argnums=tuple(info.donate_argnums),
        )

    def _function(self, f: FunctionType) -> FunctionType:
        space = self._globals.setdefault(id(f.__globals__), dict(f.__globals__))
        cells = tuple(types.CellType() for _ in f.__closure__ or ())
        copy = FunctionType(f.__code__, space, f.__name__, f.__defaults__, cells or None)
        copy.__kwdefaults__ = f.__kwdefaults__
        functools.update_wrapper(copy, f, updated=("__dict__",))
        copy.__dict__.pop("__wrapped__", None)
        self._copies[id(f)] = copy  # before its globals, as it may be recursive
        for name, value in code_globals(f):
            space[name] = self.value(value)
        variables = dict(zip(f.__code__.co_freevars, cells, strict=True))
        for name, value in closure(f):
            variables[name].cell_contents = self.value(value)
        return copy


def _is_jax(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).partition(".")[0] == "jax"


def _counterpart(function: Any) -> Any:
    """Returns the core's function of the same name; its public module is inferred from JAX's."""
    name = str(getattr(function, "__name__", type(function).__name__))
    parts = str(getattr(function, "__module__", "")).split(".")
    public = next((f"jax.{p}" for p in ("numpy", "lax", "random", "nn") if p in parts), "jax")
    return getattr(_Stand(public), name)
