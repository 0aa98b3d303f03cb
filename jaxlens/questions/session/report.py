"""Reports what a cell compiled in one line, with warnings that concern the session.

Compiled `step` for the third time, because x's first axis changed: 8, 16 (4.1 s, peak 1.3 GB).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from jaxlens.ir.compile_log import LOOPS, CallEvent, CompileLog, Replication
from jaxlens.program.closed_over import alarm
from jaxlens.program.recompile_causes import (
    Identity,
    at,
    by_function,
    cause_sentence,
    cures,
    place,
    tables,
)
from jaxlens.program.sentences import ordinal
from jaxlens.render.control_chars import visible
from jaxlens.render.document import Document, Findings
from jaxlens.render.html.marks import prose
from jaxlens.render.html.table import table_html
from jaxlens.report import Finding, Report, amount, count, duration

_NAMED = 2  # functions in one line
_SHOWN = 3  # warnings of one kind
_OFTEN, _DOUBLED = 3, 20  # recompiles for one cause that are too many; then at 6, 12, 24, ...
_TRY = "; `%explain` tries what would avoid it"

Cause = tuple[Identity, tuple[str, ...]]


@dataclass(frozen=True)
class AfterCell:
    """What a cell compiled, and what came before it in a watched session.

    Attributes:
        log: The calls of the cell.
        programs: Number of programs of each function in the session, with those of the cell.
        recompiles: Number of recompiles of each function for each cause, with those of the cell.
    """

    log: CompileLog
    programs: Mapping[Identity, int]
    recompiles: Mapping[Cause, int]

    @cached_property
    def compiles(self) -> tuple[CallEvent, ...]:
        """The calls for which a program was made: of functions, and of loops outside of jit."""
        loops = [call for call in self.log.operations if call.function in LOOPS]
        made = (*self.log.compiles, *loops)
        return tuple(c for c in made if not any(s.failed for s in c.steps))


def report(after: AfterCell) -> Report:
    """Reports the line, if a function was compiled, and the warnings; nothing else."""
    line = [_line(after)] if after.compiles else []
    return Report("Compiled", (*line, *warnings(after)))


def warnings(after: AfterCell, explained: bool = False) -> tuple[Finding, ...]:
    """Returns the warnings alone.

    Args:
        after: What the cell compiled.
        explained: Whether what would avoid them follows.
    """
    kinds = (_too_often(after), _captured(after), _replicated(after))
    found = [one for kind in kinds for one in list(dict.fromkeys(kind))[:_SHOWN]]
    return tuple(replace(f, text=f.text.replace(_TRY, "")) if explained else f for f in found)


def _line(after: AfterCell) -> Finding:
    groups = by_function(after.compiles)
    order = sorted(groups, key=lambda one: -_cost(groups[one]))
    order.sort(key=lambda one: not any(call.changes for call in groups[one]))
    phrases = [_phrase(groups[one], after.programs.get(one, 0)) for one in order[:_NAMED]]
    if len(order) > _NAMED:
        phrases.append(count(len(order) - _NAMED, "more function"))
    is_loaded = all(call.loaded for call in after.compiles)
    start = "Loaded from the persistent cache:" if is_loaded else "Compiled"
    needed = max((call.bytes or 0 for call in after.compiles), default=0)
    peak = f", peak {amount(needed)}" if needed else ""
    tail = f" ({duration(_cost(after.compiles))}{peak})."
    return Finding(f"{start} {'; '.join(phrases)}.", "measured", tail=tail)


def _phrase(calls: Sequence[CallEvent], programs: int) -> str:
    called, under, transform = calls[0].name.partition(" under ")
    name = f"`{called}`{under}{transform}"
    if calls[0].role == "op" and calls[0].line is not None:
        name += at(calls[0].line)
    if _is_pair(calls):
        name += ", forward and backward"
    elif len(calls) > 1:
        earlier = f" ({programs:,} in all)" if programs > len(calls) else ""
        name += f" {len(calls):,} times{earlier}"
    elif programs > 1:
        name += f" for the {ordinal(programs)} time"
    recompiles = [call for call in calls if call.changes]
    return f"{name}, because {cause_sentence(recompiles)}" if recompiles else name


def _is_pair(calls: Sequence[CallEvent]) -> bool:
    """Whether two calls are the two passes of one call under `grad`."""
    if len(calls) != 2 or not calls[0].under or any(call.changes for call in calls):
        return False
    return [call.backward for call in calls] == [False, True]


def _cost(calls: Sequence[CallEvent]) -> float:
    return sum(call.seconds for call in calls)


def _too_often(after: AfterCell) -> Iterator[Finding]:
    """Yields a warning at the third, sixth, twelfth, ... recompile for one cause."""
    by_cause: dict[Cause, list[CallEvent]] = {}
    loops = (call for call in after.compiles if call.role == "op")
    for identity, calls in by_function(loops).items():
        now = after.programs.get(identity, 0)
        if _is_often(now, len(calls)):
            name, where = calls[0].function, at(calls[0].line) if calls[0].line else ""
            yield Finding(
                f"`{name}`{where} was compiled {now:,} times: outside of jit, each new function "
                f"object for its body makes a new program{_TRY}."
            )
    for call in after.compiles:
        if call.changes:
            by_cause.setdefault((call.identity, call.cause), []).append(call)
    for cause, calls in by_cause.items():
        now = after.recompiles.get(cause, 0)
        if _is_often(now, len(calls)):
            yield Finding(
                f"`{calls[0].function}` was recompiled {now:,} times because "
                f"{cause_sentence(calls).partition(': ')[0]}{_TRY}."
            )


def _is_often(now: int, new: int) -> bool:
    """Whether `now` compiles, of which `new` are of this cell, are worth a warning again."""
    return any(now - new < _OFTEN * 2**n <= now for n in range(_DOUBLED))


def _captured(after: AfterCell) -> Iterator[Finding]:
    for call in after.compiles:
        for finding in alarm(call.captured):
            text = finding.text[0].lower() + finding.text[1:]
            yield Finding(f"In the program of `{call.function}`, {text}", "traced")


def _replicated(after: AfterCell) -> Iterator[Finding]:
    for call in after.compiles:
        for one in call.replicated:
            yield Finding(_replication(one, call), "xla")


def _replication(one: Replication, call: CallEvent) -> str:
    own = [line for line in one.lines if not line.library and place(line) != place(call.line)]
    where = at(own[0]) if own else f" by {one.instruction} of `{call.function}`"
    called = f" (called{at(own[1])})" if len(own) > 1 else ""
    return (
        f"XLA replicates {one.whole or 'a value'}, made{where}{called}, on every device, to "
        f"reshard it from {one.old_spec or one.old} to {one.new_spec or one.new} (involuntary full "
        "rematerialization)."
    )


# The HTML of an output that nobody asked for has no style sheet and no scripts.
_STYLE = "font:13px/1.6 system-ui,sans-serif"
_WARNING = "border-left:3px solid #d55e00;padding-left:8px"
_CAPTION = '<caption style="font-weight:600;text-align:left">'


def cell_text(after: AfterCell, times: bool) -> str:
    """Returns what is said unasked after a cell: a line if it compiled, then warnings.

    Args:
        after: What the cell compiled.
        times: Whether figures that change from run to run are written.
    """
    lines = [visible(one.measured if times else one.text) for one in report(after).findings]
    start = int(bool(after.compiles))
    return "\n".join([*lines[:start], *(f"Warning: {text}" for text in lines[start:])])


def cell_html(after: AfterCell) -> str:
    """Returns the same as HTML: a line that opens, if it compiled, with the warnings below it.

    A click on the line opens the cures and the tables of its calls.
    """
    findings = report(after).findings
    start = int(bool(after.compiles))
    html = "".join(
        f'<div style="{_WARNING}"><b>Warning:</b> {prose(warning.measured)}</div>'
        for warning in findings[start:]
    )
    for line in findings[:start]:
        inside = "".join(f"<div>{prose(cure.measured)}</div>" for cure in cures(after.compiles))
        inside += "".join(map(table_html, tables(after.log))).replace("<caption>", _CAPTION)
        summary = f"<summary>{prose(line.measured)}{html}</summary>"
        html = f"<details>{summary}{inside}</details>"
    return f'<div role=note aria-label=jaxlens style="{_STYLE}">{html}</div>'


def explained(answer: Document, after: AfterCell) -> Document:
    """Returns the full answer about a cell, below the warnings.

    Args:
        answer: The document of the cell's compile log.
        after: What the cell compiled.
    """
    found = warnings(after, explained=True)
    first = (Findings(found),) if found else ()
    return replace(answer, blocks=(*first, *answer.blocks))
