"""What each line is to Python and to JAX, in sentences."""

from collections.abc import Iterator

from jaxlens.program.sentences import listed
from jaxlens.questions.trace.bytecode.facts import Bytecode
from jaxlens.report import Finding, Report, count


def report(bytecode: Bytecode) -> Report:
    """Reports what ran, and what it recorded."""
    return Report("Bytecode", tuple(findings(bytecode)))


def times(n: int) -> str:
    """Returns "once", "twice" or "12 times"."""
    return {1: "once", 2: "twice"}.get(n, f"{n:,} times")


def findings(bytecode: Bytecode) -> Iterator[Finding]:
    """Yields what the lines are to Python and to JAX. No sentence counts instructions.

    Their number depends on the version of Python.
    """
    lines = bytecode.lines
    if not lines:
        yield Finding(
            "No line of yours ran while this was traced: a tracer needs no bytecode, and what "
            "libraries do is not followed."
        )
        return
    recorded = sum(len(line.equations) for line in lines) + bytecode.after
    equations = f"{count(recorded, 'equation')} {'was' if recorded == 1 else 'were'} recorded"
    functions = count(len(bytecode.functions), "function")
    yield Finding(
        f"{count(sum(line.ran > 0 for line in lines), 'line')} of {functions} ran while JAX "
        f"traced, and {equations}."
    )
    repeated = [line for line in lines if line.ran > 1 and line.equations]
    for line in sorted(repeated, key=lambda line: -len(line.equations))[:3]:
        yield Finding(
            f"{line.line} stands once in the bytecode; it ran {times(line.ran)} and recorded "
            f"{count(len(line.equations), 'equation')}."
        )
    idle = [line.line for line in lines if not line.ran]
    if idle and not bytecode.cut:
        has, it = ("has", "it") if len(idle) == 1 else ("have", "them")
        text = f"{listed(idle)} {has} bytecode and no equation: Python did not run {it} this time."
        yield Finding(text)
    alone = [
        line.line
        for line in lines
        if line.ran and not (line.equations or line.inside or line.enters)
    ]
    if alone:
        yield Finding(
            f"{listed(alone)} ran, and recorded nothing: that was Python's work, done while "
            "JAX traced."
        )
    if bytecode.after:
        equations = count(bytecode.after, "equation")
        yield Finding(
            f"{equations} came after the function had returned: no bytecode of yours made them."
        )
    if bytecode.cut:
        yield Finding("More ran than is kept; what came later is missing.", "unknown")
