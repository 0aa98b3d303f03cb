"""The steps of a trace as HTML: a table, which `line_trace/player.js` makes a player of."""

from jaxlens.render.control_chars import visible
from jaxlens.render.document import TapeReel
from jaxlens.render.html.payload import Budget, data_html
from jaxlens.render.html.table import table_html

_EVENTS = ("call", "line", "return", "after", "yield", "resume")


def line_trace_html(reel: TapeReel, budget: Budget | None = None) -> str:
    """The table, and the data for the player."""
    budget = budget or Budget()
    table = table_html(reel.table, inline=False, whole=False)
    return f"<div class=line-trace>{table}{budget.take(data_html('tape', data(reel)))}</div>"


def data(reel: TapeReel) -> dict[str, object]:
    """What the player needs, in short.

    Returns:
        `files`: name and lines of each; `names`: functions; `steps`: event, file, line, function
        and depth by number, what was bound in pairs, ids of equations, what was printed, notes;
        `eqns`: the text of each equation.
    """
    files = {name: n for n, name in enumerate(reel.texts)}
    names: dict[str, int] = {}
    steps = [
        [
            _EVENTS.index(step.event),
            files.get(step.file, -1),
            step.line,
            names.setdefault(step.function, len(names)),
            step.depth,
            [text for bound in step.bound for text in (visible(bound.name), visible(bound.text))],
            list(step.made),
            visible(step.printed.rstrip("\n")),
            list(map(visible, reel.notes.get(n, ()))),
        ]
        for n, step in enumerate(reel.steps)
    ]
    lines = [[name, [[n, visible(text)] for n, text in rows]] for name, rows in reel.texts.items()]
    eqns = {id: visible(text) for id, text in reel.equations.items()}
    return {"files": lines, "names": list(map(visible, names)), "steps": steps, "eqns": eqns}
