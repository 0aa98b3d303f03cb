"""What Python did while JAX traced, in sentences, and its steps in a table."""

from collections import Counter
from collections.abc import Iterator, Sequence

from jaxlens.ir.facts import TapeStep
from jaxlens.program.sentences import Quoter, listed
from jaxlens.questions.trace.tape.facts import PythonLoop, Tracing, where
from jaxlens.report import Cell, Finding, NumberColumn, Report, Table, count, table


def report(tracing: Tracing) -> Report:
    """Reports what Python did while the function was traced."""
    return Report("Tracing", tuple(findings(tracing)), (steps_table(tracing),))


def findings(tracing: Tracing) -> Iterator[Finding]:
    """Yields what tracing did, in sentences."""
    lines = {(s.key, s.line) for s in tracing.steps if s.event == "line"}
    functions = {(s.key, s.function) for s in tracing.steps if s.event == "call"}
    equations = sum(len(s.made) for s in tracing.steps)
    rest = f", {tracing.after:,} of them when it was done" if tracing.after else ""
    if not tracing.steps:
        yield Finding(
            "No line of yours ran while this was traced: its equations came from libraries, whose "
            "lines the tape does not follow."
        )
        return
    yield Finding(
        f"Tracing ran {count(len(lines), 'line')} of {count(len(functions), 'function')} once, in "
        f"{count(len(tracing.steps), 'step')}, and recorded {count(equations, 'equation')}{rest}."
    )
    for loop in _largest(tracing.loops):
        yield Finding(
            f"The loop at {loop.line} was unrolled: {count(loop.times, 'pass', 'passes')}, "
            f"{count(loop.equations, 'equation')}."
        )
    outcomes = Counter(branch.line for branch in tracing.branches)  # which are each there once
    fixed = [line for line, n in outcomes.items() if n == 1]
    if fixed:
        ifs = f"the if at {fixed[0]}"
        if len(fixed) > 1:
            ifs = f"each of {len(fixed)} ifs ({listed(fixed)})"
        yield Finding(
            f"Only one branch of {ifs} is in the program: Python knew the condition while tracing."
        )
    if tracing.printed:
        places = listed(list(tracing.printed))
        yield Finding(f"What {places} printed was printed while tracing: no later call prints it.")
    if tracing.wrote:
        yield Finding(
            f"Changed while tracing, and by no later call: {listed(list(tracing.wrote))}."
        )
    if tracing.cut:
        yield Finding("There were more steps than are kept; the later ones are missing.", "unknown")


def _largest(loops: Sequence[PythonLoop]) -> list[PythonLoop]:
    """Returns the three lines whose loops recorded most equations, summed over executions."""
    equations: Counter[str] = Counter()
    for loop in loops:
        equations[loop.line] += loop.equations
    most = [(line, n) for line, n in equations.most_common(3) if n]
    return [PythonLoop(line, sum(o.times for o in loops if o.line == line), n) for line, n in most]


def steps_table(tracing: Tracing) -> Table:
    """Returns a table with one row per step."""
    quote = Quoter(tracing.subject().sources)
    rows = (
        (
            n + 1,
            where(step) if step.event != "after" else "",
            _code(step, quote),
            "; ".join(f"{b.name} = {b.text}" for b in step.bound),
            Cell(" ".join(step.made), ids=step.made),
            "; ".join(tracing.notes.get(n, ())),
        )
        for n, step in enumerate(tracing.steps)
    )
    columns = (NumberColumn("step"), "line", "code", "bound", "recorded", "note")
    note = "A tracer stands for a value that is known when the program runs."
    return table("Steps", columns, rows, note, stage="jaxpr")


def _code(step: TapeStep, quote: Quoter) -> str:
    """Returns the text of a step's line, indented by call depth."""
    if step.event == "after":
        return "(JAX, when the function is done)"
    inset = "  " * min(step.depth, 8)
    verb = {"return": "return from", "yield": "yield from", "resume": "on in"}.get(step.event)
    text = f"{verb} {step.function}" if verb else quote.line(step.key, step.line).strip()
    return f"{inset}{text}"
