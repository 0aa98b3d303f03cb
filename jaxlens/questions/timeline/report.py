"""The sentences and tables about one run: who waits for whom, at which line.

Counts and lines are the same from run to run where programs take long; seconds are in a table that
the stable text leaves out.
"""

from collections import Counter
from collections.abc import Iterator

from jaxlens.program.sentences import listed
from jaxlens.questions.timeline.events import FLATTENS
from jaxlens.questions.timeline.facts import LineUse, TimelineFacts, busy
from jaxlens.report import (
    Finding,
    NumberColumn,
    Report,
    Table,
    count,
    duration,
    is_cause,
    percent,
    table,
    tally,
)

_NAMED = 3  # lines that a sentence names
_ROWS = 30  # lines in the table
_EAGER = 4  # dispatches of a pass of a loop from which one is advised
_CODE = 60  # characters of a line's text


def report(facts: TimelineFacts) -> Report:
    """Returns sentences, the table of lines, and the measured times."""
    findings = tuple(_findings(facts))
    tables = (_lines(facts),) if facts.lines else ()
    return Report("Timeline", findings, (*tables, _measured(facts)))


def times(n: int) -> str:
    """Returns "once" or "20 times"."""
    return "once" if n == 1 else f"{n:,} times"


def _findings(facts: TimelineFacts) -> Iterator[Finding]:
    if facts.timeline.unknown:
        yield Finding(f"Unknown: {facts.timeline.unknown}.", "unknown")
        if not facts.dispatched:
            return
    if not facts.dispatched and not facts.waits:
        yield Finding("Nothing was dispatched: this thread called no compiled program.", "measured")
        return
    waiting = [use for use in facts.lines if use.waits]
    if waiting:
        lead = _python(facts)
        yield Finding(_waits(facts, waiting), "measured", lead=lead, tail=_idle(facts))
    yield from _queue(facts)
    yield from _eager(facts)
    at_once = [d.program for d in facts.timeline.dispatches if d.at_once]
    if at_once:
        yield Finding(
            f"Computed within the call, not queued: {', '.join(tally(at_once))}. A CPU executes "
            "small programs in Python's own thread.",
            "measured",
        )
    compiled = list(dict.fromkeys(d.program for d in facts.compiled))
    if compiled:
        yield Finding(
            f"Compiled within the {facts.ran.partition(' ')[0]}: {', '.join(compiled)}. "
            "Run it again to see it without.",
            "measured",
        )


def _waits(facts: TimelineFacts, waiting: list[LineUse]) -> str:
    """Returns the first sentence: how often Python waits, where, and for what."""
    waiting = sorted(waiting, key=lambda use: -use.waits)
    if len(waiting) == 1:
        (use,) = waiting
        who = "The loop" if use.waits > 1 and use.line.in_loop else "Python"
        often = times(use.waits)
        return f"{who} waits for the device {often}, at {_at(use)}{_for(facts, use)}."
    places = [f"{times(use.waits)} at {_at(use)}" for use in waiting[:_NAMED]]
    more = len(waiting) - _NAMED
    places += [f"the others at {count(more, 'more line')}"] if more > 0 else []
    return f"Python waits for the device {times(facts.waits)}: {'; '.join(places)}."


def _python(facts: TimelineFacts) -> str:
    """Returns that Python, not the device, takes the time; "" where that is not so."""
    if facts.python is None:
        return ""
    seconds, idle = facts.python
    lines = Counter(dispatch.line for dispatch in facts.timeline.dispatches)
    line, most = lines.most_common(1)[0]
    at = f" at {line.place}" if line is not None and is_cause(most, facts.dispatched) else ""
    between = f"from one dispatch{at} to the next"
    cure = "fewer programs that do more each, such as a scan over steps,"
    if facts.dispatched == 1:
        between, cure = f"round the dispatch{at}", "more work in that program"
    return (
        f"Python takes most of the time, {duration(seconds)} {between}, and the device is idle "
        f"{idle:.0%} of it: {cure} or fewer arguments to flatten would keep it busy. "
    )


def _idle(facts: TimelineFacts) -> str:
    if facts.idle is None or facts.waits < 2:
        return ""
    one = "device is" if len(facts.devices) == 1 else f"{len(facts.devices)} devices are"
    return f": the {one} idle {facts.idle:.0%} of the time."


def _at(use: LineUse) -> str:
    line = use.line
    return f"{line.place}, `{_short(line.text)}`" if line.text else line.place


def _for(facts: TimelineFacts, use: LineUse) -> str:
    """Returns what a line waits for, and which line dispatched it."""
    if len(use.waited_for) != 1:
        return ""
    (program,) = use.waited_for
    makers = [other.line.place for other in facts.lines if program in other.dispatches]
    made = f", which {makers[0]} dispatches" if len(makers) == 1 else ""
    return f", for {program}{made}"


def _queue(facts: TimelineFacts) -> Iterator[Finding]:
    most = facts.most_queued
    queued = facts.dispatched - sum(use.at_once for use in facts.lines)
    if facts.waits > 1 and most == 1 and queued > 1:
        yield Finding(
            "There is a wait between any two dispatches: nothing is queued, and the device has "
            "nothing to do until Python dispatches the next program.",
            "measured",
        )
    elif facts.waits and most > 1:
        yield Finding(
            f"Up to {most:,} programs are dispatched without a wait between them: the device has "
            "work while Python goes on.",
            "measured",
        )
    elif not facts.waits and queued:
        rest = f" The {facts.ran.partition(' ')[0]} is done before the device is."
        text = f"Python waits for nothing: it dispatches {count(queued, 'program')} and goes on."
        yield Finding(text + rest * bool(facts.behind), "measured", lead=_python(facts))


def _eager(facts: TimelineFacts) -> Iterator[Finding]:
    row, often = facts.repeated or ({}, 0)
    n = sum(row.values())
    if n >= _EAGER:
        names = listed(tally(program for program, k in row.items() for _ in range(k)))
        yield Finding(
            f"The loop repeats the same {n:,} dispatches {times(often)} ({names}): a pass under "
            "one jax.jit would be one dispatch.",
            "measured",
        )


def _lines(facts: TimelineFacts) -> Table:
    def row(use: LineUse) -> tuple[object, ...]:
        names = ", ".join(tally(use.dispatches)) + " at once" * bool(use.at_once)
        waits = use.waits or None, ", ".join(use.waited_for)
        return use.line.place, _short(use.line.text), names, *waits

    columns = ("line", "code", "dispatches", NumberColumn("waits", bar="waits", none=""), "for")
    rest = " lines are left out"
    return table("Lines", columns, map(row, facts.lines), most=_ROWS, rest=rest)


def _measured(facts: TimelineFacts) -> Table:
    whole = facts.timeline.seconds
    rows = [(f"the {facts.ran}, in Python", whole, whole)]
    if calling := sum(d.seconds - d.compiling for d in facts.timeline.dispatches if not d.at_once):
        rows.append(("Python dispatches", calling, whole))
    flattening = [one for one in facts.timeline.activities if one.lane == FLATTENS]
    if flattening:
        rows.append(("  jit flattens arguments", busy(flattening, 0.0, whole), whole))
    waiting = sorted((use for use in facts.lines if use.waits), key=lambda use: -use.waiting)
    if waiting:
        rows.append(("Python waits", facts.waiting, whole))
    if len(waiting) > 1:
        rows += [(f"  at {use.line.place}", use.waiting, whole) for use in waiting[:_ROWS]]
    if facts.compiled:
        rows.append(("XLA compiles", sum(d.compiling for d in facts.compiled), whole))
    for use in facts.devices:
        rows.append((f"{use.device} executes meanwhile", use.executing, whole))
        rows.append((f"{use.device} is idle meanwhile", whole - use.executing, whole))
        if use.after:
            rows.append((f"{use.device} executes afterwards", use.after, 0.0))
    note = (
        "Measured once, by JAX's profiler, which slows small programs. Shares are of the time that "
        "Python took. A device executes from the first instruction of a program to its last."
    )
    columns = ("", NumberColumn("time", duration), NumberColumn("share", percent, "share", none=""))
    values = ((name, time, time / of if of else None) for name, time, of in rows)
    return table("Measured", columns, values, note, volatile=True)


def _short(text: str) -> str:
    return text if len(text) <= _CODE else f"{text[: _CODE - 3]}..."
