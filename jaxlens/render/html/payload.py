"""What an output carries for its viewer beside its HTML: links, and lines beyond those shown.

It travels deflated in `<script type="application/json" data-jl=NAME>` (`embedded_data.js` reads
it), at most 5 MB in one output; what did not fit is counted and said. A notebook that is not
trusted drops these elements and loses nothing that stood in its HTML before.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol, TypeGuard, TypeVar, runtime_checkable

from jaxlens.render.control_chars import visible
from jaxlens.render.document import Line
from jaxlens.render.html.lazy_lines import Row, written
from jaxlens.render.html.marks import MARKS
from jaxlens.render.html.packing import packed
from jaxlens.render.link_data import Alike, Web

MOST = 5_000_000  # bytes of data in one output
# Lines beyond those shown, in one output. The first picture of a traced program is to come in a
# tenth of its trace, so %%jaxpr gets few; beside a compile the lines take no time, and bytes are
# the limit. A live kernel has the rest.
ROWS = 1_000
COMPILED_ROWS = 200_000
_SAME, _NEXT = 2, 3
_COMPILED = ("more", "passes")  # beside a compile, a better deflation takes no time
_MUCH = 200_000  # characters, above which a fifth more bytes take a seventh of the time
_TRIES = 6
_REMARK = 60  # characters of a remark
_FOLD = re.compile(f"{MARKS['fold']}[^\0-{MARKS['warn']}\n]*")
_NO_MARKS = {ord(sign): None for sign in MARKS.values()}
_Value = TypeVar("_Value")


@dataclass(slots=True)
class Room:
    """What is left of the data that one output may carry.

    Attributes:
        bytes: Characters of HTML.
        rows: Lines of programs.
        listings: Listings so far; the next one's number.
        pictures: Whether drawings show where no script runs.
    """

    bytes: int = MOST
    rows: int = ROWS
    listings: int = 0
    pictures: bool = True

    def take(self, element: str, rows: int = 0) -> str:
        """The element, and the room is smaller by it."""
        self.bytes -= len(element)
        self.rows -= rows
        return element


@runtime_checkable
class PackedLines(Protocol):
    """Lines beyond those shown that have a shorter form than text, read by a script of theirs."""

    @property
    def packable(self) -> bool:
        """Whether there are enough of them for that form."""

    def packed(self, room: Room) -> tuple[str, int]:
        """What `more_html` gives, in that form."""


def packs(more: Sequence[Line]) -> TypeGuard[PackedLines]:
    """Whether lines travel in a form of their own."""
    return isinstance(more, PackedLines) and more.packable


def data_html(name: str, data: object) -> str:
    """Data for the scripts, as an element that shows nothing."""
    # ASCII, so a lone surrogate passes too.
    return _data_element(name, json.dumps(data, separators=(",", ":")))


def _data_element(name: str, text: str) -> str:
    level = (9 if len(text) < _MUCH else 4) if name in _COMPILED else None
    return f'<script type="application/json" data-jl={name}>{packed(text, level)}</script>'


def late_html(fragment: str, what: str) -> tuple[str, str]:
    """A fragment of HTML that scripts put in its own place: what is long and stands behind a tab.

    Args:
        fragment: Whole elements.
        what: What it holds, "12 more rows".

    Returns:
        What stands in the place, and the remark that holds where no script runs, "" for none.
    """
    element = data_html("late", fragment)
    if len(element) + _REMARK >= len(fragment):
        return fragment, ""
    return element, f"<div class=static-only>{what} here where scripts run.</div>"


def web_html(web: Web, room: Room) -> str:
    """The links of an output; without call stacks and fates where those are too much."""
    data = web_data(web)
    for dropped in ((), ("stacks", "stack"), ("fates", "ends", "how", "made"), ("calls",)):
        for name in dropped:
            data.pop(name, None)
            data["left"] = [*data.get("left", []), name]
        element = data_html("web", data)
        if len(element) <= room.bytes // 2:
            return room.take(element)
    return room.take(data_html("web", {"atoms": {}, "left": ["atoms"]}))


def web_data(web: Web) -> dict[str, Any]:
    """A web as JSON-able data: names as the HTML has them, sets of atoms as `runs`.

    Where the jaxpr is the only stage, `alike` holds the runs of `Alike`, and what is said by
    source line or by equation is said of groups instead (`viewer/link_groups.js` spreads it).
    """
    if web.alike is not None:
        return _alike_data(web.alike)
    return {
        "atoms": {stage: _sets(nodes) for stage, nodes in web.atoms.items()},
        "lines": _sets(web.lines),
        "calls": _sets(web.calls),
        "fates": {visible(id): visible(fate) for id, fate in web.fates.items()},
        "ends": _named(web.ends),
        "how": {stage: _named(known) for stage, known in web.how.items()},
        "stacks": [list(map(visible, stack)) for stack in web.stacks],
        "stack": _named(web.stack),
        "made": {id: list(names) for id, names in _named(web.made).items()},
    }


def _alike_data(alike: Alike) -> dict[str, Any]:
    return {
        "alike": list(alike.runs),
        "atoms": {"jaxpr": {}},
        "lines": _sets(alike.lines),
        "calls": _sets(alike.calls),
        "stacks": [list(map(visible, stack)) for stack in alike.stacks],
        "stack": list(alike.stack),
        "made": [list(names) for names in alike.made],
    }


def _named(nodes: Mapping[str, _Value]) -> dict[str, _Value]:
    return {visible(name): value for name, value in nodes.items()}


def _sets(nodes: Mapping[str, Iterable[int]]) -> dict[str, int | list[int]]:
    """One atom stands alone; more are a list."""
    written = {}
    for id, atoms in nodes.items():
        found = runs(atoms)
        written[visible(id)] = found[0] if len(found) == 1 else found
    return written


def runs(atoms: Iterable[int]) -> list[int]:
    """Numbers in order; a negative one says how many follow the number before it: 3, -2 is 3 4 5.

    A loop holds all atoms of its body, so most sets are runs.
    """
    found: list[int] = []
    last = -2
    for atom in sorted(set(atoms)):
        if atom != last + 1:
            found.append(atom)
        elif found[-1] < 0:
            found[-1] -= 1
        else:
            found.append(-1)
        last = atom
    return found


def unrolled(written: int | Sequence[int]) -> list[int]:
    """The atoms that `runs` wrote: what `viewer/link_data.js` does, for tests and other readers."""
    found: list[int] = []
    for number in [written] if isinstance(written, int) else written:
        found += range(found[-1] + 1, found[-1] + 1 - number) if number < 0 else [number]
    return found


def lines_data(lines: Iterable[Line]) -> dict[str, Any]:
    """Lines for a viewer's list (`listing/row_source.js`), from here or from a live kernel.

    Returns:
        `rows`: each line with signs before its kinds of words, joined by line breaks, which no
        line holds. `ids`: their nodes; 0 for none, 1 where the row's first word is it, 2 for that
        of the row before, 3 for that with the next number. `lines`: names of source lines, each
        once, and `owner`: the place among them of each row's owner, from 1, 0 for none. `wide`:
        the most columns.
    """
    return _rows_data(written(lines))


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
    text = "\n".join(rows)
    shown = _FOLD.sub("", text) if MARKS["fold"] in text else text
    wide = max(map(len, shown.translate(_NO_MARKS).split("\n")))
    return {"rows": text, "ids": ids, "lines": list(names)[1:], "owner": owner, "wide": wide}


def _next(id: str, last: int | str) -> int | str:
    """`_NEXT` where an id is the one before with the next number, as ids of equations are."""
    if isinstance(last, int) or not (last[1:].isascii() and last[1:].isdecimal()):
        return id
    return _NEXT if id == f"{last[0]}{int(last[1:]) + 1}" else id


def more_html(more: Sequence[Line], room: Room) -> tuple[str, int]:
    """Lines beyond those shown, as many as there is room for.

    Returns:
        The element, "" for none; and how many lines were left out.
    """
    count = min(len(more), max(room.rows, 0))
    for _ in range(_TRIES):
        if not count:
            break
        left = len(more) - count
        data = _rows_data(islice(written(more), count))
        rows = data.pop("rows")
        head = json.dumps(data | {"left": left}, separators=(",", ":"))
        element = _data_element("more", f"{head}\n{rows}")
        if len(element) <= room.bytes:
            return room.take(element, count), left
        count = int(count * room.bytes / len(element) * 0.9)
    return "", len(more)
