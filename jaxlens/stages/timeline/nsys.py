"""Reads a report of NVIDIA's Nsight Systems that was exported as SQLite.

    nsys profile -t cuda,nvtx -o job python train.py
    nsys export --type sqlite job.nsys-rep

Kernels and copies lie in tables of their own, with the number of the CUDA call that launched them.
XLA puts a range round what it launches, named `XlaModule:#hlo_module=jit_step,program_id=3#`, and
one round each instruction, `Thunk:#hlo_op=fusion.3#`. The tables are those of NVIDIA's "SQLite
Export Schema Reference"; a table or a column that is missing is empty here.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from jaxlens.stages.timeline.read_profile import Lines, ProfileEvent

_RANGE = 59  # the type of ranges that are pushed and popped, and so nest
_COPIES = {1: "MemcpyH2D", 2: "MemcpyD2H", 8: "MemcpyD2D"}
_MODULE = re.compile(r"\bhlo_module=([^,#]+)")
_OP = re.compile(r"\bhlo_op=([^,#]+)")
_KERNELS, _MEMCPY = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"
_GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"  # CUDA graphs, where nsys takes them as a whole
_OF_DEVICES = "start end deviceId streamId"
_CALLS, _RANGES = "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"


def lines_of_export(path: Path) -> Lines:
    """Yields the streams of each GPU and the threads of the host, as lines of a profile.

    Raises:
        sqlite3.Error: The file is no SQLite database.
    """
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        names = {row["id"]: row["value"] for row in _rows(database, "StringIds", "id value")}
        launched: dict[Any, dict[str, Any]] = {}
        for number, events in enumerate(_threads(database, names, launched)):
            yield "/host:CPU", f"thread {number}", events
        streams: dict[tuple[int, int], list[ProfileEvent]] = {}
        for table, noun in ((_KERNELS, "kernel"), (_GRAPHS, "CUDA graph")):
            for row in _rows(database, table, f"{_OF_DEVICES} correlationId globalPid shortName"):
                name = names.get(row["shortName"], noun)
                stats = launched.get(_launch(row["globalPid"], row["correlationId"]), {})
                event = ProfileEvent(name, float(row["start"]), float(row["end"]), stats)
                streams.setdefault((row["deviceId"], row["streamId"]), []).append(event)
        for row in _rows(database, _MEMCPY, f"{_OF_DEVICES} copyKind"):
            name = _COPIES.get(row["copyKind"], "Memcpy")
            event = ProfileEvent(name, float(row["start"]), float(row["end"]), {})
            streams.setdefault((row["deviceId"], row["streamId"]), []).append(event)
        for (device, stream), events in sorted(streams.items()):
            yield f"/device:GPU:{device}", f"Stream #{stream}", events


def _rows(database: sqlite3.Connection, table: str, wanted: str) -> Iterator[dict[str, Any]]:
    """Yields the rows of a table with these columns, None in those that it lacks."""
    made = database.execute("SELECT sql FROM sqlite_master WHERE type='table' AND name=?", [table])
    if not any(str(sql).upper().startswith("CREATE TABLE") for (sql,) in made):
        return  # a view can have rows without end
    known = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
    columns = [name for name in wanted.split() if name in known]
    empty = dict.fromkeys(wanted.split())
    if {"start", "end"} <= known or "value" in known:
        for row in database.execute(f"SELECT {', '.join(columns)} FROM {table}"):
            yield {**empty, **dict(zip(columns, row, strict=True))}


def _launch(identifier: int | None, correlation: Any) -> tuple[int, Any]:
    """Returns the number of a launch, which counts anew in each process.

    Args:
        identifier: `globalTid` or `globalPid`, whose lowest 24 bits are the thread's.
        correlation: The number within the process.
    """
    return (identifier or 0) >> 24, correlation


def _threads(
    database: sqlite3.Connection, names: dict[int, str], launched: dict[Any, dict[str, Any]]
) -> Iterator[list[ProfileEvent]]:
    """Yields the events of each thread: executions of programs, and CUDA calls within them.

    Args:
        database: The export.
        names: Its texts, by number.
        launched: Gets what the kernels of each CUDA call have as statistics, by its number.
    """
    every: dict[Any, list[tuple[float, float, Any]]] = {}
    for row in _rows(database, _RANGES, "start end eventType text textId globalTid"):
        text = row["text"] or names.get(row["textId"], "")
        if row["eventType"] == _RANGE and row["end"] is not None and "hlo_" in text:
            every.setdefault(row["globalTid"], []).append((row["start"], row["end"], text))
    for row in _rows(database, _CALLS, "start end correlationId globalTid"):
        call = row["start"], row["end"], _launch(row["globalTid"], row["correlationId"])
        every.setdefault(row["globalTid"], []).append(call)
    for thread, events in every.items():
        ordered = sorted(events, key=lambda event: (event[0], -event[1]))
        yield list(_events(ordered, thread, launched))


def _events(
    ordered: Iterable[tuple[float, float, Any]], thread: Any, launched: dict[Any, dict[str, Any]]
) -> Iterator[ProfileEvent]:
    """Yields the executions and CUDA calls of a thread, enclosing events before the enclosed."""
    around: list[tuple[float, str]] = []
    for number, (start, end, what) in enumerate(ordered):
        while around and around[-1][0] <= start:
            around.pop()
        if isinstance(what, tuple):
            launched[what] = {"correlation_id": what, **_named([text for _, text in around])}
            yield ProfileEvent("CUDA call", start, end, {"correlation_id": what})
            continue
        around.append((end, what))
        module = _MODULE.search(what)
        if module and not _OP.search(what):
            yield ProfileEvent(module[1], start, end, {"run_id": f"{thread} {number}"})


def _named(ranges: Iterable[str]) -> dict[str, str]:
    """Returns the instruction and the module of nested ranges; {} for those of no program."""
    found: dict[str, str] = {}
    for text in ranges:
        if module := _MODULE.search(text):
            found["hlo_module"] = module[1]
        if op := _OP.search(text):
            found["hlo_op"] = op[1]
    return {"hlo_op": "", **found} if "hlo_module" in found else {}
