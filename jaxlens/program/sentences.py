"""Formats nodes, lists and quotes of source lines for the sentences of all lenses."""

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

from jaxlens.captures import Capture
from jaxlens.ir.facts import Input, Program, Source, Target, root_name
from jaxlens.ir.graph import Node, Span
from jaxlens.ir.hlo.library_products import label
from jaxlens.program.subject import Given
from jaxlens.report import amount, count, tally, total

_QUOTE = 44  # characters of a quoted line
_INPUTS = 8  # inputs, or arguments, named one by one
_LINE = 120  # characters of their names and types
_LEAVES = 4  # arrays of one argument named one by one, where there are more in all
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth".split()
THAT_LINE = "that line"
_CONFIG_KIND = re.compile(r'"kind":\s*"([^"]*)"')


def listed(texts: Sequence[str], most: int = 4) -> str:
    """Returns `a, b and c`; a list longer than `most` is cut and ends in the number left out."""
    if len(texts) > most:
        return f"{', '.join(texts[:most])} and {len(texts) - most} more"
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1]))) if texts else ""


def every(count: int) -> str:
    """Returns "both" or "all 5"."""
    return "both" if count == 2 else f"all {count}"


def passes(loops: Iterable[str]) -> str:
    """Returns ` with one pass of the loop at f.py:3`, which is what a sum is of; "" for no loop.

    Args:
        loops: Lines of the loops whose trips are unknown.
    """
    names = list(dict.fromkeys(loops))
    noun = "loop" if len(names) == 1 else "loops"
    return f" with one pass of the {noun} at {listed(names)}" if names else ""


def unknown_trips(loops: Iterable[str]) -> str:
    """Returns `the loop at f.py:3 runs an unknown number of times`: why a sum is not known."""
    names = list(dict.fromkeys(loops))
    noun = "loop at {} runs" if len(names) == 1 else "loops at {} run"
    return f"the {noun.format(listed(names))} an unknown number of times"


def ordinal(n: int) -> str:
    """Returns "first", "second", ..., "ninth", "10th", "21st"."""
    if n <= len(_ORDINALS):
        return _ORDINALS[n - 1]
    is_teen = n % 100 // 10 == 1
    return f"{n:,}{'th' if is_teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def opcodes(nodes: Iterable[Node]) -> str:
    """Returns `broadcast x 2, add, maximum`, in order of first appearance, without constants."""
    names = (label(node) for node in nodes if node.opcode not in ("parameter", "constant"))
    return ", ".join(tally(names))


def lines_of(nodes: Iterable[Node]) -> list[str]:
    """Returns the source lines that own the nodes, each once, ordered by file and line."""
    owners = {(s.file, s.line) for node in nodes if (s := node.owner)}
    return [f"{file}:{line}" for file, line in sorted(owners)]


def fusion_kind(node: Node) -> str:
    """Returns a fusion's kind as HLO names it: "loop", "input", "custom: __ynn_fusion"."""
    kind = node.attrs.get("kind", "").removeprefix("k").lower()
    named = _CONFIG_KIND.search(node.attrs.get("backend_config", ""))
    return f"{kind}: {named[1]}" if kind == "custom" and named else kind


def named_inputs(inputs: Sequence[Input]) -> str:
    """Returns the inputs with their types, by argument where there are many or long ones.

    `w f32[8,2], x f32[4,8]`, or `params (25 arrays, 819 kB), t i32[32]`.
    """
    texts = [_input(leaf) for leaf in inputs]
    if len(texts) <= _INPUTS and sum(map(len, texts)) <= _LINE:
        return ", ".join(texts)
    parts: list[str] = []
    most = _LEAVES if len(texts) > _INPUTS else 1
    for root, group in groupby(inputs, lambda leaf: root_name(leaf.name)):
        leaves = list(group)
        if len(leaves) <= most:
            parts += map(_input, leaves)
            continue
        donated = ", donated" if all(leaf.donated for leaf in leaves) else ""
        size = amount(total(leaf.type.bytes for leaf in leaves))
        parts.append(f"{root} ({count(len(leaves), 'array')}, {size}{donated})")
    more = f" and {len(parts) - _INPUTS:,} more" if len(parts) > _INPUTS else ""
    return ", ".join(parts[:_INPUTS]) + more


def _input(leaf: Input) -> str:
    marks = [mark for mark in ("donated" if leaf.donated else "", leaf.sharding) if mark]
    return f"{leaf.name} {leaf.type}" + (f" ({', '.join(marks)})" if marks else "")


def quoter(subject: Capture) -> "Quoter":
    """Returns a `Quoter` of the program's sources; it returns "" where there are none."""
    return Quoter(Given(lambda: subject.sources).or_else({}))


def bracketed(span: Span | None, text: str) -> str:
    """Returns " (`TEXT`)" to follow a line's number in a sentence; it marks a library's line.

    Args:
        span: The line.
        text: Its code, which may end in a bracket of its own.
    """
    parts = ["a library's line"] if span is not None and span.library else []
    if text:
        parts.append(f"`{text}`")
    return f" ({': '.join(parts)})" if parts else ""


def located(span: Span | None, quote: "Quoter", before: Span | None = None) -> str:
    """Returns "cell 3:5 (TEXT)", or `THAT_LINE` if `before`, which was named already, is it."""
    if span is not None and before is not None and str(span) == str(before):
        return THAT_LINE
    return f"{named_line(span)}{bracketed(span, quote(span))}"


def named_line(span: Span | None) -> str:
    """Returns "cell 3:5"."""
    return str(span) if span is not None else "an unknown line"


class Quoter:
    """Looks up source lines; splits the text of each file once."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._sources = sources
        self._lines: dict[str, list[str]] = {}

    def __call__(self, span: Span | None, most: int = _QUOTE) -> str:
        """Returns the line where a span begins, stripped and cut to `most`; "" if unknown."""
        text = self.line(span.key, span.line).strip() if span is not None else ""
        return text if len(text) <= most else f"{text[: most - 1]}…"

    def piece(self, span: Span | None) -> str:
        """Returns the piece of the user's line that a span covers; "" if unknown or too long."""
        if span is None or span.library or span.column < 0 or span.end_line not in (0, span.line):
            return ""
        text = covered(self.line(span.key, span.line), span.column, span.end_column).strip()
        return text if len(text) <= _QUOTE else ""

    def line(self, key: str, number: int) -> str:
        """Returns a line by its file, the key of `Capture.sources`, and its number; else ""."""
        if key not in self._sources:
            return ""
        if key not in self._lines:
            self._lines[key] = self._sources[key].text.split("\n")
        lines = self._lines[key]
        return lines[number - 1] if 0 < number <= len(lines) else ""


def covered(line: str, column: int, end_column: int) -> str:
    """Returns the part of a line between two columns, which count bytes; -1 for both gives ""."""
    return line.encode()[column:end_column].decode(errors="replace")


def line_text(capture: Capture) -> Callable[[Node], str]:
    """Returns a function from a node to its line's text without indentation, "" if not known."""
    quote = quoter(capture)
    return lambda node: quote(node.owner, sys.maxsize)


def device(target: Target) -> str:
    """Returns number and kind of devices: "cpu", "8 x NVIDIA H200"."""
    kind = target.kind or target.platform
    return f"{target.devices} x {kind}" if target.devices > 1 else kind


def called(program: Program) -> str:
    """Returns a call in short: `grad(loss)(f32[8,128], f32[4])`."""
    return f"{program.title}({listed([str(leaf.type) for leaf in program.inputs], 4)})"
