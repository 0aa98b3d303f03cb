"""What a lesson quotes from an output is in sight when the output is first shown."""

import re
from html.parser import HTMLParser
from itertools import pairwise

import nbformat
import pytest

from tests.notebook.test_lessons import LESSONS

AT_FIRST = 2  # panes of an output that are open side by side in a notebook


class Sight(HTMLParser):
    """Collects the text of an output, and of it what is in sight.

    Args:
        told: The text below the output, which may name a table to open: "*All steps*".
    """

    def __init__(self, told=""):
        super().__init__()
        self.told, self.panes, self.above = told, [], []
        self.seen, self.all = "", ""

    def handle_starttag(self, tag, attrs):
        if tag in ("br", "col", "hr", "img", "input"):
            return  # they are not closed
        attrs = dict(attrs)
        self.panes = attrs.get("data-open", " ".join(self.panes)).split()
        key = attrs.get("data-pane")
        shown = key in self.panes[:AT_FIRST] if key in self.panes else "open" in attrs
        is_closed = tag == "details" and not shown
        self.above.append((tag, tag in ("script", "style") or "hidden" in attrs, is_closed))
        self.handle_data(f" {attrs.get('data-line', '')} ")  # a script writes it beside the line

    def handle_endtag(self, tag):
        if tag in ("div", "li", "p", "summary", "td"):
            self.handle_data(" ")
        while self.above and self.above.pop()[0] != tag:
            pass

    def handle_data(self, data):
        if any(is_hidden for _, is_hidden, _ in self.above):
            return
        self.all += data
        in_summary = [tag for tag, *_ in self.above].count("summary")
        if sum(is_closed for *_, is_closed in self.above) <= in_summary:
            self.seen += data
            if in_summary and f"*{data.strip()}*" in self.told:
                place = max(n for n, (tag, *_) in enumerate(self.above) if tag == "details")
                self.above[place] = ("details", False, False)


def quoted(text):
    """Yields the code spans of the paragraph after a look, and of the list that it begins."""
    parts = re.split(r"\n\n+", text)
    end = 1
    while parts[0].endswith(":") and parts[end:] and parts[end].startswith("- "):
        end += 1
    return re.findall(r"(?<!`)`([^`]+)`(?!`)", "\n\n".join(parts[:end]))


def holds(text, span):
    text, span = (" ".join(words.split()) for words in (text, span))
    return re.search(rf"(?<!\w){re.escape(span)}(?!\w)", text)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.name)
def test_what_is_quoted_stands_in_an_open_pane(path):
    cells = nbformat.read(path, as_version=4).cells
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    for look, text in pairwise(cells):
        pages = [output.get("data", {}).get("text/html", "") for output in look.get("outputs", [])]
        if text.cell_type != "markdown" or not any("data-open" in page for page in pages):
            continue
        if look.source.startswith("%%predict"):
            continue  # its answer opens with the learner's guess
        sight = Sight(text.source)
        sight.feed("".join(pages))
        for span in quoted(text.source):
            if holds(sight.all, span) and not holds(code, span):
                assert holds(sight.seen, span), f"{span} is in no open pane of {look.source}"


def test_a_closed_pane_is_not_in_sight():
    page = (
        "<div data-open='a b c'><details data-pane=a open><summary>A</summary>one</details>"
        "<details data-pane=b><summary>B</summary>two</details>"
        "<details data-pane=c><summary>C</summary>three</details></div>"
        "<details><summary>All steps</summary>four</details>"
    )
    sight = Sight()
    sight.feed(page)
    assert [word for word in ("one", "two", "C", "three", "four") if holds(sight.seen, word)] == [
        "one",
        "two",
        "C",
    ]
    told = Sight("Open *All steps*.")
    told.feed(page)
    assert holds(told.seen, "four")
    assert quoted("`a` is:\n\n- `b`\n- `c`\n\n`d`") == ["a", "b", "c"]
