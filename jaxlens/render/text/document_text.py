"""Renders a document as plain text, for a terminal and for a mime bundle's `text/plain`.

The text is the same from run to run: times are left out unless requested. Folds and long outputs
are cut; a line says what was cut and how to see it.
"""

from dataclasses import dataclass, replace

from jaxlens.render.control_chars import visible
from jaxlens.render.document import (
    Block,
    BlockStep,
    Code,
    Diff,
    Document,
    Findings,
    Fold,
    GraphPane,
    Listing,
    PassSteps,
    Picture,
    SourcePane,
    Tab,
    TableBlock,
    Tabs,
    TapeReel,
    walk,
)
from jaxlens.render.text.diff import diff_lines
from jaxlens.render.text.lines import REST, listing_lines, source_lines, wrap
from jaxlens.render.text.table import table_lines
from jaxlens.report import Finding, Trust

# How a figure is known, in the words of both the text and the HTML form.
TRUST: dict[Trust, str] = {
    "measured": "measured",
    "counted": "counted",
    "xla": "XLA's figure",
    "estimate": "estimate",
    "unknown": "unknown",
    "traced": "seen while tracing",
    "compared": "compared",
    "jax": "from JAX's message",
}


def known(finding: Finding, times: bool = True) -> str:
    """Returns how a finding is known, in words; with `times`, its measured figures too."""
    word = TRUST[finding.trust]
    return f"measured, {word}" if times and finding.lead and word != "measured" else word


def badge(finding: Finding, times: bool, form: str) -> str:
    """Returns how a finding is known, in a form; "" for what is counted, as most is."""
    word = known(finding, times)
    return "" if word == TRUST["counted"] else form.format(word)


@dataclass(frozen=True, slots=True)
class Form:
    """Options of the text form.

    Attributes:
        width: Columns.
        full: Whether folds are written.
        times: Whether times are.
        limit: Lines per block.
        rest: What writes the rest, for the reader: ".text(full=True)", or "--full" of a magic.
    """

    width: int
    full: bool
    times: bool
    limit: int
    rest: str = REST


def text(
    document: Document,
    *,
    width: int = 100,
    full: bool = False,
    times: bool = False,
    limit: int = 200,
    rest: str = REST,
) -> str:
    """Renders a document as text.

    Args:
        document: The document to render.
        width: Maximum columns of prose, tables and the two sides of a diff. Lines of a program
            are not wrapped.
        full: Whether to write folds, all tabs, the nodes of source lines, and every line.
        times: Whether to write figures that change from run to run. Those that the user
            requested are written in any case.
        limit: Lines per block, unless `full`.
        rest: What writes the rest, for the reader.

    Returns:
        Text without a final newline. Without times, it is equal for equal programs.
    """
    form = Form(width, full, times or document.timed, limit, rest)
    lines = wrap(visible(document.taken), width, subsequent_indent="    ", break_on_hyphens=False)
    for sentence in document.deviations:
        lines += wrap(f"Not what runs: {visible(sentence)}", width, subsequent_indent="    ")
    for step in walk(document.blocks, lambda part: _opens(part, full)):
        inset = "  " * min(step.depth, 8)  # at most 8 levels, so that deep nesting stays readable
        room = replace(form, width=max(width - len(inset), 40))
        for i, line in enumerate(_step_lines(step, room)):
            if not i and line:
                lines.append("")
            lines.append((inset + line).rstrip())
    return "\n".join(lines)


def _opens(part: Fold | Tabs | Tab, full: bool) -> bool:
    if isinstance(part, Fold):
        return part.open or full
    return isinstance(part, Tabs) or part.in_text or full


def _step_lines(step: BlockStep, form: Form) -> list[str]:
    part, move = step.part, step.move
    if isinstance(part, Tabs):
        return _tabs_elsewhere(part, form) if move == "leave" else []
    if not isinstance(part, Fold | Tab):
        return cut_lines(part, form)
    if move == "enter":
        title = visible(part.title)
        return [title if title.endswith((".", "?")) else f"{title}:"]
    folded = isinstance(part, Fold) and move == "skip"
    return [f"[+] {visible(part.title)}  (folded; {form.rest} opens it)"] if folded else []


def cut_lines(block: Block, form: Form) -> list[str]:
    """Returns the lines of one block, up to the limit of the form, and how many more there are."""
    lines = block_lines(block, form)
    beyond = len(block.more) if isinstance(block, Listing) else 0
    left = max(len(lines) - form.limit, 0) + beyond
    if form.full or not left:
        return lines
    return [*lines[: form.limit], f"... {left:,} more lines; {form.rest} writes them"]


def _tabs_elsewhere(part: Tabs, form: Form) -> list[str]:
    """Returns one sentence that names the tabs left out of the text."""
    titles = [visible(tab.title) for tab in part.tabs if not tab.in_text]
    if form.full or not titles:
        return []
    return wrap(
        f"Also here ({form.rest} writes them): {', '.join(titles)}.",
        form.width,
        subsequent_indent="  ",
    )


def block_lines(block: Block, form: Form) -> list[str]:
    """Returns all lines of one block."""
    match block:
        case Findings():
            return _findings(block, form)
        case TableBlock() if block.table.volatile and not (form.times or block.asked):
            title = visible(block.table.title)
            return [f"{title}: left out, it changes from run to run; .text(times=True) writes it"]
        case TableBlock() if not (form.times or block.asked):
            return table_lines(block.table.stable(), form.width)
        case TableBlock() | TapeReel():
            return table_lines(block.table, form.width)
        case PassSteps():  # with an empty line between tables
            tables = [table_lines(table, form.width) for table in block.tables]
            return [line for lines in tables for line in ("", *lines)][1:]
        case Listing():
            return [*listing_lines(block, form.full, form.rest), *_note(block.note, form)]
        case SourcePane():
            return source_lines(block, form.full)
        case Diff():
            return diff_lines(block, form.width, form.full, form.rest)
        case GraphPane():
            note = f" {block.figure.note}" if block.figure.note else ""
            drawing = f"Drawing: {block.alt}{note} (.svg() and .dot() give it)"
            return wrap(visible(drawing), form.width, subsequent_indent="  ")
        case Picture():
            drawing = f"Drawing: {visible(block.alt)} (.svg() gives it)"
            title = f"{block.title}:" if block.text else drawing
            return [*_note(title, form), *map(visible, block.text), *_note(block.note, form)]
        case Code():
            heading = [f"{visible(block.title)}:"] if block.title else []
            code = map(visible, block.text.rstrip("\n").split("\n"))
            return [*heading, *code, *_note(block.note, form)]
        case _:
            raise TypeError(f"expected a block that holds no others, got {type(block).__name__}")


def _note(note: str, form: Form) -> list[str]:
    return wrap(visible(note), form.width) if note else []


def _findings(block: Findings, form: Form) -> list[str]:
    lines: list[str] = []
    for finding in block.findings:
        text = finding.measured if form.times else finding.text
        sentence = f"- {visible(text)}{badge(finding, form.times, ' [{}]')}"
        lines += wrap(sentence, form.width, subsequent_indent="  ", break_on_hyphens=False) or ["-"]
    return lines
