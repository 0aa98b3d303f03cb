"""The verbs on what JAX compiles: a log, a limit, and the key of a call.

with jaxlens.recompiles() as log:
    train(params, data)
log                                     # why each program was made, in a notebook or as text

with jaxlens.assert_compiles(1): ...    # also as a decorator of a test
"""

from collections.abc import Callable, Mapping
from contextlib import ContextDecorator
from functools import cache
from typing import Any, NamedTuple

from jaxlens.captures import Capture
from jaxlens.capturing import Function
from jaxlens.errors import OptionError, RecompileError
from jaxlens.interrupts import deferred, undoing
from jaxlens.ir.compile_log import CallKey, CompileLog, Cure
from jaxlens.listen.listen import CompileWatch
from jaxlens.questions.recompiles.facts import Recompiles, facts
from jaxlens.questions.recompiles.measure.cures import with_cures
from jaxlens.questions.recompiles.report import document, error_text, recompiles_report
from jaxlens.stages.existing.opening import is_program
from jaxlens.views.view import View, Watch

__all__ = ["assert_compiles", "key", "recompiles"]


class _Reading(NamedTuple):
    """A log as it was read.

    Attributes:
        log: The log.
        cured: Returns it with cures, once the watch has ended; they are tried at the first call.
        view: The log as a view with facts.
    """

    log: CompileLog
    cured: Callable[[], CompileLog]
    view: View[Recompiles]


class RecompileLog(Watch[Recompiles]):
    """A log of what JAX traced, lowered and compiled: `str(log)` says why, a notebook shows it.

    Its facts are attributes: `.compiles`, `.recompiles`, `.traces`, `.loaded` (from the persistent
    cache), `.operations`, `.seconds`, `.by_function`, `.reasons`, `.cures`; `.log`
    has every call as data. It can be read while it is still recording.

    Args:
        watch: Records the calls; a new one by default.
        where: The name of the block in sentences: "in this cell".
    """

    # Attributes that are not defined here are read from the facts; these are their types.
    compiles: int
    recompiles: int
    traces: int
    loaded: int
    operations: int
    seconds: float
    by_function: Mapping[str, int]
    reasons: tuple[str, ...]

    def __init__(self, watch: CompileWatch | None = None, where: str = "") -> None:
        super().__init__(self._so_far)
        self._watch = watch or CompileWatch()
        self._where = where
        self._last: _Reading | None = None

    def __enter__(self) -> "RecompileLog":
        with deferred(self.__exit__):
            self._watch.start()
            return self

    @undoing
    def __exit__(self, *_: object) -> None:
        self._watch.stop()

    @property
    def log(self) -> CompileLog:
        """Every call, with its steps, its key and what is new in it."""
        return self._watch.log()

    @property
    def cures(self) -> tuple[Cure, ...]:
        """What would avoid the recompiles of functions, once the watch has stopped; tried now.

        Cures for operations outside of jit are findings alone.
        """
        calls = self._read().cured().calls
        return tuple(dict.fromkeys(call.cure for call in calls if call.cure))

    def _so_far(self) -> View[Recompiles]:
        return self._read().view

    def _read(self) -> _Reading:
        """Reads the log so far; again only if it has grown."""
        log = self.log
        if self._last is None or self._last.log != log:
            cured = cache(lambda: log if log.going else with_cures(log, self._watch.keys()))
            answer = View(
                None,
                build=lambda: document(cured(), self._where),
                know=lambda: facts(log),
                tell=lambda: recompiles_report(cured(), self._where),
            )
            self._last = _Reading(log, cured, answer)
        return self._last


def recompiles() -> RecompileLog:
    """Records everything that JAX traces, lowers and compiles in a `with` block.

        with jaxlens.recompiles() as log:
            for batch in batches:
                step(params, batch)
        print(log)

    Calls that hit JAX's caches are not slowed down. Work in other threads is recorded too, with
    the thread's name.

    Returns:
        A view, to be entered by `with`; see `RecompileLog`.
    """
    return RecompileLog()


def assert_compiles(n: int, *, operations: bool = False) -> "CompileLimit":
    """Raises if more than `n` programs are compiled in a `with` block or in a decorated function.

        with jaxlens.assert_compiles(1):
            for batch in batches:
                step(params, batch)

    Programs loaded from the persistent cache count too, so a warm cache does not change a test.
    As a decorator it counts the compiles of each call.

    Args:
        n: Maximum number of compiled programs.
        operations: Whether JAX's own functions called outside of jit (`x + y`) count as well.

    Raises:
        RecompileError: At the end of the block; its message says what was compiled, and why.
    """
    return CompileLimit(n, operations)


class CompileLimit(ContextDecorator):
    """Context manager and decorator that limits compiles; returned by `assert_compiles`."""

    def __init__(self, n: int, operations: bool = False) -> None:
        if not isinstance(n, int) or n < 0:
            raise OptionError(f"assert_compiles takes a count of 0 or more, got {n!r}")
        self._most = n
        self._operations = operations
        self._logs: list[RecompileLog] = []

    def _recreate_cm(self) -> "CompileLimit":
        return CompileLimit(self._most, self._operations)

    def __enter__(self) -> RecompileLog:
        log = RecompileLog()
        self._logs.append(log)
        return log.__enter__()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        log = self._logs.pop()
        log.__exit__()
        made, most, operations = log.log, self._most, self._operations
        got = len(made.compiles) + (len(made.operations) if operations else 0)
        if kind is None and got > most:
            allowed = f"at most {most} compile{'s' * (most > 1)}" if most else "no compile"
            raise RecompileError(f"expected {allowed}, got {got}: {error_text(made, operations)}")


def key(f: Function, /, *args: Any, **kwargs: Any) -> View[CallKey]:
    """Returns the key by which JAX's caches look up a call, and whether it would hit.

    Nothing is traced, executed or compiled, and no cache entry is made.

    Args:
        f: A function; if it is not jitted, the key is that of `jax.jit(f)`.
        *args: The function's arguments: arrays, numbers or `jax.ShapeDtypeStruct`s.
        **kwargs: Its keyword arguments.

    Returns:
        An answer with `.hit` (None if it cannot be known), `.layer` (the first cache that misses:
        "trace" or "compile"), `.reasons` (differences to the nearest earlier key) and `.parts`.

    Raises:
        OptionError: `f` is a Capture or an existing program, and not a function.
    """
    from jaxlens.keys.jax_keys import call_key
    from jaxlens.program.call_key import key_report
    from jaxlens.questions.recompiles.report import key_document

    if isinstance(f, Capture) or is_program(f):
        raise OptionError(
            "a capture has no cache key, its call has: jaxlens.key(f, x) takes the function and "
            "its arguments"
        )
    key = call_key(f, args, kwargs)
    return View.of(key, key_document, key_report)
