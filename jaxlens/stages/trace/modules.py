"""Names the modules that are called while JAX traces, by their attribute paths: `model.layers[0]`.

An equation's traceback has code objects and no `self`, so that layers called on one line look
alike. While a call is traced, the frames on the stack are read whenever JAX makes an equation, and
the modules among them are written into its name stack, where they are not printed
(`compat.naming`). Derivatives and batching hand them on with the name stack. No class, object or
hook of Python's is changed.

A path begins with the variable of the user's outermost frame that the module can be reached from.
A module that cannot, such as a layer made within a call, is named by its class and the calling
line. Linen and Haiku write name stacks of their own.
"""

import sys
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from jaxlens import compat
from jaxlens.ir.spans import describe
from jaxlens.links.name_stack import LAYERS, is_module

_CALL = "__call__"
_MOST = 20_000  # objects of a model that are looked at
_PLAIN = (str, bytes, int, float, complex, type, type(None), ModuleType, FunctionType)
_NAMED_BY_JAX = ("flax.linen", "haiku")


def naming(outermost: FrameType) -> AbstractContextManager[None]:
    """Writes the called modules into the name stacks of all that is traced in the block.

    Args:
        outermost: The frame in which the block is; those outside are not of the program.
    """
    return compat.naming(_Modules(id(outermost)).called, id(outermost))


def within(stack: Any) -> tuple[str, ...]:
    """Returns the modules and named scopes of a name stack; () if it has no called module."""
    parts = list(compat.called_within(stack))
    if not any(isinstance(part, compat.Called) for part in parts):
        return ()
    names = (
        part.name if isinstance(part, compat.Called) else part
        for part in parts
        # Equinox writes its classes into name stacks: "eqx.nn.Linear".
        if isinstance(part, compat.Called) or (is_module(part) and "." not in part)
    )
    return tuple(dict.fromkeys(names))


class _Modules:
    """The modules that one trace has called, by the identity of the object."""

    def __init__(self, outermost: int) -> None:
        self._outermost = outermost
        self._calls: dict[str, bool] = {}  # by file: code objects are slow to hash
        # Weak references, so that no tracer outlives its trace. Another object may get the id.
        self._names: dict[int, tuple[weakref.ref[Any], str]] = {}

    def called(self, outer: int) -> tuple[tuple[str, ...], int]:
        """Returns the modules being called, outermost first, and the id of the innermost frame.

        Args:
            outer: The id of the frame at which to stop.
        """
        frame: FrameType | None = sys._getframe(2)  # of JAX, which asks
        found: list[FrameType] = []
        while frame is not None and id(frame) != outer and id(frame) != self._outermost:
            if frame.f_code.co_name == _CALL and self._is_call(frame.f_code):
                found.append(frame)
            frame = frame.f_back
        if not found:
            return (), outer
        names = (self._name(one) for one in reversed(found))
        return tuple(filter(None, names)), id(found[0])

    def _is_call(self, code: CodeType) -> bool:
        known = self._calls.get(code.co_filename)
        if known is None:
            file = describe(code.co_filename)
            known = not (file.own or file.library) or LAYERS.search(file.name) is not None
            self._calls[code.co_filename] = known
        return known and code.co_argcount > 0

    def _name(self, frame: FrameType) -> str:
        """Returns the path of the module whose `__call__` a frame runs; "" for none."""
        module = frame.f_locals.get(frame.f_code.co_varnames[0])
        known = self._names.get(id(module))
        if known is not None and known[0]() is module:
            return known[1]
        kinds = type(module).__mro__
        if module is None or any(kind.__module__.startswith(_NAMED_BY_JAX) for kind in kinds):
            return ""
        outside = self._users_frames(frame)
        for holder in outside[: self._calls_of(outside)]:
            for name, value in _variables(holder):
                self._add(name, value)
                if (known := self._names.get(id(module))) and known[0]() is module:
                    return known[1]
        line = outside[-1] if outside else None
        name = type(module).__name__
        if line is not None:
            name += f" ({describe(line.f_code.co_filename).name}:{line.f_lineno})"
        self._add(name, module)
        return name

    def _users_frames(self, frame: FrameType) -> list[FrameType]:
        """Returns the user's frames around a frame, outermost first."""
        frames: list[FrameType] = []
        around = frame.f_back
        while around is not None and id(around) != self._outermost:
            file = describe(around.f_code.co_filename)
            if not file.library and not file.own:
                frames.append(around)
            around = around.f_back
        return frames[::-1]

    def _calls_of(self, frames: list[FrameType]) -> int:
        """Returns the number of frames before that of the first module."""
        calls = (n for n, f in enumerate(frames) if f.f_code.co_name == _CALL)
        return next(calls, len(frames))

    def _add(self, name: str, root: Any) -> None:
        """Names all modules that can be reached from a value, the nearest ones first."""
        pending, seen = deque([(name, root)]), {id(root)}
        while pending and len(seen) < _MOST:
            path, value = pending.popleft()
            if callable(value) and not isinstance(value, _PLAIN):
                try:
                    known = self._names.get(id(value))
                    if known is None or known[0]() is not value:
                        self._names[id(value)] = weakref.ref(value), path
                except TypeError:  # it has no weak references
                    pass
            for step, part in _parts(value):
                if id(part) not in seen and not isinstance(part, _PLAIN):
                    seen.add(id(part))
                    pending.append((path + step, part))


def _variables(frame: FrameType) -> Iterator[tuple[str, Any]]:
    """Yields the variables of a frame, parameters first, and the globals that it names."""
    yield from frame.f_locals.items()
    for name in frame.f_code.co_names:
        if name in frame.f_globals:
            yield name, frame.f_globals[name]


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields what a value consists of, with the Python that leads there. Runs no user code."""
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", part) for key, part in dict.items(value) if _is_key(key))
    elif isinstance(value, list | tuple):
        yield from ((f"[{n}]", part) for n, part in enumerate(tuple(value)))
    else:
        try:
            attributes = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return
        for key, part in list(attributes.items()) if isinstance(attributes, dict) else ():
            if isinstance(key, str):  # Flax keeps the items of its lists as attributes "0", "1"
                yield f".{key}" if key.isidentifier() else f"[{key}]", part


def _is_key(key: Any) -> bool:
    return isinstance(key, str | int)
