"""The copies of a program, why each is there, and what was tried, in sentences and tables."""

from collections.abc import Iterator, Sequence

from jaxlens.program.kernels import linked_span
from jaxlens.program.sentences import THAT_LINE, bracketed, listed, passes, quoter
from jaxlens.questions.copies.causes import CAUSES, CopyCause
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
    share,
    table,
)

_ROWS = 20
_QUOTE = 32  # characters of a quoted line
_CAUSES = 3  # causes with a sentence each
_BYTES = NumberColumn("bytes a run", amount, "bytes")


def report(facts: Copies) -> Report:
    """Reports what is copied and why, then what would remove it."""
    overlay = Overlay("bytes copied (B)", "optimized", {c.id: float(c.total) for c in facts.copies})
    tables = (_copies(facts), _mends(facts))
    return Report("Copies", tuple(_findings(facts)), tuple(t for t in tables if t.rows), (overlay,))


def _findings(facts: Copies) -> Iterator[Finding]:
    """Yields the answer, the next causes, what was tried, and what is inside fusions."""
    whole, words = facts.bytes, _Words(facts)
    open_ = passes(loop for copy in facts.copies for loop in copy.open)
    reasons: dict[str, list[Copy]] = {}  # of several layers alike, the same clause
    for cause, copies in facts.causes.items():
        reasons.setdefault(words.why(cause, copies), []).extend(copies)
    sizes = {why: sum(copy.total for copy in copies) for why, copies in reasons.items()}
    for n, why in enumerate(sorted(reasons, key=lambda why: -sizes[why])[:_CAUSES]):
        text, size = f"{_many(reasons[why])}: {why}.", sizes[why]
        if not n:
            part = f"{share(size, whole)} of it " if len(reasons) > 1 else ""
            text = f"A run{open_} copies {amount(whole)}, {part}{text}"
        ids = tuple(copy.id for copy in reasons[why])
        yield Finding(text, ids=ids, weight=explains(size, whole))
    none = "No array is copied or transposed by an instruction of its own."
    yield _tried(facts) if facts.copies else Finding(none)
    if facts.fused:
        more = count(facts.fused, "copy or transpose is", "copies and transposes are")
        yield Finding(f"{more} inside fusions that compute, and no traffic of their own.")


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
    if best is not None and best.bytes < facts.bytes:
        left = f"{amount(best.bytes)} in {count(best.copies or 0, 'copy', 'copies')}"
        text = f"Tried: {best.name} left {left if best.copies else 'no copy'}: {best.code}."
        return Finding(text, "compared")
    why = f"was tried: {facts.untried}" if facts.untried else "that is known removes any"
    return Finding(f"No change {why}.", "unknown")


class _Words:
    """The cause of a copy in words, with the lines of the instructions in conflict."""

    def __init__(self, facts: Copies) -> None:
        self._subject = facts.subject()
        self._nodes = {node.id: node for node in self._subject.optimized.module.nodes()}
        self._quote = quoter(self._subject)

    def why(self, cause: CopyCause, copies: Sequence[Copy], most: int = _QUOTE) -> str:
        """Returns the cause of copies as a clause, with `most` characters of a quoted line."""
        writer, reader = (self._at(id, most) for id in (cause.writer, cause.reader))
        values = listed([*dict.fromkeys(copy.cause.value for copy in copies)])
        is_one = {cause.order} == {copy.cause.order for copy in copies} != {()}
        order = f"in the order {cause.order}" if is_one else "in another order"
        reader = THAT_LINE if reader == writer else reader
        words = {"value": values or f"a value of {reader}", "order": order, "other": cause.other}
        return CAUSES[cause.kind].format(writer=writer, reader=reader, **words)

    def line(self, *ids: str) -> str:
        """Returns the line of the first of some instructions that has one; else ""."""
        spans = (linked_span(self._subject, self._nodes.get(id)) for id in ids)
        return next((str(span) for span in spans if span is not None), "")

    def _at(self, id: str, most: int) -> str:
        if (span := linked_span(self._subject, self._nodes.get(id))) is None:
            return f"{self._nodes[id].opcode} {id}" if id in self._nodes else ""
        return f"{span}{bracketed(span, self._quote(span, most)) if most else ''}"


def _copies(facts: Copies) -> Table:
    words, rows = _Words(facts), []
    for copy in facts.copies:
        why = words.why(copy.cause, [copy], 0).replace("`", "")
        sizes = copy.bytes, copy.times, copy.total
        line = words.line(copy.id, copy.cause.writer)
        rows.append((Cell(copy.id, ids=(copy.id,)), copy.type, *sizes, line, why))
    size, times = NumberColumn("bytes", amount), NumberColumn("times")
    columns = ("instruction", "value", size, times, _BYTES, "line", "why")
    note = "A copy reads and writes these bytes. Copies of scalars are left out."
    return table("Copies", columns, rows, note, most=_ROWS, stage="optimized")


def _mends(facts: Copies) -> Table:
    now = [Mend("nothing (as it is)", "", len(facts.copies), facts.bytes)] if facts.mends else []
    rows = [
        (mend.name, mend.copies, None if mend.why else mend.bytes, mend.why or mend.code)
        for mend in (*now, *facts.mends)
    ]
    columns = ("change", NumberColumn("copies"), _BYTES, "how, or why not")
    return table("Tried", columns, rows, "Each compiled anew and not run.")
