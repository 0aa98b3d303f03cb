"""Records what a function's lines do while JAX traces it, by Python's own tracing of frames.

Only frames of the user's files are followed line by line; libraries run as ever. After each line
it is asked which variables changed, and how many equations the innermost trace holds by now.
Nothing of the user's is called: values are described by type, numbers and short strings by value.
"""

import dis
import inspect
import io
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from jaxlens.ir.jaxpr_bodies import bodies, opened
from jaxlens.ir.spans import describe
from jaxlens.ir.tape import Bound, Event, Tape, TapeStep
from jaxlens.stages import compat
from jaxlens.stages.tape_values import text

MOST = 5_000  # steps that are kept
_QUIET = (ModuleType, type, FunctionType)
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_NONE: Any = object()


@dataclass(slots=True)
class _Step:
    """A step while it happens."""

    event: Event
    code: CodeType
    line: int
    depth: int
    bound: list[Bound] = field(default_factory=list)
    made: list[Any] = field(default_factory=list)  # keys and tracebacks of equations
    printed: str = ""
    raised: str = ""
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
        self._stored: dict[CodeType, frozenset[str]] = {}  # names that a function makes global
        self._thread = threading.get_ident()
        self._cut = False

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Within it, the user's lines are followed; whoever traced before goes on after it."""
        from jaxlens.core import listen  # loads the core, of which few programs are

        before = sys.gettrace()
        with listen(self._hear), _tee(self._print):
            sys.settrace(self._listener())
            try:
                yield
            finally:
                sys.settrace(before)
                self._frames.clear()

    def tape(self, jaxpr: Any) -> Tape:
        """The steps, with the ids of the equations that each recorded.

        An equation that was made anew later, as those of a loop are when it is differentiated, has
        the traceback of the one that it stands for, and belongs to the same line. What a library
        traced within a line (the body of a `jit` of JAX's own) belongs to the line of its call.

        Args:
            jaxpr: What the trace made.
        """
        final = _final(jaxpr)
        ids: dict[tuple[int, str], list[_Made]] = {}
        for one in final:
            ids.setdefault(one.key, []).append(one)
        given: dict[str, int] = {}
        places: dict[int, int] = {}
        for n, step in enumerate(self._steps):
            for part, place in step.made:
                if place:
                    places.setdefault(place, n)
                if ids.get(part):
                    given[ids[part].pop(0).id] = n
        for one in final:  # those that hold others first
            if one.id in given:
                continue
            if not one.backward and one.place in places:
                given[one.id] = places[one.place]
            elif one.holder in given:
                given[one.id] = given[one.holder]
        made: list[list[str]] = [[] for _ in self._steps]
        for one in sorted(final, key=lambda one: one.number):
            if one.id in given:
                made[given[one.id]].append(one.id)
        steps = [_frozen(step, tuple(ids)) for step, ids in zip(self._steps, made, strict=True)]
        left = [one.id for one in final if one.id not in given]
        if left and steps and not self._cut:
            last = self._steps[0].code
            steps.append(_frozen(_Step("after", last, last.co_firstlineno, 0), tuple(left)))
        self._kept.clear()
        return Tape(tuple(steps), self._cut)

    def _listener(self) -> Callable[[FrameType, str, Any], Any]:
        """What Python calls where a function begins: very often, and hardly ever a user's."""
        libraries: set[str] = set()

        def called(frame: FrameType, event: str, _: Any) -> Any:
            if frame.f_code.co_filename in libraries:
                return None
            if not _may_be_users(frame.f_code):
                libraries.add(frame.f_code.co_filename)
                return None
            return self._called(frame, event)

        return called

    def _called(self, frame: FrameType, event: str) -> Any:
        """A function of a file of the user's begins."""
        if event != "call" or not _is_users(frame) or _listens(frame):
            return None
        self._flush()
        if self._full():
            return None
        self._frames.append(_Frame(frame, {}, self._outer(frame)))
        self._begin("resume" if _resumes(frame) else "call", frame)
        self._look(self._frames[-1])
        return self._ran

    def _ran(self, frame: FrameType, event: str, value: Any) -> Any:
        """A line is about to run, it raises, or the function returns."""
        while self._frames and self._frames[-1].frame is not frame:
            self._frames.pop()  # it was left by an exception
        if not self._frames:
            return None
        self._flush()
        at = self._frames[-1]
        self._look(at)
        if event == "line":
            if self._full():
                return None
            self._begin("line", frame)
        elif event == "exception" and at.step is not None:
            if not issubclass(value[0], StopIteration):
                at.step.raised = value[0].__name__
        elif event == "return":
            self._ended(at, value)
        return self._ran

    def _ended(self, at: _Frame, value: Any) -> None:
        """A function returns, yields, or is left by an exception."""
        yields, raised = _yields(at.frame), at.step.raised if at.step else ""
        self._begin("yield" if yields else "return", at.frame)
        if value is None and raised and not yields and not _returns(at.frame):
            bound = Bound("raises", raised)
        else:
            bound = Bound("yields" if yields else "returns", text(value))
        self._steps[-1].bound.append(bound)
        self._frames.pop()

    def _full(self) -> bool:
        """Whether no more steps are kept; then nothing more is followed."""
        if len(self._steps) >= MOST:
            self._cut = True
            sys.settrace(None)
            for held in self._frames:
                held.frame.f_trace = None
        return self._cut

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
            words = text(value)
            known = at.seen.get(name, (_NONE, ""))
            if known[0] is not value or known[1] != words:
                at.seen[name] = value, words
                if not (issubclass(type(value), _QUIET) and step.event in ("call", "resume")):
                    step.bound.append(Bound(name, words))
        now = self._outer(at.frame)
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
                self._current().made += [(_key(eqn), _traceback(eqn)) for eqn in new]
        if self._core and self._steps:
            self._kept += self._core
            self._current().made += [((id(eqn), ""), 0) for eqn in self._core]
        self._core.clear()

    def _current(self) -> _Step:
        running = (f.step for f in reversed(self._frames) if f.step is not None)
        return next(running, self._steps[-1])

    def _hear(self, event: Any) -> None:
        if event.kind == "record":
            self._core.append(event.detail["eqn"])

    def _print(self, words: str) -> None:
        here = threading.get_ident() == self._thread
        if here and self._frames and self._frames[-1].step is not None:
            self._frames[-1].step.printed += words

    def _outer(self, frame: FrameType) -> dict[str, Any]:
        """What a function could change outside of itself, each with a number that tells if it did.

        Globals that it binds by what they are bound to; containers that it reaches by length.
        """
        code = frame.f_code
        stored = self._stored.get(code)
        if stored is None:
            found = (i.argval for i in dis.get_instructions(code) if i.opname == "STORE_GLOBAL")
            stored = self._stored[code] = frozenset(found)
        outer: dict[str, Any] = {f"global {n}": id(frame.f_globals.get(n, _NONE)) for n in stored}
        for name in code.co_names:
            _held(name, frame.f_globals.get(name), outer)
        if code.co_freevars:
            known = frame.f_locals
            for name in code.co_freevars:
                _held(name, known.get(name), outer)
        return outer


def _alive(eqn: Any) -> Any:
    """An equation; JAX holds some weakly, and lets go of those that nothing reads."""
    return eqn() if isinstance(eqn, weakref.ref) else eqn


def _frozen(step: _Step, made: tuple[str, ...]) -> TapeStep:
    file = describe(step.code.co_filename)
    return TapeStep(
        step.event, step.code.co_filename, file.name, step.line, step.code.co_qualname, step.depth,
        tuple(step.bound), made, step.printed, tuple(step.wrote), step.raised,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Made:
    """An equation of the finished program: its id, and what tells it while it is recorded."""

    id: str
    key: tuple[int, str]
    place: int
    backward: bool
    holder: str

    @property
    def number(self) -> int:
        return int(self.id[1:])


def _final(jaxpr: Any) -> list[_Made]:
    """Every equation, callers before callees."""
    found: list[_Made] = []
    turned: set[int] = set()  # bodies of the backward pass
    holders: dict[int, str] = {}
    for key, body in bodies(opened(jaxpr)).items():
        for n, (eqn, ident) in enumerate(zip(body.jaxpr.eqns, body.ids, strict=True)):
            back = key in turned or "transpose" in str(eqn.source_info.name_stack)
            if back:
                turned.update(map(id, body.inner.get(n, ())))
            for held in body.inner.get(n, ()):
                holders.setdefault(id(held), ident)
            found.append(_Made(ident, _key(eqn), _traceback(eqn), back, holders.get(key, "")))
    return found


def _key(eqn: Any) -> tuple[int, str]:
    source = eqn.source_info
    if isinstance(source.name_stack, tuple):  # the core's, whose equations stay the same objects
        return id(eqn), ""
    return id(source), eqn.primitive.name


def _traceback(eqn: Any) -> int:
    """The identity of the traceback of an equation of JAX's; 0 where there is none."""
    traceback = getattr(eqn.source_info, "traceback", None)
    return 0 if traceback is None else id(traceback)


def _yields(frame: FrameType) -> bool:
    """Whether a generator that is left goes on later; from Python 3.12 on it stands at RESUME."""
    last = _last(frame)
    return bool(frame.f_code.co_flags & _GENERATORS) and last.startswith(("YIELD", "RESUME"))


def _resumes(frame: FrameType) -> bool:
    """Whether a generator goes on; the argument of RESUME is 0 where a function begins."""
    if not frame.f_code.co_flags & _GENERATORS or frame.f_lasti < 0:
        return False
    return bool(frame.f_code.co_code[frame.f_lasti + 1] & 3)


def _returns(frame: FrameType) -> bool:
    return _last(frame).startswith("RETURN")


def _last(frame: FrameType) -> str:
    """The instruction that a frame stands at."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] if frame.f_lasti >= 0 else ""


def _may_be_users(code: CodeType) -> bool:
    """Whether a file is the user's: no library's, and none that was made at run time."""
    file = describe(code.co_filename)
    return not file.library and not file.own


def _listens(frame: FrameType) -> bool:
    """Whether JAX only tells the function of an event: it is a listener, and no part of a trace."""
    caller = frame.f_back
    names = ("jax/_src/monitoring.py", "jax\\_src\\monitoring.py")
    return caller is not None and caller.f_code.co_filename.endswith(names)


def _is_users(frame: FrameType) -> bool:
    """Whether a function of such a file was written: what `exec` made has a name as `<string>`."""
    code = frame.f_code
    if not code.co_filename.startswith("<") or code.co_filename.startswith("<ipython"):
        return True
    return frame.f_globals.get("__name__") == "__main__" and not code.co_qualname.startswith("__cr")


def _held(name: str, value: Any, found: dict[str, Any]) -> None:
    """A container's length, by the method of the built-in type: a class may have its own."""
    for base in (list, dict, set):
        if issubclass(type(value), base):
            found[name] = base.__len__(value)


def _change(name: str, before: int, now: int) -> str:
    if name.startswith("global "):
        return f"{name} is bound anew"
    return f"{name}: {before} items before, {now} now"


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
