"""The user's own lines as HTML, tinted by what they became or cost; what lies under one opens."""

from jaxlens.render.document import SourceLine, SourcePane
from jaxlens.render.html.marks import Ink, attr, escaped, row, style
from jaxlens.render.html.payload import late_html

# Rows under a line that stand in the page, and of a pane behind others; the rest is deflated.
_AT_ONCE, _BEHIND = 3, 1
_TINT = "#e69f00"
_SIGN = "list-style-position:outside"  # that a line opens: left of where all lines begin
_CODE = 72  # notes beside code start here at the latest


def source_html(pane: SourcePane, ink: Ink) -> str:
    """Numbers, code, a bar and a note per line, aligned by characters so that it needs no CSS."""
    digits = max((len(str(line.number)) for line in pane.lines), default=1)
    column = min(max((len(line.text) for line in pane.lines), default=0), _CODE)
    notes = max((len(line.note) for line in pane.lines if line.share is not None), default=0)
    body = "".join(_line(line, digits, column, notes, ink) for line in pane.lines)
    scale = f" <i>{escaped(pane.scale)}</i>" if pane.scale else ""
    label = attr("aria-label", f"source of {pane.title}")
    indent = attr("data-indent", str(pane.indent or ""))
    return (
        f"<div class=source-lines{attr('data-file', pane.title)}{indent}>"
        f"<div class=remark><b>{escaped(pane.title)}</b>{scale}</div>"
        f"<pre class=rows tabindex=0 role=group{label}>{body}</pre></div>"
    )


def _line(line: SourceLine, digits: int, column: int, notes: int, ink: Ink) -> str:
    number = f"<i>{line.number:>{digits}}</i>  "
    measured = line.share is not None or line.note
    code = escaped(f"{line.text:<{column}}" if measured else line.text)
    text = f"{number}{code}{_share(line, notes)}"
    bar = ink.bar(line.line, f"padding-left:{17 if line.line in ink.hues else 20}px")
    # The larger its share the stronger its tint, at most 30 % so that text reads.
    alpha = round((0.05 + 0.25 * _clamped(line.share or 0.0)) * 255)
    tint = (f"background:{_TINT}{alpha:02x}",) if line.share else ()
    if not line.under:
        return f"<div{bar}><div{style(*tint)}>{text}</div></div>"
    beside = (_SIGN,) if ink.inline else ()
    more = f"<em>{escaped(line.more)}</em>\n" if line.more else ""
    rows = list(map(row, line.under))
    most = _AT_ONCE if ink.inline else _BEHIND
    late, remark = late_html("".join(rows[most:]), f"{len(rows) - most:,} more")
    under = "".join([more, *rows[:most], late, remark])
    return (
        f"<details{bar}><summary{style(*tint, *beside)}>{text}</summary>"
        f'<div class=indented style="padding-left:4em">{under}</div></details>'
    )


def _clamped(share: float) -> float:
    return min(max(share, 0.0), 1.0)


def _share(line: SourceLine, wide: int) -> str:
    """Bar and note, as wide on every line; where CSS is, they stay in sight however long it is."""
    note = escaped(line.note if line.share is None else f"{line.note:>{wide}}")
    if line.share is None:
        return f"<span>  {note}</span>" if note else ""
    end = round(_clamped(line.share) * 100) or (1 if line.share > 0 else 0)
    title = attr("title", line.more) if line.more else ""
    shades = f"linear-gradient(90deg,{_TINT} {end}%,#8884 {end}%)"
    bar = f'<i style="display:inline-block;width:56px;height:8px;background:{shades}"></i>'
    return f"<span{title}>  {bar}  {note}</span>"
