"""Whether the compiled program is wrong, in sentences, and the text to report it with."""

import math
from collections.abc import Iterator

from jaxlens.program.sentences import listed, located, named_line, quoter
from jaxlens.questions.disagree.disagreement import CheckedResult, Disagreement
from jaxlens.questions.numerics.report import ulps_text
from jaxlens.render.document import Block, Code, Findings, Fold, TableBlock, Tabs
from jaxlens.report import Finding, NumberColumn, Report, Table, count, table
from jaxlens.views.listings.panes import jaxpr_tab

_ALONE = "by itself", "by themselves"


def report(facts: Disagreement) -> Report:
    """Returns the sentences and the tables."""
    return Report("Jit against op by op", tuple(_findings(facts)), tuple(_tables(facts)))


def _findings(facts: Disagreement) -> Iterator[Finding]:
    if not facts.found:
        yield Finding(_agrees(facts), "measured")
        return
    part, worst = facts.reduced, _worst(facts.results)
    if part is None:
        yield Finding(f"Jit is wrong: {_wrong(worst)}.", "measured", weight=1.0)
        yield Finding(f"It is not cut down: {facts.why}.", "unknown")
        return
    ids = tuple(path[-1] for path in part.equations)
    names = listed([f"`{name}`" for name in part.opcodes])
    lines = list(dict.fromkeys(map(named_line, facts.spans.values())))
    where = located(facts.span, quoter(facts.subject())) if len(lines) == 1 else listed(lines)
    together = ", compiled together" if len(ids) > 1 else ", compiled"
    text = f"Jit is wrong: {names} in {where}{together}: {_wrong(worst)}"
    yield Finding(f"{text}.", "measured", ids, weight=1.0)
    if facts.cures:
        yield Finding(f"It is right {_cured(facts.cures)}.", "measured")
    elif facts.trials.get("", False):
        text = "In another process that part is right, so the pass is not found: something of "
        yield Finding(f"{text}this process makes the difference.", "unknown")
    else:
        tried = count(len(facts.trials) - 1, "change")
        text = f"None of {tried} to the compile makes it right: the fault may be in its lowering, "
        yield Finding(f"{text}or in what no compile does without.", "measured")
    yield Finding(f"{_part(facts)}.", "measured", ids)
    if facts.fusions:
        into = listed([f"`{name}`" for name in facts.fusions])
        what = "them" if len(ids) > 1 else "it"
        yield Finding(f"In the whole program XLA computes {what} in {into}.", "counted", ids)
    if facts.written:
        text = f"{facts.written} compiles and runs the part with jax alone; it ends with an error "
        yield Finding(f"{text}while that is wrong.")
    else:
        yield Finding('`jaxlens.disagree(cap, write="wrong.py")` writes a file for the report.')


def _agrees(facts: Disagreement) -> str:
    unequal = [one for one in facts.results if one.unequal]
    if not unequal:
        return "Jit agrees with op by op: every result is equal bit for bit."
    floats = [one for one in unequal if one.error is not None and one.allowed]
    text = f"Jit agrees with op by op: {count(len(unequal), 'result')} of {len(facts.results):,} "
    text += "differ" if len(unequal) > 1 else "differs"
    if not floats:
        return f"{text}, as rounding can move what is compared."
    worst = max(floats, key=lambda one: (one.error or 0) / (one.allowed or 1))
    errors = f"the error against float64 is {ulps_text(worst.error or 0)} ulps compiled, "
    errors += f"{ulps_text(worst.own or 0)} op by op ({worst.dtype})"
    return f"{text}, by what rounding explains: {errors}."


def _worst(results: tuple[CheckedResult, ...]) -> CheckedResult:
    return max(results, key=lambda one: one.wrong)


def _wrong(one: CheckedResult) -> str:
    size = math.prod(one.shape)
    elements = f"{one.wrong:,} of {count(size, 'element')}"
    shape = f"{one.dtype}[{','.join(map(str, one.shape))}]"
    if one.nan:
        return f"result {one.index}, {shape}, is NaN in {one.nan:,} of {count(size, 'element')}"
    beyond = " by more than rounding" if one.error is not None else ""
    return f"result {one.index}, {shape}, differs from op by op{beyond} in {elements}"


def _cured(cures: tuple[str, ...]) -> str:
    passes = [f"`{name}`" for name in cures if "=" not in name]
    flags = [f"`{name}`" for name in cures if "=" in name]
    noun = "the pass" if len(passes) == 1 else "any one of the passes"
    texts = [f"without {noun} {listed(passes)}"] if passes else []
    return "; ".join([*texts, *([f"with {listed(flags)}"] if flags else [])])


def _part(facts: Disagreement) -> str:
    part = facts.reduced
    assert part is not None
    total = sum(1 for _ in facts.subject().jaxpr.module.nodes())
    number = len(part.opcodes)
    text = "It is 1" if number == 1 else f"They are {number:,}"
    text += f" of {count(total, 'equation')}, and wrong {_ALONE[number > 1]} on "
    text += f"{listed(part.types)}: found in {count(part.compiles, 'compile')}"
    return text if part.complete else f"{text}, the limit, so there may be a smaller part"


def _tables(facts: Disagreement) -> Iterator[Table]:
    names = ("compiled", "op by op", "explained")
    ulps = [NumberColumn(name, ulps_text, rare=True) for name in names]
    columns: list[str | NumberColumn] = [
        "result",
        "type",
        NumberColumn("differ"),
        NumberColumn("wrong"),
        *ulps,
    ]
    shown = [one for one in facts.results if one.unequal]
    rows = (
        (one.index, one.dtype, one.unequal, one.wrong, one.error, one.own, one.allowed)
        for one in shown
    )
    note = "Elements that differ from op by op, and that rounding does not explain; errors against "
    note += "float64 in ulps, of the worst element."
    if shown:
        yield table("Results", columns, rows, note, most=20)
    if facts.trials:
        words = {True: "right", False: "wrong", None: "not compiled"}
        tries = ((name or "as it is", words[right]) for name, right in facts.trials.items())
        note = "The part, compiled in another process without a pass, or with a flag."
        yield table("Compiled otherwise", ("without, or with", "the part is"), tries, note)


def issue(facts: Disagreement) -> str:
    """Returns the text of an issue for JAX or XLA; "" where nothing was cut down."""
    part, target = facts.reduced, facts.subject().program.target
    if part is None:
        return ""
    names = ", ".join(part.opcodes)
    where = target.kind or target.platform
    tried = [f"- {name}: {'right' if right else 'wrong'}" for name, right in facts.trials.items()
             if name and right is not None]  # fmt: skip
    return "\n".join([
        f"# Wrong result of {names} compiled for {where}",
        "",
        f"jax {target.jax}, jaxlib {target.jaxlib}, {where}. Compiled together, "
        f"{_wrong(_worst(part.results))}, where each op is compiled alone.",
        "",
        "Without a pass (`xla_disable_hlo_passes`), or with a flag:",
        "",
        *tried,
        "",
        "```python",
        facts.code.rstrip(),
        "```",
        "",
    ])  # fmt: skip


def blocks(facts: Disagreement, full: bool = False) -> list[Block]:
    """Returns the sentences, the tables, the text of an issue, and the jaxpr."""
    answer = report(facts)
    shown: list[Block] = [Findings(answer.findings), *map(TableBlock, answer.tables)]
    if facts.reduced is not None:
        shown.append(Fold("text for an issue", (Code("text", facts.issue),), open=full))
    return [*shown, Tabs((jaxpr_tab(facts.subject(), full, in_text=full),))]
