"""Where digits are lost, in sentences, and the errors by equation."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from jaxlens.ir.graph import Span
from jaxlens.program import counted as by_module
from jaxlens.program.sentences import located, quoter
from jaxlens.questions.numerics.facts import DigitLoss, EquationRounding, Numerics
from jaxlens.questions.numerics.promotion import Promotion
from jaxlens.questions.numerics.rounding import (
    BITS,
    DotRounding,
    ResultDifference,
    RoundingExecution,
    convert_ulps,
    digits_lost,
)
from jaxlens.render.document import Block, Findings, Tab, TableBlock, Tabs
from jaxlens.report import Cell, Finding, NumberColumn, Overlay, Report, Table, count, table
from jaxlens.views import source_pane
from jaxlens.views.listings.panes import equation_lines, jaxpr_tab

# Sentences. Promotions come first, and three of them hide the losses: they decide the types in
# which all else is computed, so they are mended before it is looked at.
_MOST = 3
_COARSE = 100  # ulps from which an error is written as a power of 2
_ROWS = 20  # of each table
_ROWS_CLEAN = 5  # where no line loses digits; the table of modules, an overview, keeps `_ROWS`
_ULPS: tuple[str | NumberColumn, ...] = (
    NumberColumn("own ulps"),
    NumberColumn("total ulps"),
    NumberColumn("digits lost"),
)
_T = TypeVar("_T")
_GAIN = 8  # factor by which precision=HIGHEST, which is slower, must reduce an error to be named
_LONG = {"bf16": "jnp.bfloat16", "f16": "jnp.float16", "f32": "jnp.float32"}
_SQUARES = "square mul integer_pow"


# What avoids a loss of digits: the primitives that lose them, which of these each made an operand,
# which may have made one too, and the words. "1" is an input or literal of 1 or -1, and "input" any
# other.
_CURES = (
    ("sub add", "exp 1", "", "`jnp.expm1(x)` computes exp(x) - 1 without it"),
    ("sub", "exp", "", "`jnp.sinh` computes such a difference without it"),
    ("sub add", "cos 1", "", "`2 * jnp.sin(x / 2)**2` is 1 - cos(x) without it"),
    (
        "sub",
        "",
        _SQUARES,
        "`(x - y) * (x + y)` is x**2 - y**2 without it; for a variance subtract the mean first",
    ),
    (
        "sub add",
        "sqrt",
        "input 1",
        "`sqrt(a) - b` is `(a - b**2) / (sqrt(a) + b)`, with `a - b**2` simplified by hand",
    ),
    *(
        ("sub", f"div {op}", _SQUARES, "Subtract the mean before squaring, as `jnp.var` does")
        for op in _SQUARES.split()
    ),
    ("log", "add", "", "`jnp.log1p(x)` computes log(1 + x) without it"),
)


def report(facts: Numerics, full: bool = False) -> Report:
    """Returns the sentences, the tables (`full`: with all of their rows) and the tint."""
    tint: dict[Span | None, tuple[float, str]] = {}  # a line's tint is a sum: one equation each
    for one in facts.equations:
        if one.total > 1:
            digits, line = (one.lost, one.path[-1]), facts.spans[one.path[-1]]
            tint[line] = max(digits, tint.get(line, digits))
    overlay = (Overlay("digits lost", "jaxpr", {i: n for n, i in tint.values()}),) if tint else ()
    most = None if full else _ROWS if facts.losses else _ROWS_CLEAN
    parts = (_equations, _modules, _results)
    tables = tuple(table for part in parts for table in part(facts, most))
    return Report("Numerics", tuple(_findings(facts))[:_MOST], tables, overlay)


def _findings(facts: Numerics) -> Iterator[Finding]:
    for promotion in facts.promotions[:_MOST]:
        yield Finding(_promoted(facts, promotion), "counted", (promotion.id,), weight=1.0)
    residues = [loss for loss in facts.losses if loss.kind == "residue"]
    for loss in [one for one in facts.losses if one.kind != "residue"][:_MOST]:
        yield Finding(_loss_text(facts, loss), "measured", (loss.execution.path[-1],), weight=1.0)
    if residues:
        text = _residue(facts, residues[0], len(residues) - 1)
        ids = tuple(dict.fromkeys(loss.execution.path[-1] for loss in residues))
        yield Finding(text, "measured", ids, weight=0.6)
    wrong = math.isinf(facts.difference)  # what rounding does not do
    rest = [Finding(_compiled(facts), "measured", weight=1.0 if wrong else 0.4)]
    if not facts.losses and facts.run.results:
        found = Finding(_no_loss(facts), "measured", weight=0.5)
        # More than rounding does, it is the answer to "why is jit not as eager".
        compiled_leads = facts.difference > max(facts.worst[0], 1)
        rest.insert(compiled_leads, found)
    yield from rest
    floats = any(one.ulps is not None for one in facts.run.differences)
    if floats and not facts.run.executions and not facts.run.results:
        text = "How many digits are lost is not measured: it computes no "
        text += "float32, float16, bfloat16 or complex64."
        yield Finding(text, "unknown", weight=0.1)


def _no_loss(facts: Numerics) -> str:
    # An exact result of 0 counts as no error: what was compiled may be far from it. Where both
    # runs differ by clearly more than the errors, the bound is that of op by op alone.
    alone = facts.difference > 8 * max(facts.worst[0], 1)
    error, dtype = facts.worst if alone else facts.bound
    many, part = "digits", ""
    if error >= 10:
        many, most = "many digits", BITS[dtype] * math.log10(2)
        part = f", {digits_lost(error, dtype):.0f} of its {most:.0f} digits"
    text = f"{'Op by op, no' if alone else 'No'} line loses {many}: the error of the results"
    text += f"{' op by op' if alone else ', op by op and compiled,'} is at most {_at_most(error)}"
    return f"{text} of {dtype}{part}."


def _at(facts: Numerics, span: Span | None) -> str:
    return located(span, quoter(facts.subject()))


def _promoted(facts: Numerics, one: Promotion) -> str:
    return (
        f"`{one.opcode}` in {_at(facts, one.span)} makes {one.narrow} of the program "
        f"{one.wide.dtype}, because its other operand is {one.other}: "
        f"{count(one.equations, 'equation')} then compute in {one.wide.dtype}. "
        f"Convert that operand: `.astype({_LONG[one.narrow.dtype]})`."
    )


def _equation_at(facts: Numerics, loss: DigitLoss) -> str:
    """Returns "`add` of Model / Dense_0 in model.py:3 (y = model.apply(p, x))"."""
    path = loss.execution.path
    row = next((one for one in facts.equations if one.path == path and one.module), None)
    module = f" of {by_module.module_text(row)}{' (backward)' * row.backward}" if row else ""
    return f"`{loss.opcode}`{module} in {_at(facts, loss.span)}"


def _residue(facts: Numerics, loss: DigitLoss, more: int) -> str:
    one = loss.execution
    likewise = f"; {count(more, 'more equation')} likewise" if more else ""
    return (
        f"{_equation_at(facts, loss)} adds terms that cancel: it gives {one.value:.2g}, the "
        f"program in float64 {one.exact:.2g}. Most likely its exact result is 0, and both are "
        f"rounding errors{likewise}."
    )


def _loss_text(facts: Numerics, loss: DigitLoss) -> str:
    one, equation = loss.execution, _equation_at(facts, loss)
    compiled = convert_ulps(loss.result.compiled, loss.result.dtype, one.dtype)
    total = one.total if loss.kind == "accumulation" else max(one.total, compiled)
    digits = max(1, round(digits_lost(total, one.dtype)))
    most = round(BITS[one.dtype] * math.log10(2))
    loses = f"{equation} loses {digits} of the {most} digits of {one.dtype}"
    if one.iterations:
        steps = " within iteration ".join(str(n) for n in reversed(one.iterations))
        loses += f" by iteration {steps}"
    if loss.kind == "overflow":
        cure = "divide by the largest element first"
        if loss.opcode == "exp":
            cure = "subtract the maximum first, as jax.nn.softmax and jax.nn.logsumexp do"
        return f"{equation} overflows {one.dtype}: {one.exact:.1e} in float64; {cure}."
    if loss.kind == "underflow":
        return f"{loses}: an operand is 0 in {one.dtype} and not in float64."
    if loss.kind == "rounding":
        cure = _by_precision(facts.run.dots.get(one.path))
        return f"{loses} by its own rounding: {_gives(one, most)}.{cure}"
    if loss.kind == "accumulation":
        return f"{loses}: its rounding errors add up over {loss.times:,} executions."
    cure = _cure(loss)
    if loss.kind == "cancellation":
        sizes = [abs(x) for x in one.read if x is not None]
        same = max(1, round(math.log10(max(sizes) / max(abs(one.exact), 1e-300))))
        agree = count(min(same, most), "digit")
        return f"{loses} by cancellation: its operands agree in about {agree}.{cure}"
    times = ulps_text(one.total / max(loss.before, 1.0))
    return f"{loses}: it makes the error of its operands {times} times larger.{cure}"


def _gives(one: RoundingExecution, most: int) -> str:
    """Returns both values, with as many digits as it takes to tell them apart."""
    for digits in range(3, most + 3):
        value, exact = f"{one.value:.{digits}g}", f"{one.exact:.{digits}g}"
        if value != exact:
            break
    return f"it gives {value}, the program in float64 {exact}"


def _by_precision(dot: DotRounding | None) -> str:
    """Returns what precision=HIGHEST would gain for a product; "" if little."""
    if dot is None or dot.highest is None or dot.highest * _GAIN > dot.here:
        return ""
    cure = "`precision=jax.lax.Precision.HIGHEST` in the call"
    if dot.precision == "DEFAULT":
        cure = f"`jax.default_matmul_precision('highest')`, or {cure}"
    here = f"its own error here is {ulps_text(dot.highest)} ulps instead of "
    here += ulps_text(dot.here)
    return f" At precision=HIGHEST {here}: {cure}."


def _cure(loss: DigitLoss) -> str:
    operands = zip(loss.operands, loss.execution.read, strict=True)
    made = {opcode or ("1" if x in (1, -1) else "input") for opcode, x in operands}
    for opcodes, needed, allowed, text in _CURES:
        known = {*needed.split(), *allowed.split()}
        if loss.opcode in opcodes.split() and {*needed.split()} <= made <= known:
            return f" {text}."
    return ""


def _compiled(facts: Numerics) -> str:
    unequal = [one for one in facts.run.differences if one.unequal]
    if not unequal:
        return "Compiled, the results equal the op-by-op results bit for bit."
    worst = max(unequal, key=lambda one: one.size)
    by = _differs(worst)
    if worst.elements > 1:
        by += f" in {worst.unequal:,} of {count(worst.elements, 'element')}"
    if facts.run.differs is not None:
        ident = facts.run.differs[-1]
        by += f", first at `{facts.names[ident]}` in {_at(facts, facts.spans[ident])}"
    name = f"`{_name(facts, worst.index)}`" if len(facts.run.differences) > 1 else "the result"
    text = f"Compiled, {name} ({worst.dtype}) {by}"
    if facts.run.strict:
        strict = max(facts.run.strict, key=lambda one: (one.size, one.unequal))
        # Half of it or more: without excess precision too, something else rounds differently.
        same = "stays" if strict.size >= worst.size / 2 else f"is {ulps_text(strict.size)} ulps"
        same = same if strict.unequal else "is gone"
        text += f"; with `xla_allow_excess_precision=false` the difference {same}"
    return f"{text}."


def _differs(one: ResultDifference) -> str:
    if one.ulps is None:
        return "differs from op by op"
    if not one.ulps:
        return "differs in the sign of 0 from op by op"
    if math.isinf(one.ulps):
        return "is finite in one run and not in the other, compiled or op by op,"
    if one.ulps >= 2 ** BITS.get(one.dtype, 53):  # not one digit agrees
        most = f"its largest element is {one.largest:.1g}" if one.largest else "it is 0"
        return f"differs by up to {one.apart:.1g} from op by op, where {most},"
    return f"differs by {ulps_text(one.ulps)} ulp{'s' * (one.ulps != 1)} from op by op"


def ulps_text(n: float) -> str:
    """Formats an error: below 100 as it is, and above coarsely, as the nearest power of 2."""
    if not n or n < 1:
        return "0" if not n else "<1"
    if math.isinf(n):
        return "inf"
    near = 2 ** round(math.log2(n)) if n >= _COARSE else round(n)
    return f"{near:,}" if near < 1e6 else f"{n:.0e}"


def _at_most(n: float) -> str:
    """Formats an upper bound of an error, rounded up: "3 ulps"."""
    if math.isinf(n):
        return "inf ulps"
    return count(2 ** math.ceil(math.log2(n)) if n >= _COARSE else max(math.ceil(n), 1), "ulp")


def _largest(rows: Sequence[_T], size: Callable[[_T], float], most: int | None) -> list[_T]:
    """Returns the rows of largest size, in their order."""
    order = sorted(range(len(rows)), key=lambda n: -size(rows[n]))
    return [rows[n] for n in sorted(order[:most])]


def _cell(n: float) -> Cell:
    return Cell(ulps_text(n), n if math.isfinite(n) else None)


def _equations(facts: Numerics, most: int | None) -> Iterator[Table]:
    """Yields the table of equations, those with the largest error."""
    rounded = [one for one in facts.equations if one.total > 1]
    shown = _largest(rounded, lambda one: one.total, most)
    quote = quoter(facts.subject())

    def row(one: EquationRounding) -> tuple[object, ...]:
        ident = one.path[-1]
        span, steps = facts.spans.get(ident), ", ".join(map(str, one.iterations))
        where = f"{span or ''}" + (f" (iteration {steps})" if steps else "")
        errors = _cell(one.own), _cell(one.total), round(one.lost)
        texts = facts.names[ident], where, quote(span), one.dtype
        return Cell(ident, ids=(ident,)), *texts, *errors

    columns = ("equation", "primitive", "line", "code", "type", *_ULPS)
    note = (
        "Own: against float64 of the same operands. Total: against the program in float64. Of the "
        "worst element, from 100 on to a power of 2; an element of an array counts as no smaller "
        "than the root mean square. Digits lost: of those that the narrowest type on the way had."
    )
    more = len(rounded) - len(shown)
    note += f" {count(more, 'more equation')}, with smaller errors." if more else ""
    if facts.run.unknown:
        listed = ", ".join(path[-1] for path in facts.run.unknown[:4])
        note += f" Not known in float64, and taken as exact: {listed}."
    if shown:
        yield table("Error by equation", columns, map(row, shown), note, stage="jaxpr")


def _modules(facts: Numerics, most: int | None) -> Iterator[Table]:
    """Yields the largest errors by module and pass, those with the largest error."""
    groups = by_module.grouped(facts.equations)
    rows = []
    for group in _largest(groups, lambda group: max(one.lost for one in group), most and _ROWS):
        types = ", ".join(dict.fromkeys(one.dtype for one in group))
        errors = _cell(max(one.own for one in group)), _cell(max(one.total for one in group))
        digits = round(max(one.lost for one in group))
        rows.append((*by_module.cells(group), len(group), types, *errors, digits))
    columns = ("module", "pass", NumberColumn("equations"), "type", *_ULPS)
    note = "The largest of its equations, each in ulps of its own type."
    more = len(groups) - len(rows)
    note += f" {count(more, 'more module')}, with smaller errors." if more else ""
    if rows:
        yield table("Error by module", columns, rows, note, stage="jaxpr")


def _results(facts: Numerics, most: int | None) -> Iterator[Table]:
    worst = sorted(facts.run.results, key=lambda one: -one.total)
    rows = [
        (_name(facts, one.index), one.dtype, _cell(one.total), _cell(one.compiled)) for one in worst
    ]
    columns = ("result", "type", NumberColumn("op by op"), NumberColumn("compiled"))
    note = "Ulps against float64; an exact 0 has no relative error, and counts as 0."
    rest = ", with smaller errors"
    if rows:
        yield table("Error of the results", columns, rows, note, most=most, rest=rest)


def _name(facts: Numerics, index: int) -> str:
    return facts.subject().outputs[index].name


def blocks(facts: Numerics, full: bool = False) -> list[Block]:
    """Returns the sentences, the tables, your lines, and the jaxpr."""
    answer = report(facts, full)
    module = facts.subject().jaxpr.module
    lines = equation_lines(facts.subject())
    listing = jaxpr_tab(facts.subject(), full, lines, in_text=full)
    tables = tuple(TableBlock(table) for table in answer.tables)
    help = "The errors of equations and results, in ulps."
    source: tuple[Tab, ...] = ()
    if answer.overlays:
        sources = facts.subject().sources
        panes = source_pane.blocks(module, sources, lines, answer.overlays[0], "digits")
        tint = "Your lines, tinted by the digits that they lose."
        source = (Tab("Your code", panes, help=tint, key="source"),) if panes else ()
    tabs = ((Tab("Errors", tables, True, help, "errors"),) if tables else ()) + (*source, listing)
    return [Findings(answer.findings), Tabs(tabs)]
