"""Finds the possible causes of a change: how the settings and inputs of two captures differ."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.ir.facts import Input, Program, Target
from jaxlens.program.sentences import device, line_text, listed
from jaxlens.program.subject import Given
from jaxlens.render.graph.text_width import shorten

_MOST = 3
_WIDEST = 48  # characters, at most, of flags as the heading of a column


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
    settings = tuple(_settings(before.program, after.program))
    if edited and _sources(before) != _sources(after) and not _same_files(before, after):
        edit = Cause("edit", "The edit")
        return edit, *(cause for cause in settings if cause.kind != "function")
    return settings


def sides(before: Program, after: Program, names: tuple[str, str] | None = None) -> tuple[str, str]:
    """Returns two different names of both sides for headings.

    Args:
        before: One program.
        after: The other.
        names: Their names; by default device, its presence, version or flags, if they differ.
    """
    if names is not None:
        one, other = names
        return names if one != other else (f"{one} (before)", f"{other} (after)")
    for was, now in (
        (device(before.target), device(after.target)),
        (_presence(before.target), _presence(after.target)),
        (f"JAX {before.target.jax}", f"JAX {after.target.jax}"),
        (_heading(before.flags), _heading(after.flags)),
    ):
        if was != now:
            return was, now
    return "before", "after"


def _heading(flags: Sequence[str]) -> str:
    return shorten(", ".join(flags) or "as it is", _WIDEST)


def _settings(before: Program, after: Program) -> Iterator[Cause]:
    yield from _flags(before.flags, after.flags)
    yield from _devices(before.target, after.target)
    if before.target.jax != after.target.jax:
        yield Cause("version", f"JAX {after.target.jax} instead of {before.target.jax}")
    elif before.target.jaxlib != after.target.jaxlib:
        text = f"Jaxlib {after.target.jaxlib} instead of {before.target.jaxlib}"
        yield Cause("version", text)
    if inputs := _inputs(before.inputs, after.inputs):
        yield Cause("input", f"With {listed(inputs, _MOST)}")
    statics = [
        f"{new.name}={new.text} instead of {old.text}"
        for old, new in zip(before.statics, after.statics, strict=False)
        if old.name == new.name and old.text != new.text
    ]
    if statics:
        yield Cause("static", f"With {listed(statics, _MOST)}")
    if before.transforms != after.transforms:
        yield Cause("transform", f"As {after.title} instead of {before.title}")
    elif before.name != after.name:
        yield Cause("function", f"{after.name} instead of {before.name}")


def _flags(before: Sequence[str], after: Sequence[str]) -> Iterator[Cause]:
    changes = [(flag, True) for flag in after if flag not in before]
    changes += [(flag, False) for flag in before if flag not in after]
    names = [(flag.removeprefix("without "), flag, is_set) for flag, is_set in changes]
    texts = [f"with{'' if is_set == (n == flag) else 'out'} {n}" for n, flag, is_set in names]
    if texts:
        text = listed(texts, _MOST)
        yield Cause("flag", text[:1].upper() + text[1:])


def _devices(before: Target, after: Target) -> Iterator[Cause]:
    was, now = device(before), device(after)
    if was != now:
        yield Cause("device", f"On {now} instead of {was}")
    elif before.absent != after.absent:
        text = f"Compiled {_presence(after)} instead of {_presence(before)}"
        yield Cause("device", text)


def _presence(target: Target) -> str:
    return "for an absent device" if target.absent else "on the device"


def _inputs(before: Sequence[Input], after: Sequence[Input]) -> list[str]:
    """Returns changed, new and missing inputs in words, those of one argument together."""
    was, now = ({leaf.name: leaf for leaf in leaves} for leaves in (before, after))
    groups: dict[tuple[str, str], list[str]] = {}
    for name in {**was, **now}:
        if change := _input(was.get(name), now.get(name)):
            groups.setdefault((_ROOT.findall(name)[0], change[0]), []).append(change[1])
    texts = []
    for (root, kind), group in groups.items():
        joined = len(group) > 1 and kind in _MANY
        texts += [f"{len(group):,} {_MANY[kind]} in {root}"] if joined else group
    return texts


_ROOT = re.compile(r"\A\W*\w*")
_MANY = {
    "new": "new arrays",
    "gone": "arrays less",
    "type": "arrays of another type",
    "donated": "donated arrays",
    "kept": "arrays no longer donated",
}


def _input(old: Input | None, new: Input | None) -> tuple[str, str] | None:
    """Returns the kind of difference in one input, and its words; None where it is equal."""
    if old is None:
        return ("new", f"a new input {new.name} {new.type}") if new else None
    if new is None:
        return "gone", f"no input {old.name}"
    if str(old.type) != str(new.type):
        return "type", f"{new.name} {new.type} instead of {old.type}"
    if old.type.weak != new.type.weak:
        return "weak", f"{new.name} {'weakly' if new.type.weak else 'strongly'} typed"
    if old.donated != new.donated:
        kind, state = ("donated", "donated") if new.donated else ("kept", "not donated")
        return kind, f"{new.name} {state}"
    if old.sharding != new.sharding:
        return "sharding", f"{new.name} sharded {new.sharding or 'no longer'}"
    return None


def _sources(capture: Capture) -> set[str]:
    """Returns the texts of the lines that own equations."""
    text = line_text(capture)
    return {text(node) for node in capture.jaxpr.module.nodes()}


def _same_files(before: Capture, after: Capture) -> bool:
    """Whether both were traced from the same text: a static value can leave out a line of it."""
    texts = Given(lambda: before.sources).or_else({}), Given(lambda: after.sources).or_else({})
    return bool(texts[0]) and texts[0] == texts[1] and before.program.name == after.program.name
