"""Records what a function's lines do while JAX traces it, by Python's own tracing of frames.

Only frames of the user's files are followed line by line; libraries run as ever. After each line
it is asked which variables changed, and how many equations the innermost trace holds by now.
Nothing of the user's is called: values are described by type, numbers and short strings by value.
"""

import dis
import io
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import jax
import numpy as np

from jaxlens.ir.jaxpr_bodies import bodies, opened
from jaxlens.ir.jaxpr_types import type_of
from jaxlens.ir.spans import describe
from jaxlens.ir.tape import Bound, Event, Tape, TapeStep
from jaxlens.stages import compat

MOST = 5_000  # steps that are kept
_ITEMS, _LETTERS = 4, 40  # of a container, and of a string or number
_QUIET = (ModuleType, type, FunctionType)
_CONTAINERS = (list, dict, set, tuple)
_NONE: Any = object()


@dataclass(slots=True)
class _Step:
    """A step while it happens."""

    event: Event
    code: CodeType
    line: int
    depth: int
    bound: list[Bound] = field(default_factory=list)
    made: list[Any] = field(default_factory=list)  # sources and primitives of equations
    printed: str = ""
    wrote: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Frame:
    """A running function of the user's, and its variables as they were last seen."""

    frame: FrameType
    seen: dict[str, tuple[Any, str]]
    outer: dict[str, Any]
    step: _Step | None = None


class Recorder:
    """Follows one trace: `with recorder.recording(): ...`, then `recorder.tape(jaxpr)`."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self._frames: list[_Frame] = []
        self._counts: dict[int, int] = {}
        self._kept: list[Any] = []  # equations' parts, so that no other takes their identity
        self._core: list[Any] = []
        self._cut = False

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Within it, the user's lines are followed; whoever traced before goes on after it."""
        from jaxlens.core import listen  # loads the core, of which few programs are

        before = sys.gettrace()
        with listen(self._hear), _tee(self._print):
            sys.settrace(self._called)
            try:
                yield
            finally:
                sys.settrace(before)
                self._frames.clear()

    def tape(self, jaxpr: Any) -> Tape:
        """The steps, with the ids of the equations that each recorded.

        Args:
            jaxpr: What the trace made.
        """
        ids = _ids(jaxpr)
        steps = []
        for step in self._steps:
            made = [ids[part].pop(0) for part in step.made if ids.get(part)]
            steps.append(_frozen(step, tuple(made)))
        left = sorted((i for rest in ids.values() for i in rest), key=lambda i: int(i[1:]))
        if left and steps:
            last = self._steps[0].code
            after = _Step("after", last, last.co_firstlineno, 0)
            steps.append(_frozen(after, tuple(left)))
        self._kept.clear()
        return Tape(tuple(steps), self._cut)

    def _called(self, frame: FrameType, event: str, _: Any) -> Any:
        if event != "call" or not _is_users(frame):
            return None
        self._flush()
        if len(self._steps) >= MOST:
            self._cut = True
            return None
        self._frames.append(_Frame(frame, {}, _outer(frame)))
        self._begin("call", frame)
        self._look(self._frames[-1])
        return self._ran

    def _ran(self, frame: FrameType, event: str, value: Any) -> Any:
        """A line is about to run, or the function returns."""
        while self._frames and self._frames[-1].frame is not frame:
            self._frames.pop()  # it was left by an exception
        if not self._frames:
            return None
        self._flush()
        self._look(self._frames[-1])
        if event == "line":
            if len(self._steps) >= MOST:
                self._cut = True
                return None
            self._begin("line", frame)
        elif event == "return":
            self._begin("return", frame)
            self._frames[-1].step = None
            self._steps[-1].bound.append(Bound("returns", _text(value)))
            self._frames.pop()
        return self._ran

    def _begin(self, event: Event, frame: FrameType) -> None:
        step = _Step(event, frame.f_code, frame.f_lineno, len(self._frames) - 1)
        self._steps.append(step)
        self._frames[-1].step = step

    def _look(self, at: _Frame) -> None:
        """Notes what the line that has just run bound, and what it changed outside."""
        step = at.step
        if step is None:
            return
        for name, value in at.frame.f_locals.items():
            text = _text(value)
            known = at.seen.get(name, (_NONE, ""))
            if known[0] is not value or known[1] != text:
                at.seen[name] = value, text
                if not (isinstance(value, _QUIET) and step.event == "call"):
                    step.bound.append(Bound(name, text))
        now = _outer(at.frame)
        for name, size in now.items():
            if name in at.outer and at.outer[name] != size:
                step.wrote.append(_change(name, at.outer[name], size))
        at.outer = now

    def _flush(self) -> None:
        """Gives the equations recorded since the last look to the step that was running."""
        held = compat.recorded()
        if held is not None:
            key, eqns = held
            new = [_alive(eqn) for eqn in eqns[self._counts.get(key, 0) :]]
            new = [eqn for eqn in new if eqn is not None]
            self._counts[key] = len(eqns)
            if new and self._steps:
                self._kept += new
                parts = [(id(eqn.source_info), eqn.primitive.name) for eqn in new]
                self._current().made += parts
        if self._core and self._steps:
            self._kept += self._core
            self._current().made += [(id(eqn), "") for eqn in self._core]
        self._core.clear()

    def _current(self) -> _Step:
        running = (f.step for f in reversed(self._frames) if f.step is not None)
        return next(running, self._steps[-1])

    def _hear(self, event: Any) -> None:
        if event.kind == "record":
            self._core.append(event.detail["eqn"])

    def _print(self, text: str) -> None:
        if self._frames and self._frames[-1].step is not None:
            self._frames[-1].step.printed += text


def _alive(eqn: Any) -> Any:
    """An equation; JAX holds some weakly, and lets go of those that nothing reads."""
    return eqn() if isinstance(eqn, weakref.ref) else eqn


def _frozen(step: _Step, made: tuple[str, ...]) -> TapeStep:
    file = describe(step.code.co_filename)
    return TapeStep(
        step.event, step.code.co_filename, file.name, step.line, step.code.co_qualname, step.depth,
        tuple(step.bound), made, step.printed, tuple(step.wrote),
    )  # fmt: skip


def _ids(jaxpr: Any) -> dict[tuple[int, str], list[str]]:
    """Ids of the final equations, by what tells an equation while it is recorded."""
    found: dict[tuple[int, str], list[str]] = {}
    for body in bodies(opened(jaxpr)).values():
        for eqn, ident in zip(body.jaxpr.eqns, body.ids, strict=True):
            core = isinstance(eqn.source_info.name_stack, tuple)
            key = (id(eqn), "") if core else (id(eqn.source_info), eqn.primitive.name)
            found.setdefault(key, []).append(ident)
    return found


def _is_users(frame: FrameType) -> bool:
    """Whether a function's text is the user's: no library's, and none that was made at run time."""
    code = frame.f_code
    file = describe(code.co_filename)
    if file.library or file.own:
        return False
    written = not code.co_filename.startswith("<") or code.co_filename.startswith("<ipython")
    return written or (
        frame.f_globals.get("__name__") == "__main__" and not code.co_qualname.startswith("__cr")
    )


def _outer(frame: FrameType) -> dict[str, Any]:
    """What a function could change outside of itself, each with a number that tells if it did.

    Globals that it binds by what they are bound to; containers that it can reach by their length.
    """
    code = frame.f_code
    found: dict[str, Any] = {}
    for name in _bound_outside(code):
        found[f"global {name}"] = id(frame.f_globals.get(name, _NONE))
    for name in code.co_names:
        _held(name, frame.f_globals.get(name), found)
    for name in code.co_freevars:
        _held(name, frame.f_locals.get(name), found)
    return found


def _held(name: str, value: Any, found: dict[str, Any]) -> None:
    if isinstance(value, list | dict | set):
        found[name] = len(value)


def _bound_outside(code: CodeType) -> frozenset[str]:
    if code not in _STORES:
        stored = {i.argval for i in dis.get_instructions(code) if i.opname == "STORE_GLOBAL"}
        _STORES[code] = frozenset(stored)
    return _STORES[code]


_STORES: dict[CodeType, frozenset[str]] = {}


def _change(name: str, before: int, now: int) -> str:
    if name.startswith("global "):
        return f"{name} is bound anew"
    return f"{name}: {before} items before, {now} now"


def _text(value: Any, depth: int = 0) -> str:
    """A value in words, found without calling anything of the user's."""
    if isinstance(value, jax.core.Tracer) or _is_core(value):
        return f"tracer {_aval(value)}"
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return f"array {_aval(value)}"
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        text = repr(value)
        return text if len(text) <= _LETTERS else f"{text[:_LETTERS]}..."
    if type(value) in _CONTAINERS:
        return _container(value, depth)
    name = getattr(value, "__qualname__", "") if isinstance(value, _QUIET) else ""
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    if name:
        return f"{'class' if isinstance(value, type) else 'function'} {name}"
    return f"{type(value).__name__} object"


def _container(value: Any, depth: int) -> str:
    kind = type(value)
    if not value or depth > 1:
        return f"{kind.__name__} of {len(value)}"
    if kind is dict:
        parts = [f"{_text(k, 2)}: {_text(v, depth + 1)}" for k, v in _first(value.items())]
    else:
        parts = [_text(item, depth + 1) for item in _first(value)]
    more = f", ... {len(value) - _ITEMS} more" if len(value) > _ITEMS else ""
    ends = ("[", "]") if kind is list else ("(", ")") if kind is tuple else ("{", "}")
    return f"{ends[0]}{', '.join(parts)}{more}{ends[1]}"


def _first(items: Any) -> list[Any]:
    return [item for _, item in zip(range(_ITEMS), items, strict=False)]


def _is_core(value: Any) -> bool:
    return type(value).__module__.startswith("jaxlens.core.") and hasattr(type(value), "aval")


def _aval(value: Any) -> str:
    try:
        aval = value.aval if hasattr(type(value), "aval") else jax.typeof(value)
        weak = ", weak" if getattr(aval, "weak_type", False) else ""
        return f"{type_of(aval)}{weak}"
    except Exception:  # a tracer that has leaked, or an array that is gone
        return "of a type that cannot be told"


class _Tee(io.TextIOBase):
    """Standard output that somebody listens to."""

    def __init__(self, out: Any, hear: Any) -> None:
        self._out, self._hear = out, hear

    def write(self, text: str) -> int:
        self._hear(text)
        return int(self._out.write(text) or 0)

    def flush(self) -> None:
        self._out.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


@contextmanager
def _tee(hear: Any) -> Iterator[None]:
    out = sys.stdout
    tee = _Tee(out, hear)
    sys.stdout = tee
    try:
        yield
    finally:
        if sys.stdout is tee:
            sys.stdout = out
