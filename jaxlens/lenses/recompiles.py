"""Why did it recompile? The argument responsible, old and new, from a log of what JAX did.

A compile is told apart from the first one of its function by the key's difference to the nearest
earlier key; recompiles of one function with one cause are one sentence. Operations that were
called outside of jit are counted apart, as are calls that only made an entry in jit's fast path.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from jaxlens.ir.compile_log import TYPE, Call, Change, Log, Step
from jaxlens.ir.graph import Span
from jaxlens.lenses.report import Cell, Finding, Report, Table, Trust, count
from jaxlens.lenses.sentences import listed
from jaxlens.lenses.times import duration

_MOST = 8  # values named in one sentence
_ROWS = 200
_AXES = ("first", "second", "third", "fourth", "fifth")


@dataclass(frozen=True, slots=True)
class Recompiles:
    """A log in figures.

    Attributes:
        compiles: Programs made for functions, out of XLA or the persistent cache.
        recompiles: Those of them whose function had been compiled for another key.
        loaded: Those of them that the persistent cache held.
        traces: How often the Python of a function ran.
        operations: Programs made for single operations outside of jit.
        fast_path: Calls that only made an entry in jit's fast path.
        seconds: Time spent in all of this, as JAX measured it.
        by_function: Compiles by name.
        reasons: Why, one line for each recompile.
    """

    compiles: int
    recompiles: int
    loaded: int
    traces: int
    operations: int
    fast_path: int
    seconds: float
    by_function: Mapping[str, int]
    reasons: tuple[str, ...]


def of(log: Log) -> Recompiles:
    """The figures of a log."""
    steps = [(call, step) for call in log.calls for step in call.steps]
    return Recompiles(
        compiles=len(log.compiles),
        recompiles=len(log.recompiles),
        loaded=sum(call.role == "user" and step.served == "disk" for call, step in steps),
        traces=sum(
            call.role == "user" and step.kind == "trace" and not step.served for call, step in steps
        ),
        operations=len(log.operations),
        fast_path=sum(call.layer == "fast path" for call in log.calls),
        seconds=sum(call.seconds for call in log.calls),
        by_function=dict(Counter(call.function for call in log.compiles)),
        reasons=tuple(f"{call.function}: {call.reason}" for call in log.recompiles),
    )


def recompiles(log: Log, where: str = "") -> Report:
    """The log as sentences and tables, the answer first.

    Args:
        log: What was watched.
        where: "in this cell", or "".
    """
    groups = _groups(log.compiles)
    told = sorted(groups, key=lambda g: -len(g.again))
    findings = [*_answers(told, where), *_apart(log, where)]
    if not findings:
        findings = [_nothing(log, where)]
    findings += [Finding(f"{text}.", "unknown") for text in log.trouble]
    return Report("Recompiles", tuple(findings), tuple(_tables(log)))


def one_line(log: Log, operations: bool = False) -> str:
    """What compiled and why, in one line for an error, recompiles first.

    Args:
        log: What was watched.
        operations: Whether single operations count too.
    """
    made = (*log.compiles, *(log.operations if operations else ()))
    calls = sorted(made, key=lambda call: not call.changes)
    told = [f"{c.function}{_at(c.line)} ({c.reason})" for c in calls[:_FEW]]
    more = f", and {len(calls) - _FEW} more" if len(calls) > _FEW else ""
    return f"{'; '.join(told)}{more}"


_FEW = 3
_AGAIN = 3  # programs of one operation at one line that make it a loop


# ---- groups and causes --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Group:
    """The compiles of one function."""

    name: str
    defined: Span | None
    calls: tuple[Call, ...]

    @property
    def again(self) -> tuple[Call, ...]:
        return tuple(call for call in self.calls if call.changes)


def _groups(calls: Sequence[Call]) -> list[_Group]:
    found: dict[tuple[str, Span | None, str], list[Call]] = {}
    for call in calls:
        found.setdefault((call.function, call.defined, call.under), []).append(call)
    return [
        _Group(f"{name} under {under}" if under else name, defined, tuple(held))
        for (name, defined, under), held in found.items()
    ]


def _answers(groups: Sequence[_Group], where: str) -> Iterator[Finding]:
    """A sentence for each function that recompiled, with its cures; one for all others."""
    place = f" {where}" if where else ""
    for group in groups:
        if not group.again:
            continue
        times = count(len(group.calls), "time")
        because = list(_because(group))
        yield Finding(
            f"{group.name} compiled {times}{place}; {'; '.join(because)}."
            if len(group.calls) > 1
            else f"{group.name} compiled again{place}: {because[0].partition('because ')[2]}."
        )
        yield from _cures(group)
        place = ""
    once = [group.name for group in groups if not group.again]
    if once:
        yield Finding(_once(once, place, bool(len(groups) - len(once))))


def _once(names: Sequence[str], place: str, others: bool) -> str:
    shown = listed(list(dict.fromkeys(names)), 6)
    if others:
        return f"Compiled for the first time: {shown}."
    functions = count(len(names), "function")
    verb = "was" if len(names) == 1 else "were"
    return f"Nothing recompiled{place}; {functions} {verb} compiled for the first time: {shown}."


def _because(group: _Group) -> Iterator[str]:
    """`5 of them because x's first axis changed: 32, 31, 30`, for each cause."""
    by_cause: dict[tuple[str, ...], list[Call]] = {}
    for call in group.again:
        by_cause.setdefault(call.cause, []).append(call)
    named = {key: held for key, held in by_cause.items() if not key[1].startswith("input ")}
    first = True
    for key, calls in sorted((named or by_cause).items(), key=lambda item: -len(item[1])):
        noun = "of them " if first else ""
        yield f"{len(calls):,} {noun}because {_said(key, calls, group)}{_with(calls)}"
        first = False
    rest = sum(len(held) for key, held in by_cause.items() if named and key not in named)
    if rest:
        yield f"{rest:,} more for its forward and backward passes, which follow"


def _with(calls: Sequence[Call]) -> str:
    """The arguments that changed together with the main one, in all calls of a cause."""
    if calls[0].main.kind != "type":
        return ""
    each = [{c.name for c in call.changes if c.kind == "type"} for call in calls]
    names = sorted(set.intersection(*each) - {calls[0].main.name})
    return f" (and {listed(names, 3)} with it)" if names else ""


def _said(key: tuple[str, ...], calls: Sequence[Call], group: _Group) -> str:
    """A cause in words."""
    change = calls[-1].main
    name = key[1]
    if key[0] == "type":
        return _type_said(key, name, calls, group)
    changes = [call.main for call in calls]
    values = _listed_values([changes[0].old, *(c.new for c in changes)])
    if key[0] == "static":
        return f"{name} is static and its value changed: {values}"
    if key[0] == "function":
        return f"it was {change.new}"
    if key[0] == "setting":
        return f"{name} changed: {values}"
    if key[0] == "place":
        return _place_said(name, changes)
    if key[0] == "structure":
        return f"{name} came in other containers: {values}"
    if key[0] == "donated":
        return f"{name} was {change.new}, and {change.old} before"
    if key[0] == "option":
        return f"jit's {name} changed: {values}"
    if key[0] in ("new", "gone"):
        return f"{listed([str(c).replace(': ', ' is ') for c in calls[-1].changes], 4)}"
    return str(change)


def _place_said(name: str, changes: Sequence[Change]) -> str:
    last = changes[-1]
    if last.old == "not committed to a device":
        return f"{name} became {last.new}"
    return f"{name} lies elsewhere: {_listed_values([changes[0].old, *(c.new for c in changes)])}"


def _type_said(key: tuple[str, ...], name: str, calls: Sequence[Call], group: _Group) -> str:
    first = calls[0].main
    types = [first.old, *(call.main.new for call in calls)]
    if key[2] == "axis":
        axis = int(key[3])
        sizes = [match[3].split(",")[axis] for t in types if (match := TYPE.fullmatch(t))]
        nth = f"{_AXES[axis]} axis" if axis < len(_AXES) else f"axis {axis}"
        if match := TYPE.fullmatch(types[0]):
            nth = "length" if "," not in match[3] else nth
        return f"{name}'s {nth} changed: {_listed_values(sizes)}"
    if key[2] == "dtype":
        kinds = [match[2] for t in types if (match := TYPE.fullmatch(t))]
        return f"{name}'s dtype changed: {_listed_values(kinds)}"
    if key[2] == "weak":
        return f"{name}'s weak type changed: {_listed_values(types)}"
    what = "shape" if key[2] == "shape" else "type"
    return f"{name}'s {what} changed: {_listed_values(types)}"


def _listed_values(values: Sequence[str]) -> str:
    """Each value once, in the order in which it came."""
    each = list(dict.fromkeys(values))
    shown = ", ".join(each[:_MOST])
    return f"{shown}, ... ({len(each)} values)" if len(each) > _MOST else shown


def _cures(group: _Group) -> Iterator[Finding]:
    """What would spare the work, each once, with what its trial showed."""
    for cure in dict.fromkeys(call.cure for call in group.again if call.cure):
        if not cure.text:
            continue
        trust: Trust = "measured" if cure.tried else "estimate"
        yield Finding(f"Cure: {cure.text} ({cure.tried or 'not tried'}).", trust)


# ---- what is apart ------------------------------------------------------------------------------


def _apart(log: Log, where: str) -> Iterator[Finding]:
    """Operations, the persistent cache, the fast path, failures, other threads."""
    operations = log.operations
    if operations:
        names = Counter(call.function for call in operations)
        told = [f"{name} {n} times" if n > 1 else name for name, n in names.most_common()]
        what = count(len(operations), "operation")
        place = f" {where}" if where else ""
        first = "Apart from these" if log.compiles else f"No function was compiled{place}, but"
        yield Finding(
            f"{first}{',' if log.compiles else ''} {what} of JAX's own ran outside of jit, each "
            f"compiled on its own: {listed(told, 6)}."
        )
        yield from _bodies(operations)
        yield from _one_line(operations)
    loaded = [c for c in log.compiles if (s := c.step("compile")) and s.served == "disk"]
    if loaded:
        told = list(dict.fromkeys(c.function for c in loaded))
        yield Finding(
            f"{count(len(loaded), 'program')} came out of the persistent cache, not compiled by "
            f"XLA: {listed(told, 6)}."
        )
    yield from _not_on_disk(log)
    for call in log.calls:
        failed = next((step for step in call.steps if step.failed), None)
        if failed:
            yield Finding(f"{call.function}{_at(call.line)} failed: {_doing(failed)}.")
    yield from _fast(log)
    yield from _others(log)


def _not_on_disk(log: Log) -> Iterator[Finding]:
    """First calls that the persistent cache should have served, one would think."""
    first = [c for c in log.compiles if not c.changes and (s := c.step("compile")) and s.others]
    for call in first:
        step = call.step("compile")
        n = step.others if step and step.others else 0
        yield Finding(
            f"{call.function} is not in the persistent cache, which holds {count(n, 'program')} of "
            "that name under other keys; it keeps their hashes alone, so that what differs (the "
            "program, the devices, XLA's flags, the version) cannot be read there."
        )


def _doing(step: Step) -> str:
    return f"{step.failed} while it was {_DONE[step.kind]}"


_DONE = {"trace": "traced", "lower": "lowered", "compile": "compiled"}


def _bodies(operations: Sequence[Call]) -> Iterator[Finding]:
    """Loops outside of jit, which compile their body anew for each new function object."""
    loops = Counter(c.function for c in operations if c.function in ("scan", "while", "cond"))
    for name, n in loops.items():
        if n > 1:
            yield Finding(
                f"lax.{name} outside of jit compiled {n} times: each new function object as its "
                "body is a new program; call it within one jitted function."
            )


def _one_line(operations: Sequence[Call]) -> Iterator[Finding]:
    """The lines whose operations compile again and again, in a loop as a rule."""
    lines = Counter((_place(call.line), call.function) for call in operations)
    again = {place for (place, _), n in lines.items() if n >= _AGAIN and place}
    programs = Counter(place for call in operations if (place := _place(call.line)) in again)
    for place, n in programs.most_common(_FEW):
        yield Finding(
            f"Cure: call what runs at {place} within one jitted function, in the place of {n} "
            "programs (not tried).",
            "estimate",
        )


def _fast(log: Log) -> Iterator[Finding]:
    calls = [call for call in log.calls if call.layer == "fast path" and not call.compiled]
    said = list(dict.fromkeys(f"{c.function} ({c.reason})" for c in calls if c.changes))
    if said:
        yield Finding(
            f"{count(len(calls), 'call')} compiled nothing, and only made an entry in jit's fast "
            f"path: {listed(said, 4)}."
        )


def _others(log: Log) -> Iterator[Finding]:
    threads = Counter(call.thread for call in log.calls if call.thread and call.compiled)
    if threads:
        told = [f"{name} ({n})" for name, n in threads.items()]
        yield Finding(f"Compiled in other threads: {listed(told, 6)}.")


def _nothing(log: Log, where: str) -> Finding:
    place = f" {where}" if where else ""
    if log.calls:
        names = listed(list(dict.fromkeys(call.function for call in log.calls)), 6)
        return Finding(f"Nothing was compiled{place}; {names} went no further than its trace.")
    so_far = " so far" if log.going else ""
    return Finding(
        f"Nothing was traced or compiled{place}{so_far}: JAX's caches served every call.",
        "measured",
    )


# ---- tables -------------------------------------------------------------------------------------


def _tables(log: Log) -> Iterator[Table]:
    calls = [call for call in log.calls if call.role == "user"]
    shown = calls[:_ROWS]
    note = f"{len(calls) - _ROWS:,} more: .log.calls has all" if len(calls) > _ROWS else ""
    if shown:
        rows = tuple(
            tuple(map(Cell, (str(c.number), _named(c), _place(c.line), c.reason, _did(c))))
            for c in shown
        )
        columns = ("#", "function", "called at", "what is new in the key", "what JAX did")
        yield Table("Calls that were not served from JAX's caches", columns, rows, note)
        yield _seconds(shown)
    if log.operations:
        yield _operations(log.operations)


def _named(call: Call) -> str:
    under = f" under {call.under}" if call.under else ""
    return f"{call.function}{under}" + (f" [{call.thread}]" if call.thread else "")


def _did(call: Call) -> str:
    """`traced, lowered, compiled`, where each came from."""
    if not call.steps:
        return "fast path: an entry, nothing compiled"
    words = []
    for step in call.steps:
        if step.served == "memory":
            continue
        word = "loaded from disk" if step.served == "disk" else _DONE[step.kind]
        words.append(f"{word}, failed" if step.failed else word)
    return ", ".join(words)


def _seconds(calls: Sequence[Call]) -> Table:
    """Seconds per step, which change from run to run."""
    rows = []
    for call in calls:
        if call.steps:
            each = [call.step(kind) for kind in ("trace", "lower", "compile")]
            told = [Cell(_time(s.seconds if s else None), s.seconds if s else None) for s in each]
            total = Cell(duration(call.seconds), call.seconds)
            rows.append((Cell(str(call.number)), Cell(_named(call)), *told, total))
    if len(rows) > 1:
        sums = [
            sum(s.seconds or 0.0 for call in calls for s in call.steps if s.kind == kind)
            for kind in ("trace", "lower", "compile")
        ]
        every = [Cell(duration(total), total) for total in (*sums, sum(sums))]
        rows.append((Cell(""), Cell("in all"), *every))
    columns = ("#", "function", "trace", "lower", "compile", "total")
    return Table("Time of each step", columns, tuple(rows), "wall-clock, as JAX told it",
                 volatile=True, right=(2, 3, 4, 5))  # fmt: skip


def _time(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)


def _operations(calls: Sequence[Call]) -> Table:
    found: dict[tuple[str, str], int] = {}
    for call in calls:
        key = (call.function, _place(call.line))
        found[key] = found.get(key, 0) + 1
    rows = tuple(
        (Cell(name), Cell(place), Cell(f"{n:,}", n)) for (name, place), n in found.items()
    )[:_ROWS]
    columns = ("operation", "called at", "programs")
    return Table("Operations compiled on their own", columns, rows, right=(2,))


def _place(line: Span | None) -> str:
    return f"{line.file}:{line.line}" if line else ""


def _at(line: Span | None) -> str:
    return f" at {_place(line)}" if line else ""
