"""Side effects of a trace on the user's objects, where the cell runs the function as well.

A capture runs the function's Python code once more than the cell does. So a function that must
not run twice is not captured (`Reached.once`), and state that the trace has changed is restored
(`Reached.put_back`): contents of lists and dicts, attributes, globals, closure cells, states of
random generators.
"""

import builtins
import functools
import random
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from jaxlens.interrupts import undoing
from jaxlens.ir.spans import describe

_MOST = 4_000  # objects that are visited
_LONGEST = 100_000  # elements of a container that is saved
_ONCE = {"input": input, "open": open, "breakpoint": breakpoint}
# Libraries that draw, write or display: a second run makes a second figure, row or file.
_SHOWS = set(
    "matplotlib seaborn plotly bokeh altair cv2 IPython ipywidgets subprocess shutil socket "
    "requests urllib sqlite3 tempfile wandb mlflow tensorboard tensorboardX clu orbax".split()
)
_PLAIN = (str, bytes, int, float, complex, bool, type(None), range, CodeType, type)


class Reached:
    """The objects reachable from a function and its arguments, with their state saved.

    A depth-first walk follows closures, elements of containers, instance attributes, and of the
    user's functions also defaults and the globals that their code names. Each mutable object on
    the way adds a function to `_undo` that restores it.

    Attributes:
        once: Why the function must not run twice; "" if it may.
    """

    def __init__(self, things: Iterable[Any]) -> None:
        self.once = ""
        self._undo: list[Callable[[], None]] = []
        self._seen: set[int] = set()
        self._pending = list(things)
        self._spaces: dict[int, tuple[dict[str, Any], set[str]]] = {}
        while self._pending and len(self._seen) < _MOST:
            thing = self._pending.pop()
            if isinstance(thing, _PLAIN) or id(thing) in self._seen:
                continue
            self._seen.add(id(thing))
            self._visit(thing)
        for space, names in self._spaces.values():
            self._keep_names(space, names)

    @undoing
    def put_back(self) -> None:
        """Restores the saved state of every reached object."""
        for undo in self._undo:
            with suppress(Exception):  # an object that cannot be restored keeps its new state
                undo()

    def _visit(self, thing: Any) -> None:
        if isinstance(thing, ModuleType):
            root = thing.__name__.partition(".")[0]
            if root in _SHOWS:
                self.once = self.once or f"it uses {root}"
        elif isinstance(thing, functools.partial):
            self._pending += [thing.func, *thing.args, *thing.keywords.values()]
        elif isinstance(thing, MethodType):
            self._pending += [thing.__func__, thing.__self__]
        elif isinstance(thing, FunctionType):
            self._function(thing)
        elif isinstance(thing, list | deque | dict | set | bytearray | tuple | frozenset):
            self._container(thing)
        elif _is_library(thing, _SHOWS):
            self.once = self.once or f"it uses {type(thing).__module__.partition('.')[0]}"
        elif str(type(thing).__module__).startswith("jaxlib"):
            self._pending.append(getattr(thing, "__wrapped__", None))  # a jitted function
        elif hasattr(type(thing), "__next__"):
            self.once = self.once or f"it reads from a {type(thing).__name__}"
        else:
            self._object(thing)

    def _function(self, function: FunctionType) -> None:
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self._pending.append(wrapped)
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # not yet filled
                value = cell.cell_contents
                self._pending.append(value)
                self._undo.append(functools.partial(_fill, cell, value))
        if describe(function.__code__.co_filename).library:
            if _is_library(function, _SHOWS):
                self.once = self.once or f"it uses {function.__module__.partition('.')[0]}"
            return
        self._pending += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        space = function.__globals__
        for name in _names(function.__code__):
            if name in space:
                self._spaces.setdefault(id(space), (space, set()))[1].add(name)
                self._pending.append(space[name])
            elif _ONCE.get(name) is not None and getattr(builtins, name, None) is _ONCE[name]:
                self.once = self.once or f"it calls {name}()"

    def _container(self, thing: Any) -> None:
        if len(thing) > _LONGEST:
            return
        elements = list(thing.values()) if isinstance(thing, dict) else list(thing)
        if not isinstance(thing, set):
            self._pending += elements
        if not isinstance(thing, tuple | frozenset):
            saved = dict(thing) if isinstance(thing, dict) else elements
            self._undo.append(functools.partial(_refill, thing, saved))

    def _object(self, thing: Any) -> None:
        numpy = sys.modules.get("numpy")
        if isinstance(thing, random.Random):
            self._undo.append(functools.partial(thing.setstate, thing.getstate()))
        elif numpy is not None and isinstance(thing, numpy.random.Generator):
            state = thing.bit_generator.state
            self._undo.append(lambda: setattr(thing.bit_generator, "state", state))
        elif numpy is not None and isinstance(thing, numpy.random.RandomState):
            self._undo.append(functools.partial(thing.set_state, thing.get_state()))
        elif not str(type(thing).__module__).startswith(("jax", "numpy")):
            attributes = getattr(thing, "__dict__", None)
            if type(attributes) is dict:
                self._container(attributes)
            method = vars(type(thing)).get("__call__")
            if isinstance(method, FunctionType):
                self._pending.append(method)

    def _keep_names(self, space: dict[str, Any], names: set[str]) -> None:
        saved = {name: space[name] for name in names}

        def put_back() -> None:
            for name, value in saved.items():
                if space.get(name) is not value:
                    space[name] = value

        self._undo.append(put_back)


def _names(code: CodeType) -> Iterator[str]:
    codes = [code]
    for inner in codes:
        yield from inner.co_names
        codes += [const for const in inner.co_consts if isinstance(const, CodeType)]


def _is_library(thing: Any, roots: set[str]) -> bool:
    owner = thing if isinstance(thing, FunctionType) else type(thing)
    return str(getattr(owner, "__module__", "")).partition(".")[0] in roots


def _fill(cell: Any, value: Any) -> None:
    if cell.cell_contents is not value:
        cell.cell_contents = value


def _refill(container: Any, saved: dict[Any, Any] | list[Any]) -> None:
    """Restores the elements of a container, unless it still has the same objects in this order."""
    now, before = (
        [*things, *things.values()] if isinstance(things, dict) else list(things)
        for things in (container, saved)
    )
    if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
        container.clear()
        refill = container.update if isinstance(container, dict | set) else container.extend
        refill(saved)
