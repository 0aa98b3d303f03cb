"""A document as Markdown, for a report of a bug or a chat.

Programs and tables stand in fences, where nothing in them acts as Markdown; in sentences what
would act is escaped, and what would notify a person of that name on GitHub ("@jit").
`viewer/keyboard.js` writes the same of an output in a page.
"""

import re

from jaxlens.render.control_chars import visible
from jaxlens.render.document import Document, Findings, Fold, Tab, Tabs, walk
from jaxlens.render.text.document_text import Form, badge, cut_lines

_LINES = 200  # of one block
# Also of HTML and of GitHub's formulas; "_" but between two letters, where it emphasises nothing.
_SIGNS = re.compile(r"[\\`*<>~$&]|(?<![^\W_])_|_(?![^\W_])|\](?=\()")


def markdown(document: Document, *, full: bool = False) -> str:
    """Returns versions, sentences, and programs in fences.

    Args:
        document: The document to write.
        full: Whether to write folds, all tabs and every line; else what the text form has, and
            the user's code.
    """
    parts = [f"**{_escaped(document.taken)}**"]
    if document.versions:
        parts.append(_escaped(document.versions))
    parts += [f"Not what runs: {_escaped(sentence)}" for sentence in document.deviations]
    form = Form(width=100, full=full, times=document.timed, limit=_LINES)
    for step in walk(document.blocks, lambda part: full or _opens(part)):
        part = step.part
        if isinstance(part, Findings):
            found = (f"- {_escaped(f.text)}{badge(f, False, ' [{}]')}" for f in part.findings)
            parts.append("\n".join(found))
        elif isinstance(part, Fold | Tab):
            if step.move == "enter":
                parts.append(f"**{_escaped(part.title)}**")
        elif not isinstance(part, Tabs):
            parts.append(_fenced("\n".join(cut_lines(part, form))))
    return "\n\n".join(parts) + "\n"


def _opens(part: Fold | Tabs | Tab) -> bool:
    if isinstance(part, Fold):
        return part.open
    return isinstance(part, Tabs) or part.in_text or part.key == "source"


def _fenced(text: str) -> str:
    """Returns text in a fence that is longer than any in it."""
    fence = "`" * (max(map(len, re.findall(r"`{3,}", text)), default=2) + 1)
    return f"{fence}text\n{text}\n{fence}"


def _escaped(text: str) -> str:
    """Returns a sentence in which nothing acts as Markdown, HTML or a mention, but for `code`."""
    parts = re.split(r"(`[^`\n]+`)", visible(text))
    parts[::2] = [_SIGNS.sub(r"\\\g<0>", part) for part in parts[::2]]
    parts[::2] = [re.sub(r"@(?=\w)", "@<!-- -->", part) for part in parts[::2]]
    return "".join(parts)
