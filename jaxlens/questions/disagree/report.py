"""Whether the compiled program is wrong, in sentences, and the text to report it with."""

from collections.abc import Iterator

from jaxlens.program.sentences import listed, located, named_line, quoter
from jaxlens.questions.disagree.disagreement import (
    WORDS,
    Disagreement,
    ReducedProgram,
    wrong_result,
)
from jaxlens.questions.numerics.report import ulps_text
from jaxlens.render.document import Block, Code, Findings, Fold, TableBlock, Tabs
from jaxlens.report import Finding, NumberColumn, Report, Table, count, table
from jaxlens.views.listings.panes import jaxpr_tab

_CHECKED = ("dtype", "unequal", "wrong", "error", "own", "allowed")


def report(facts: Disagreement) -> Report:
    """Returns the sentences and the tables."""
    return Report("Jit against op by op", tuple(_findings(facts)), tuple(_tables(facts)))


def _findings(facts: Disagreement) -> Iterator[Finding]:
    part = facts.reduced
    if not facts.found:
        yield Finding(_agrees(facts), "measured")
    elif part is None:
        yield Finding(f"Jit is wrong: {_wrong(facts)}.", "measured", weight=1.0)
        text = (
            "Compiled again from its equations it is right: donated arguments, where they are, or "
        )
        yield Finding(f"{text}its jit may make the difference. It is not cut down.", "unknown")
    else:
        yield from _reduced(facts, part)


def _reduced(facts: Disagreement, part: ReducedProgram) -> Iterator[Finding]:
    ids = tuple(path[-1] for path in part.equations)
    names = listed([f"`{name}`" for name in part.opcodes])
    lines = list(dict.fromkeys(map(named_line, facts.spans.values())))
    where = located(facts.span, quoter(facts.subject())) if len(lines) == 1 else listed(lines)
    text = f"Jit is wrong: {names} in {where}: {_wrong(facts)}."
    yield Finding(text, "measured", ids, weight=1.0)
    tried = f"{count(len(facts.trials) - 1, 'change')} to the compile"
    if facts.cures:
        cures = listed([f"{'with' if '=' in name else 'without'} `{name}`" for name in facts.cures])
        text = f"It is right with {len(facts.cures):,} of {tried}: {cures}."
    elif facts.trials.get("", False):
        text = "In another process that part is right, so the pass is not found: something of this "
        text += "process makes the difference."
    else:
        text = f"None of {tried} makes it right: the fault may be in its lowering, or in what no "
        text += "compile does without."
    yield Finding(text, "unknown" if facts.trials.get("", False) else "measured")
    total = count(sum(1 for _ in facts.subject().jaxpr.module.nodes()), "equation")
    text = f"This part, {len(ids):,} of {total}, is wrong by itself on {listed(part.types)}: found "
    text += f"in {count(part.compiles, 'compile')}"
    more = "" if part.complete else ", the limit, so there may be a smaller part"
    yield Finding(f"{text}{more}.", "measured", ids)
    if facts.fusions:
        into = listed([f"`{name}`" for name in facts.fusions])
        yield Finding(f"In the whole program XLA computes it in {into}.", "counted", ids)
    text = '`jaxlens.disagree(cap, write="wrong.py")` writes a file for the report.'
    if facts.written:
        text = f"{facts.written} compiles and runs the part with jax alone; it ends with an error "
        text += "while that is wrong."
    yield Finding(text)


def _wrong(facts: Disagreement) -> str:
    return wrong_result(facts.results, [result.name for result in facts.subject().outputs])


def _agrees(facts: Disagreement) -> str:
    unequal = [one for one in facts.results if one.unequal]
    if not unequal:
        return "Jit agrees with op by op: every result is equal bit for bit."
    text = f"Jit agrees with op by op: rounding explains the difference in {len(unequal):,} of "
    text += count(len(facts.results), "result")
    return f"{text}."


def _tables(facts: Disagreement) -> Iterator[Table]:
    counts = [NumberColumn(name) for name in ("differ", "wrong")]
    kinds = ("compiled", "op by op", "explained")
    ulps = [NumberColumn(kind, ulps_text, rare=True) for kind in kinds]
    shown = [one for one in facts.results if one.unequal]
    names = [result.name for result in facts.subject().outputs]
    rows = ((names[one.index], *(getattr(one, name) for name in _CHECKED)) for one in shown)
    note = "Elements that differ from op by op, and that rounding does not explain; errors against "
    note += "float64 in ulps, of the worst element."
    if shown:
        yield table("Results", ["result", "type", *counts, *ulps], rows, note, most=20)
    if facts.trials:
        note = "The part, compiled in another process without a pass, or with a flag."
        columns = ["without, or with", "the part is"]
        tries = ((name or "as it is", WORDS[right]) for name, right in facts.trials.items())
        yield table("Compiled otherwise", columns, tries, note)


def blocks(facts: Disagreement, full: bool = False) -> list[Block]:
    """Returns the sentences, the tables, the text of an issue, and the jaxpr."""
    answer = report(facts)
    shown: list[Block] = [Findings(answer.findings), *map(TableBlock, answer.tables)]
    if facts.reduced is not None:
        shown.append(Fold("text for an issue", (Code("text", facts.issue),), open=full))
    return [*shown, Tabs((jaxpr_tab(facts.subject(), full, in_text=full),))]
