"""Where the first NaN comes from, in sentences, and the equations that it went through."""

from collections.abc import Iterator

from jaxlens.program.lines import owners, span_of
from jaxlens.program.sentences import listed, named_line, quoter
from jaxlens.questions.nan.facts import NAMES, FirstNan
from jaxlens.questions.nan.maker import Maker
from jaxlens.questions.nan.records import ValueRange
from jaxlens.render.document import Block, Findings, Tab, TableBlock, Tabs
from jaxlens.report import Cell, Finding, Report, Table, table
from jaxlens.taps.primitives import Path
from jaxlens.views.listings.panes import jaxpr_tab

_ROWS = 30
_INPUTS = 4


def report(facts: FirstNan) -> Report:
    """Returns the sentences, and the table of the path."""
    return Report("First NaN", tuple(findings(facts)), tuple(_tables(facts)))


def findings(facts: FirstNan) -> Iterator[Finding]:
    """Yields the sentences."""
    ids: tuple[str, ...] = (facts.maker.id,) if facts.maker else ()
    yield Finding(facts.sentence, "measured", ids, weight=1.0)
    maker = facts.maker
    if maker is not None:
        if details := _details(maker):
            yield Finding(details, "measured", ids)
        if facts.inputs:
            text = f"It is computed from {listed(facts.inputs, _INPUTS)}."
            yield Finding(text, "counted", ids)
        yield from _cure(facts)
    if (made := facts.unseen) is not None:
        made_by = made.sentence("A NaN that no result gets", quoter(facts.subject()))
        yield Finding(f"{made_by}. {_details(made)}", "measured", (made.id,))
        text = (
            "Its gradient may be NaN. `jax_debug_nans` raises on it where it runs op by op, as "
            "under jax.disable_jit(); for a jitted function or loop it checks only the outputs."
        )
        yield Finding(text, "unknown", (made.id,))
    if len(facts.makers) > 1:
        ids = tuple(path[-1] for path in facts.makers[1:])
        verb = "makes" if len(ids) == 1 else "make"
        text = f"Later {listed(ids)} {verb} {NAMES[facts.kind]} too."
        yield Finding(text, "measured", ids)
    others = facts.others
    if others and not facts.arguments:
        makers, gradients = f"{len(others)} other equations make", "their gradients"
        if len(others) == 1:
            makers, gradients = "Another equation makes", "its gradient"
        text = f"{makers} NaN that no result gets ({listed(others)}): {gradients} may still be NaN."
        yield Finding(text, "measured", others)


def _details(maker: Maker) -> str:
    """Returns the iteration, device, element, and what the operands were."""
    parts = []
    for loop in reversed(maker.loops):
        text = f"in iteration {loop.number} of the loop at {named_line(loop.line)}"
        if loop.element is not None:
            text += f", which runs in reverse and is at element {loop.element}"
        parts.append(text + " (from 0)" * (loop is maker.loops[0]))
    if maker.device is not None:
        parts.append(f"on device {maker.device} of the mesh")
    made = next((v for v in maker.values.results if v is not None and (v.nan or v.inf)), None)
    if made is not None:
        number = made.nan or made.inf
        if made.elements > 1:
            parts.append(f"{number:,} of the {made.elements:,} elements of its {maker.type}")
        if made.first:
            parts.append(f"the first at index {list(made.first)}")
    read = [_range(v) for v in maker.values.operands if v is not None]
    text = ", ".join(parts)
    sentence = f"{text[:1].upper()}{text[1:]}." if text else ""
    operands = f" Its operands: {'; '.join(read)}." if read else ""
    return f"{sentence}{operands}".strip()


def _range(value: ValueRange) -> str:
    if value.least == value.most:
        text = f"{value.least:.4g}"
    elif value.least <= value.most:
        text = f"{value.least:.4g} to {value.most:.4g}"
    else:
        text = "NaN alone"
    marks = [f"{value.inf:,} inf"] if value.inf and value.elements > 1 else []
    if value.zeros and value.elements > 1:
        marks.append(f"{value.zeros:,} zero{'s' * (value.zeros != 1)}")
    return f"{text} ({', '.join(marks)})" if marks else text


def _cure(facts: FirstNan) -> Iterator[Finding]:
    made, trial = facts.maker, facts.trial
    if made is None or not facts.cure:
        return
    cure = f"{facts.cure[0].upper()}{facts.cure[1:]}."
    if trial is None:
        yield Finding(f"{cure} Not tried.", "unknown", (made.id,))
        return
    ids = tuple(path[-1] for path in trial.guarded)
    same = f"and other elements change by {trial.largest_change:.2g} at most"
    same = same if trial.largest_change else "and other elements stay the same"
    what = NAMES[facts.kind]
    left = f"no result has {'a NaN' if facts.kind == 'nan' else 'an infinity'}"
    left += ", but an infinity remains" if trial.infinity_remains else ""
    end = f"{left}, {same}" if trial.cured else f"{what} remains in a result"
    yield Finding(f"{cure} Tried: with {trial.guards}, {end}.", "measured", ids)


def _tables(facts: FirstNan) -> Iterator[Table]:
    if not facts.way:
        return
    executions = facts.run.of_results().executions
    nodes = {node.id: node for node in facts.subject().jaxpr.module.nodes()}
    owner = owners(facts.subject().jaxpr.module)
    quote = quoter(facts.subject())

    def row(path: Path) -> tuple[object, ...]:
        span, steps = span_of(path, owner), executions[path].iterations
        line = f"{span} ({', '.join(map(str, steps))})" if steps else str(span or "")
        return Cell(path[-1], ids=path[-1:]), nodes[path[-1]].opcode, line, quote(span)

    looped = any(executions[path].iterations for path in facts.way[:_ROWS])
    note = "In order of first occurrence" + (", with the iteration." if looped else ".")
    columns = ("equation", "primitive", "line (iteration)" if looped else "line", "code")
    title = f"Path of the {NAMES[facts.kind]}"
    yield table(title, columns, map(row, facts.way), note, most=_ROWS, rest="", stage="jaxpr")


def blocks(facts: FirstNan, full: bool = False) -> list[Block]:
    """Returns the sentences, the path of the NaN, and the jaxpr."""
    answer = report(facts)
    listing = jaxpr_tab(facts.subject(), full, in_text=full)
    tables = tuple(TableBlock(table) for table in answer.tables)
    help = "The equations whose results had it, in order of first occurrence."
    tabs = ((Tab("Path", tables, True, help, "way"),) if tables else ()) + (listing,)
    return [Findings(answer.findings), Tabs(tabs)]
