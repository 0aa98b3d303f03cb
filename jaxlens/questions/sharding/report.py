"""Reports shardings and collectives in sentences and tables, from `sharding/facts.py`."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial

from jaxlens.program.sentences import every, listed, passes
from jaxlens.questions.sharding.collectives import Collective
from jaxlens.questions.sharding.facts import Sharding
from jaxlens.questions.sharding.propagation import AxisCut
from jaxlens.report import (
    Cell,
    Finding,
    NumberColumn,
    Overlay,
    Report,
    Table,
    amount,
    count,
    duration,
    is_cause,
    share,
    table,
)

_MOST = 40  # values in the table


def report(sharding: Sharding) -> Report:
    """Reports the sharding of each array, and the bytes that collectives send."""
    findings = [*_answer(sharding)]
    if sharding.devices > 1:
        findings += [*_why(sharding), *_tried(sharding), *_beside(sharding), *_pieces(sharding)]
    some = (_travels(sharding), _others(sharding), _reasons(sharding))
    tables = *(table for table in some if table.rows), _arrays(sharding)
    moved = {c.id: c.most for c in sharding.collectives if c.most}
    overlay = Overlay("bytes sent by a device (estimate)", "optimized", moved)
    return Report("Sharding", tuple(findings[:6]), tables, (overlay,) if moved else ())


def _answer(sharding: Sharding) -> Iterator[Finding]:
    """Yields what the collectives send, and the lines that they came from."""
    if sharding.devices == 1:
        yield Finding("The program runs on one device: nothing is cut, and nothing travels.")
        return
    mesh = " x ".join(f"{name} {size}" for name, size in sharding.axes)
    among = f"{sharding.devices} devices{f' ({mesh})' if mesh else ''}"
    if not sharding.collectives:
        yield Finding(f"Nothing travels between the {among}: each computes on what it holds.")
        return
    most = max(sharding.collectives, key=lambda c: c.most or 0.0)
    opcodes = Counter(c.opcode for c in sharding.collectives)
    kinds = listed([count(n, opcode) for opcode, n in opcodes.items()])
    ids = tuple(c.id for c in sharding.collectives)
    unknown = sharding.unknown
    if len(unknown) == len(sharding.collectives):
        yield Finding(f"Each of {among} sends what is not known, in {kinds}.", "unknown", ids)
    else:
        least = "at least " if unknown else ""
        text = f"{_senders(sharding, among, least)} a run{passes(sharding.open)} in {kinds}"
        size, whole = most.most or 0.0, max(sharding.by_device.values(), default=0.0)
        if len(ids) > 1 and is_cause(size, whole):
            part = "most of it" if size > whole / 2 else f"{share(size, whole)} of it"
            text += f"; {part}, {amount(size)}, in {_name(most)}"
        if len(ids) == 1 or is_cause(size, whole):
            text += f" over {' and '.join(most.over)}" if most.over else ""
            text += f", from {listed(sorted(most.lines))}" if most.lines else ""
        yield Finding(f"{text}.", "estimate", ids)
    if unknown:
        names = listed([_name(c) for c in unknown])
        text = f"Not in the sum, as their groups or sizes are not known: {names}."
        yield Finding(text, "unknown", tuple(c.id for c in unknown))
    yield from between(sharding)


def _senders(sharding: Sharding, among: str, least: str) -> str:
    """Returns `Each of 8 devices sends 256 B`, or how many do and the most that any sends."""
    sent = sharding.by_device
    alike = len({amount(size) for size in sent.values()}) <= 1
    size = f"{least}{'' if alike else 'up to '}{amount(max(sent.values(), default=0))}"
    if len(sent) == sharding.devices:
        return f"Each of {among} sends {size}"
    each = " each" if alike and len(sent) > 1 else ""
    return f"{len(sent) or 'None'} of {among} {'send' if len(sent) > 1 else 'sends'} {size}{each}"


def between(sharding: Sharding) -> Iterator[Finding]:
    """Yields what travels between processes, where the devices are of several."""
    if not sharding.processes:
        return
    inside, crossing = sharding.between
    hosts = count(len(set(sharding.processes)), "process", "processes")
    across = [c for c in sharding.collectives if (c.between(sharding.processes) or (0, 0))[1]]
    if not across:
        text = f"Nothing travels between the {hosts}: all groups lie inside one."
        yield Finding(text, "unknown" if sharding.unknown else "counted")
        return
    text = f"All devices together send {amount(crossing)} a run{passes(sharding.open)} between "
    text += (
        f"the {hosts}, in {listed([_name(c) for c in across])}, and {amount(inside)} inside them."
    )
    yield Finding(text, "estimate", tuple(c.id for c in across))


def _why(sharding: Sharding) -> Iterator[Finding]:
    """Yields why the collective that sends most is there, of those where it is known."""
    if sharding.explained is None:
        return
    most, reason = sharding.explained
    axis = reason.cuts[0].axis
    cuts = [cut for cut in reason.cuts if cut.axis == axis]
    operands = [cut for cut in cuts if cut.value.startswith("operand")]
    reads = _asked(operands)
    makes = _asked(cut for cut in cuts if cut.value.startswith("result"))
    where = f" at {reason.line}" if reason.line else ""
    more = f", and of {count(most.values - 1, 'more value')}" if most.values > 1 else ""
    text = f"{_name(most)} is of the {reason.opcode}{where}{more}: "
    if reads:
        names = {cut.value for cut in operands}
        whose = "its operands are" if len(names) > 1 else f"its {operands[0].value} is"
        text += f"{whose} cut by {axis} {listed(reads)}; its result is "
        text += "too" if makes == reads else f"cut {listed(makes)}" if makes else "not"
    else:
        text += f"its result is cut by {axis} {listed(makes)}; its operands are not"
    yield Finding(f"{text}.", "counted", (most.id,))


def _tried(sharding: Sharding) -> Iterator[Finding]:
    """Yields the other sharding that sends least, with what it costs instead."""
    if not sharding.others:
        return
    here, *others = sharding.others
    known = [other for other in others if other.sent is not None]
    best = min([here, *known], key=lambda other: other.sent or 0.0)
    if here.sent is None or best.sent is None or not is_cause(here.sent - best.sent, here.sent):
        tried = count(len(others), "other sharding")
        less = "a fifth less" if best is not here else "less"
        yield Finding(f"Of {tried} that could be compiled, none sends {less}.", "compared")
        return
    text = f"With {best.change}, a device sends {amount(best.sent)} in place of {amount(here.sent)}"
    if here.held is not None and best.held is not None:
        text += f", holds {amount(best.held)} for {amount(here.held)}"
    flops = f"{amount(best.flops, 'flop')} for {amount(here.flops, 'flop')}"
    yield Finding(f"{text} and computes {flops}.", "compared")


def _others(sharding: Sharding) -> Table:
    """Returns a table of the shardings that were tried."""
    rows = (
        (other.change or "as it is", other.sent, other.held, other.flops)
        for other in sharding.others
    )
    sent, held = (NumberColumn(n, amount) for n in ("sent a device", "a device holds"))
    flops = NumberColumn("flops a device", partial(amount, unit="flop"))
    note = "Compiled, not run. Holds: arguments, results and temporaries."
    return table("Other shardings", ("change", sent, held, flops), rows, note)


def _asked(cuts: Iterable[AxisCut]) -> list[str]:
    """Returns `in dimension 0 (as input w asks)` of each that differs."""
    texts = (f"in dimension {c.dimension}{f' (as {c.asks} asks)' * bool(c.asks)}" for c in cuts)
    return list(dict.fromkeys(texts))


def _beside(sharding: Sharding) -> Iterator[Finding]:
    """Yields how many collectives are waited for at once, and what runs beside the others."""
    if not sharding.overlaps:
        return
    hidden = [o for o in sharding.overlaps if o.kernels]
    exposed, all_ = len(sharding.overlaps) - len(hidden), len(sharding.overlaps)
    text = f"{exposed} of {count(all_, 'collective')} {'is' if exposed == 1 else 'are'} waited for"
    text += " at once"
    if not exposed:
        text = f"Kernels run beside {'the' if all_ == 1 else 'each of'} {count(all_, 'collective')}"
    elif hidden:
        text += f", kernels run beside the other{f' {len(hidden)}' if len(hidden) > 1 else ''}"
    travel = [
        seconds for c in sharding.collectives if (seconds := _travel(sharding, c)) is not None
    ]
    if sharding.open or len(travel) < len(sharding.collectives):
        yield Finding(f"{text}.", "counted")
        return
    text += f"; by published rates the traffic takes at least {duration(sum(travel))}"
    if hidden:
        beside = duration(sum(o.seconds or 0.0 for o in hidden))
        text += f", those kernels {beside}"
    yield Finding(f"{text}.", "estimate", tuple(o.collective for o in sharding.overlaps))


def _travel(sharding: Sharding, collective: Collective) -> float | None:
    """Returns the least seconds of a collective in a run, as if all links carried it."""
    sent, rates = collective.most, sharding.rates
    return sent / rates.links if sent is not None and rates and rates.links else None


def _name(collective: Collective) -> str:
    """Returns its id, followed by the opcode if the id does not begin with it."""
    id, opcode = collective.id, collective.opcode
    return id if id.startswith(opcode) else f"{id} ({opcode})"


def _pieces(sharding: Sharding) -> Iterator[Finding]:
    """Yields how many inputs are partitioned, and which are replicated."""
    cut = [spread for spread in sharding.inputs if spread.tiling and spread.tiling.parts > 1]
    whole = [spread for spread in sharding.inputs if spread.tiling and spread.tiling.parts <= 1]
    if cut or whole:
        all_ = len(sharding.inputs)
        some = f"{len(cut)} of {count(all_, 'input')}" if cut else "No input"
        some = f"{every(all_)} inputs".capitalize() if len(cut) == all_ > 1 else some
        yield Finding(f"{some} {'are' if len(cut) > 1 else 'is'} cut into pieces.")
    whole.sort(key=lambda spread: -(spread.type.bytes or 0))
    size = sum(spread.type.bytes or 0 for spread in whole)
    if is_cause(size, size + sum((spread.piece and spread.piece.bytes) or 0 for spread in cut)):
        names = listed([f"{spread.name} {spread.type}" for spread in whole if spread.type.bytes])
        yield Finding(f"Every device holds {amount(size)} of inputs whole: {names}.")
    unknown = [spread.name for spread in sharding.inputs if spread.tiling is None]
    if unknown:
        yield Finding(f"Not known how these lie: {listed(unknown)}.", "unknown")


def _travels(sharding: Sharding) -> Table:
    """Returns a table with one row per collective."""
    rows = (
        (
            Cell(_name(c), ids=(c.id,)),
            " and ".join(c.over) or ("-" if c.groups is not None else "unknown"),
            _groups(c),
            c.bytes,
            c.trips,
            Cell(f"{amount(c.most)}{_of(c, sharding.devices)}", c.most),
            *_times(c, sharding),
            *_across(c, sharding),
            listed(sorted(c.lines)),
        )
        for c in sharding.collectives
    )
    note = (
        "Bytes: what a device puts in, or gets out of an all-gather. Sent: an estimate, as if each "
        "group were a ring."
    )
    if sharding.overlaps:
        note += " Takes at least: at the published rate of all its links, one direction."
    if sharding.processes:
        note += " Inside and between: of all devices, a ring enters and leaves each process once."
    each, sent = (NumberColumn(n, amount, n) for n in ("bytes a device", "sent a device"))
    inside, between = (
        NumberColumn(n, amount, rare=True) for n in ("inside processes", "between them")
    )
    least, beside = (
        NumberColumn(n, duration, "s", rare=True) for n in ("takes at least", "kernels beside it")
    )
    sizes = (each, NumberColumn("runs"), sent, least, beside, inside, between)
    columns = ("collective", "over", "groups", *sizes, "from lines")
    return table("What travels", columns, rows, note, stage="optimized")


def _times(collective: Collective, sharding: Sharding) -> tuple[object, object]:
    """Returns its least seconds, and those of the kernels beside it; None on a CPU."""
    beside = {o.collective: o for o in sharding.overlaps}
    if (overlap := beside.get(collective.id)) is None:
        return None, None
    return _travel(sharding, collective), overlap.seconds if overlap.kernels else Cell("-")


def _reasons(sharding: Sharding) -> Table:
    """Returns a table with one row per cut value of each collective's op."""
    rows = (
        (
            Cell(reason.collective, ids=(reason.collective,)),
            f"{reason.opcode} {reason.line}".strip(),
            cut.value,
            cut.axis,
            str(cut.dimension),
            cut.asks or "unknown",
            listed(cut.lines) or "-",
        )
        for reason in sharding.reasons
        for cut in reason.cuts
    )
    asked = ("asked for by", "passed on at")
    columns = ("collective", "of", "value", "cut by", "in dimension", *asked)
    note = (
        "By Shardy's own steps, run here once more: an op that XLA's partitioner had otherwise is "
        "left out."
    )
    return table("Why it travels", columns, rows, note, most=_MOST, stage="optimized")


def _of(collective: Collective, devices: int) -> str:
    """Returns `, 7 of 8` for a collective in which not all devices send."""
    sent = collective.by_device
    senders = devices if sent is None else len(sent)
    once = " a pass" if collective.open else ""
    return f"{once}, {senders} of {devices}" if senders != devices else once


def _across(collective: Collective, sharding: Sharding) -> tuple[object, object]:
    """Returns what travels inside processes and between them; (None, None) for one process."""
    if not sharding.processes:
        return None, None
    return collective.between(sharding.processes) or ("unknown", "unknown")


def _groups(collective: Collective) -> str:
    """Returns `4 of 2: 0 1 | 2 3 | ...`, or a permute's pairs."""
    groups = collective.groups
    if groups is None:
        return "unknown"
    if collective.opcode == "collective-permute":
        return listed([f"{pair[0]}→{pair[1]}" for pair in groups if len(pair) == 2], 6)
    sizes = "/".join(map(str, sorted({len(group) for group in groups})))
    shown = " | ".join(" ".join(map(str, group)) for group in groups[:4])
    return f"{len(groups)} of {sizes}: {shown}{' | ...' if len(groups) > 4 else ''}"


def _arrays(sharding: Sharding) -> Table:
    """Returns a table with one row per input, output and distinct value."""
    spreads = (*sharding.inputs, *sharding.outputs, *sharding.values[:_MOST])
    rows = (
        (
            spread.name,
            spread.kind,
            spread.type,
            spread.spec or ("unknown" if spread.tiling is None else "-"),
            spread.tiling and spread.tiling.parts,
            spread.tiling and spread.tiling.copies,
            spread.piece
            and Cell(f"{spread.piece} {amount(spread.piece.bytes)}", spread.piece.bytes),
            spread.line,
        )
        for spread in spreads
    )
    left = len(sharding.values) - _MOST
    cut = f" {left:,} smaller values are left out." if left > 0 else ""
    note = (
        "Values: as XLA's partitioner was given them, those that are alike once; values within a "
        f"shard_map are each device's own.{cut}"
    )
    sizes = (
        NumberColumn("pieces"),
        NumberColumn("copies"),
        NumberColumn("a device holds", bar="B"),
    )
    columns = ("array", "kind", "type", "cut as", *sizes, "from line")
    return table("Arrays", columns, rows, note)
