"""The view of a job's record: findings, the compiles of each process over time, and the tables."""

from collections.abc import Iterator, Sequence

from jaxlens.lenses.recompile.call_key import key_table
from jaxlens.lenses.recompile.tables import place
from jaxlens.lenses.record import difference as differences
from jaxlens.lenses.record.difference import JobDifference
from jaxlens.lenses.record.facts import CompileRow, JobFacts
from jaxlens.lenses.record.report import report
from jaxlens.render import chart
from jaxlens.render.document import Block, Document, Findings, Fold, Picture, TableBlock
from jaxlens.render.graph.palette import line_hues
from jaxlens.render.graph.text_width import columns, shorten
from jaxlens.report import amount, count, duration
from jaxlens.views.report_blocks import report_blocks

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 860.0, 150.0, 14.0, 26.0, 26.0
_BAR = 16.0  # height of a bar
_CHARACTER = 7.3  # width in pixels of a character of a chart's text
_LANES = 24  # processes that are drawn
_MOST = 400  # compiles of a process that are drawn
_THIN = 0.5  # least width of a bar
_LEGEND = 8  # functions in the legend
_TEXT = 40  # lines of the text form
_KEYS = 50  # compiles whose keys are in the output


def document(job: JobFacts) -> Document:
    """Returns the document of a record."""
    answer = report(job)
    processes = count(len(job.job.processes), "process", "processes")
    taken = f"record {job.job.name}: {count(job.compiles, 'compile')} in {processes}"
    blocks: list[Block] = [Findings(answer.findings)] if answer.findings else []
    if job.rows:
        blocks.append(picture(job))
    blocks += map(TableBlock, answer.tables)
    keys = tuple(_key(number, row) for number, row in enumerate(job.rows[:_KEYS]))
    blocks += [Fold("The key of each call", keys)] if keys else []
    return Document("record", taken, tuple(blocks))


def difference_document(found: JobDifference) -> Document:
    """Returns the document of what changed between two records."""
    taken = f"records {found.before.job.name} and {found.after.job.name}"
    return Document("record", taken, tuple(report_blocks(differences.report(found))))


def _key(number: int, row: CompileRow) -> Fold:
    call = row.compile.call
    where = f" at {place(call.line)}" if call.line else ""
    title = f"{number}: {row.function}{where}, process {row.label}: {call.reason}"
    return Fold(title, (TableBlock(key_table(call.parts)),))


def picture(job: JobFacts) -> Picture:
    """Returns the compiles of each process over time; in text, their order."""
    lanes: dict[str, list[CompileRow]] = {}
    for row in job.rows:
        lanes.setdefault(row.label, []).append(row)
    alt = f"Lanes over time: {count(job.compiles, 'compile')} of "
    alt += count(len(lanes), "process", "processes")
    shown = dict(sorted(lanes.items(), key=lambda lane: _order(lane[1]))[:_LANES])
    note = "Left to right: time since the first process began. Colours are functions; a bar is "
    note += "tracing, lowering and compiling."
    if len(shown) < len(lanes):
        note += f" {len(lanes) - len(shown)} more processes are not drawn."
    return Picture(
        "Compiles over time", alt, _drawing(job, shown), tuple(_text(job.rows)), note=note
    )


def _order(rows: Sequence[CompileRow]) -> tuple[int, str]:
    return rows[0].process.process.index, rows[0].label


def _drawing(job: JobFacts, lanes: dict[str, list[CompileRow]]) -> str:
    rows = [row for own in lanes.values() for row in own]
    end = max((row.start + _seconds(row) for row in rows), default=0.0) or 1e-9
    scale = (_WIDTH - _LEFT - _RIGHT) / end
    hues = line_hues(function.name for function in job.functions)
    bottom = _TOP + _ROW * len(lanes)
    marks, bars, labels = list(_grid(end, scale, bottom)), [], []
    for number, (label, own) in enumerate(lanes.items()):
        y = _TOP + number * _ROW + (_ROW - _BAR) / 2
        marks.append(chart.words(_LEFT - 8, y + 12, f"process {label}", "text", "end"))
        marks.append(chart.line(_LEFT, y + _BAR, _WIDTH - _RIGHT, y + _BAR, "grid"))
        for row in own[:_MOST]:
            name = row.function
            x, w = _LEFT + row.start * scale, max(_seconds(row) * scale, _THIN)
            kind = chart.hue(hues[name])
            bars.append(chart.rect(x, y, w, _BAR, kind, tip=_tip(row), line=name, digits=3))
            if columns(name) * _CHARACTER + 8 <= w:
                labels.append(chart.words(x + 4, y + 12, name))
    size = (_WIDTH - _LEFT - _RIGHT, bottom - _TOP)
    marks.append(chart.plot(_LEFT, _TOP, *size, end, bars, "seconds"))
    marks.append(chart.group("labels", labels))
    named = [function.name for function in job.functions][:_LEGEND]
    for number, name in enumerate(dict.fromkeys(named)):
        top = bottom + 36 + 18 * number
        marks.append(chart.rect(_LEFT, top - 9, 14, 10, chart.hue(hues[name])))
        marks.append(chart.words(_LEFT + 20, top, shorten(name, 90)))
    return chart.chart(_WIDTH, bottom + 30 + 18 * len(named), marks)


def _grid(end: float, scale: float, bottom: float) -> Iterator[str]:
    """Yields grid lines at quarters of the time, and their times."""
    ticks = []
    for part in range(5):
        x = _LEFT + end * part / 4 * scale
        side: chart.Anchor = "start" if not part else "end" if part == 4 else "middle"
        yield chart.line(x, _TOP, x, bottom, "grid")
        ticks.append(chart.words(x, bottom + 16, duration(end * part / 4), "dim", side))
    yield chart.group("ticks", ticks)


def _seconds(row: CompileRow) -> float:
    """Returns the seconds of a compile; of one that has not ended, those until the last write."""
    if row.compile.state != "compiling":
        return row.compile.call.seconds
    return max(row.process.seconds - row.compile.start, 0.0)


def _tip(row: CompileRow) -> str:
    size = f", {amount(row.compile.bytes)}" if row.compile.bytes is not None else ""
    return f"{row.function}, {duration(_seconds(row))}{size}, {row.compile.call.reason}"


def _text(rows: Sequence[CompileRow]) -> Iterator[str]:
    """Yields process, function and reason of each compile, in order."""
    shown = [(f"process {r.label}", r.function, r.compile.call.reason) for r in rows]
    widths = [max((columns(row[i]) for row in shown[:_TEXT]), default=0) for i in range(2)]
    for row in shown[:_TEXT]:
        head = [text + " " * (w - columns(text)) for text, w in zip(row, widths, strict=False)]
        yield f"{'  '.join(head)}  {shorten(row[2], 80)}".rstrip()
    if len(shown) > _TEXT:
        yield f"{len(shown) - _TEXT:,} more compiles are left out"
