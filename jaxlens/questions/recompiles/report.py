"""Reports why functions recompiled: the responsible argument, old and new, from a compile log.

A recompile is explained by the differences between its key and the nearest earlier key of the
function; recompiles of one function with one cause are one sentence. Operations outside of jit are
counted separately.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set

from jaxlens.ir.compile_log import DISK_PARTS, LOOPS, CallEvent, CallKey, CompileLog
from jaxlens.program.call_key import key_report, key_table
from jaxlens.program.recompile_causes import DONE, answers, at, place, tables
from jaxlens.program.sentences import listed
from jaxlens.render.document import Document, Fold, TableBlock
from jaxlens.report import Finding, Report, count, is_cause
from jaxlens.views.report_blocks import report_blocks

_MOST_COMPILES = 3  # compiles that an error lists: it is one line
_MOST_LINES = 3  # lines of operations with a cure each


def recompiles_report(log: CompileLog, where: str = "") -> Report:
    """Reports a log in sentences and tables, the recompiles first.

    Args:
        log: The compile log.
        where: "in this cell", or "".
    """
    findings = [*answers(log, where), *asides(log, where)]
    if not findings:
        during, names = f" {where}" if where else "", _functions(log.calls, 6)
        text = f"Nothing was compiled{during}; {names} went no further than its trace."
        if not log.calls:
            during += " so far" if log.going else ""
            text = f"Nothing was traced or compiled{during}: JAX's caches served every call."
        findings = [Finding(text)]
    findings += [Finding(f"{text}.", "unknown") for text in log.trouble]
    return Report("Recompiles", tuple(findings), tuple(tables(log)))


def _functions(calls: Iterable[CallEvent], most: int) -> str:
    return listed(list(dict.fromkeys(call.function for call in calls)), most)


def error_text(log: CompileLog, operations: bool = False) -> str:
    """Returns what compiled and why, in one line for an error, recompiles first.

    Args:
        log: The compile log.
        operations: Whether to include single operations.
    """
    compiles = (*log.compiles, *(log.operations if operations else ()))
    calls = sorted(compiles, key=lambda call: not call.changes)
    texts = [
        f"{c.name}{', backward pass' * c.backward}{at(c.line)} "
        f"({c.reason}{'; loaded from the persistent cache' * c.loaded})"
        for c in calls[:_MOST_COMPILES]
    ]
    rest = len(calls) - _MOST_COMPILES
    return "; ".join(texts) + f", and {rest} more" * (rest > 0)


# ---- besides recompiles: operations outside of jit, the persistent cache, failures --------------


# Which functions of JAX's make the operation, so that the user knows it in their code.
_MADE_BY = {
    "scan": " (a lax.fori_loop of known length is one)",
    "while": " (a lax.fori_loop may be one)",
    "cond": " (a lax.switch is one)",
}
_AGAIN = 3  # programs of one operation at one line: two may be two calls, three are in a loop


def asides(log: CompileLog, where: str) -> Iterator[Finding]:
    """Yields findings on operations, the persistent cache and failures."""
    operations = log.operations
    if operations:
        names = Counter(call.function for call in operations)
        texts = [f"{name} {n} times" if n > 1 else name for name, n in names.most_common()]
        each = ", each" if len(operations) > 1 else " and was"
        ran = f"{count(len(operations), 'operation')} of JAX's own ran outside of jit{each} "
        first = "Apart from these, " if log.compiles else ""
        # The body of a loop is a function of the user's, and was compiled.
        if not log.compiles and not names.keys() & set(LOOPS):
            first = f"No function was compiled{f' {where}' if where else ''}, but "
        yield Finding(f"{first}{ran}compiled on its own: {listed(texts, 6)}.")
        yield from _loops(operations)
        yield from _cures_of_busy_lines(operations, {place(call.line) for call in log.compiles})
    if loaded := [call for call in log.compiles if call.loaded]:
        yield Finding(
            f"{count(len(loaded), 'program')} came out of the persistent cache, not compiled by "
            f"XLA: {_functions(loaded, 6)}."
        )
    yield from _not_on_disk(log)
    yield from _not_kept(log)
    for call in log.calls:
        failed = next((step for step in call.steps if step.failed), None)
        if failed:
            doing = f"{failed.failed} while it was {DONE[failed.kind]}"
            yield Finding(f"{call.function}{at(call.line)} failed: {doing}.")


def _not_on_disk(log: CompileLog) -> Iterator[Finding]:
    """Yields calls that miss the persistent cache though it has programs of that name."""
    for call in log.compiles:
        step = call.step("compile")
        is_explained = call.changes and call.main.kind != "lost"
        if step is None or is_explained or not step.others:
            continue
        under_keys = "under another key" if step.others == 1 else "under other keys"
        causes = [DISK_PARTS[part] for part in step.differs if part in DISK_PARTS]
        why = f": {listed(causes)}" if causes else ""
        yield Finding(
            f"{call.function} is not in the persistent cache, which holds "
            f"{count(step.others, 'program')} of that name {under_keys}{why}."
        )


def _not_kept(log: CompileLog) -> Iterator[Finding]:
    """Yields programs that were not written to the persistent cache, by reason."""
    by_reason: dict[str, list[CallEvent]] = {}
    for call in log.compiles:
        step = call.step("compile")
        if step is not None and step.unkept:
            by_reason.setdefault(step.unkept, []).append(call)
    for why, calls in by_reason.items():
        names = _functions(calls, 4)
        yield Finding(f"The persistent cache was not given the program of {names}: {why}.")


def _loops(operations: Sequence[CallEvent]) -> Iterator[Finding]:
    """Yields loops outside of jit, which compile again for each new function object as body."""
    for name in LOOPS:
        calls = [call for call in operations if call.function == name]
        if len(calls) < 2:
            continue
        lines = {place(call.line) for call in calls}
        where = f" at {lines.pop()}" if len(lines) == 1 and "" not in lines else ""
        what = f"what runs{where}" if where else "it"
        yield Finding(
            f"lax.{name} outside of jit compiled {len(calls)} times{_MADE_BY[name]}: each new "
            f"function object as its body is a new program; call {what} within one jitted function."
        )


def _cures_of_busy_lines(operations: Sequence[CallEvent], jitted: Set[str]) -> Iterator[Finding]:
    """Yields cures for lines whose operations compile repeatedly, usually in a loop.

    Args:
        operations: The operations.
        jitted: Lines that call a jitted function too, such as `mcmc.run(...)`; no cure is given for
            these, as a whole training or sampling run does not fit in one jitted function.
    """
    plain = [call for call in operations if call.function not in LOOPS]
    lines = Counter((place(call.line), call.function) for call in plain)
    again = {line for (line, _), n in lines.items() if n >= _AGAIN and line} - jitted
    programs = Counter(line for call in operations if (line := place(call.line)) in again)
    most = programs.most_common(_MOST_LINES)
    causes = [(line, n) for line, n in most if is_cause(n, len(operations))]
    for line, n in causes:
        yield Finding(
            f"Cure: call what runs at {line} within one jitted function, instead of compiling "
            f"{n} programs (not tried).",
            "estimate",
        )


_KEYS = 50  # maximum number of calls whose keys are in the output


def document(log: CompileLog, where: str = "") -> Document:
    """Returns the document of a compile log: the reason for each function, then each call's key.

    Args:
        log: The compiles and calls that were recorded.
        where: "in this cell", or "".
    """
    operations = len(log.operations)
    parts = [count(len(log.compiles), "compile")]
    parts += [f"{operations:,} of single operations"] if operations else []
    first = " + ".join(parts) + (", still watching" if log.going else "")
    calls = [call for call in log.calls if call.parts and call.role == "user"]
    folds = tuple(
        Fold(f"{c.number}: {c.function}{at(c.line)}", (TableBlock(key_table(c.parts)),))
        for c in calls[:_KEYS]
    )
    keys = (Fold("The key of each call", folds),) if folds else ()
    return Document("recompiles", first, (*report_blocks(recompiles_report(log, where)), *keys))


def key_document(call: CallKey) -> Document:
    """Returns the document of a call's key: hit or miss, what is new, and the key part by part."""
    inputs = [f"{part.name} {part.text}" for part in call.parts if part.kind == "input"]
    shown = tuple(report_blocks(key_report(call)))
    return Document("key", f"{call.function}({', '.join(inputs)})", shown)
