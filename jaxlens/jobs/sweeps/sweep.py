"""`jaxlens.sweep`: one function at every point of a grid, compiled side by side.

The function is traced and lowered here. Its StableHLO travels to a worker, which compiles and
measures it, so that any executor serves: nothing of the user's is pickled.
"""

import hashlib
import itertools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import jax

from jaxlens import compat, progress
from jaxlens.call.traceable import function_name
from jaxlens.captures import Capture
from jaxlens.errors import OptionError, first_line, nearest
from jaxlens.jobs.sweeps.children import ChildProcesses
from jaxlens.jobs.sweeps.grid import AxisValues, arguments, axes, sweep_axis, values_at
from jaxlens.jobs.sweeps.journal import Journal
from jaxlens.jobs.sweeps.points import SweepFacts, SweepFigures, SweepRow
from jaxlens.jobs.sweeps.report import document, report
from jaxlens.jobs.sweeps.worker import measure as measure_capture
from jaxlens.jobs.sweeps.worker import measured, one_line
from jaxlens.program.figures import Figures
from jaxlens.program.published_limits import Capacity, capacity
from jaxlens.program.subject import devices
from jaxlens.stages.child.child import given_arrays
from jaxlens.stages.compile.xla_options import xla_flags
from jaxlens.stages.driver import capture as captured
from jaxlens.views.view import View

_COUNTS = 2  # of what the figures count, so that a file's others are measured again
MEASURES = ("compile", "peak", "flops", "bytes", "kernels", "run")
_DEFAULT = MEASURES[:-1]  # looking at a program executes nothing
_WAITING = 64  # points that are lowered and wait for a worker
_CHILDREN = 4  # by default at most: each takes some 300 MB
_LOOK = 0.2  # seconds between two looks for an interrupt


def sweep(
    f: Callable[..., Any],
    /,
    *args: Any,
    over: Mapping[str, Any],
    measure: Sequence[str] = _DEFAULT,
    executor: Executor | int | None = None,
    resume: str | os.PathLike[str] | None = None,
    limit: float | str | None = None,
    runs: int = 10,
    **kwargs: Any,
) -> View[SweepFacts]:
    """Compiles a function at each point of a grid: shapes, targets, XLA's flags.

        shape = jax.ShapeDtypeStruct
        jaxlens.sweep(step, params, over={"batch": [shape((n, 128), "f4") for n in (32, 64, 128)]})

    The function is traced in this process, once a point, and runs nowhere unless `measure` has
    "run". Programs for several devices, and those that call Python functions, are compiled in
    this process, one after another. An interrupt cancels what is left, and is raised.

    Args:
        f: The function, jitted or not.
        *args: Its arguments; those that vary may be left out.
        over: Values to try by what varies, of which the grid is the product: the name of an
            argument (values, or `jax.ShapeDtypeStruct`s), "x, y" for arguments that vary together
            (tuples), "target" (as of `jaxlens.capture`), or "flags" (dicts of XLA's options, or
            "xla_flag=value").
        measure: Of "compile" (seconds), "peak" (bytes, and those reserved), "flops", "bytes"
            (that kernels move), "kernels" and "run" (seconds); by default all but "run".
        executor: Any `concurrent.futures.Executor`, such as that of a Dask client
            (`client.get_executor()`), or a number of child processes; by default up to 4. Its
            workers must have this jaxlens.
        resume: A file that gets a line for each measured point; those are not compiled again.
        limit: Bytes, "16 GB", or a device ("h100"): says which points fit.
        runs: How often "run" executes a program.
        **kwargs: The function's keyword arguments.

    Returns:
        An answer with `.rows` (each with `.point`, `.figures`, `.fits`, `.error`), `.failed`,
        `.pandas()`, and sentences and tables as a view.

    Raises:
        OptionError: The grid, a figure, the limit or the file is not one that sweep takes.
    """
    if not callable(f):
        raise OptionError(f"sweep takes a function, got {type(f).__name__}: jaxlens.sweep(f, x)")
    grid = axes(over)
    names = (measure,) if isinstance(measure, str) else tuple(measure)
    for name in names:
        if name not in MEASURES:
            raise OptionError(f"sweep measures no {name!r}; {nearest(name, MEASURES)}")
    if "run" in names and runs < 1:
        raise OptionError(f"expected at least 1 run, got runs={runs}")
    bound = capacity(limit) if limit is not None else None
    plan = _Plan(f, args, kwargs, grid, names, runs, bound)
    plan.call(plan.places[0])  # an axis that names no argument
    journal = Journal(resume) if resume is not None else None
    block, workers = _executor(executor, len(plan.places))
    with block as pool:
        rows = _Points(plan, pool, journal).rows()
    along = [sweep_axis(row) for row in grid]
    facts = SweepFacts(
        function_name(f),
        tuple(along),
        tuple(rows[place] for place in plan.places),
        bound,
        workers,
        runs if "run" in names else 0,
        plan.random,
        journal.trouble if journal else "",
        tuple(kind for kind in sorted(plan.kinds) if bound and not bound.is_of(kind)),
        tuple(axis.name for axis in along if axis.quantity in plan.inputs),
        tuple(sorted(plan.open)),
    )
    return View.of(facts, partial(document, asked=names != _DEFAULT), report)


def _executor(
    given: Executor | int | None, points: int
) -> tuple[AbstractContextManager[Executor], int | None]:
    """Returns the executor, and its number of workers where it is ours, which the block ends."""
    if given is None or isinstance(given, int):
        if given is not None and given < 1:
            raise OptionError(f"executor takes at least 1 process, got {given!r}")
        workers = min(given or _CHILDREN, given or _cores(), points)
        return ChildProcesses(workers), workers
    if not callable(getattr(given, "submit", None)):
        raise OptionError(
            "executor takes a concurrent.futures.Executor or a number of processes, got "
            f"{type(given).__name__}"
        )
    context: Any = getattr(given, "_mp_context", None)
    if isinstance(given, ProcessPoolExecutor) and context and context.get_start_method() == "fork":
        raise OptionError(
            "a ProcessPoolExecutor that forks hangs after JAX has started threads: give it "
            "mp_context=multiprocessing.get_context('spawn'), or leave executor out"
        )
    return nullcontext(given), None


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # on other systems than Linux
        return os.cpu_count() or 1


@dataclass
class _Plan:
    """What is to be compiled, and how it is measured.

    Attributes:
        random: Whether a program is run on random inputs.
        inputs: The names of all that was traced.
        kinds: What programs were compiled for.
        open: Loops whose trips are unknown, by line.
    """

    f: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    grid: Sequence[AxisValues]
    names: tuple[str, ...]
    runs: int
    capacity: Capacity | None
    random: bool = False
    inputs: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)

    @cached_property
    def places(self) -> list[tuple[int, ...]]:
        """The points, by their index on each axis."""
        return list(itertools.product(*(range(len(row.values)) for row in self.grid)))

    @property
    def figures(self) -> tuple[str, ...]:
        """The names of the figures that a worker measures."""
        more = ("peak", "reserved") if "peak" in self.names else ()
        return (*(name for name in self.names if name not in ("flops", "peak")), *more)

    def call(
        self, place: Sequence[int]
    ) -> tuple[tuple[Any, ...], dict[str, Any], Mapping[str, Any]]:
        """Returns the arguments at a point, and its target and flags.

        Raises:
            OptionError: An axis names no argument.
        """
        values, own = values_at(self.grid, place)
        return (*arguments(self.f, self.args, self.kwargs, values), own)

    def flops(self, capture: Capture) -> int | None:
        """Returns the flops of a point, as traced."""
        figures = Figures(capture)
        flops = figures.get("flops")
        self.open |= {*figures.counted.open}
        return flops

    def point(self, place: Sequence[int]) -> dict[str, str]:
        """Returns the values at a point, in words."""
        return {row.name: row.labels[n] for row, n in zip(self.grid, place, strict=True)}

    def row(
        self, place: tuple[int, ...], figures: Mapping[str, Any], error: str = "", **more: Any
    ) -> SweepRow:
        """Returns the row of a point."""
        row = SweepRow(self.point(place), place, SweepFigures(**figures), error, **more)
        fits = None
        if self.capacity is not None and row.takes is not None:
            fits = row.takes <= self.capacity.usable
        elif self.capacity is not None and "RESOURCE_EXHAUSTED" in error:  # XLA refuses it
            fits = False
        return replace(row, fits=fits)


class _Points:
    """Goes through the points of a plan."""

    def __init__(self, plan: _Plan, pool: Executor, journal: Journal | None) -> None:
        self._plan = plan
        self._pool = pool
        self._journal = journal
        self._rows: dict[tuple[int, ...], SweepRow] = {}
        self._futures: list[Future[Any]] = []
        self._room = threading.Semaphore(_WAITING)

    def rows(self) -> dict[tuple[int, ...], SweepRow]:
        """Returns the row of each point, by its place; an interrupt cancels the rest."""
        whole = len(self._plan.places)
        name = f"jaxlens sweeps {function_name(self._plan.f)}"
        try:
            with progress.step(name, lambda: f"{len(self._rows)} of {whole} points"):
                for place in self._plan.places:
                    self._begin(place)
                for _ in range(_WAITING):  # the last program has left then
                    self._wait()
        except BaseException:
            for future in self._futures:
                future.cancel()
            raise
        return self._rows

    def _wait(self) -> None:
        """Waits until there is room for a further program with the workers."""
        # In short steps, since a lock cannot be interrupted on every system.
        while not self._room.acquire(timeout=_LOOK):
            pass

    def _begin(self, place: tuple[int, ...]) -> None:
        """Lowers a point and gives it to a worker, unless the file has it or it fails."""
        plan = self._plan
        try:
            args, kwargs, own = plan.call(place)
            capture = captured(plan.f, args, kwargs, target=own["target"])
            plan.inputs |= {put.name for put in capture.program.inputs}
            flops = plan.flops(capture) if "flops" in plan.names else None
            request, key, here = _request(plan, capture, own)
        except Exception as why:  # of the user's function, of any type: the point's row has it
            self._rows[place] = plan.row(place, {}, one_line(why))
            return
        known = self._journal.figures(key, plan.figures) if self._journal else None
        add = partial(self._add, place, key, flops, here)
        if known is not None:
            self._rows[place] = plan.row(place, {**known, "flops": flops}, kept=True)
        elif here:
            add(measure_capture(capture, plan.names, lambda: capture.driver.run(plan.runs)))
        else:
            self._wait()
            try:
                future = self._pool.submit(measured, request)
            except Exception as why:  # a broken pool takes no more
                self._room.release()
                error = f"not tried: the executor takes no more programs ({one_line(why)})"
                self._rows[place] = plan.row(place, {"flops": flops}, error)
            else:
                self._futures.append(future)
                future.add_done_callback(partial(self._ended, add))

    def _ended(self, add: Callable[[Mapping[str, Any]], None], future: Future[Any]) -> None:
        """Keeps an answer in the executor's thread: the main one may be tracing a point."""
        try:
            answer = future.result()
        except Exception as why:  # the worker died, or the executor was ended
            text = first_line(why) if str(why) else ""
            error = f"its worker did not answer: {type(why).__name__}: {text}".rstrip(": ")
            answer = {"figures": {}, "error": error}
        try:
            add(answer)
        finally:
            self._room.release()

    def _add(
        self,
        place: tuple[int, ...],
        key: str,
        flops: int | None,
        here: str,
        answer: Mapping[str, Any],
    ) -> None:
        """Adds the row of a point, and writes it to the file unless it failed."""
        figures, error = {**answer["figures"], "flops": flops}, str(answer["error"])
        if self._journal is not None and not error:
            self._journal.keep(key, self._plan.point(place), figures)
        self._rows[place] = self._plan.row(place, figures, error, here=here)


def _request(
    plan: _Plan, capture: Capture, at: Mapping[str, Any]
) -> tuple[dict[str, Any], str, str]:
    """Returns what a worker gets, the point's key, and why it is compiled here; "" if it is not.

    Raises:
        OptionError: It has flags, and must be compiled here.
    """
    target, flags = capture.program.target, at["flags"] or {}
    plan.kinds.add(target.kind or target.platform)
    lowered = capture.driver.lowered  # a live driver's
    module = lowered.compiler_ir("stablehlo")
    own = compat.options_of(lowered)
    count = devices(capture)  # a mesh may stand in the function alone
    here = f"programs for {count} devices" if count > 1 else ""
    if own is None or "callback" in capture.stablehlo.text:
        here = "programs that call Python functions"
    if here and flags:
        raise OptionError(f"flags are not tried on {here}")
    given = given_arrays(capture) if "run" in plan.names and not target.absent else {}
    plan.random |= "run" in plan.names and len(given) < len(capture.program.inputs)
    request = {
        "name": capture.program.name,
        "module": b"" if here else compat.bytecode(module),
        "platform": target.platform,
        "target": at["target"] if target.absent else "",
        "own": own or (),
        "flags": dict(flags),
        "x64": bool(jax.config.jax_enable_x64),  # type: ignore[attr-defined]
        "measure": plan.names,
        "runs": plan.runs,
        "given": given,
    }
    digest = hashlib.sha256()
    text = module.operation.get_asm(enable_debug_info=False)
    settings = sorted(map(str, dict(own or ()).items())), sorted(map(str, flags.items()))
    versions = target.kind, target.platform, target.jax, target.jaxlib, xla_flags()
    digest.update(repr((text, settings, versions, _COUNTS)).encode(errors="surrogatepass"))
    return request, digest.hexdigest()[:32], here
