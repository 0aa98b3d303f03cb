"""A listing as HTML: lines of a program, in runs that belong to one source line."""

from itertools import groupby

from jaxlens.render.document import Code, Line, Listing
from jaxlens.render.html_marks import Ink, attr, escaped, has_folds, note, row, style

_LANGUAGES = {"llvm": "LLVM IR", "asm": "assembly", "ptx": "PTX", "text": "text"}
_MOST = 400  # lines of another language; the rest is a call away

# Shown by the CSS that makes it work; without it folds stay shut.
FOLDS = "<label class=f hidden=1><input type=checkbox>metadata, layouts, long types</label>"


def listing_html(listing: Listing, ink: Ink) -> str:
    """Lines with ids (`data-id`), each run of one source line (`data-line`) with its bar."""
    runs = groupby(listing.lines, key=lambda line: line.line)
    body = "".join(_run(owner, list(lines), ink) for owner, lines in runs)
    toggle = FOLDS if has_folds(listing.lines) else ""
    label = attr("aria-label", f"{listing.stage} listing")
    return (
        f"<div class=L>{toggle}<pre class=c tabindex=0 role=group{label}>{body}</pre>"
        f"{note(listing.note)}</div>"
    )


def _run(owner: str, lines: list[Line], ink: Ink) -> str:
    rows = "".join(map(row, lines))
    if not owner:
        return f"<div{style('padding-left:9px') if ink.inline else ''}>{rows}</div>"
    title = attr("title", owner) if ink.inline else ""
    return f"<div{title}{ink.bar(owner, 'padding-left:6px')}>{rows}</div>"


def code_html(code: Code) -> str:
    """Text of another language, verbatim and cut at 400 lines."""
    lines = code.text.rstrip("\n").split("\n")
    shown = "\n".join(map(escaped, lines[:_MOST]))
    left = len(lines) - _MOST
    cut = f"{left:,} more lines: .text(full=True) has them all." if left > 0 else ""
    label = attr("aria-label", _LANGUAGES[code.language])
    title = f"<div class=n><b>{escaped(code.title)}</b></div>" if code.title else ""
    return (
        f"<div class=L>{title}<pre class=c tabindex=0 role=group{label}>{shown}</pre>"
        f"{note(cut)}{note(code.note)}</div>"
    )
