"""The view of a job's record: findings, the compiles of each process over time, and the tables."""

from collections.abc import Iterator, Sequence

from jaxlens.jobs.record import difference as differences
from jaxlens.jobs.record.difference import JobDifference
from jaxlens.jobs.record.facts import CompileRow, JobFacts
from jaxlens.jobs.record.report import report
from jaxlens.render.document import Block, Document, Findings, Picture, TableBlock
from jaxlens.render.graph.palette import line_hues
from jaxlens.render.graph.text_width import shorten
from jaxlens.report import amount, count, duration
from jaxlens.views.figures.lanes import LANES, LaneBar, lanes_svg, lanes_text
from jaxlens.views.report_blocks import report_blocks


def document(job: JobFacts) -> Document:
    """Returns the document of a record."""
    answer = report(job)
    pids = {(p.process.host, p.process.pid) for p in job.job.processes}
    processes = count(len(pids), "process", "processes")
    taken = f"record {job.job.name}: {count(job.compiles, 'compile')} in {processes}"
    if len(pids) < len(job.job.processes):  # several blocks of one process
        taken += f", {len(job.job.processes):,} recordings"
    blocks: list[Block] = [Findings(answer.findings)] if answer.findings else []
    if job.rows:
        blocks.append(picture(job))
    blocks += map(TableBlock, answer.tables)
    return Document("record", taken, tuple(blocks))


def difference_document(found: JobDifference) -> Document:
    """Returns the document of what changed between two records."""
    taken = f"records {found.before.job.name} and {found.after.job.name}"
    return Document("record", taken, tuple(report_blocks(differences.report(found))))


def picture(job: JobFacts) -> Picture:
    """Returns the compiles of each process over time; in text, their order."""
    lanes: dict[str, list[CompileRow]] = {}
    for row in job.rows:
        lanes.setdefault(row.label, []).append(row)
    alt = f"Lanes over time: {count(job.compiles, 'compile')} of "
    alt += count(len(lanes), "process", "processes")
    shown = dict(sorted(lanes.items(), key=lambda lane: _order(lane[1]))[:LANES])
    legend = "Left to right: time since the first process began. Colours are functions; a bar is "
    legend += "tracing, lowering and compiling."
    if job.pages:
        legend += " A click on a bar, or Enter, opens the page of its program."
    note = ""
    if len({row.process.process.index for row in job.rows}) > 1:
        note = "The order between processes is by the clocks of their hosts, which may differ."
    if len(shown) < len(lanes):
        note += f" {len(lanes) - len(shown)} more processes are not drawn."
    drawn, text = _drawing(job, shown), tuple(_text(job.rows))
    return Picture("Compiles over time", alt, drawn, text, note=note.strip(), legend=legend)


def _order(rows: Sequence[CompileRow]) -> tuple[int, str]:
    return rows[0].process.process.index, rows[0].label


def _drawing(job: JobFacts, lanes: dict[str, list[CompileRow]]) -> str:
    names = [function.name for function in job.functions]
    return lanes_svg(
        [(f"process {label}", [_bar(row, job) for row in rows]) for label, rows in lanes.items()],
        line_hues(names),
        dict(zip(names, names, strict=True)),
    )


def _bar(row: CompileRow, job: JobFacts) -> LaneBar:
    page = job.pages.get(row.compile.program, "")
    seconds = row.compile.call.seconds
    return LaneBar(row.start, seconds, row.function, row.function, _tip(row), page)


def _tip(row: CompileRow) -> str:
    size = f", {amount(row.compile.bytes)}" if row.compile.bytes is not None else ""
    return f"{row.function}, {duration(row.compile.call.seconds)}{size}, {row.compile.call.reason}"


def _text(rows: Sequence[CompileRow]) -> Iterator[str]:
    """Returns process, function and reason of each compile, in order."""
    shown = [(f"process {r.label}", r.function, shorten(r.compile.call.reason, 80)) for r in rows]
    return lanes_text(shown, "more compiles")
