"""Renders the diff of two programs as two columns of text, with each line's fate between them."""

from itertools import zip_longest

from jaxlens.render.control_chars import visible
from jaxlens.render.document import Diff, DiffRow, Line
from jaxlens.render.fate_marks import mark
from jaxlens.render.text.lines import REST, line_text, wrap
from jaxlens.report import count


def diff_lines(diff: Diff, width: int, full: bool = False, rest: str = REST) -> list[str]:
    """Returns the groups as lines, each a title and its rows; a closed group is one line.

    Args:
        diff: The diff to render.
        width: Columns for both sides and the marks between.
        full: Whether to open every group and show folded pieces.
        rest: What opens every group, for its reader.
    """
    fates = [visible(row.fate) for group in diff.groups for row in group.rows]
    middle = max(map(len, fates), default=4) + 2
    side = max((width - middle - 4) // 2, 16)
    heads = zip_longest(
        wrap(visible(diff.left), side),
        wrap(visible(diff.right), side),
        fillvalue="",
    )
    lines = [_columns(left, "", right, side, middle) for left, right in heads]
    lines.append(_columns("-" * side, "", "-" * side, side, middle))
    for group in diff.groups:
        shown = group.open or full
        hidden = f" ({count(len(group.rows), 'row')}; {rest} opens it)"
        title = f"[{'-' if shown else '+'}] {visible(group.title)}{'' if shown else hidden}"
        lines += wrap(title, width, subsequent_indent="    ")
        for row in group.rows if shown else ():
            lines += _row(row, side, middle, full)
    return [*lines, *(wrap(visible(diff.note), width) if diff.note else [])]


def _row(row: DiffRow, side: int, middle: int, full: bool) -> list[str]:
    left = _wrapped(row.left, side, full)
    right = _wrapped(row.right, side, full)
    if row.note:
        right += wrap(f"({visible(row.note)})", side, initial_indent="  ", subsequent_indent="   ")
    fate = f"{mark(row.fate).sign} {visible(row.fate)}"
    pairs = zip_longest(left, [fate], right, fillvalue="")
    return [_columns(a, m, b, side, middle) for a, m, b in pairs]


def _wrapped(line: Line | None, side: int, full: bool) -> list[str]:
    if line is None:
        return []
    inset = "  " * min(line.indent, side // 8)
    return wrap(
        inset + line_text(line, full).lstrip(),
        side,
        subsequent_indent=inset + "    ",
        break_on_hyphens=False,
        replace_whitespace=False,
    )


def _columns(left: str, mark: str, right: str, side: int, middle: int) -> str:
    return f"{left:<{side}}  {mark:<{middle}}  {right}".rstrip()
