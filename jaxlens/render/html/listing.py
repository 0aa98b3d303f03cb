"""A listing as HTML: lines of a program, in runs that belong to one source line."""

from itertools import groupby

from jaxlens.render.document import Code, Line, Listing, Piece
from jaxlens.render.html.lazy_lines import LazyLines
from jaxlens.render.html.marks import Ink, attr, escaped, has_folds, note, row, style
from jaxlens.render.html.payload import Budget, more_html, without_long

_LANGUAGES = {"llvm": "LLVM IR", "asm": "assembly", "ptx": "PTX", "text": "text"}
_STAGES = {"llvm": "llvm", "asm": "asm", "ptx": "asm", "text": ""}
_MOST = 400  # lines of another language that stand in the page; the rest is deflated

# Shown by the CSS that makes it work; without it folds stay shut.
FOLDS = (
    "<label class=fold-switch hidden=1><input type=checkbox>metadata, layouts, long types</label>"
)


def listing_html(listing: Listing, ink: Ink, budget: Budget | None = None) -> str:
    """Lines with ids (`data-id`), each run of one source line (`data-line`) with its bar.

    Args:
        listing: What to write.
        ink: The hues.
        budget: What the output may still carry: `listing.more` goes along as data (`data-jl=more`),
            and what does not fit is said under the lines. None for nothing.
    """
    runs = groupby(listing.lines, key=lambda line: line.line)
    body = without_long("".join(_run(owner, list(lines), ink) for owner, lines in runs))
    toggle = FOLDS if has_folds(listing.lines) else ""
    label = attr("aria-label", f"{listing.stage} listing")
    budget = budget or Budget(0, 0)
    budget.take(body)
    more = listing.more
    data, left = more_html(more, budget)
    carried = len(more) - left
    beyond = f"{carried:,} more lines here where scripts run." if carried else ""
    missing = f"{left:,} more lines in a live session." if left else ""
    if left and budget.words is not None and not budget.whole:  # of more lines no page has all
        missing += ' The page that .save("x.html") writes has them all.'
    # A jaxpr's note counts the lines beyond: scripts show those that fit, a live kernel the rest.
    kind = "saved-only" if left else "static-only"
    counted = len(more) > 0 and listing.stage == "jaxpr"
    remark = note(listing.note, kind if counted else "remark")
    # What a viewer must know to ask for the rest: which listing it is, and how long.
    lines = f" data-listing={budget.listings} data-lines={len(listing.lines) + len(more)}"
    budget.listings += 1
    return (
        f"<div class=listing{attr('data-stage', listing.stage)}{lines if more else ''}>{toggle}"
        f"<pre class=rows tabindex=0 role=group{label}>{body}</pre>{data}"
        f"{note(beyond, 'static-only')}{note(missing, 'saved-only')}{remark}</div>"
    )


def _run(owner: str, lines: list[Line], ink: Ink) -> str:
    rows = "".join(map(row, lines))
    if not owner:
        return f"<div{style('padding-left:9px') if ink.inline else ''}>{rows}</div>"
    title = attr("title", owner) if ink.inline else ""
    return f"<div{title}{ink.bar(owner, 'padding-left:6px')}>{rows}</div>"


def code_html(code: Code, budget: Budget | None = None) -> str:
    """Text of another language, verbatim: its first 400 lines, and as many more as fit."""
    lines = code.text.rstrip("\n").split("\n")
    shown = "\n".join(map(escaped, lines[:_MOST]))
    rest = lines[_MOST:]
    more = LazyLines(len(rest), lambda: (Line((Piece(line),)) for line in rest))
    data, left = more_html(more, budget or Budget(0, 0))
    carried = len(rest) - left
    beyond = f"{carried:,} more lines here where scripts run." if carried else ""
    cut = f"{left:,} more lines: .text(full=True) has them all." if left else ""
    long = f" data-lines={_MOST + carried}" if carried else ""
    label = attr("aria-label", _LANGUAGES[code.language])
    title = f"<div class=remark><b>{escaped(code.title)}</b></div>" if code.title else ""
    return (
        f"<div class=listing{attr('data-stage', _STAGES[code.language])}{long}>{title}"
        f"<pre class=rows tabindex=0 role=group{label}>{shown}</pre>{data}"
        f"{note(beyond, 'static-only')}{note(cut)}{note(code.note)}</div>"
    )
