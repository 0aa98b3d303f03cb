"""A page of the glossary: every word of a kind with its two depths and an address of its own."""

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

from jaxlens.ir.glossary import KINDS, Entry, Kind, address, words
from jaxlens.ir.lessons import BY_NUMBER
from notebooks.site.reference import anchor

_CODE = re.compile(r"`([^`]+)`")


def prose(text: str) -> list[nodes.Node]:
    """Text with its code between backticks."""
    parts = enumerate(_CODE.split(text))
    return [nodes.literal("", part) if n % 2 else nodes.Text(part) for n, part in parts if part]


class GlossaryPage(SphinxDirective):
    """`{glossary-of} pass`: the words of that kind, in order."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        kind: Kind = self.arguments[0]
        rows = sorted(words(kind).items(), key=lambda row: row[0].lower())
        listed = (self.row(kind, word, entry) for word, entry in rows)
        return [nodes.definition_list("", *listed)]

    def row(self, kind: Kind, word: str, entry: Entry) -> nodes.Node:
        place = anchor(word)
        term = nodes.term("", "", nodes.literal("", word), ids=[place])
        listed = f"{word} ({KINDS[kind][0] or kind})"
        index = addnodes.index(entries=[("single", listed, place, "", None)])  # the search finds it
        said = [nodes.paragraph("", "", *prose(text)) for text in (entry.sentence, *entry.expert)]
        more: list[nodes.Node] = []
        if entry.lesson:
            lesson = BY_NUMBER[entry.lesson]
            there = f"../course/{lesson.file}.html"
            name = f"Lesson {lesson.number}, {lesson.title}"
            more.append(nodes.reference("", name, refuri=there))
        if there := address(entry.link):
            more.append(nodes.reference("", entry.link, refuri=there))
        if len(more) == 2:
            more.insert(1, nodes.Text(" · "))
        last = [nodes.paragraph("", "", *more, classes=["more"])] if more else []
        own = nodes.reference("", "#", refuri=f"#{place}", classes=["own"])
        own["aria-label"] = f"address of {word}"
        term += own
        return nodes.definition_list_item("", term, nodes.definition("", index, *said, *last))
