"""Checks of HTML: balanced tags, and what JupyterLab keeps of it in an untrusted notebook."""

import re
from html import escape
from html.parser import HTMLParser

VOID = {"br", "img", "input", "hr", "col"}

# What JupyterLab 4.6 lets through in a notebook that is not trusted, as far as we use it.
KEPT_TAGS = frozenset(
    {"div", "span", "pre", "p", "br", "details", "summary", "ul", "li", "label", "input", "img"}
    | {"b", "i", "tt", "em", "strong", "var", "samp", "small", "mark", "figure", "figcaption"}
    | {"table", "caption", "thead", "tbody", "tr", "th", "td"}
)
KEPT_ATTRS = {"class", "dir", "hidden", "lang", "style", "title", "translate"}
KEPT_OF = {
    "img": {"alt", "src", "width", "height"},
    "details": {"open"},
    "input": {"type", "checked"},
    "th": {"scope"},
    "td": {"align"},
}
_COLOR = r"#[0-9a-fA-F]+"
KEPT_STYLES = (
    rf"border-left:3px solid {_COLOR}",
    rf"(?:background|color|background-color):{_COLOR}",
    rf"background:linear-gradient\(90deg,{_COLOR} (?:\d+%|[\d.]+em),{_COLOR} (?:\d+%|0)\)",
    r"text-align:(?:left|right)",
    r"padding-left:[\d.]+(?:px|em)",
    r"display:(?:grid|inline-block)",
    r"grid-template-columns:minmax\(0,1fr\) 12\.5em minmax\(0,1fr\)",
    r"gap:0 8px",
    r"list-style-position:outside",
    r"(?:width|height):\d+px",
)


class Balance(HTMLParser):
    """Raises where an end tag does not match; counts tags; gathers text and attributes."""

    def __init__(self, markup):
        super().__init__()
        self.open, self.tags, self.words, self.attrs = [], [], [], []
        self.feed(markup)
        self.close()
        assert not self.open, self.open[-3:]

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attrs += [(tag, name, value or "") for name, value in attrs]
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, self.getpos()

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self):
        return "".join(self.words)


class Filtered(HTMLParser):
    """The markup that a page keeps of an output.

    Attributes:
        tags: Elements that are kept.
        gone: Elements that are removed with all in them.
    """

    tags = frozenset()
    gone = frozenset({"script", "style", "svg"})

    def __init__(self, markup):
        super().__init__()
        self.out, self.dropped = [], 0
        self.feed(markup)
        self.close()

    def kept(self, tag, attrs):
        """Yields the attributes that are kept, with their values."""
        raise NotImplementedError

    def handle_starttag(self, tag, attrs):
        self.dropped += tag in self.gone
        if self.dropped or tag not in self.tags:
            return
        kept = "".join(f' {name}="{escape(value)}"' for name, value in self.kept(tag, attrs))
        self.out.append(f"<{tag}{kept}>")

    def handle_endtag(self, tag):
        if tag in self.gone:
            self.dropped -= 1
        elif not self.dropped and tag in self.tags:
            self.out.append(f"</{tag}>")

    def handle_data(self, data):
        if not self.dropped:
            self.out.append(escape(data, quote=False))

    @property
    def markup(self):
        return "".join(self.out)


class Untrusted(Filtered):
    """The markup that JupyterLab shows of an output it does not trust."""

    tags = KEPT_TAGS

    def kept(self, tag, attrs):
        allowed = KEPT_ATTRS | KEPT_OF.get(tag, set())
        for name, value in attrs:
            value = kept_style(value) if name == "style" else value or ""
            if name in allowed and (value or name in ("open", "alt")):
                yield name, value


def kept_style(style):
    """Rules of an inline style that are kept; each must be of a form that was tried there."""
    rules = [rule.strip() for rule in style.split(";")]
    return ";".join(r for r in rules if any(re.fullmatch(form, r) for form in KEPT_STYLES))


def atoms_by_id(columns):
    """Inverse of `payload._columns`, as `viewer/link_data.js` has it."""
    ids, sets = columns
    found: dict[str, tuple[int, ...]] = {}
    last = 0
    for id, steps in zip(ids, sets, strict=True):
        atoms = []
        for place, step in enumerate([steps] if isinstance(steps, int) else steps):
            is_run = place > 0 and step < 0
            last += -step if is_run else step
            atoms.append(step if is_run else last)
        found[id] = tuple(unrolled(atoms))
    return found


def unrolled(written):
    """Inverse of `payload.runs`, which packs sets of atoms, as `viewer/link_data.js` has it."""
    atoms: list[int] = []
    for number in [written] if isinstance(written, int) else written:
        atoms += range(atoms[-1] + 1, atoms[-1] + 1 - number) if number < 0 else [number]
    return atoms
