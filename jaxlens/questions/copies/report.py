"""The copies of a program, why each is there, and what was tried, in sentences and tables."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from jaxlens.errors import LensError
from jaxlens.ir.graph import Span
from jaxlens.program.kernels import inside
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
    findings = (*_causes(facts), *_tried(facts), *_fused(facts))
    return Report("Copies", findings, tuple(t for t in tables if t.rows), (overlay,))


def _causes(facts: Copies) -> Iterator[Finding]:
    """Yields the answer, and the sentences on the next causes."""
    if not facts.copies:
        yield Finding("No array is copied or transposed by an instruction of its own.")
        return
    whole, words = facts.bytes, _Words(facts)
    open_ = passes(loop for copy in facts.copies for loop in copy.open)
    for n, copies in enumerate([*facts.causes.values()][:_CAUSES]):
        size = sum(copy.total for copy in copies)
        text = f"{_many(copies)}: {words.why([copy.cause for copy in copies])}."
        if not n:
            part = f"{share(size, whole)} of it " if len(facts.causes) > 1 else ""
            text = f"A run{open_} copies {amount(whole)}, {part}{text}"
        ids = tuple(copy.id for copy in copies)
        yield Finding(text, ids=ids, weight=explains(size, whole))


def _many(copies: Sequence[Copy]) -> str:
    """Returns "2 copies of 400 kB, each 50 times"."""
    sizes, times = {copy.bytes for copy in copies}, {copy.times for copy in copies}
    size = f" of {amount(sizes.pop())}" if len(sizes) == 1 else ""
    often = times.pop() if len(times) == 1 else 1
    each = f", each {often:,} times" if often > 1 else ""
    return f"{count(len(copies), 'copy', 'copies')}{size}{each}"


class _Words:
    """The cause of a copy in words, with the lines of the instructions in conflict."""

    def __init__(self, facts: Copies) -> None:
        self._subject = facts.subject()
        self._module = self._subject.optimized.module
        self._nodes = {node.id: node for node in self._module.nodes()}
        self._quote = quoter(self._subject)

    def why(self, causes: Sequence[CopyCause], quoted: bool = True) -> str:
        """Returns the cause of copies as a clause; lines are quoted where it is a sentence."""
        cause, orders = causes[0], {cause.order for cause in causes}
        writer, reader = (self._at(id, quoted) for id in (cause.writer, cause.reader))
        places = {"writer": writer, "reader": THAT_LINE if reader == writer else reader}
        values = listed([*dict.fromkeys(cause.value for cause in causes)]) or "a value of {reader}"
        is_one = len(orders) == 1 and cause.order
        order = f"in the order {cause.order}" if is_one else "in another order"
        words = {"value": values.format(**places), "other": cause.other, "order": order}
        return CAUSES[cause.kind].format(**places, **words)

    def line(self, copy: Copy) -> str:
        """Returns the line of a copy: its own, or that of what it is made for."""
        cause = copy.cause
        spans = map(self._span, (copy.id, cause.writer, cause.reader, cause.loop))
        return next((str(span) for span in spans if span is not None), "")

    def _span(self, id: str) -> Span | None:
        """Returns the user's line of an instruction, or of the equations that it came from."""
        node = self._nodes.get(id)
        parts = (node, *reversed(inside(node, self._module))) if node is not None else ()
        spans = [part.owner for part in parts if part.owner is not None]
        if all(span.library for span in spans):
            with suppress(LensError):
                ids = self._subject.links.back(id, "jaxpr", "optimized")
                equations = self._subject.jaxpr.module.nodes()
                spans += [e.owner for e in equations if e.id in ids and e.owner is not None]
        return min(spans, key=lambda span: span.library, default=None)

    def _at(self, id: str, quoted: bool) -> str:
        node, span = self._nodes.get(id), self._span(id)
        if node is None:
            return "the program"
        if span is None:
            return f"{node.opcode} {id}"
        named = {part.opcode for part in inside(node, self._module)} & {"convolution", "dot"}
        what = f"the {named.pop()} at " if named else ""
        return f"{what}{span}{bracketed(span, self._quote(span, _QUOTE)) if quoted else ''}"


def _tried(facts: Copies) -> Iterator[Finding]:
    """Yields the sentence on the change that leaves least, or on why none was tried."""
    worked = [mend for mend in facts.mends if not mend.why]
    best = min(worked, key=lambda mend: mend.bytes, default=None)
    if not facts.copies:
        return
    if facts.untried:
        yield Finding(f"No change was tried: {facts.untried}.", "unknown")
    elif best is None or best.bytes >= facts.bytes:
        names = listed([mend.name for mend in worked])
        text = f"What was tried removes none: {names}" if worked else "No change is known to try"
        yield Finding(f"{text}.", "unknown")
    else:
        left = f"{amount(best.bytes)} in {count(best.copies or 0, 'copy', 'copies')}"
        text = f"Tried: {best.name} left {left if best.copies else 'no copy'}: {best.code}."
        yield Finding(text, "compared")


def _fused(facts: Copies) -> Iterator[Finding]:
    if facts.fused:
        more = count(facts.fused, "copy or transpose", "copies and transposes")
        verb = "is" if facts.fused == 1 else "are"
        yield Finding(f"{more} {verb} inside fusions that compute, and no traffic of their own.")


def _copies(facts: Copies) -> Table:
    words = _Words(facts)
    rows = (
        (
            Cell(copy.id, ids=(copy.id,)),
            copy.type,
            copy.bytes,
            copy.times,
            copy.total,
            words.line(copy),
            words.why([copy.cause], quoted=False).replace("`", ""),
        )
        for copy in facts.copies
    )
    size, times = NumberColumn("bytes", amount), NumberColumn("times")
    columns = ("instruction", "value", size, times, _BYTES, "line", "why")
    note = "A copy reads and writes these bytes. Copies of scalars are left out."
    return table("Copies", columns, rows, note, most=_ROWS, stage="optimized")


def _mends(facts: Copies) -> Table:
    now = [Mend("nothing (as it is)", "", len(facts.copies), facts.bytes)] if facts.mends else []
    rows = (
        (mend.name, mend.copies, None if mend.why else mend.bytes, mend.why or mend.code)
        for mend in (*now, *facts.mends)
    )
    columns = ("change", NumberColumn("copies"), _BYTES, "how, or why not")
    return table("Tried", columns, rows, "Each compiled anew and not run.")
