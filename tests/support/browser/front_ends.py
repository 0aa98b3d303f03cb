"""What works in each front end, as tests see it there, and the table that says so.

The site shows `notebooks/site/front_ends.tsv` as "What works where". A test of a front end fails
where the table and what it saw disagree; with JAXLENS_WRITE_FRONT_ENDS=1 it writes its row.
"""

import csv
import os
import re
from dataclasses import astuple, dataclass

from tests.support.browsing import wait_for
from tests.support.paths import ROOT

TABLE = ROOT / "notebooks" / "site" / "front_ends.tsv"
COLUMNS = (
    "front end",
    "version",
    "what shows",
    "live panes",
    "links",
    "search",
    "how it was tried",
)


@dataclass(frozen=True)
class Seen:
    """What one output of `%%jaxpr` does: what is shown, and whether panes, links, search work."""

    shows: str
    panes: str
    links: str
    search: str


def seen(root):
    """Tries an output of `%%jaxpr`.

    Args:
        root: Locator of the element that holds the output, or of the page's body.
    """
    shows = []
    answer = root.get_by_text(re.compile(r"^\s*[\d,]+ equations")).first
    answer.wait_for(timeout=60_000)
    shows.append("answer")
    bar = root.locator(".bar")
    live = bool(bar.count())
    if live:
        for key in ("graph", "jaxpr"):
            button = bar.locator(f"[data-key={key}]")
            if button.get_attribute("aria-pressed") != "true":
                button.click(modifiers=["Shift"])
        picture = root.locator(".jaxlens-figure").first
        picture.wait_for()
    else:
        for title in ("jaxpr", "Graph"):
            root.locator("summary", has_text=re.compile(f"^{title}$")).click()
        picture = root.locator("img").first
        picture.scroll_into_view_if_needed()
        wait_for(lambda: picture.evaluate("e => e.complete && e.naturalWidth"), "the picture", 10)
    program = root.get_by_text(re.compile("dot_general|tanh|mul")).first
    shows += ["programs"] * program.is_visible() + ["picture"] * (
        picture.bounding_box()["width"] > 50
    )
    if not live:
        return Seen(", ".join(shows), "no", "no", "no")
    panes = root.locator("details[data-pane][open] .pane-body:visible").count() > 1
    row = root.locator("details[data-pane=jaxpr] [data-id]:visible").nth(2)
    row.hover()
    lit = root.locator("details[data-pane=source] .lit:visible, .lit:visible").first
    linked = wait_for(lambda: lit.count() and row.get_attribute("class"), "a link", 10)
    search = root.locator("details[data-pane=jaxpr] input[type=search]")
    search.fill("mul")
    output = root.locator("details[data-pane=jaxpr] .pane-head output")
    found = wait_for(lambda: re.fullmatch(r"1 of \d+", output.inner_text()), "matches", 10)
    return Seen(", ".join(shows), *("yes" if it else "no" for it in (panes, linked, found)))


def check(name, version, found, how):
    """Compares with the front end's row in the table, or writes it if the environment says so."""
    row = [name, version, *astuple(found), how]
    rows = read()
    if os.environ.get("JAXLENS_WRITE_FRONT_ENDS"):
        at = next((n for n, old in enumerate(rows) if old[0] == name), len(rows))
        rows[at : at + 1] = [row]
        with TABLE.open("w", newline="") as file:
            csv.writer(file, "excel-tab", lineterminator="\n").writerows([COLUMNS, *rows])
    assert row in read(), "the table disagrees; JAXLENS_WRITE_FRONT_ENDS=1 writes this row into it"


def read():
    """The rows of the table."""
    if not TABLE.exists():
        return []
    with TABLE.open(newline="") as file:
        columns, *rows = csv.reader(file, "excel-tab")
    assert tuple(columns) == COLUMNS
    return rows
