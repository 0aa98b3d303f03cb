"""The copies of a program, why each is there, and what was tried, in sentences and tables."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaxlens.program.kernels import linked_span
from jaxlens.program.sentences import THAT_LINE, bracketed, listed, passes, quoter
from jaxlens.questions.copies.causes import CAUSES
from jaxlens.questions.copies.facts import Copies, Copy, Mend
from jaxlens.report import (
    Cell,
    Finding,
    NumberColumn,
    Overlay,
    Report,
    Table,
    amount,
    count,
    explains,
    is_cause,
    share,
    table,
)

_ROWS = 20
_QUOTE = 32  # characters of a quoted line
_CAUSES = 3  # causes with a sentence each
_NAMES = 70  # characters of the names of two values; of longer ones the first is named
_BYTES = NumberColumn("bytes a run", amount, "bytes")


def report(facts: Copies) -> Report:
    """Reports what is copied and why, then what would remove it."""
    overlay = Overlay("bytes copied (B)", "optimized", {c.id: float(c.total) for c in facts.copies})
    tables = (_copies(facts), _mends(facts))
    return Report("Copies", tuple(_findings(facts)), tuple(t for t in tables if t.rows), (overlay,))


def _findings(facts: Copies) -> Iterator[Finding]:
    """Yields the answer, the next causes, and what was tried."""
    whole, words = facts.bytes, _Words(facts)
    groups = words.groups(facts.copies)
    open_ = passes(loop for copy in facts.copies for loop in copy.open)
    for n, copies in enumerate(groups[:_CAUSES]):
        size = sum(copy.total for copy in copies)
        text = f"{_many(copies)}: {words.why(copies)}."
        if not n:
            part = f"{share(size, whole)} of it in " if len(groups) > 1 else ""
            text = f"A run{open_} copies {amount(whole)}, {part}{text}"
        ids = tuple(copy.id for copy in copies)
        yield Finding(text, ids=ids, weight=explains(size, whole))
    none = "No array is copied or transposed by an instruction of its own."
    yield _tried(facts) if facts.copies else Finding(none)


def _many(copies: Sequence[Copy]) -> str:
    """Returns "2 copies of 400 kB, each 50 times"."""
    text, first = count(len(copies), "copy", "copies"), copies[0]
    if any((copy.bytes, copy.times) != (first.bytes, first.times) for copy in copies):
        return text
    each = f", each {first.times:,} times" if first.times > 1 else ""
    return f"{text} of {amount(first.bytes)}{each}"


def _tried(facts: Copies) -> Finding:
    """Returns the sentence on the change that leaves least, or on why none was tried."""
    worked = [mend for mend in facts.mends if not mend.why]
    best = min(worked, key=lambda mend: mend.bytes, default=None)
    if best is not None and is_cause(facts.bytes - best.bytes, facts.bytes):
        left = f"{amount(best.bytes)} in {count(best.copies or 0, 'copy', 'copies')}"
        text = f"Tried: {best.name} left {left if best.copies else 'no copy'}: {best.code}."
        return Finding(text, "compared")
    why = f"was tried: {facts.untried}" if facts.untried else "that is known removes a fifth of it"
    return Finding(f"No change {why}.", "unknown")


class _Words:
    """The cause of copies in words, with the lines of the instructions in conflict."""

    def __init__(self, facts: Copies) -> None:
        self._subject = facts.subject()
        self._nodes = {node.id: node for node in self._subject.optimized.module.nodes()}
        self._quote = quoter(self._subject)

    def groups(self, copies: Iterable[Copy], *more: str) -> list[list[Copy]]:
        """Returns copies of the same kind and lines together, those of most bytes first.

        Args:
            copies: The copies.
            more: Attributes of a copy that are the same too.
        """
        groups: dict[Any, list[Copy]] = {}
        for copy in copies:
            cause, own = copy.cause, (getattr(copy, name) for name in more)
            lines = self._at(cause.writer, 0), self._at(cause.reader, 0)
            groups.setdefault((cause.kind, cause.op, *lines, *own), []).append(copy)
        return sorted(groups.values(), key=lambda group: -sum(copy.total for copy in group))

    def why(self, copies: Sequence[Copy], most: int = _QUOTE) -> str:
        """Returns the cause of a group as a clause, with `most` characters of a quoted line."""
        causes = [copy.cause for copy in copies]
        cause, orders = causes[0], {cause.order for cause in causes}
        writer, reader = (self._at(id, most) for id in (cause.writer, cause.reader))
        values = list(dict.fromkeys(cause.value for cause in causes))
        value = listed(values, 2 if len("".join(values[:2])) <= _NAMES else 1)
        reader = THAT_LINE if reader == writer else reader
        if cause.kind == "layout" and reader:
            value += f" of {reader}"
        is_one = len(orders) == 1 and () not in orders
        order = f"in the order {cause.order}" if is_one else "in another order"
        other = "another" if cause.other == cause.value else cause.other
        words = {"value": value, "order": order, "other": other, "op": cause.op}
        return CAUSES[cause.kind].format(writer=writer, reader=reader, **words)

    def _at(self, id: str, most: int) -> str:
        if (span := linked_span(self._subject, self._nodes.get(id))) is None:
            return f"{self._nodes[id].opcode} {id}" if id in self._nodes else ""
        return f"{span}{bracketed(span, self._quote(span, most)) if most else ''}"


def _copies(facts: Copies) -> Table:
    words, rows = _Words(facts), []
    for copies in words.groups(facts.copies, "type", "times"):
        first, ids = copies[0], tuple(copy.id for copy in copies)
        name = Cell(first.id + f" and {len(ids) - 1} more" * (len(ids) > 1), ids=ids)
        sizes = first.bytes, first.times, sum(copy.total for copy in copies)
        rows.append((name, first.type, *sizes, words.why(copies, 0).replace("`", "")))
    size, times = NumberColumn("bytes", amount), NumberColumn("times")
    note = "A copy reads and writes these bytes. Copies of scalars are left out, and those inside "
    note += "fusions that compute, which are no traffic of their own."
    columns = ("instruction", "value", size, times, _BYTES, "why")
    return table("Copies", columns, rows, note, most=_ROWS, stage="optimized")


def _mends(facts: Copies) -> Table:
    now = [Mend("nothing (as it is)", "", len(facts.copies), facts.bytes)] if facts.mends else []
    rows = [
        (mend.name, mend.copies, None if mend.why else mend.bytes, mend.why or mend.code)
        for mend in (*now, *facts.mends)
    ]
    columns = ("change", NumberColumn("copies"), _BYTES, "how, or why not")
    return table("Tried", columns, rows, "Each compiled anew and not run.")
