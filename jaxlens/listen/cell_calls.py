"""Records the programs that a cell calls: each jitted function, with its arguments' avals.

Calls that hit JAX's caches are recorded too, at a few microseconds each. Nothing is traced, and no
reference to an array is kept: shapes, dtypes and shardings suffice to capture a program later.
"""

import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from traceback import walk_stack
from types import FrameType
from typing import Any

import jax

from jaxlens import compat
from jaxlens.call import equinox_calls
from jaxlens.call.abstract_call import shape_of
from jaxlens.call.traceable import function_name
from jaxlens.captures import Capture
from jaxlens.compat import events as compat_events
from jaxlens.interrupts import deferred, undoing, uninterrupted
from jaxlens.ir.cell_calls import CalledProgram, CallSite
from jaxlens.ir.spans import describe
from jaxlens.keys.function_origin import function_origin, is_jax_function
from jaxlens.stages.existing.opening import opened

# Up to so many calls of a function are recorded; then the calls 32, 64, 128, ...
_ALL_RECORDED = 16
_MOST = 500  # programs in one recording
_LONGEST = 60


class CellCalls:
    """A context manager that records the calls of jitted functions in this thread."""

    def __init__(self) -> None:
        self._programs: dict[Any, CalledProgram] = {}
        self._counts: dict[int, list[int]] = {}
        self._functions: list[Any] = []  # keeps functions alive, so that ids stay unique
        self._paused = False
        self._stop: Callable[[], None] = lambda: None

    def __enter__(self) -> "CellCalls":
        with deferred(self.__exit__):
            self._stop = compat.hear_calls(self._hit, self._missed)
            return self

    @undoing
    def __exit__(self, *_: object) -> None:
        self._stop()

    @uninterrupted
    def paused(self) -> Iterator[None]:
        """Stops recording in the block, which runs calls of jaxlens itself."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    @property
    def programs(self) -> tuple[CalledProgram, ...]:
        """The programs that were called, in the order of their first calls."""
        return tuple(self._programs.values())

    def _hit(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        with suppress(Exception):  # an error in the recording must not reach the user's call
            if not self._paused and (parts := compat.jit_parts(function)):
                self._record(parts[0], lambda: function, args, kwargs)

    def _missed(self, _: str) -> None:
        if self._paused or compat_events.looking():
            return
        with suppress(Exception):
            stack = compat_events.stack(sys._getframe(2))
            caller = stack.caller
            if caller is None or caller.staged or stack.under:
                return
            info, fun = caller.info, caller.fun
            self._record(fun, lambda: compat.rejit(fun, info), caller.args, caller.kwargs)

    def _record(
        self, fun: Any, jitted: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        count = self._counts.setdefault(id(fun), [0])
        number = count[0] + 1
        # Flattening a model at every step of a loop would slow it down.
        if number > _ALL_RECORDED and number & (number - 1):
            count[0] = number
            return
        leaves, structure = jax.tree_util.tree_flatten((tuple(args), dict(kwargs)))
        if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            return  # a call within a trace is part of the outer program
        count[0] = number
        self._functions.append(fun)
        key = id(fun), structure, tuple(map(_identity, leaves))
        if key in self._programs or len(self._programs) >= _MOST:
            return
        user = equinox_calls.user_function(fun, args[2:]) or fun
        own = not is_jax_function(function_origin(user), user)
        shaped, named = jax.tree_util.tree_unflatten(structure, [shape_of(x) for x in leaves])
        size = sum(int(getattr(leaf, "nbytes", 0) or 0) for leaf in leaves)
        site = call_site(sys._getframe(2)) if own else CallSite()
        program = CalledProgram(
            function_name(user), jitted(), own, tuple(shaped), dict(named), size, site, count
        )
        self._programs[key] = program


def _identity(leaf: Any) -> Any:
    """Returns the part of an argument that identifies a program."""
    if hasattr(leaf, "dtype") and hasattr(leaf, "shape"):
        return leaf.shape, leaf.dtype, getattr(leaf, "weak_type", False)
    return type(leaf) if isinstance(leaf, int | float | complex) else id(leaf)


def traced_before(program: CalledProgram) -> Capture | None:
    """Returns a capture of the trace that JAX has cached for a call; None if there is none.

    A function that a library jits internally can be traced only within the library's own call, so
    its cached trace is used.
    """
    parts = compat.jit_parts(program.function)
    if parts is None:
        return None
    fun, info = parts
    key = compat.trace_key(info, program.args, program.kwargs)
    if key is None or key[0] not in (compat.trace_keys(fun) or ()):
        return None
    return opened(program.function.trace(*program.args, **program.kwargs), name=program.name)


def abstracted(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a call with a ShapeDtypeStruct for each array."""
    shaped: tuple[tuple[Any, ...], dict[str, Any]] = jax.tree_util.tree_map(
        shape_of, (tuple(args), dict(kwargs))
    )
    return shaped


def call_site(frame: FrameType) -> CallSite:
    """Returns the innermost line of user code on a stack, and the call on it."""
    for outer, line in walk_stack(frame):
        file = describe(outer.f_code.co_filename)
        if not file.library and not file.own:
            top = outer.f_code.co_name == "<module>"
            return CallSite(f"{file.name}:{line}", call_text(outer), top)
    return CallSite()


def call_text(frame: FrameType) -> str:
    """Returns the source of the call that a frame is in; "" if it is long or spans lines."""
    positions = list(frame.f_code.co_positions())
    line, end, column, stop = positions[frame.f_lasti // 2]
    if line is None or column is None or stop is None or line != end:
        return ""
    raw = linecache.getline(frame.f_code.co_filename, line).encode()[column:stop]
    text = raw.decode(errors="replace").strip()
    return text if text.endswith(")") and len(text) <= _LONGEST else ""
