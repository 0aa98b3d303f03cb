"""An interrupt at any line leaves the process as it was: see `jaxlens/interrupts.py`.

Interrupts are signals here, as those of a keyboard or a kernel are: `deferred` holds no other back.
Python looks for one where a function begins or has been called, so at no `try:`, and not between a
block and its `__exit__`; but at the beginning of each `__exit__`, which no code can prevent. So
these lines are left out.
"""

import gc
import itertools
import linecache
import logging
import os
import random
import signal
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens import compat, interrupts, progress
from jaxlens.call import isolate, target
from jaxlens.compat import disk_cache, jitted, lowering
from jaxlens.compat.import_private import private
from jaxlens.ir import graph
from jaxlens.lines import side_effects
from jaxlens.lines.record import Recorder
from jaxlens.listen.cell_calls import CellCalls
from jaxlens.notebook.cell.effects import Reached
from jaxlens.questions.failure.measure import remedies
from jaxlens.questions.memory.measure import checkpoint
from jaxlens.questions.numerics.measure import shadow
from jaxlens.questions.timeline.measure.record import TimelineRecording
from jaxlens.stages.compile import dump_files, profile
from jaxlens.stages.measure import instruction_times
from jaxlens.stages.trace import stamp

pytestmark = pytest.mark.backend
JAXPR = jax.make_jaxpr(lambda x: jnp.sin(x) + 1)(1.0)
_PATCHED = (
    (np, "asarray"),
    (jax.lax, "scan"),
    (jax, "vjp"),
    (private("core"), "jaxpr_const_args"),
    (private("interpreters.pxla"), "_get_and_check_device_assignment"),
    (private("util"), "test_event_listener"),
    (sys, "stdout"),
    (threading, "excepthook"),
)


def session():
    """JAX's profiler session, under either name that JAX's versions have for it."""
    state = vars(private("profiler")._profile_state)
    return state.get("profile_session", state.get("session"))


def state():
    """What of the process an interrupted look could leave changed."""
    monitoring, logger = private("monitoring"), logging.getLogger("jax._src.cache_key")
    cache = private("compilation_cache")
    return {
        "folders": sorted(os.listdir(tempfile.gettempdir())),
        "profiler": session(),
        "settings": (dict(jax.config.values), private("config").trace_context()),
        "patched": [getattr(owner, name) for owner, name in (*_PATCHED, *jitted._lowerings())],
        "listeners": [len(heard) for heard in vars(monitoring).values() if isinstance(heard, list)],
        "post hook": private("api")._post_hook_state.get_local(),
        "logger": (logger.level, len(logger.filters)),
        "cache": (cache._cache_checked, cache._cache_used),
        "python": (gc.isenabled(), sys.getrecursionlimit(), dict(os.environ), random.getstate()),
        "signal": signal.getsignal(signal.SIGINT),
        "warnings": list(warnings.filters),
        "steps": list(progress._steps),
        "equations": [id(eqn.source_info) for eqn in JAXPR.eqns],
        "locks": [repr(lock) for lock in (stamp._one_at_a_time, lowering._assigning)],
    }


def interrupted_at(n, run, files):
    """Runs with an interrupt at the n-th line of the files; returns where, None for fewer lines."""
    place, passed = None, itertools.count(1)

    def called(frame, event, _):
        if frame.f_code.co_filename not in files:
            return None
        skipped = frame.f_code.co_name == "__exit__"

        def ran(frame, event, _):
            nonlocal place, skipped
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
            if event != "line" or line.startswith(("try:", "with ")):
                return ran
            if skipped:
                skipped = False
            elif next(passed) == n:
                place = f"{frame.f_code.co_name}:{frame.f_lineno}"
                signal.raise_signal(signal.SIGINT)
            return ran

        return ran

    caught = None
    sys.settrace(called)
    try:
        run()
    except KeyboardInterrupt as error:
        caught = error  # keeps all frames alive, as IPython does: no garbage collector undoes it
    finally:
        sys.settrace(None)
    assert (caught is None) == (place is None)
    return place


@pytest.fixture(autouse=True)
def in_peace(tmp_path, monkeypatch):
    """A temporary folder of its own, no waiting, and SIGINT handled also in the background.

    The arrays of other tests, a line each where they are waited for, are not of this one.
    """
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setattr(jax, "live_arrays", list)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Wrapper:
    """A wrapper of a jitted function, whose `lower` calls that of the function."""

    def lower(self, *args):
        return jax.jit(jnp.sin).lower(*args)


def within(manager):
    """Returns a function that enters a new context manager and leaves it."""

    def run():
        with manager():
            len("a block")

    return run


def under_x64():
    with jax.enable_x64(True):
        return compat.settings_here()()


CASES = {
    "profiled instructions": (
        within(lambda: instruction_times._profiling([])),
        instruction_times,
        profile,
    ),
    "timeline": (within(TimelineRecording), TimelineRecording, profile),
    "dump folder": (within(lambda: dump_files.folder()), dump_files),
    "temporary folder": (within(interrupts.temporary_folder), tempfile),
    "trace": (within(lambda: isolate.untouched(isolate.context())), isolate),
    "no disk cache": (within(compat.persistent_cache_off), disk_cache),
    "settings": (within(under_x64), compat.settings_here),
    "float64": (within(shadow.in_float64), shadow),
    "stamps": (within(lambda: stamp.stamped(JAXPR)), stamp),
    "devices": (within(lambda: lowering._assigned(lambda n: ())), lowering),
    "vjp": (within(lambda: compat.differentiated(lambda f: f)), compat.transformed),
    "each scan": (lambda: checkpoint._each_scan()(lambda: None)(), checkpoint),
    "wrapper": (lambda: compat.handed_over(Wrapper(), (1.0,), {}), jitted),
    "environment": (within(lambda: target._variable("JAXLENS_TEST")), target),
    "collector": (within(graph.paused), graph),
    "lines": (within(lambda: Recorder().recording()), Recorder, side_effects),
    "time limit": (within(lambda: remedies._within(9.0)), remedies),
    "step": (within(lambda: progress.step("step")), progress),
    "calls of a cell": (within(CellCalls), CellCalls, compat.calls_heard),
    "recompiles": (within(jaxlens.recompiles), type(jaxlens.recompiles()), compat.events),
}


@pytest.mark.parametrize("case", CASES)
def test_an_interrupt_at_each_line_leaves_everything_as_it_was(case):
    run, *parts = CASES[case]
    files = {sys.modules.get(getattr(p, "__module__", ""), p).__file__ for p in parts}
    files.add(__file__)
    run()  # what JAX does the first time
    before = state()
    for n in itertools.count(1):
        place = interrupted_at(n, run, files)
        assert state() == before, place
        if place is None:
            break
    assert n > 3


def test_an_interrupt_while_containers_are_put_back_comes_out_when_they_are():
    box, shelf = [1, 2], {"a": 1}
    for n in itertools.count(1):
        reached = Reached([SimpleNamespace(box=box, shelf=shelf)])
        box.append(3)
        shelf["b"] = 2
        place = interrupted_at(n, reached.put_back, {sys.modules[Reached.__module__].__file__})
        assert (box, shelf) == ([1, 2], {"a": 1}), place
        if place is None:
            break
    assert n > 4


def test_a_deferred_interrupt_is_raised_at_the_end_and_undoes_the_block():
    done = []

    def block():
        with interrupts.deferred(lambda: done.append("undone")):
            signal.raise_signal(signal.SIGINT)
            done.append("whole")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert done == ["whole", "undone"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_and_foreign_handlers_are_left_alone(monkeypatch):
    handlers = []

    def elsewhere():
        with interrupts.deferred():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    monkeypatch.setattr(signal, "getsignal", lambda _: None)  # as of a program that embeds Python
    elsewhere()
    monkeypatch.undo()
    assert handlers[0] is signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is not None


def test_a_trace_that_cannot_start_leaves_no_session(monkeypatch, tmp_path):
    """JAX has started the session when its `start_trace` fails."""
    start = jax.profiler.start_trace

    def fails(*args, **kwargs):
        start(*args, **kwargs)
        raise MemoryError

    monkeypatch.setattr(jax.profiler, "start_trace", fails)
    started = profile.Session(host_level=2)
    started.start()
    assert started.note
    assert session() is None
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
