"""Sentences on the causes of recompiles, one for each function, and on their cures.

Recompiles of one function with one cause are one clause, which lists the values:

    step compiled 4 times, twice because x's first axis changed: 32, 31, 30; once because ...
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from jaxlens.ir.compile_log import (
    TYPE_TEXT,
    CallEvent,
    CompileLog,
    CompileStepKind,
    Cure,
    KeyChange,
    field_name,
    merged,
    recreated_objects,
    root,
)
from jaxlens.ir.graph import Span
from jaxlens.program.sentences import listed, ordinal
from jaxlens.report import (
    Cell,
    Finding,
    NumberColumn,
    Table,
    Trust,
    count,
    duration,
    table,
    traced_again,
)

_MOST = 8  # values named in one sentence
_OFTEN = {1: "once", 2: "twice"}
# Sentences of causes that are formatted from the change alone.
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
_OBJECT = ("function", "closed")  # changes that come with a new function object
Identity = tuple[str, Span | None, str]
"""Function, definition and transform of a call."""


def answers(log: CompileLog, where: str) -> Iterator[Finding]:
    """Yields a finding for each function that recompiled, its cures, and one for all others."""
    place = f" {where}" if where else ""
    first_only = []
    recompiled = []
    for calls in by_function(log.compiles).values():
        name = calls[0].name
        if recompiles := [call for call in calls if call.changes]:
            recompiled.append((name, len(calls), recompiles))
        else:
            first_only.append(name)
    for name, compiles, recompiles in sorted(recompiled, key=lambda item: -len(item[2])):
        causes = list(_because(recompiles))
        yield Finding(
            f"{name} compiled {count(compiles, 'time')}{place}, {'; '.join(causes)}."
            if compiles > 1
            else f"{name} compiled again{place}: {causes[0].partition('because ')[2]}."
        )
        yield from cures(recompiles)
        place = ""
    if first_only:
        start = "Compiled"
        if not recompiled:
            verb = "was" if len(first_only) == 1 else "were"
            functions = count(len(first_only), "function")
            start = f"Nothing recompiled{place}; {functions} {verb} compiled"
        names = listed(list(dict.fromkeys(first_only)), 6)
        yield Finding(f"{start} for the first time: {names}.")


def cures(calls: Iterable[CallEvent]) -> Iterator[Finding]:
    """Yields what would avoid recompiles, each cure once."""
    named = dict[Cure, str]()
    for call in calls:
        if call.cure:
            named.setdefault(call.cure, call.function)
    for cure, name in named.items():
        trust: Trust = "traced" if cure.traced else "compared" if cure.tried else "estimate"
        again = f" {traced_again(name, cure.traced)}".rstrip()
        yield Finding(f"Cure: {cure.text} ({cure.tried or 'not tried'}).{again}", trust)


def by_function(calls: Iterable[CallEvent]) -> dict[Identity, list[CallEvent]]:
    """Returns the calls of each function, in order."""
    grouped: dict[Identity, list[CallEvent]] = {}
    for call in calls:
        grouped.setdefault(call.identity, []).append(call)
    return grouped


def cause_sentence(recompiles: Sequence[CallEvent]) -> str:
    """Returns the most frequent cause of one function's recompiles in words."""
    first = next(_because(recompiles)).partition("because ")[2]
    return first if len({call.cause for call in recompiles}) == 1 else f"{first}, and more"


def _because(recompiles: Sequence[CallEvent]) -> Iterator[str]:
    """Yields `twice because x's first axis changed: 32, 31, 30` for each cause."""
    by_cause: dict[tuple[str, ...], list[CallEvent]] = {}
    for call in recompiles:
        by_cause.setdefault(call.cause, []).append(call)
    # Inputs of a backward pass have no names, nor have those of a pmap.
    named = {
        cause: of_cause
        for cause, of_cause in by_cause.items()
        if not (of_cause[0].under and cause[1].startswith("input "))
    }
    for cause, calls in sorted((named or by_cause).items(), key=lambda item: -len(item[1])):
        often = _OFTEN.get(len(calls), f"{len(calls):,} times")
        yield f"{often} because {_sentence(cause, calls)}{_with(calls)}"
    rest = sum(len(calls) for cause, calls in by_cause.items() if named and cause not in named)
    if rest:
        yield f"{rest:,} more for its forward and backward passes, which follow"


def _with(calls: Sequence[CallEvent]) -> str:
    """Returns what changed together with the main argument in all calls of a cause."""
    kind = calls[0].main.kind
    if kind == "function":
        return f"{_closed(calls)}{_besides(calls)}"
    if kind not in ("type", "static", "field", "calling", "option"):
        return ""
    changes = [[c for c in call.changes if c.kind in (kind, "setting")] for call in calls]
    names = set.intersection(*map(_names, calls, changes)) - _names(calls[0], [calls[0].main])
    return f" (and {listed(sorted(names), 3)} with it)" if names else ""


def _names(call: CallEvent, changes: Sequence[KeyChange]) -> set[str]:
    """Returns the names of changes of a call; a new object counts once, its functions do not."""
    whole = recreated_objects(call.changes)
    return {whole.get(change.name, change.name) for change in changes}


def _besides(calls: Sequence[CallEvent]) -> str:
    """Returns what would have recompiled the same function object too."""
    every = ({root(c.name) for c in call.changes if c.kind not in _OBJECT} for call in calls)
    names = sorted(set.intersection(*every))
    return f", and {listed(names, 3)} changed too" if names else ""


def _closed(calls: Sequence[CallEvent]) -> str:
    """Returns the changed values that function objects of one line close over."""
    by_name: dict[str, list[str]] = {}
    for call in calls:
        for change in call.changes:
            if change.kind == "closed":
                by_name.setdefault(change.name, [change.old]).append(change.new)
    texts = [f"{name} ({_listed_values(values)})" for name, values in by_name.items()]
    return f" with another {listed(texts, 3)}" if texts else ""


def _sentence(cause: tuple[str, ...], calls: Sequence[CallEvent]) -> str:
    """Returns a cause in words."""
    kind, name, *_ = cause
    changes = [call.main for call in calls]
    last = changes[-1]
    if kind == "type":
        return _type_sentence(cause, changes, calls[-1])
    if kind in ("static", "field") and last.new.startswith("another "):
        where = "static" if kind == "static" else "kept in the pytree"
        created = recreated_objects(calls[-1].changes)[name]
        if created != name:
            return f"{created} is {where} and was made anew"
        return f"{name} is {where} and each time another {last.old}"
    if kind in _SENTENCES:
        values = _listed_values([_bare(changes[0].old), *(_bare(c.new) for c in changes)])
        name = field_name(name) if kind == "field" else name
        return _SENTENCES[kind].format(name=name, values=values, new=last.new, old=last.old)
    if kind == "place":
        alike = [c for c in calls[-1].changes if (c.kind, c.new) == (kind, last.new)]
        whole = merged(alike)  # an argument, or "14 arrays of params"
        name = whole[0].name if len(whole) == 1 else last.name
        if last.old == "not committed to a device":
            return f"{name} became {last.new}"
        places = [changes[0].old, *(change.new for change in changes)]
        return f"{name} lies elsewhere: {_listed_values(places)}"
    names = list(dict.fromkeys(change.name for change in changes))
    if kind in ("new", "gone") and len(names) > 1:
        more = "more" if kind == "new" else "fewer"
        return f"{name} came with {more} arrays: {_listed_values(names)}"
    if kind in ("new", "gone"):
        texts = []
        for change in merged(calls[-1].changes):  # `x is new` or `29 arrays of state are new`
            verb = "are" if " arrays of " in change.name else "is"
            texts.append(str(change).replace(": ", f" {verb} ", 1))
        return listed(texts, 4)
    return str(last)


def _bare(text: str) -> str:
    """Returns the text of a treedef without `PyTreeDef(...)` around it."""
    inside = text.removeprefix("PyTreeDef(")
    return text if inside == text or not text.endswith(")") else inside[:-1]


def _type_sentence(cause: tuple[str, ...], changes: Sequence[KeyChange], last: CallEvent) -> str:
    _, name, difference, *axes = cause
    types = [changes[0].old, *(change.new for change in changes)]
    matches = [match for text in types if (match := TYPE_TEXT.fullmatch(text))]
    if difference == "axis":
        axis = int(axes[0])
        sizes = [match[3].split(",")[axis] for match in matches]
        nth = f"{ordinal(axis + 1)} axis" if "," in matches[0][3] else "length"
        return f"{name}'s {nth} changed: {_listed_values(sizes)}"
    if difference == "dtype":
        return f"{name}'s dtype changed: {_listed_values([match[2] for match in matches])}"
    if difference == "weak":
        holder = next((part.holder for part in last.parts if part.name == name), "")
        class_ = f" (it came as {holder})" if holder and holder != "tracer" else ""
        return f"{name}'s weak type changed: {_listed_values(types)}{class_}"
    property_ = "shape" if difference == "shape" else "type"
    return f"{name}'s {property_} changed: {_listed_values(types)}"


def _listed_values(values: Sequence[str]) -> str:
    """Returns each value once, in order of occurrence."""
    values = list(dict.fromkeys(values))
    shown = ", ".join(values[:_MOST])
    return f"{shown}, ... ({len(values)} values)" if len(values) > _MOST else shown


_ROWS = 200
_REST = ": .log.calls has all"
_OPERATIONS = 12  # rows of those that ran outside of jit, which few users asked for
DONE: Mapping[CompileStepKind, str] = {"trace": "traced", "lower": "lowered", "compile": "compiled"}
"""Participles of the kinds of steps."""


def tables(log: CompileLog) -> Iterator[Table]:
    """Yields tables of the calls of functions, their seconds, and operations outside of jit."""
    calls = [call for call in log.calls if call.role == "user"]
    if calls:
        columns = ("#", "function", "called at", "what is new in the key", "what JAX did")
        rows = ((str(c.number), _named(c), place(c.line), c.reason, _did(c)) for c in calls)
        title = "Calls that were not served from JAX's caches"
        yield table(title, columns, rows, most=_ROWS, rest=_REST)
        yield _seconds(calls[:_ROWS])
    if log.operations:
        programs = Counter((call.function, place(call.line)) for call in log.operations)
        yield table(
            "Operations compiled on their own",
            ("operation", "called at", NumberColumn("programs", bar="programs")),
            ((*key, n) for key, n in programs.most_common()),
            most=_OPERATIONS,
            rest=f", with no more programs each{_REST}",
        )


def _named(call: CallEvent) -> str:
    return f"{call.name} [{call.thread}]" if call.thread else call.name


def _did(call: CallEvent) -> str:
    """Returns the steps of a call: `traced, lowered, loaded from disk`."""
    phrases = []
    for step in call.steps:
        if step.served == "memory":
            continue
        word = "loaded from disk" if step.served == "disk" else DONE[step.kind]
        phrases.append(f"{word}, failed" if step.failed else word)
    return ", ".join(phrases)


def _seconds(calls: Sequence[CallEvent]) -> Table:
    """Returns a volatile table of the seconds of each step."""
    columns: list[str | NumberColumn] = ["#", "function"]
    for name in ("trace", "lower", "compile", "total"):
        columns.append(NumberColumn(name, duration, "seconds", ""))
    done = [call for call in calls if call.steps]
    rows = ((str(c.number), _named(c), *step_cells(c), c.seconds) for c in done)
    note = "wall-clock, as JAX reports it"
    shown = table("Time of each step", columns, rows, note, volatile=True)
    if len(done) < 2:
        return shown
    sums = [sum(s.seconds or 0.0 for c in done for s in c.steps if s.kind == k) for k in DONE]
    totals = [Cell(duration(total), total) for total in (*sums, sum(sums))]
    return replace(shown, rows=(*shown.rows, (Cell(""), Cell("in all"), *totals)))


def step_cells(call: CallEvent) -> tuple[Cell, ...]:
    """Returns the seconds of tracing, lowering and compiling; "" for a step that was not done."""
    seconds = [step.seconds if (step := call.step(kind)) else None for kind in DONE]
    return tuple(Cell("" if s is None else duration(s), s) for s in seconds)


def place(line: Span | None) -> str:
    """Returns `cell 2:3`, or "" without a line."""
    return f"{line.file}:{line.line}" if line else ""


def at(line: Span | None) -> str:
    """Returns ` at cell 2:3`, or "" without a line."""
    return f" at {place(line)}" if line else ""
