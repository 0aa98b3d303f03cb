"""The roofline of each kernel: whether flops or bytes bound it, and how near it comes to the bound.

A kernel takes at least its flops divided by the device's flops per second, and at least its bytes
divided by the memory bandwidth. The larger of the two is its best possible time. It is an estimate,
because bytes that come from a cache can move faster.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from statistics import median

from jaxlens.captures import Capture
from jaxlens.errors import LensError, OptionError, UnavailableError
from jaxlens.ir.driver import Run
from jaxlens.ir.facts import Limits
from jaxlens.program.counted import Cost, Counted, counted
from jaxlens.program.kernel_cost import KernelCost, Point, kernel_costs, memories_of, points
from jaxlens.program.kernels import Work, works
from jaxlens.program.published_limits import published
from jaxlens.program.sentences import listed, passes
from jaxlens.program.subject import Forwarding, Given
from jaxlens.questions.cost.modules import ModuleCost, module_costs, shares
from jaxlens.questions.cost.report import report as cost_report
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
    percent,
    share,
    table,
)

_ROWS = 20
_SECONDS = NumberColumn("in a run", duration, "s")
_SHARE = NumberColumn("share", percent)
_FLOPS = NumberColumn("flops", partial(amount, unit="flop"), "flops")
_KERNEL = ("kernel", "from lines")
_MUCH = 0.05  # share of the bytes from which one kernel is named


@dataclass(frozen=True)
class CostFacts(Forwarding):
    """All facts about the cost of a program. Attributes of `Cost` can be read from it too.

    Attributes:
        kernels: The kernels of the compiled program with their flops and bytes.
        counts: The counts over the equations and by XLA, with the program.
        limits: The limits of the roofline's device; None without a roofline.
        seconds: Measured seconds per run, by instruction; None where nothing was run.
        run: The measured executions; None where nothing was run.
        works: The kernels with their instructions.
    """

    _forwarded = Cost
    kernels: tuple[KernelCost, ...]
    counts: Counted = field(repr=False, compare=False)
    limits: Limits | None
    seconds: Mapping[str, float] | None
    run: Run | None = field(repr=False, compare=False)
    works: Given[list[Work]] = field(repr=False, compare=False)
    _modules: Given[tuple[ModuleCost, ...]] = field(repr=False, compare=False)

    def _record(self) -> Cost:
        if self.cost is None:
            raise UnavailableError(self.counts.lacking)
        return self.cost

    @property
    def cost(self) -> Cost | None:
        """The count over the equations; None for a program without a jaxpr."""
        return self.counts.cost

    @property
    def modules(self) -> tuple[ModuleCost, ...]:
        """The cost by module and layer, each followed by those within it; () for none."""
        return self._modules.get()

    @property
    def mfu(self) -> float | None:
        """Model flops utilisation: counted flops per second over the device's peak for products.

        The flops are those of the equations, without what `jax.checkpoint` computes again. The
        seconds are the median of the runs. None without `run`, and without the limits of the device
        that ran it (`roofline`), and where the trips of a loop are unknown.
        """
        if self.run is None or self.limits is None or self.cost is None or self.cost.flops is None:
            return None
        if not _is_of(self.limits, self.counts.subject.program.target.kind):
            return None
        products = Counter[str]()
        for kernel in self.kernels:
            products[kernel.dtype] += kernel.flops if kernel.product else 0
        dtype = max(products, key=lambda name: products[name], default="")
        peak = self.limits.flops(dtype, product=True)
        flops = self.cost.flops - self.cost.recomputed
        return flops / (median(self.run.seconds) * peak * self.counts.devices)

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """The kernels on the roofline, by best possible time, longest first; () without limits."""
        return points(self.kernels, self.limits, self.seconds) if self.limits else ()


def facts(capture: Capture, roofline: str = "", run: int = 0) -> CostFacts:
    """Computes the facts about cost; without a compiled program, those of the equations alone.

    Args:
        capture: Any capture.
        roofline: The device whose limits the kernels are compared with; see `limits_of`.
        run: How often to execute the program to measure its kernels; 0 to not run it.
    """
    measured = capture.driver.run_watched(run) if run else None
    limits = limits_of(capture, roofline) if roofline else None
    compiled = Given(lambda: kernel_costs(capture))
    kernels, both = compiled.or_else(()), counted(capture)
    if both.cost is not None:
        kernels = tuple(_of_pallas(capture, both.cost, kernel) for kernel in kernels)
    if both.cost is None and not kernels:
        raise UnavailableError(compiled.lacking or both.lacking)
    seconds = measured.instructions if measured else None
    return CostFacts(
        kernels,
        both,
        limits,
        seconds,
        measured,
        Given(lambda: works(capture)),
        Given(lambda: module_costs(capture, kernels, seconds)),
    )


def _of_pallas(capture: Capture, cost: Cost, kernel: KernelCost) -> KernelCost:
    """Returns a kernel of Pallas with the flops of its equation: of its body, by grid points."""
    if not kernel.uncounted:
        return kernel
    loops = {loop.id: loop for loop in cost.loops if loop.kind == "pallas_call" and loop.trips}
    try:
        equations = [id for id in capture.links.back(kernel.instruction, "jaxpr") if id in loops]
    except LensError:
        return kernel
    if len(equations) != 1:
        return kernel
    loop = loops[equations[0]]
    once = loop.flops * (loop.trips or 1)
    return replace(kernel, once=once, flops=kernel.runs * once, unknown=0)


def limits_of(capture: Capture, device: str) -> Limits:
    """Returns the limits of a roofline.

    Args:
        capture: The program; the element types of its dots and convolutions are measured.
        device: "here" for the capture's device: measured where this process has it, else as
            published; or a name such as "h100".

    Raises:
        OptionError: No published limits of the device are known here.
        UnavailableError: The device cannot be measured.
    """
    if device != "here":
        return published(device)
    target = capture.program.target
    dtypes = (kernel.dtype for kernel in kernel_costs(capture) if kernel.product)
    measured = None if target.absent else capture.driver.limits(dtypes)
    if measured is None:
        if any(kind in target.kind.lower() for kind in ("cpu", "unknown")):
            raise UnavailableError(
                "a saved capture runs nowhere that could be measured: name a device, as in "
                "--roofline=h100"
            )
        return published(target.kind)
    return measured


def report(facts: CostFacts) -> Report:
    """Reports the cost of the equations, and the flops, bytes and bound of each kernel."""
    equations, kernels = cost_report(facts.counts), roofline(facts)
    first, *rest = equations.findings
    return Report(
        "Cost",
        (first, *shares(facts.modules), *kernels.findings, *rest),
        (*equations.tables, *kernels.tables),
        (*equations.overlays, *kernels.overlays),
    )


def roofline(facts: CostFacts) -> Report:
    """Reports the kernels in tables, and their bounds in sentences."""
    limits = facts.limits
    findings: list[Finding] = []
    tables: list[Table] = []
    if facts.kernels:
        findings += _moves(facts.kernels)
        tables.append(kernel_table(facts.kernels))
    if limits is not None:
        findings += _bounds(facts.points, limits)
        kind = facts.counts.subject.program.target.kind
        if kind and not _is_of(limits, kind):
            text = f"The kernels are those that XLA made for {kind}; it would make others for "
            findings.append(Finding(f"{text}{limits.name}: look with --target.", "unknown"))
        tables.append(_bound_table(facts.points, limits))
    if facts.mfu is not None and limits is not None:
        recomputed = facts.cost.recomputed if facts.cost else 0
        without = ", without what jax.checkpoint computes again," if recomputed else ""
        text = f"The flops per second of the measured runs{without} were compared with "
        devices = facts.counts.devices
        on_all = f" times {devices} devices" if devices > 1 else ""
        text += f"{limits.name}'s peak{on_all}."
        tail = f": model flops utilisation (MFU) is {facts.mfu:.1%}"
        findings.append(Finding(text, "measured", tail=f"{tail}."))
    if facts.seconds is not None:
        tables += _measured_tables(facts, facts.seconds)
    moved = {k.instruction: float(k.bytes or 0) for k in facts.kernels}
    overlay = (Overlay("bytes moved (B)", "optimized", moved),) if moved else ()
    return Report("Kernels", tuple(findings), tuple(tables), overlay)


def _is_of(limits: Limits, kind: str) -> bool:
    """Whether limits are those of the device kind that a program is compiled for."""
    try:
        return limits.measured or published(kind) is limits
    except OptionError:
        return False


def _most(weights: Iterable[tuple[KernelCost, float]]) -> tuple[str, float]:
    """Returns the line with the largest sum of weights; kernels without a line count by name."""
    sums: defaultdict[str, float] = defaultdict(float)
    for kernel, weight in weights:
        sums[kernel.lines[0] if kernel.lines else kernel.name] += weight
    return max(sums.items(), key=lambda pair: pair[1])


def _moves(kernels: Sequence[KernelCost]) -> Iterator[Finding]:
    """Yields the findings on the bytes that the kernels move, and on what is not counted."""
    memories = memories_of(kernels)
    whole = sum(kernel.bytes or 0 for kernel in kernels)
    of = passes(loop for kernel in kernels for loop in kernel.open)
    if whole:
        most = max(kernels, key=lambda kernel: kernel.bytes or 0)
        line, size = _most((kernel, kernel.bytes or 0) for kernel in kernels)
        n = len(kernels)
        subject = f"{n:,} kernels read and write" if n != 1 else "one kernel reads and writes"
        inside = f" in {next(iter(memories))}" if len(memories) > 1 else ""
        text = f"{line} moves {share(size, whole)} of the {amount(whole)} that the {subject}"
        text += f"{inside}{' in a run' if of else ''}{of}"
        if (most.bytes or 0) >= _MUCH * whole:
            text += f"; {most.name} alone {share(most.bytes or 0, whole)}"
        yield Finding(f"{text}.", ids=(most.instruction,))
    others = [f"{amount(size)} in {name}" for name, size in memories.items()][1:]
    if others:
        yield Finding(f"Besides, kernels read and write {listed(others)}.")
    calls = [kernel.name for kernel in kernels if kernel.unknown]
    if calls:
        text = f"What custom calls compute is not known, so their flops are not: {listed(calls)}."
        yield Finding(text, "unknown")


def _bounds(points: Sequence[Point], limits: Limits) -> Iterator[Finding]:
    """Yields the finding on the program's bound; without figures for measured limits."""
    whole = sum(point.seconds for point in points)
    if whole and limits.measured:
        yield Finding(
            f"The roofline is that of {limits.name}: {limits.source}. It is measured, so its "
            "figures stand in a table that a comparison leaves out.",
            "measured",
        )
    elif whole:
        line, took = _most((point.kernel, point.seconds) for point in points)
        memory = sum(point.seconds for point in points if point.bound == "memory")
        of = passes(loop for point in points for loop in point.kernel.open)
        text = (
            f"On {limits.name} a run{of} takes {duration(whole)} at best, {share(took, whole)} of "
            f"it for {line}; {share(memory, whole)} of it is bound by memory."
        )
        yield Finding(text, "estimate", (points[0].kernel.instruction,))


def kernel_table(kernels: Sequence[KernelCost]) -> Table:
    """Returns a table of the flops and bytes of each kernel, by the sum of both shares."""
    flops = sum(kernel.flops for kernel in kernels) or 1
    moved = sum(kernel.bytes or 0 for kernel in kernels) or 1
    memories = memories_of(kernels)
    main, *others = memories if len(memories) > 1 else ["bytes"]

    def weight(kernel: KernelCost) -> float:
        in_all = sum(kernel.memories.values()) / (memories.total() or 1)
        return kernel.flops / flops + in_all

    looped = any(kernel.runs != 1 for kernel in kernels)
    rows = (
        (
            *_named(kernel),
            Cell(f"{kernel.runs:,}{'?' if kernel.open else ''}", kernel.runs) if looped else None,
            None if kernel.uncounted else kernel.flops,
            None if kernel.uncounted else kernel.flops / flops,
            kernel.bytes,
            (kernel.bytes or 0) / moved,
            *(kernel.memories.get(name, 0) for name in others),
            _intensity(kernel),
        )
        for kernel in sorted(kernels, key=lambda kernel: (-weight(kernel), kernel.instruction))
    )
    note = "A multiply-add is 2 flops, of complex numbers 8; loops by their trips; bytes without "
    note += "any cache."
    note += f" flop/B is of {main}." if others else ""
    if any(kernel.open for kernel in kernels):
        note += f" Of a run{passes(loop for kernel in kernels for loop in kernel.open)}."
    columns: tuple[str | NumberColumn, ...] = (
        *_KERNEL,
        NumberColumn("runs", rare=True),
        _FLOPS,
        NumberColumn("% of flops", percent, none=""),
        NumberColumn(main, amount, "bytes"),
        NumberColumn(f"% of {main}", percent),
        *(NumberColumn(name, amount, "bytes") for name in others),
        NumberColumn("flop/B"),
    )
    title, rest = "Flops and bytes by kernel", " smaller ones: .kernels has all"
    return table(title, columns, rows, note, most=_ROWS, rest=rest, stage="optimized")


def _intensity(kernel: KernelCost) -> Cell:
    if kernel.bytes == 0:
        return Cell("-")
    known = kernel.intensity
    return Cell("unknown" if known is None else f"{float(f'{known:.3g}'):,g}", known)


def _named(kernel: KernelCost) -> tuple[Cell, str]:
    """Returns the first cells of a kernel's row: its name, and its lines."""
    return Cell(kernel.name, ids=(kernel.instruction,)), listed(kernel.lines, 2)


def _bound_table(points: Sequence[Point], limits: Limits) -> Table:
    """Returns a table of the bound of each kernel."""
    whole = sum(point.seconds for point in points)
    rows = (
        (
            *_named(point.kernel),
            _intensity(point.kernel),
            point.bound,
            point.seconds,
            point.seconds / whole,
        )
        for point in points
        if whole
    )
    tops = [f"{amount(rate, 'flop/s')} {dtype}" for dtype, rate in limits.products.items()]
    if limits.vector is not None:
        tops.append(f"{amount(limits.vector, 'flop/s')} outside of products")
    note = (
        f"{listed(tops, 9)}, {amount(limits.bandwidth, 'B/s')}: {limits.source}. The seconds are "
        "the best possible by these, an estimate; what stays in a cache can be faster than memory."
    )
    at_best = NumberColumn("at best", duration, "s")
    columns = (*_KERNEL, NumberColumn("flop/B"), "bound by", at_best, _SHARE)
    shown = table(f"Roofline of {limits.name}", columns, rows, note, most=_ROWS, stage="optimized")
    return replace(shown, volatile=limits.measured)


def _measured_tables(facts: CostFacts, seconds: Mapping[str, float]) -> Iterator[Table]:
    """Yields tables of measured seconds by source line and by kernel."""
    lines: Counter[str] = Counter()
    for kernel in facts.kernels:
        took = seconds.get(kernel.instruction, 0.0)
        lines[kernel.lines[0] if kernel.lines else ""] += took  # type: ignore[assignment]
    whole = sum(lines.values()) or 1.0
    by_line = ((line or "no line", s, s / whole) for line, s in lines.most_common() if s)
    note = "A kernel counts for the line of its product, or of its result."
    columns = ("line", _SECONDS, _SHARE)
    yield table("Measured by line", columns, by_line, note, most=_ROWS, volatile=True)

    best = {point.kernel.instruction: point.seconds for point in facts.points}
    timed = [(k, s) for k in facts.kernels if (s := seconds.get(k.instruction)) is not None]
    rows = (
        (
            *_named(kernel),
            took,
            took / whole,
            kernel.flops / took if took and kernel.flops else None,
            (kernel.bytes or 0) / took if took else None,
            best[kernel.instruction] / took if best and took else None,
        )
        for kernel, took in sorted(timed, key=lambda pair: -pair[1])
    )
    note = "One run, from the profiler, which slows small kernels: the shares say more."
    if unmeasured := len(facts.kernels) - len(timed):
        note += f" {count(unmeasured, 'kernel')} left no mark in the profile."
    does = NumberColumn("does", partial(amount, unit="flop/s"), none="")
    moves = NumberColumn("moves", partial(amount, unit="B/s"), none="")
    of_best = NumberColumn("of the best", percent, none="", rare=True)
    shown = (*_KERNEL, _SECONDS, _SHARE, does, moves, of_best)
    title = "Measured by kernel"
    yield table(title, shown, rows, note, most=_ROWS, volatile=True, stage="optimized")
