"""Escaped text, attributes and inline colours, with which all HTML of an output is written.

An untrusted notebook drops styles, scripts, ids and `data-` attributes and keeps inline `style=`
of a known form. So the colours that carry meaning are inline, legible on white and on dark, and
`viewer/output.css` refines them. Elements are chosen for their meaning, and for short names, which
keep an output small.
"""

import html as escaping
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from jaxlens.render.control_chars import visible
from jaxlens.render.document import (
    Diff,
    Document,
    Kind,
    Line,
    Listing,
    PassSteps,
    Piece,
    SourcePane,
    walk,
)
from jaxlens.render.graph.palette import bar_color, line_hues

# Element per kind of piece; plain text for the rest. JupyterLab's sanitizer drops an empty
# `hidden`, so it has a value.
_ELEMENTS: Mapping[Kind, tuple[str, str]] = {
    "op": ("<b>", "</b>"),
    "type": ("<var>", "</var>"),
    "literal": ("<samp>", "</samp>"),
    "attr": ("<small>", "</small>"),
    "comment": ("<em>", "</em>"),
    "keyword": ("<strong>", "</strong>"),
    "fold": ("<tt hidden=1>", "</tt>"),
    "warn": ("<mark>", "</mark>"),
}
# What an address in single quotes may not have as it is; ">" may end a tag for simple readers.
_SPECIAL = re.compile(r"""[^\w !"$()*+,\-./:;=?@[\]^`{|}~]""", re.ASCII)
# Control characters before words of a kind, in rows that a script writes out; "\0" for plain ones.
MARKS: Mapping[Kind, str] = {kind: chr(n) for n, kind in enumerate(("", *_ELEMENTS))}
_INLINE_LINES = 150  # above, inline colours would add a third to an output
_AS_IT_IS = re.compile(r"[ -%'-;=?-~]*")  # printable ASCII without & < >
_ROOT = Piece("ROOT ", "keyword")
# What stands between backticks, options, and numbers such as 1e-3: no line breaks at their hyphens.
_CODE = re.compile(r"`([^`\n]++)`|(?<![\w.-])(--[a-z]\w*+(?:[=:-]\w++)*+|-?\d[\d.]*+e-\d++)")
_BARE = re.compile(r"[\w.%-]+", re.ASCII)


def escaped(text: str) -> str:
    """Text of one line as HTML text."""
    if _AS_IT_IS.fullmatch(text):  # most is, and this is the quick way
        return text
    return escaping.escape(visible(text), quote=False)


def prose(text: str) -> str:
    """A sentence as HTML, with what is typed as code: between backticks, options and numbers."""
    return _CODE.sub(r"<code>\1\2</code>", escaped(text))


def attr(name: str, value: str) -> str:
    """` name=value`, quoted where it must be; nothing for an empty value."""
    if not value:
        return ""
    if _BARE.fullmatch(value):
        return f" {name}={value}"
    return f' {name}="{escaping.escape(visible(value))}"'


def note(text: str, kind: str = "remark") -> str:
    """A remark under a block; nothing for "".

    Args:
        text: What it says.
        kind: Its class: "static-only" until scripts run, "saved-only" until a kernel is there.
    """
    return f"<div class={kind}>{escaped(text)}</div>" if text else ""


def pieces(line: Line) -> str:
    """The text of a line, with an element around each run of one kind."""
    runs = [(_ELEMENTS.get(kind, ("", "")), text) for kind, text in _runs(line)]
    return "".join([f"{start}{escaped(text)}{end}" for (start, end), text in runs]) or "<br>"


def marked(line: Line) -> str:
    """The same for scripts (`listing/row_source.js`): a character of `MARKS` before each run.

    The text never has these, since `visible` replaces control characters.
    """
    return "".join([MARKS[kind] + visible(text) for kind, text in _runs(line)]).lstrip("\0")


def _runs(line: Line) -> list[tuple[Kind, str]]:
    if not line.indent:
        return text_runs(line.pieces)
    return text_runs((Piece("  " * line.indent), *line.pieces))


def text_runs(pieces: Iterable[Piece]) -> list[tuple[Kind, str]]:
    """Joins neighbouring pieces of one kind; names count as plain text."""
    runs: list[tuple[Kind, str]] = []
    for piece in pieces:
        kind = "" if piece.kind == "name" else piece.kind
        if runs and runs[-1][0] == kind:
            runs[-1] = (kind, runs[-1][1] + piece.text)
        elif piece.text:
            runs.append((kind, piece.text))
    return runs


def image(svg: str, alt: str) -> str:
    """An SVG document as an `<img>`, which shows where no script runs.

    Most characters of a drawing stand in an address as they are, so it is a fifth shorter than
    in Base64.
    """
    data = svg.replace("%", "%25")
    for character in set(_SPECIAL.findall(svg)) - {"%"}:
        data = data.replace(character, quote(character, errors="replace"))
    size = 'style="max-width:100%;height:auto"'
    return f"<img{attr('alt', alt)} {size} src='data:image/svg+xml,{data}'>"


def node_id(line: Line) -> str:
    """` data-id=ID`; without a value where the first word of the line is the id, as in HLO."""
    if not line.id:
        return ""
    return " data-id" if begins_with_id(line) else attr("data-id", line.id)


def begins_with_id(line: Line) -> bool:
    """Whether the first word of the line, after ROOT, is the id of its node."""
    behind = line.pieces[1:] if line.pieces and line.pieces[0] == _ROOT else line.pieces
    first = bool(behind) and behind[0].text == line.id and behind[0].kind == "name"
    return first and " " not in line.id


def row(line: Line) -> str:
    """A line as one element that carries its node's id."""
    folds = f" data-folds={line.folds}" if line.folds else ""
    return f"<div{node_id(line)}{folds}>{pieces(line)}</div>"


def has_folds(lines: Sequence[Line]) -> bool:
    """Whether any line has a folded piece."""
    return any(piece.kind == "fold" for line in lines for piece in line.pieces)


@dataclass(frozen=True, slots=True)
class Ink:
    """The hue of each source line, one for the whole document.

    Attributes:
        hues: Index of the hue by source line.
        inline: Whether colours are written inline, for pages that drop our CSS; else as
            classes, which are shorter.
        lines: Lines of programs in the document, those beyond the shown ones too.
        tab: Title of the pane that it is for; of many rows there, the first are in the page.
    """

    hues: Mapping[str, int]
    inline: bool = True
    lines: int = 0
    tab: str = ""

    def behind(self) -> "Ink":
        """For what is hidden behind a tab: classes alone, where the document is long."""
        return replace(self, inline=self.inline and self.lines <= _INLINE_LINES)

    def bar(self, owner: str, *more: str) -> str:
        """Attributes of what belongs to a source line: its name and its bar; none for ""."""
        if owner not in self.hues:
            return style(*more) if self.inline else ""
        hue = self.hues[owner]
        name = attr("data-line", owner)
        if not self.inline:
            return f" class=hue{hue}{name}"
        return f"{name}{style(f'border-left:3px solid {bar_color(hue)}', *more)}"

    def cell(self, owner: str, *more: str) -> str:
        """`bar` for one line among many: its hue alone."""
        if owner not in self.hues:
            return style(*more) if self.inline else ""
        hue = self.hues[owner]
        if not self.inline:
            return f" class=hue{hue}"
        return style(f"border-left:3px solid {bar_color(hue)}", *more)


def style(*rules: str) -> str:
    """Inline rules; nothing for none."""
    if len(rules) == 1 and " " not in rules[0]:
        return f" style={rules[0]}"
    return f' style="{";".join(rules)}"' if rules else ""


def ink(document: Document) -> Ink:
    """Gives each source line its hue, in the order in which the document names them."""
    source: list[str] = []
    listed: list[str] = []
    later: dict[str, None] = {}
    beyond = 0
    for step in walk(document.blocks):
        if isinstance(step.part, SourcePane):
            source += [line.line for line in step.part.lines]
        elif isinstance(step.part, Listing):
            listed += [line.line for line in step.part.lines]
            beyond += len(step.part.more)
        elif isinstance(step.part, Diff):
            listed += [line.line for line in diff_sides(step.part)]
        elif isinstance(step.part, PassSteps):
            rows = (row for pass_step in step.part.steps for row in pass_step.rows or ())
            later.update((row.line.line, None) for row in rows)
    return Ink(line_hues([*source, *listed, *later]), lines=len(listed) + beyond)


def diff_sides(diff: Diff) -> list[Line]:
    """Every line of both sides."""
    rows = [row for group in diff.groups for row in group.rows]
    return [line for row in rows for line in (row.left, row.right) if line]
