"""Renders listings and the user's source lines as text, with annotations to the right."""

from jaxlens.render.control_chars import visible
from jaxlens.render.document import Line, Listing, SourceLine, SourcePane

_BAR = 8  # characters of a full bar
_CODE = 78  # notes beside code start here at the latest


def line_text(line: Line, full: bool) -> str:
    """Returns a line as indented text, with folded pieces only if `full`."""
    words = (visible(p.text) for p in line.pieces if full or p.kind != "fold")
    return ("  " * line.indent + "".join(words)).rstrip()


def listing_lines(block: Listing, full: bool) -> list[str]:
    """Returns the program's lines; the first of each run of one owner ends with the owner."""
    shown = (*block.lines, *block.more) if full else block.lines
    written = [line_text(line, full) for line in shown]
    column = min(max(map(len, written), default=0), _CODE)
    lines, owner = [], ""
    for line, words in zip(shown, written, strict=True):
        new = line.line if line.line != owner else ""
        lines.append(f"{words:<{column}}  # {visible(new)}" if new else words)
        owner = line.line
    return lines


def source_lines(block: SourcePane, full: bool) -> list[str]:
    """Returns the user's lines with line numbers, and a bar and a note on lines with a share."""
    digits = max((len(str(line.number)) for line in block.lines), default=1)
    column = min(max((len(line.text) for line in block.lines), default=0), _CODE)
    scale = f"  ({visible(block.scale)})" if block.scale else ""
    lines = [f"{visible(block.title)}{scale}"]
    for line in block.lines:
        lines.append(f"{line.number:>{digits + 2}} | {_noted(line, column)}")
        if full:
            gap = " " * (digits + 2)
            lines += [f"{gap} :     {line_text(under, True)}" for under in line.under]
    return lines


def _noted(line: SourceLine, column: int) -> str:
    code = visible(line.text)
    if line.share is None and not line.note:
        return code
    filled = round(min(max(line.share or 0.0, 0.0), 1.0) * _BAR)
    bar = "#" * (filled or (1 if line.share else 0))
    more = f" ({visible(line.more)})" if line.more else ""
    return f"{code:<{column}}  {bar:<{_BAR}}  {visible(line.note)}{more}"
