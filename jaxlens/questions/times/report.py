"""Reports where compile time goes, in sentences and tables.

The first sentence names the part that took most seconds, and the line with most equations. The
seconds in it, and the tables with seconds, are not part of the stable text.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from jaxlens.captures import Capture
from jaxlens.errors import LensError
from jaxlens.ir.facts import CONVERSION
from jaxlens.program import closed_over as captured
from jaxlens.program.compile_parts import FOLDING, LLVM, PASSES, REST, CompileParts
from jaxlens.program.kernels import Work, works
from jaxlens.program.lines import lines
from jaxlens.program.sentences import listed
from jaxlens.program.subject import Given
from jaxlens.questions.times.equations import Equations, written_out
from jaxlens.questions.times.facts import Times
from jaxlens.questions.times.unrolled import Unrolled
from jaxlens.report import (
    Cell,
    Finding,
    NumberColumn,
    Report,
    Table,
    amount,
    count,
    duration,
    is_cause,
    saves,
    table,
)

_ROWS = 12
_SECONDS = NumberColumn("seconds", duration, "s")
_SHARE = NumberColumn("share", "{:.1%}".format)
_PART, _MANY = 0.5, 200  # share and number of equations from which an unrolled loop is reported


def report(facts: Times) -> Report:
    """Reports the parts of the compile time, and the source lines that cause it."""
    subject = facts.subject()
    kernels = Given(lambda: works(subject)).or_else([])
    # Each step copies the captured arrays; no part of the profile has a name for that.
    folded = captured.alarm(facts.closed_over)
    tables = (*_within(facts), *_kernels(facts, kernels), _lines(subject, facts))
    timed = stages(subject).tables if facts.stages else ()
    return Report("Times", tuple(_findings(facts, folded)), (*timed, *tables))


def alarm(capture: Capture) -> tuple[Finding, ...]:
    """Returns the finding on the unrolled loop that made most equations, told by every compile."""
    written = Given(lambda: written_out(capture)).or_else(None)
    if written is None:  # opened from a later stage
        return ()
    counted, loops = written
    group = _group(loops)
    repeated = sum(loop.equations for loop in group)
    if counted.total < _MANY or not group or repeated < _PART * counted.total:
        return ()
    fewer = repeated - sum(one.block * one.times for one in group)
    file, first = _range(group[0].line)[0], group[0].id
    made = next(node for node in capture.jaxpr.module.nodes() if node.id == first)
    # Only who wrote a loop can write it otherwise.
    is_users = any(span.file == file and not span.library for span in made.spans)
    weight = saves(fewer, counted.total) if is_users else 0.0
    return (replace(_finding(group, counted, " (--times says more)"), weight=weight),)


def _findings(facts: Times, folded: tuple[Finding, ...]) -> Iterator[Finding]:
    loops = _causes(facts.loops, facts.equations)
    group = _group(loops)
    lead = f"{_slowest(facts, facts.compile)}{';' if group else '.'} " if facts.compile else ""
    if facts.lacking:
        text = f"The lines that made the work are not counted: {facts.lacking}."
        yield Finding(text, "unknown", (), lead)
    elif group:
        yield replace(_finding(group, facts.equations), lead=lead)
        yield from folded
    elif folded:
        yield replace(folded[0], lead=lead)
        yield Finding(_largest(facts.equations))
    else:
        yield Finding(_largest(facts.equations), "counted", (), lead)
    for loop in [loop for loop in loops if loop not in group][:_ROWS]:
        yield _finding((loop,), facts.equations)
    if facts.missing:
        yield Finding(f"Within the compile: {facts.missing}.", "unknown")


def _causes(loops: tuple[Unrolled, ...], counted: Equations) -> tuple[Unrolled, ...]:
    """Returns the loops on lines whose loops made enough of the equations to be a cause."""
    by_line: Counter[str] = Counter()
    for loop in loops:
        by_line[loop.line] += loop.equations
    return tuple(loop for loop in loops if is_cause(by_line[loop.line], counted.total))


def _slowest(facts: Times, parts: CompileParts) -> str:
    """Returns the part of the compile that took most seconds, in words."""
    seconds = {
        "tracing": facts.stages.get("trace", 0.0),
        "lowering": facts.stages.get("lower", 0.0),
        **parts.groups,
    }
    total = sum(seconds.values()) or 1.0
    name = max(seconds, key=lambda name: seconds[name])
    which = ""
    if name == PASSES and parts.passes and parts.passes[0].seconds >= seconds[name] / 2:
        which = f", most of it in `{parts.passes[0].name}`"
        if parts.passes[0].name == FOLDING:
            which += " (--captured says of what)"
    elif name == CONVERSION:
        which = ": it computes with arrays that are closed over (--captured lists them)"
    elif name == LLVM and len(parts.compiled) > 1:
        longest = max(parts.compiled, key=lambda kernel: parts.compiled[kernel])
        if is_cause(parts.compiled[longest], sum(parts.compiled.values())):
            which = f", longest over `{longest}`"
    part = "What the profile has no name for" if name == REST else name[0].upper() + name[1:]
    return f"{part} took {seconds[name] / total:.0%} of {duration(total)}{which}"


def _group(loops: tuple[Unrolled, ...]) -> tuple[Unrolled, ...]:
    """Returns the largest loop and those of the same lines, the backward pass last."""
    group = list(loops[:1])
    for loop in loops[1:]:
        (file, low, high), (file2, low2, high2) = _range(loops[0].line), _range(loop.line)
        overlaps = file == file2 and low <= high2 and low2 <= high
        if loops[0].line and loop.region == loops[0].region and overlaps:
            group.append(loop)
    return tuple(sorted(group, key=lambda loop: loop.backward))


def _range(line: str) -> tuple[str, int, int]:
    file, _, numbers = line.rpartition(":")
    low, _, high = numbers.partition("-")
    return file, int(low or 0), int(high or low or 0)


def _finding(group: tuple[Unrolled, ...], counted: Equations, more: str = "") -> Finding:
    """Returns `cell 3:14 made 4,800 of 5,100 equations: a loop of 400 steps was unrolled ...`."""
    repeated = sum(loop.equations for loop in group)
    scans = sum(loop.block * loop.times for loop in group)
    passes = [
        f"{loop.count:,}{'' if n else ' repetitions'} of {loop.block:,}"
        f"{' in the backward pass' if loop.backward else ''}"
        for n, loop in enumerate(group)
    ]
    where = _whole_line(group) or "One block"
    steps = f"a loop of {group[0].count:,} steps was unrolled"
    if group[0].before:  # e.g. the first layer has a scalar input or another shape
        steps = f"a loop of {group[0].count + 1:,} steps was unrolled, the first unlike the others"
    text = (
        f"{where} made {repeated:,} of {_equations(counted)}: {steps} "
        f"({listed(passes)}); `lax.scan` over these steps would make {scans:,}{more}."
    )
    return Finding(text, "counted", tuple(loop.id for loop in group))


def _whole_line(group: tuple[Unrolled, ...]) -> str:
    if not group[0].line:
        return ""
    ranges = [_range(loop.line) for loop in group]
    low, high = min(r[1] for r in ranges), max(r[2] for r in ranges)
    return f"{ranges[0][0]}:{low}" + (f"-{high}" if high > low else "")


def _equations(counted: Equations) -> str:
    """Returns `440 equations`, and how many they are where calls share the body of a function."""
    text = count(counted.total, "equation")
    if counted.shown == counted.total:
        return text
    return f"{text} with every call written out ({counted.shown:,} in the jaxpr)"


def _largest(counted: Equations) -> str:
    equations = _equations(counted)
    if not counted.own:
        return f"{equations}, which no line of yours made."
    line, most = max(counted.own.items(), key=lambda item: item[1])
    if not is_cause(most, counted.total):
        return (
            f"No line made a fifth of {equations}; the most, {most:,}, are those of {line}, and no "
            "loop of four or more like steps that made as many was unrolled."
        )
    part = f"all {equations}" if most == counted.total > 1 else f"{most:,} of {equations}"
    return f"No loop of four or more like steps was unrolled; {line} made {part}."


def _within(facts: Times) -> Iterator[Table]:
    """Yields the tables of the compile's parts and of its passes."""
    parts = facts.compile
    if parts is None:
        return
    whole = parts.seconds or 1.0
    rows = ((name, s, s / whole) for name, s in parts.groups.items())
    note = (
        f"{duration(parts.seconds)} in all, wall clock, XLA's own profiler on; elsewhere is what "
        "it has no name for, such as writing dumps."
    )
    if parts.llvm:
        note += f" LLVM worked {duration(parts.llvm)} on all threads together."
    yield table("Within the compile", ("part", _SECONDS, _SHARE), rows, note, volatile=True)
    if parts.passes:
        passes = (
            (p.name, listed(p.pipelines, 2), p.times, p.seconds, p.seconds / whole)
            for p in parts.passes
        )
        columns = ("pass", "in", NumberColumn("runs"), _SECONDS, _SHARE)
        note = "Each without the pipelines that it runs itself."
        yield table("HLO passes", columns, passes, note, most=_ROWS, volatile=True)


def _kernels(facts: Times, kernels: list[Work]) -> Iterator[Table]:
    """Yields the tables of the kernels that took longest, and of their source lines."""
    parts = facts.compile
    if parts is None or not (parts.kernels or parts.compiled):
        return
    by_name = {work.kernel.name: work for work in kernels}
    seconds = {
        name: parts.kernels.get(name, 0.0) + parts.compiled.get(name, 0.0)
        for name in (*parts.kernels, *parts.compiled)
    }
    ranked = sorted(seconds.items(), key=lambda item: (-item[1], item[0]))
    steps = {"to LLVM IR": parts.kernels}
    note = (
        "Threads lower kernels side by side. LLVM takes all of them together, and XLA does not "
        "say which of them it spent its time on; the size of their LLVM IR is what it is given."
    )
    if parts.compiled:
        steps |= {"LLVM": parts.compiled}
        note = (
            "Threads work side by side. To LLVM IR by XLA's profiler, where it names the kernel; "
            "LLVM by the times at which XLA wrote a kernel's dumps, as fine as the file system's "
            "clock."
        )
    rows = (
        (
            Cell(name, ids=(name,)),
            listed(by_name[name].lines, 2) if name in by_name else "",
            *(step.get(name) for step in steps.values()),
            whole,
            (len(by_name[name].kernel.llvm_before) if name in by_name else 0) or None,
        )
        for name, whole in ranked
    )
    columns: list[str | NumberColumn] = ["kernel", "from lines"]
    columns += [NumberColumn(name, duration, "s", none="") for name in (*steps, "in all")]
    columns += [NumberColumn("LLVM IR", amount, "bytes", none="")]
    yield table("Kernels", columns, rows, note, most=_ROWS, volatile=True, stage="kernels")


def _lines(subject: Capture, facts: Times) -> Table:
    """Returns a table of equations, ops and instructions by source line."""
    counted = facts.equations
    ops, instructions = _by_line(subject, "stablehlo"), _by_line(subject, "optimized")
    rows = (
        (
            line,
            n,
            n / (counted.total or 1),
            counted.through[line],
            None if ops is None else ops[line],
            None if instructions is None else instructions[line],
        )
        for line, n in sorted(counted.own.items(), key=lambda item: (-item[1], item[0]))
    )
    note = f"{_equations(counted)}; ops and instructions as printed."
    numbers = (
        NumberColumn("equations", bar="equations"),
        _SHARE,
        NumberColumn("with its calls", bar="equations"),
        NumberColumn("StableHLO ops", bar="ops", none=""),
        NumberColumn("HLO instructions", bar="instructions", none=""),
    )
    return table("Equations by line", ("line", *numbers), rows, note, most=_ROWS)


def _by_line(subject: Capture, stage: str) -> Counter[str] | None:
    try:
        owned = lines(subject.stage(stage).module)
    except LensError:
        return None
    counts: Counter[str] = Counter()
    for (key, line), ids in owned.own.items():
        counts[f"{owned.names[key]}:{line}"] += len(ids)
    return counts


def stages(capture: Capture) -> Report:
    """Reports wall-clock seconds of the steps so far; the table is not part of the stable text."""
    steps = capture.times
    if not steps:
        return Report("Times", (Finding("Nothing was timed.", "unknown"),))
    # A step that was done again has its number.
    again = [[other.step for other in steps[:n]].count(step.step) for n, step in enumerate(steps)]
    names = [
        f"{step.step} ({n + 1})" if n else step.step for n, step in zip(again, steps, strict=True)
    ]
    notes = [f"{name}: {step.note}" for name, step in zip(names, steps, strict=True) if step.note]
    note = f"{'; '.join(('Wall clock on this machine, measured once', *notes))}."
    columns = [NumberColumn(name, duration, "steps") for name in names]
    columns.append(NumberColumn("in all", duration))
    seconds = [step.seconds for step in steps]
    rows = [(*seconds, sum(seconds))]
    return Report("Times", (), (table("Time per stage", columns, rows, note, volatile=True),))
