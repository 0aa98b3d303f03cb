"""Finds the possible causes of a change: how the settings and inputs of two captures differ."""

import re
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from difflib import get_close_matches

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import Input, Program, Target
from jaxlens.ir.graph import Node
from jaxlens.lenses.sentences import listed

_MOST = 3
_PAIRS, _ALIKE = 10_000, 0.6  # pairs of lines that are compared, and the least ratio of an edit


@dataclass(frozen=True, slots=True)
class Cause:
    """One difference between two captures.

    Attributes:
        kind: "edit", "input", "static", "transform", "function", "device", "version" or "flag".
        text: The beginning of a sentence: "On NVIDIA H100 instead of cpu".
    """

    kind: str
    text: str


def causes(before: Capture, after: Capture, edited: bool) -> tuple[Cause, ...]:
    """Returns the differences, the most probable cause first.

    Args:
        before: The capture before.
        after: The capture after.
        edited: Whether their equations differ.
    """
    found = list(_settings(before.program, after.program))
    if edited and _sources(before) != _sources(after):
        found = [cause for cause in found if cause.kind != "function"]
        found.insert(0, Cause("edit", "The edit"))
    return tuple(found)


def sides(before: Program, after: Program) -> tuple[str, str]:
    """Returns names of both sides for headings: device, version or flags, if they differ."""
    for was, now in (
        (device(before.target), device(after.target)),
        (f"JAX {before.target.jax}", f"JAX {after.target.jax}"),
        (", ".join(before.flags) or "as it is", ", ".join(after.flags) or "as it is"),
    ):
        if was != now:
            return was, now
    return "before", "after"


def subject(found: Sequence[Cause], edited: bool) -> str:
    """Returns the beginning of a sentence on the change."""
    if found:
        head, *rest = (cause.text for cause in found)
        return " and ".join([head, *(text[:1].lower() + text[1:] for text in rest)])
    return "The other program" if edited else "Another compile"


def _settings(before: Program, after: Program) -> Iterator[Cause]:
    yield from _flags(before.flags, after.flags)
    was, now = device(before.target), device(after.target)
    if was != now:
        yield Cause("device", f"On {now} instead of {was}")
    if before.target.jax != after.target.jax:
        yield Cause("version", f"JAX {after.target.jax} instead of {before.target.jax}")
    elif before.target.jaxlib != after.target.jaxlib:
        text = f"Jaxlib {after.target.jaxlib} instead of {before.target.jaxlib}"
        yield Cause("version", text)
    inputs = _inputs(before.inputs, after.inputs)
    if inputs:
        yield Cause("input", f"With {listed(inputs, _MOST)}")
    statics = [
        f"{new.name}={new.text} instead of {old.text}"
        for old, new in zip(before.statics, after.statics, strict=False)
        if old.name == new.name and old.text != new.text
    ]
    if statics:
        yield Cause("static", f"With {listed(statics, _MOST)}")
    if before.transforms != after.transforms:
        yield Cause("transform", f"As {_called(after)} instead of {_called(before)}")
    elif before.name != after.name:
        yield Cause("function", f"{after.name} instead of {before.name}")


def _flags(before: Sequence[str], after: Sequence[str]) -> Iterator[Cause]:
    more = [flag for flag in after if flag not in before]
    less = [flag for flag in before if flag not in after]
    words = [flag if flag.startswith("without ") else f"with {flag}" for flag in more]
    words += [
        flag.replace("without", "with", 1) if flag.startswith("without ") else f"without {flag}"
        for flag in less
    ]
    if words:
        text = listed(words, _MOST)
        yield Cause("flag", text[:1].upper() + text[1:])


def device(target: Target) -> str:
    """Returns number and kind of devices: "cpu", "8 x NVIDIA H200"."""
    kind = target.kind or target.platform
    return f"{target.devices} x {kind}" if target.devices > 1 else kind


def _called(program: Program) -> str:
    name = program.name
    for transform in reversed(program.transforms):
        name = f"{transform}({name})"
    return name


def _inputs(before: Sequence[Input], after: Sequence[Input]) -> list[str]:
    """Returns changed, new and missing inputs in words, those of one argument together."""
    was, now = ({leaf.name: leaf for leaf in leaves} for leaves in (before, after))
    groups: dict[tuple[str, str], list[str]] = {}
    for name in {**was, **now}:
        kind, text = _input(was.get(name), now.get(name))
        if kind:
            groups.setdefault((_ROOT.findall(name)[0], kind), []).append(text)
    found = []
    for (root, kind), texts in groups.items():
        several = f"{len(texts):,} {_MANY[kind]} in {root}" if kind in _MANY else ""
        found += [several] if several and len(texts) > 1 else texts
    return found


_ROOT = re.compile(r"\A\W*\w*")
_MANY = {
    "new": "new arrays",
    "gone": "arrays less",
    "type": "arrays of another type",
    "donated": "donated arrays",
    "kept": "arrays no longer donated",
}


def _input(old: Input | None, new: Input | None) -> tuple[str, str]:
    """Returns the kind of difference in one input, and its words; ("", "") for none."""
    if new is None or old is None:
        only = new or old
        assert only is not None
        words = f"a new input {only.name} {only.type}" if new else f"no input {only.name}"
        return "new" if new else "gone", words
    if str(old.type) != str(new.type):
        return "type", f"{new.name} {new.type} instead of {old.type}"
    if old.type.weak != new.type.weak:
        return "weak", f"{new.name} {'weakly' if new.type.weak else 'strongly'} typed"
    if old.donated != new.donated:
        words = f"{new.name} {'donated' if new.donated else 'not donated'}"
        return "donated" if new.donated else "kept", words
    if old.sharding != new.sharding:
        return "sharding", f"{new.name} sharded {new.sharding or 'no longer'}"
    return "", ""


def _sources(capture: Capture) -> set[str]:
    """Returns the texts of the lines that own equations."""
    text = line_text(capture)
    return {text(node) for node in capture.jaxpr.module.nodes()}


def edited_lines(before: Set[str], after: Set[str]) -> dict[str, str]:
    """Returns the text before of each edited line by its text after; {} for many lines."""
    gone, new = sorted(before - after - {""}), sorted(after - before - {""})
    found: dict[str, str] = {}
    alike = _ALIKE if len(gone) > 1 or len(new) > 1 else _ALIKE / 2
    for text in new if len(gone) * len(new) <= _PAIRS else ():
        for close in get_close_matches(text, gone, n=1, cutoff=alike):
            found[text] = close
            gone.remove(close)
    return found


def line_text(capture: Capture) -> Callable[[Node], str]:
    """Returns a function from a node to its line's text without indentation, "" if not known."""
    try:
        sources = capture.sources
    except UnavailableError:
        sources = {}
    lines = {key: source.text.splitlines() for key, source in sources.items()}

    def text(node: Node) -> str:
        owner = node.owner
        known = lines.get(owner.key, ()) if owner else ()
        return known[owner.line - 1].strip() if owner and 0 < owner.line <= len(known) else ""

    return text
