"""Sides that take turns: what every bench measures with.

A shared machine's clock says little, so that figures are CPU seconds of all threads, medians of
rounds in which each side runs once, in an order that rotates. The garbage collector runs between
measurements and not in them, unless what it costs is asked.
"""

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import jax

from jaxlens.render.graph.layout import arranged, layout
from jaxlens.stages.session import compiling

Task = Callable[[], object]


class Seconds(NamedTuple):
    """Of one call: of all threads, of the thread that calls, and of the wall clock."""

    cpu: float
    thread: float
    wall: float


def _now():
    return Seconds(time.process_time(), time.thread_time(), time.perf_counter())


def seconds(task, calls=1, collects=False):
    """Seconds of a call, of what was not compiled or drawn before; without garbage collection."""
    compiling.forget()
    layout.cache_clear()
    arranged.cache_clear()
    gc.collect()
    if not collects:
        gc.disable()
    try:
        begun = _now()
        for _ in range(calls):
            task()
        ended = _now()
    finally:
        gc.enable()
    return Seconds(*((b - a) / calls for a, b in zip(begun, ended, strict=True)))


def rotated(names, turn):
    """The same names, beginning with another one each turn."""
    first = turn % len(names)
    return names[first:] + names[:first]


def turns(sides, rounds, calls=1, collects=False):
    """Medians of each side; the first round warms caches that are not the program's."""
    times: dict[str, list[Seconds]] = {side: [] for side in sides}
    for turn in range(rounds + 1):
        for side in rotated(list(sides), turn):
            taken = seconds(sides[side], calls, collects)
            if turn:
                times[side].append(taken)
    return medians(times)


def medians(times):
    """The median of each clock, by side."""
    return {
        side: Seconds(*map(statistics.median, zip(*every, strict=True)))
        for side, every in times.items()
    }


def ratio(name, ours, bare, rounds, calls=1, note=""):
    """Prints a row: both sides in milliseconds of CPU, their ratio and their difference."""
    found = turns({"ours": ours, "bare": bare}, rounds, calls)
    a, b = found["ours"].cpu * 1e3, found["bare"].cpu * 1e3
    row = f"{name:<42}{a:>12,.3f} ms{b:>12,.3f} ms{a / b:>8.2f}x{a - b:>+12,.3f} ms   {note}"
    print(row, flush=True)


def options(about, **defaults):
    """The options of a bench by their defaults; prints what figures are of."""
    parser = argparse.ArgumentParser(description=about)
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    given = parser.parse_args()
    print(f"jax {jax.__version__}, medians of CPU time")
    return given


def fresh(f):
    """The same function as a new object, so that no cache of JAX's knows it."""
    return lambda *args: f(*args)
