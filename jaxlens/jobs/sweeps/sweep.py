"""`jaxlens.sweep`: one function at every point of a grid, compiled side by side.

The function is traced and lowered here. Its StableHLO travels to a worker, which compiles and
measures it, so that any executor serves: nothing of the user's is pickled.
"""

import hashlib
import itertools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax

from jaxlens import compat, progress
from jaxlens.call.traceable import function_name
from jaxlens.captures import Capture
from jaxlens.errors import OptionError, nearest
from jaxlens.jobs.sweeps.children import ChildProcesses
from jaxlens.jobs.sweeps.grid import arguments, axes, values_at
from jaxlens.jobs.sweeps.journal import Journal
from jaxlens.jobs.sweeps.points import SweepAxis, SweepFacts, SweepFigures, SweepRow
from jaxlens.jobs.sweeps.report import document, report
from jaxlens.jobs.sweeps.worker import measure, measured, one_line
from jaxlens.program.figures import Figures
from jaxlens.program.published_limits import Capacity, capacity
from jaxlens.program.subject import devices
from jaxlens.stages.compile.xla_options import xla_flags
from jaxlens.stages.driver import capture as captured
from jaxlens.views.view import View

_COUNTS = 2  # of what the figures count, so that a file's others are measured again
MEASURES = ("compile", "peak", "flops", "bytes", "kernels")
_WAITING = 64  # points that are lowered and wait for a worker
_CHILDREN = 4  # by default at most: each takes some 300 MB


def sweep(
    f: Callable[..., Any],
    /,
    *args: Any,
    over: Mapping[str, Any],
    measure: Sequence[str] = MEASURES,
    executor: Executor | int | None = None,
    resume: str | os.PathLike[str] | None = None,
    limit: float | str | None = None,
    **kwargs: Any,
) -> View[SweepFacts]:
    """Compiles a function at each point of a grid: shapes, targets, XLA's flags.

        shape = jax.ShapeDtypeStruct
        jaxlens.sweep(step, params, over={"batch": [shape((n, 128), "f4") for n in (32, 64, 128)]})

    The function is traced in this process, once a point, and runs nowhere. Programs for several
    devices, and those that call Python functions, are compiled in this process, one after another.
    An interrupt cancels what is left, and is raised.

    Args:
        f: The function, jitted or not.
        *args: Its arguments; those that vary may be left out.
        over: Values to try by what varies, of which the grid is the product: the name of an
            argument (values, or `jax.ShapeDtypeStruct`s), "x, y" for arguments that vary together
            (tuples), "target" (as of `jaxlens.capture`), or "flags" (dicts of XLA's options).
        measure: Of "compile" (seconds), "peak" (bytes, and those reserved), "flops", "bytes"
            (that kernels move) and "kernels"; by default all.
        executor: Any `concurrent.futures.Executor`, such as that of a Dask client
            (`client.get_executor()`), or a number of child processes; by default up to 4. Its
            workers must have this jaxlens.
        resume: A file that gets a line for each measured point; those are not compiled again.
        limit: Bytes, "16 GB", or a device ("h100"): says which points fit.
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
    bound = capacity(limit) if limit is not None else None
    points = list(itertools.product(*(range(len(axis.labels)) for axis in grid)))
    pool, is_ours = _executor(executor, len(points))
    journal = Journal(resume) if resume is not None else None
    made = _Sweep(f, args, kwargs, grid, names, bound, pool, journal)
    made.call(points[0])  # an axis that names no argument
    with pool if is_ours else nullcontext():
        made.measure_all(points)
    facts = SweepFacts(
        function_name(f),
        grid,
        tuple(made.rows[place] for place in points),
        bound,
        journal.trouble if journal else "",
        tuple(kind for kind in sorted(made.kinds) if bound and not bound.is_of(kind)),
        tuple(axis.name for axis in grid if axis.quantity in made.inputs),
        tuple(sorted(made.open)),
    )
    return View.of(facts, partial(document, asked=names != MEASURES), report)


def _executor(given: Executor | int | None, points: int) -> tuple[Executor, bool]:
    """Returns the executor, and whether it is ours."""
    if given is None or isinstance(given, int):
        if given is not None and given < 1:
            raise OptionError(f"executor takes at least 1 process, got {given!r}")
        workers = min(given or _CHILDREN, given or os.cpu_count() or 1, points)
        return ChildProcesses(workers), True
    context: Any = getattr(given, "_mp_context", None)  # of processes
    if not isinstance(given, Executor) or (context and context.get_start_method() == "fork"):
        raise OptionError(
            "executor takes a concurrent.futures.Executor or a number of processes, got "
            f"{type(given).__name__}; processes that fork hang after JAX has started threads: "
            "mp_context=multiprocessing.get_context('spawn')"
        )
    return given, False


@dataclass
class _Sweep:
    """What is compiled, how it is measured, and what came of it.

    Attributes:
        inputs: The names of all that was traced.
        kinds: What programs were compiled for.
        open: Loops whose trips are unknown, by line.
        rows: The row of each point, by its place.
    """

    f: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    grid: Sequence[SweepAxis]
    names: tuple[str, ...]
    capacity: Capacity | None
    pool: Executor
    journal: Journal | None
    inputs: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    rows: dict[tuple[int, ...], SweepRow] = field(default_factory=dict)
    _room: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(_WAITING))

    def call(self, place: tuple[int, ...]) -> tuple[Any, Any, Mapping[str, Any]]:
        """Returns the arguments at a point, and its target and flags.

        Raises:
            OptionError: An axis names no argument.
        """
        values, own = values_at(self.grid, place)
        return (*arguments(self.f, self.args, self.kwargs, values), own)

    def measure_all(self, places: Sequence[tuple[int, ...]]) -> None:
        """Adds the row of each point; an interrupt cancels the rest."""
        name = f"jaxlens sweeps {function_name(self.f)}"
        futures: list[Future[Any]] = []
        try:
            with progress.step(name, lambda: f"{len(self.rows)} of {len(places)} points"):
                for place in places:
                    self._begin(place, futures)
                for _ in range(_WAITING):  # the last program has left then
                    self._room.acquire()
        except BaseException:
            for future in futures:
                future.cancel()
            raise

    def _begin(self, place: tuple[int, ...], futures: list[Future[Any]]) -> None:
        """Lowers a point and gives it to a worker, unless the file has it or it fails."""
        flops = None
        try:
            args, kwargs, own = self.call(place)
            capture = captured(self.f, args, kwargs, target=own["target"])
            self.inputs |= {put.name for put in capture.program.inputs}
            if "flops" in self.names:
                figures = Figures(capture)
                flops = figures.get("flops")
                self.open |= {*figures.counted.open}
            request, key, here = self._request(capture, own)
            if self.journal and (known := self.journal.figures(key, self._kept)) is not None:
                self._row(place, {**known, "flops": flops}, kept=True)
                return
            add = partial(self._add, place, key, flops, here)
            if here:
                add(measure(capture, self._kept))
                return
            futures.append(self.pool.submit(measured, request))
        except Exception as why:  # of the user's function or the executor, of any type
            self._row(place, {"flops": flops}, one_line(why))
        else:
            self._room.acquire()
            futures[-1].add_done_callback(partial(self._ended, add))

    @property
    def _kept(self) -> tuple[str, ...]:
        """The names of the figures that a worker measures."""
        more = ("peak", "reserved") if "peak" in self.names else ()
        return (*(name for name in self.names if name not in ("flops", "peak")), *more)

    def _ended(self, add: Callable[[Mapping[str, Any]], None], future: Future[Any]) -> None:
        """Keeps an answer in the executor's thread: the main one may be tracing a point."""
        try:
            answer = future.result()
        except Exception as why:  # the worker died, or the executor was ended
            answer = {"figures": {}, "error": f"its worker did not answer: {one_line(why)}"}
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
        self._row(place, figures, error, here=here)
        if self.journal is not None and not error:
            self.journal.keep(key, self.rows[place].point, figures)

    def _row(
        self, place: tuple[int, ...], figures: Mapping[str, Any], error: str = "", **more: Any
    ) -> None:
        point = {axis.name: axis.labels[n] for axis, n in zip(self.grid, place, strict=True)}
        row = SweepRow(point, place, SweepFigures(**figures), error, **more)
        fits = None
        if self.capacity is not None and row.takes is not None:
            fits = row.takes <= self.capacity.usable
        elif self.capacity is not None and "RESOURCE_EXHAUSTED" in error:  # XLA refuses it
            fits = False
        self.rows[place] = replace(row, fits=fits)

    def _request(self, capture: Capture, at: Mapping[str, Any]) -> tuple[dict[str, Any], str, str]:
        """Returns what a worker gets, the point's key, and why it is compiled here; "" if not.

        Raises:
            OptionError: It has flags, and must be compiled here.
        """
        target, flags = capture.program.target, at["flags"] or {}
        self.kinds.add(target.kind or target.platform)
        lowered = capture.driver.lowered  # a live driver's
        module = lowered.compiler_ir("stablehlo")
        own = compat.options_of(lowered)
        count = devices(capture)  # a mesh may stand in the function alone
        here = f"programs for {count} devices" if count > 1 else ""
        if own is None or "callback" in capture.stablehlo.text:
            here = "programs that call Python functions"
        if here and flags:
            raise OptionError(f"flags are not tried on {here}")
        request = {
            "name": capture.program.name,
            "module": b"" if here else compat.bytecode(module),
            "platform": target.platform,
            "target": at["target"] if target.absent else "",
            "own": own or (),
            "flags": dict(flags),
            "x64": bool(jax.config.jax_enable_x64),  # type: ignore[attr-defined]
            "measure": self._kept,
        }
        text = module.operation.get_asm(enable_debug_info=False)
        settings = sorted(map(str, dict(own or ()).items())), sorted(map(str, flags.items()))
        versions = target.kind, target.platform, target.jax, target.jaxlib, xla_flags()
        whole = repr((text, settings, versions, _COUNTS)).encode(errors="surrogatepass")
        return request, hashlib.sha256(whole).hexdigest()[:32], here
