"""Data that an output embeds for its viewer: links, and lines beyond those shown.

It is deflated, in `<script type="application/json" data-jl=NAME>` (`viewer/elements.js` reads it),
as much as an output may have; what did not fit is counted, and the output says so. An untrusted
notebook drops these elements, and none of the lines that stand in the HTML.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from itertools import islice
from typing import Any, TypeVar

from jaxlens.render.control_chars import visible
from jaxlens.render.document import Line
from jaxlens.render.html.glossary_help import WORD
from jaxlens.render.html.lazy_lines import NAME, NEXT, LazyLines, Row, row_of
from jaxlens.render.html.marks import MARKS
from jaxlens.render.html.packing import BEST, packed, stepped
from jaxlens.render.link_data import Alike, Parts, Web

MOST = 5_000_000  # bytes of a page that is saved
SAVED = 275_000  # bytes of an output in a notebook, beside its glossary, scripts and styles
# Lines beyond those shown, in one output: %%jaxpr has to be quick beside a trace, so it has fewer.
# Beside a compile their time is negligible, and bytes are the limit. A live kernel serves the rest.
ROWS = 20_000
COMPILED_ROWS = 200_000
_SAME, _NEXT = 2, 3
_COMPILED = ("more", "passes")  # deflated better: negligible beside a compile
_MUCH = 200_000  # characters, above which this takes too long
_TRIES = 6
_DENSEST = 50  # characters of rows in a byte, at most
_REMARK = 60  # characters of a remark
_MANY = 10_000  # characters of names, or of a fold, above which they are deflated
_MANY_IDS = re.compile(rf'(<[^<>]*) data-id="([^"]{{{_MANY},}})"([^<>]*>)')
_LONG_FOLD = re.compile(rf"<tt hidden=1>[^<]{{{_MANY},}}</tt>")
_FOLD = re.compile(f"{MARKS['fold']}[^\0-{MARKS['warn']}\n]*")
_NO_MARKS = {ord(sign): None for sign in MARKS.values()}
_Value = TypeVar("_Value")


@dataclass(slots=True)
class Budget:
    """What is left of the data that one output may embed.

    Attributes:
        bytes: Characters of HTML.
        rows: Lines of programs.
        listings: Listings so far; the next one's number.
        words: All words of the lines that data of this output has; None where lines were left out.
        pictures: Whether drawings show where no script runs.
        whole: Whether all boxes of drawings open, and not a few.
    """

    bytes: int = MOST
    rows: int = ROWS
    listings: int = 0
    words: set[str] | None = field(default_factory=set)
    pictures: bool = True
    whole: bool = False

    def read(self, rows: str) -> None:
        """Collects the words of lines."""
        if self.words is not None:
            self.words.update(WORD.findall(rows))

    def take(self, element: str, rows: int = 0) -> str:
        """The element, after it is subtracted from the budget."""
        self.bytes -= len(element)
        self.rows -= rows
        return element


def data_html(name: str, data: object) -> str:
    """Data for scripts, as an element that is not displayed."""
    # ASCII, so a lone surrogate passes too.
    return _data_element(name, json.dumps(data, separators=(",", ":")))


def _data_element(name: str, text: str) -> str:
    level = BEST if name in _COMPILED and len(text) < _MUCH else None
    pack = packed(stepped(text), level)
    return f'<script type="application/json" data-jl={name}>{pack}</script>'


def late_html(fragment: str, content: str) -> tuple[str, str]:
    """Long HTML behind a tab as data, which scripts replace by the HTML.

    Args:
        fragment: Whole elements.
        content: Its content in words, "12 more rows".

    Returns:
        What to write in its place, and a remark for pages without scripts, "" for none.
    """
    element = data_html("late", fragment)
    if len(element) + _REMARK >= len(fragment):
        return fragment, ""
    return element, f"<div class=static-only>{content} here where scripts run.</div>"


def without_long(markup: str) -> str:
    """HTML whose long folds and many names of nodes, which scripts alone use, are data."""
    if len(markup) < _MANY:
        return markup
    markup = _LONG_FOLD.sub(lambda fold: data_html("late", fold[0]), markup)
    return _MANY_IDS.sub(lambda m: f"{m[1]}{m[3]}{data_html('late', [unescape(m[2])])}", markup)


def web_html(web: Web, budget: Budget) -> str:
    """The links of an output; without call stacks and fates where those are too much."""
    data = web_data(web)
    for dropped in ((), ("stacks", "stack"), ("fates", "ends", "how", "made"), ("calls",)):
        for name in dropped:
            data.pop(name, None)
            data["left"] = [*data.get("left", []), name]
        element = data_html("web", data)
        if len(element) <= budget.bytes // 2:
            return budget.take(element)
    return budget.take(data_html("web", {"atoms": {}, "left": ["atoms"]}))


def web_data(web: Web) -> dict[str, Any]:
    """A web as JSON-able data: names as the HTML has them, sets of atoms as `runs`; of stages, as
    `_columns`.

    Where the jaxpr is the only stage, `alike` holds the runs of `Alike`, and what is said by
    source line or by equation is said of groups instead (`viewer/link_data.js` expands it).
    """
    if web.alike is not None:
        return _alike_data(web.alike)
    return {
        "atoms": {stage: _columns(nodes) for stage, nodes in web.atoms.items()},
        "lines": _by_part(web.lines, web.owned),
        "calls": _by_part(web.calls, web.called),
        "fates": {visible(id): visible(fate) for id, fate in web.fates.items()},
        "ends": _named(web.ends),
        "how": {stage: _named(sources) for stage, sources in web.how.items()},
        "stacks": [list(map(visible, stack)) for stack in web.stacks],
        "stack": _named(web.stack),
        "made": {id: list(names) for id, names in _named(web.made).items()},
    }


def _alike_data(alike: Alike) -> dict[str, Any]:
    return {
        "alike": list(alike.runs),
        "atoms": {"jaxpr": _columns({})},
        "lines": _by_part(alike.lines, alike.owned),
        "calls": _by_part(alike.calls, alike.called),
        "stacks": [list(map(visible, stack)) for stack in alike.stacks],
        "stack": list(alike.stack),
        "made": [list(names) for names in alike.made],
    }


def _named(nodes: Mapping[str, _Value]) -> dict[str, _Value]:
    return {visible(name): value for name, value in nodes.items()}


def _columns(nodes: Mapping[str, Iterable[int]]) -> tuple[list[str], list[Any]]:
    """The ids of a stage, and the atoms of each: `runs` whose numbers are steps.

    A step is from the atom before, for the first of an id from the last of the id before.
    """
    last, sets = 0, []
    for atoms in map(runs, nodes.values()):
        steps = []
        for atom in atoms:
            steps.append(atom if atom < 0 else atom - last)
            last = last - atom if atom < 0 else atom
        sets.append(steps[0] if len(steps) == 1 else steps)
    return list(map(visible, nodes)), sets


def _sets(nodes: Mapping[str, Iterable[int]]) -> dict[str, int | list[int]]:
    """Sets of atoms by id: a number for one atom, else a list."""
    numbers = {visible(id): runs(atoms) for id, atoms in nodes.items()}
    return {id: ids[0] if len(ids) == 1 else ids for id, ids in numbers.items()}


def _by_part(lines: Mapping[str, Iterable[int]], parts: Parts) -> dict[str, Any]:
    """As `_sets`; a line with known expressions has a set for each, whose union is its own."""
    known = {line: _sets(of) for line, of in parts.items() if any(of)}
    return _sets(lines) | {visible(line): of for line, of in known.items()}


def runs(atoms: Iterable[int]) -> list[int]:
    """Run-length coding: a negative number is how many follow the one before it; 3, -2 is 3 4 5.

    A loop has all atoms of its body, so most sets are runs.
    """
    numbers: list[int] = []
    last = -2
    for atom in sorted(set(atoms)):
        if atom != last + 1:
            numbers.append(atom)
        elif numbers[-1] < 0:
            numbers[-1] -= 1
        else:
            numbers.append(-1)
        last = atom
    return numbers


def lines_data(lines: Iterable[Line]) -> dict[str, Any]:
    """Lines for a viewer's list (`listing/row_source.js`), from here or from a live kernel.

    Returns:
        `rows`: each line with signs before its kinds of words, joined by line breaks, which no
        line holds. `ids`: their nodes; 0 for none, 1 where the row's first word is it, 2 for that
        of the row before, 3 for that with the next number. `lines`: names of source lines, each
        once, and `owner`: the place among them of each row's owner, from 1, 0 for none. `wide`:
        the most columns.
    """
    return _rows_data(map(row_of, lines))


def _rows_data(written: Iterable[Row]) -> dict[str, Any]:
    rows: list[str] = []
    ids: list[int | str] = []
    owner: list[int] = []
    names: dict[str, int] = {"": 0}
    last: int | str = 0
    for row, id, line in written:
        rows.append(row)
        ids.append(id if isinstance(id, int) else _SAME if id == last else _next(id, last))
        last = id or last
        owner.append(names.setdefault(line, len(names)))
    text = "\n".join(rows).replace(NAME, "").replace(NEXT, "")
    shown = _FOLD.sub("", text) if MARKS["fold"] in text else text
    wide = max(map(len, shown.translate(_NO_MARKS).split("\n")))
    return {"rows": text, "ids": ids, "lines": list(names)[1:], "owner": owner, "wide": wide}


def _next(id: str, last: int | str) -> int | str:
    """`_NEXT` where an id is the one before with the next number, as ids of equations are."""
    if isinstance(last, int) or not (last[1:].isascii() and last[1:].isdecimal()):
        return id
    return _NEXT if id == f"{last[0]}{int(last[1:]) + 1}" else id


def more_html(more: Sequence[Line], budget: Budget) -> tuple[str, int]:
    """Lines beyond those shown, as many as the budget allows.

    Returns:
        The element, "" for none; and how many lines were left out.
    """
    count = min(len(more), max(budget.rows, 0))
    if count < len(more):
        budget.words = None
    for _ in range(_TRIES):
        if not count:
            break
        left = len(more) - count
        lazy = more if isinstance(more, LazyLines) else None
        data = _rows_data(lazy.rows(count) if lazy else islice(map(row_of, more), count))
        rows = data.pop("rows")
        budget.read(rows)
        if lazy and lazy.rule:
            data["rule"] = [lazy.rule.source, lazy.rule.signs.replace(NAME, MARKS[""])]
        if len(rows) > _DENSEST * max(budget.bytes, 0):
            count = int(count * _DENSEST * max(budget.bytes, 0) / len(rows) * 0.9)
            continue
        head = json.dumps(data | {"left": left}, separators=(",", ":"))
        element = _data_element("more", f"{head}\n{rows}")
        if len(element) <= budget.bytes:
            return budget.take(element, count), left
        count = max(int(count * budget.bytes / len(element) * 0.9), 0)
    return "", len(more)
