"""The causes of recompiles in words: one sentence for each function, and what would avoid them.

Recompiles of one function with one cause are one clause, with the values that it took.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jaxlens.ir.compile_log import (
    TYPE_TEXT,
    CallEvent,
    CompileLog,
    KeyChange,
    merged,
    recreated_objects,
)
from jaxlens.ir.graph import Span
from jaxlens.lenses.sentences import listed
from jaxlens.report import Finding, Trust, count

_MOST = 8  # values named in one sentence
# Causes whose sentence needs the change alone.
_SENTENCES = {
    "static": "{name} is static and its value changed: {values}",
    "field": "{name} is kept in the pytree and its value changed: {values}",
    "structure": "{name} came in other containers: {values}",
    "setting": "{name} changed: {values}",
    "option": "jit's {name} changed: {values}",
    "mesh": "the mesh changed: {values}",
    "function": "it was {new}",
    "calling": "{name} was passed {new}, and {old} before",
    "donated": "{name} was {new}, and {old} before",
}
_AXES = ("first", "second", "third", "fourth", "fifth")


@dataclass(frozen=True, slots=True)
class FunctionGroup:
    """The compiles of one function."""

    name: str
    defined: Span | None
    calls: tuple[CallEvent, ...]

    @property
    def again(self) -> tuple[CallEvent, ...]:
        return tuple(call for call in self.calls if call.changes)


def groups(calls: Sequence[CallEvent]) -> list[FunctionGroup]:
    """The compiles of each function, in order."""
    found: dict[tuple[str, Span | None, str], list[CallEvent]] = {}
    for call in calls:
        found.setdefault((call.function, call.defined, call.under), []).append(call)
    return [
        FunctionGroup(f"{name} under {under}" if under else name, defined, tuple(held))
        for (name, defined, under), held in found.items()
    ]


def answers(log: CompileLog, where: str) -> Iterator[Finding]:
    """A sentence for each function that recompiled, with its cures; one for all others."""
    place = f" {where}" if where else ""
    found = sorted(groups(log.compiles), key=lambda group: -len(group.again))
    for group in found:
        if not group.again:
            continue
        times = count(len(group.calls), "time")
        because = list(_because(group))
        yield Finding(
            f"{group.name} compiled {times}{place}; {'; '.join(because)}."
            if len(group.calls) > 1
            else f"{group.name} compiled again{place}: {because[0].partition('because ')[2]}."
        )
        yield from _cures(group)
        place = ""
    once = [group.name for group in found if not group.again]
    if once:
        yield Finding(_once(once, place, bool(len(found) - len(once))))


def _once(names: Sequence[str], place: str, others: bool) -> str:
    shown = listed(list(dict.fromkeys(names)), 6)
    if others:
        return f"Compiled for the first time: {shown}."
    functions = count(len(names), "function")
    verb = "was" if len(names) == 1 else "were"
    return f"Nothing recompiled{place}; {functions} {verb} compiled for the first time: {shown}."


def _because(group: FunctionGroup) -> Iterator[str]:
    """`5 of them because x's first axis changed: 32, 31, 30`, for each cause."""
    by_cause: dict[tuple[str, ...], list[CallEvent]] = {}
    for call in group.again:
        by_cause.setdefault(call.cause, []).append(call)
    named = {key: held for key, held in by_cause.items() if not key[1].startswith("input ")}
    first = True
    for key, calls in sorted((named or by_cause).items(), key=lambda item: -len(item[1])):
        noun = "of them " if first else ""
        yield f"{len(calls):,} {noun}because {_said(key, calls, group)}{_with(calls)}"
        first = False
    rest = sum(len(held) for key, held in by_cause.items() if named and key not in named)
    if rest:
        yield f"{rest:,} more for its forward and backward passes, which follow"


def _with(calls: Sequence[CallEvent]) -> str:
    """The arguments that changed together with the main one, in all calls of a cause."""
    kind = calls[0].main.kind
    if kind == "function":
        return _closed(calls)
    if kind not in ("type", "static", "field", "calling"):
        return ""
    each = [_names(call, kind) for call in calls]
    names = sorted(set.intersection(*each) - {_names(calls[0], kind, main=True).pop()})
    return f" (and {listed(names, 3)} with it)" if names else ""


def _names(call: CallEvent, kind: str, main: bool = False) -> set[str]:
    """What changed in this way; a new object counts once, and not each of its functions."""
    whole = recreated_objects(call.changes)
    changes = [call.main] if main else [c for c in call.changes if c.kind == kind]
    return {whole.get(c.name, c.name) for c in changes}


def _closed(calls: Sequence[CallEvent]) -> str:
    """The values that function objects of one line close over, where they differ."""
    found: dict[str, list[str]] = {}
    for call in calls:
        for change in call.changes:
            if change.kind == "closed":
                found.setdefault(change.name, [change.old]).append(change.new)
    told = [f"{name} ({_listed_values(values)})" for name, values in found.items()]
    return f" with another {listed(told, 3)}" if told else ""


def _said(key: tuple[str, ...], calls: Sequence[CallEvent], group: FunctionGroup) -> str:
    """A cause in words."""
    change = calls[-1].main
    name = key[1]
    if key[0] == "type":
        return _type_said(key, name, calls, group)
    changes = [call.main for call in calls]
    values = _listed_values([_bare(changes[0].old), *(_bare(c.new) for c in changes)])
    if key[0] in ("static", "field") and change.new.startswith("another "):
        kind = "static" if key[0] == "static" else "kept in the pytree"
        whole = recreated_objects(calls[-1].changes)[name]
        if whole != name:
            return f"{whole} is {kind} and was made anew"
        return f"{name} is {kind} and each time another {change.old}"
    if key[0] in _SENTENCES:
        told = {"name": name, "values": values, "new": change.new, "old": change.old}
        return _SENTENCES[key[0]].format_map(told)
    if key[0] == "place":
        return _place_said(_whole(calls[-1]), changes)
    names = list(dict.fromkeys(c.name for c in changes))
    if key[0] in ("new", "gone") and len(names) > 1:
        more = "more" if key[0] == "new" else "fewer"
        return f"{name} came with {more} arrays: {_listed_values(names)}"
    if key[0] in ("new", "gone"):
        return listed([_came(c) for c in merged(calls[-1].changes)], 4)
    return str(change)


def _whole(call: CallEvent) -> str:
    """What the main change is of: one argument, or "14 arrays of params"."""
    like = [c for c in call.changes if (c.kind, c.new) == (call.main.kind, call.main.new)]
    every = merged(like)
    return every[0].name if len(every) == 1 else call.main.name


def _came(change: KeyChange) -> str:
    """`x is new`, `29 arrays of state are new`."""
    verb = "are" if " arrays of " in change.name else "is"
    return str(change).replace(": ", f" {verb} ", 1)


def _bare(text: str) -> str:
    """Containers without the name of JAX's type for them."""
    inside = text.removeprefix("PyTreeDef(")
    return text if inside == text or not text.endswith(")") else inside[:-1]


def _place_said(name: str, changes: Sequence[KeyChange]) -> str:
    last = changes[-1]
    if last.old == "not committed to a device":
        return f"{name} became {last.new}"
    return f"{name} lies elsewhere: {_listed_values([changes[0].old, *(c.new for c in changes)])}"


def _type_said(
    key: tuple[str, ...], name: str, calls: Sequence[CallEvent], group: FunctionGroup
) -> str:
    first = calls[0].main
    types = [first.old, *(call.main.new for call in calls)]
    if key[2] == "axis":
        axis = int(key[3])
        sizes = [match[3].split(",")[axis] for t in types if (match := TYPE_TEXT.fullmatch(t))]
        nth = f"{_AXES[axis]} axis" if axis < len(_AXES) else f"axis {axis}"
        if match := TYPE_TEXT.fullmatch(types[0]):
            nth = "length" if "," not in match[3] else nth
        return f"{name}'s {nth} changed: {_listed_values(sizes)}"
    if key[2] == "dtype":
        kinds = [match[2] for t in types if (match := TYPE_TEXT.fullmatch(t))]
        return f"{name}'s dtype changed: {_listed_values(kinds)}"
    if key[2] == "weak":
        return f"{name}'s weak type changed: {_listed_values(types)}{_held(name, calls[-1])}"
    what = "shape" if key[2] == "shape" else "type"
    return f"{name}'s {what} changed: {_listed_values(types)}"


def _held(name: str, call: CallEvent) -> str:
    """What a value of another weak type came as."""
    holder = next((part.holder for part in call.parts if part.name == name), "")
    return f" (it came as {holder})" if holder and holder != "tracer" else ""


def _listed_values(values: Sequence[str]) -> str:
    """Each value once, in the order in which it came."""
    each = list(dict.fromkeys(values))
    shown = ", ".join(each[:_MOST])
    return f"{shown}, ... ({len(each)} values)" if len(each) > _MOST else shown


def _cures(group: FunctionGroup) -> Iterator[Finding]:
    """What would avoid the recompiles, each cure once, with what its trial showed."""
    for cure in dict.fromkeys(call.cure for call in group.again if call.cure):
        if not cure.text:
            continue
        trust: Trust = "traced" if cure.traced else "compared" if cure.tried else "estimate"
        yield Finding(f"Cure: {cure.text} ({cure.tried or 'not tried'}).", trust)
