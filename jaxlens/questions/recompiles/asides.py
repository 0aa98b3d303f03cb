"""Findings besides recompiles: operations outside of jit, the persistent cache, failures."""

from collections import Counter
from collections.abc import Iterator, Sequence, Set

from jaxlens.ir.compile_log import LOOPS, CallEvent, CompileLog
from jaxlens.program.recompile_causes import DONE, at, place
from jaxlens.program.sentences import listed
from jaxlens.report import Finding, count, is_cause

_FEW = 3
_BY = {
    "scan": " (a lax.fori_loop of known length is one)",
    "while": " (a lax.fori_loop may be one)",
    "cond": " (a lax.switch is one)",
}
_AGAIN = 3  # programs of one operation at one line from which it counts as a loop


def asides(log: CompileLog, where: str) -> Iterator[Finding]:
    """Yields findings on operations, the persistent cache and failures."""
    operations = log.operations
    if operations:
        names = Counter(call.function for call in operations)
        texts = [f"{name} {n} times" if n > 1 else name for name, n in names.most_common()]
        ran = f"{count(len(operations), 'operation')} of JAX's own ran outside of jit, each "
        first = "Apart from these, " if log.compiles else ""
        # The body of a loop is a function of the user's.
        if not log.compiles and not names.keys() & set(LOOPS):
            first = f"No function was compiled{f' {where}' if where else ''}, but "
        yield Finding(f"{first}{ran}compiled on its own: {listed(texts, 6)}.")
        yield from _bodies(operations)
        yield from _one_line(operations, {place(call.line) for call in log.compiles})
    loaded = [c for c in log.compiles if (s := c.step("compile")) and s.served == "disk"]
    if loaded:
        texts = list(dict.fromkeys(c.function for c in loaded))
        yield Finding(
            f"{count(len(loaded), 'program')} came out of the persistent cache, not compiled by "
            f"XLA: {listed(texts, 6)}."
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
        yield Finding(
            f"{call.function} is not in the persistent cache, which holds "
            f"{count(step.others, 'program')} of that name {under_keys}."
        )


def _not_kept(log: CompileLog) -> Iterator[Finding]:
    """Yields programs that were not written to the persistent cache, by reason."""
    by_reason: dict[str, list[str]] = {}
    for call in log.compiles:
        step = call.step("compile")
        if step is not None and step.unkept:
            by_reason.setdefault(step.unkept, []).append(call.function)
    for why, names in by_reason.items():
        texts = listed(list(dict.fromkeys(names)), 4)
        yield Finding(f"The persistent cache was not given the program of {texts}: {why}.")


def _bodies(operations: Sequence[CallEvent]) -> Iterator[Finding]:
    """Yields loops outside of jit, which compile again for each new function object as body."""
    for name in LOOPS:
        calls = [call for call in operations if call.function == name]
        if len(calls) < 2:
            continue
        programs = {call.program for call in calls if call.program}
        lines = {place(call.line) for call in calls}
        where = f" at {lines.pop()}" if len(lines) == 1 and "" not in lines else ""
        of_library = any(call.defined for call in calls)  # no line of the user's has its body
        what = f"what runs{where}" if of_library and where else "it"
        yield Finding(
            f"lax.{name} outside of jit compiled {len(calls)} times{_BY[name]}: each new function "
            f"object as its body is a new program; call {what} within one jitted function."
        )
        if len(programs) == 1 and not of_library:
            all_calls = "both" if len(calls) == 2 else f"all {len(calls)}"
            yield Finding(
                f"Cure: give lax.{name}{where} the same function object each time (their programs "
                f"were compared: {all_calls} are equal).",
                "compared",
            )


def _one_line(operations: Sequence[CallEvent], jitted: Set[str]) -> Iterator[Finding]:
    """Yields cures for lines whose operations compile repeatedly, usually in a loop.

    Args:
        operations: The operations.
        jitted: Lines that call a jitted function too, such as `mcmc.run(...)`: they do more than
            can be within one.
    """
    plain = [call for call in operations if call.function not in LOOPS]
    lines = Counter((place(call.line), call.function) for call in plain)
    again = {line for (line, _), n in lines.items() if n >= _AGAIN and line} - jitted
    programs = Counter(line for call in operations if (line := place(call.line)) in again)
    causes = [(line, n) for line, n in programs.most_common(_FEW) if is_cause(n, len(operations))]
    for line, n in causes:
        yield Finding(
            f"Cure: call what runs at {line} within one jitted function, in the place of {n} "
            "programs (not tried).",
            "estimate",
        )
