"""The first paint of a large output: sentences and open panes, until the complete one is there."""

import re
from html import unescape
from types import SimpleNamespace

import pytest

import jaxlens
from jaxlens.notebook.widgets.first_paint import first_paint
from jaxlens.render.document import Findings, Listing, Tabs, walk
from jaxlens.views.view import View
from tests.notebook.widgets.test_waiting import Publisher
from tests.support import programs

SIZES = {"layers": 4, "width": 16, "length": 8, "vocab": 32, "biases": True}
SETUP = f"""from tests.support import programs
f, args = programs.gpt_step(**{SIZES})
g, small = programs.mlp_step()"""
LARGE, SMALL = "%%jaxpr\nf(*args)", "%%jaxpr\ng(*small)"


@pytest.fixture(scope="module")
def large():
    f, args = programs.gpt_step(**SIZES)
    return jaxlens.capture(f, *args)


def words(html):
    return unescape(re.sub(r"<[^>]*>", "", html))


class Messages(Publisher):
    """A front end that keeps every message too."""

    is_publishing = False

    def __init__(self):
        super().__init__()
        self.sent = []

    def publish(self, data, metadata=None, transient=None, update=False, **_):
        self.sent.append(data)
        super().publish(data, transient or {"display_id": len(self.sent)}, update)


@pytest.fixture
def front_end(shell, monkeypatch):
    """`front_end(cell id, code)`: the messages that a cell sends to a front end."""

    def run(cell, code):
        messages = Messages()
        parent = {"metadata": {"cellId": cell} if cell else {}}
        kernel = SimpleNamespace(get_parent=lambda: parent)
        monkeypatch.setattr(shell, "kernel", kernel, raising=False)
        monkeypatch.setattr(shell, "display_pub", messages)
        monkeypatch.setattr(shell.display_formatter, "active_types", ["text/plain", "text/html"])
        messages.result = shell.run_cell(code)
        return messages

    return run


@pytest.mark.parametrize("verb", ["jaxpr", "hlo", "compile", "explore"])
def test_it_has_the_sentences_and_the_open_panes(large, verb):
    document = getattr(jaxlens, verb)(large).document
    early = words(first_paint(document))
    found = [part.findings for part in document.blocks if isinstance(part, Findings)]
    assert found
    for finding in sum(found, ()):
        assert finding.text.replace("`", "") in early
    (tabs,) = [part for part in document.blocks if isinstance(part, Tabs)]
    for tab in tabs.tabs:
        assert (f"{tab.title}: being made." in early) == (tab.key not in tabs.open)
        if tab.key in tabs.open:
            listings = [s.part for s in walk(tab.blocks) if isinstance(s.part, Listing)]
            for line in (line for listing in listings for line in listing.lines[:20]):
                assert "".join(piece.text for piece in line.pieces) in early


def test_the_complete_output_takes_its_place_and_is_that_of_one_phase(front_end):
    (whole,) = front_end("", LARGE).sent
    live = front_end("a1", LARGE)
    first, complete = live.sent[-2:]  # behind a line, where the trace takes a second
    assert "being made" in first["text/html"]
    assert [*live.outputs.values()] == [complete] == [whole]


@pytest.mark.parametrize(("cell", "code"), [("", LARGE), ("a1", SMALL)])
def test_what_records_messages_and_a_small_output_get_one_phase(front_end, cell, code):
    (sent,) = front_end(cell, code).sent
    assert "being made" not in sent["text/html"]


def test_it_stays_where_the_rest_is_interrupted(front_end, monkeypatch):
    def interrupted(view):
        raise KeyboardInterrupt

    monkeypatch.setattr(View, "html", interrupted)
    live = front_end("a1", LARGE)
    assert isinstance(live.result.error_in_exec, KeyboardInterrupt)
    (kept,) = live.outputs.values()
    assert "being made" in kept["text/html"]
