"""Compares ways to apply `jax.checkpoint`: each is traced and compiled, none is executed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.driver import REMAT, UNCHECKPOINTED
from jaxlens.ir.facts import Program
from jaxlens.ir.graph import Module, Span
from jaxlens.program.counted import count_module
from jaxlens.program.equations import written_out
from jaxlens.program.lines import shared_frames
from jaxlens.program.published_limits import refusal
from jaxlens.program.sentences import listed
from jaxlens.program.subject import Seen, Subject
from jaxlens.program.unrolled import Unrolled
from jaxlens.questions.memory.peak import MemoryUse, memory_use
from jaxlens.questions.memory.residuals import saved
from jaxlens.report import Cell, Finding, Table, amount, barred

CHECKPOINTED = "Python function that could be traced under jax.checkpoint"
_FORWARD, _BACKWARD = "jvp(", "transpose("  # in name stacks of the two passes of a gradient
_LOWER = 0.98  # share of the peak below which a trial counts as lower
Function = tuple[str, str]  # its file and name


@dataclass(frozen=True, slots=True)
class Tried:
    """The program with one way to take less memory, of `jax.checkpoint` or another.

    Attributes:
        name: What is checkpointed, or done, in words.
        code: The same in Python.
        peak: Bytes at the peak; None where the trial failed.
        saved: Bytes of residuals.
        flops: Arithmetic operations, multiplied by trip counts.
        elsewhere: Peak bytes in memories other than the device's main memory, by their names.
        takes: Bytes that it reserves from start to end.
        why: Why the trial failed; "" where it did not.
        loosened: Whether XLA removed the `opt-barrier`s that keep recomputation in place.
        over_loops: Whether unrolled loops were replaced by scans.
    """

    name: str
    code: str = ""
    peak: int | None = None
    saved: int | None = None
    flops: int | None = None
    elsewhere: Mapping[str, int] = field(default_factory=dict)
    why: str = ""
    loosened: bool = False
    over_loops: bool = False
    takes: int | None = None


def trials(capture: Capture) -> tuple[Tried, ...]:
    """Compiles the program with each way of `jax.checkpoint` that could change it.

    Raises:
        UnavailableError: It holds no function (a file, a Lowered), or has no backward pass.
    """
    live = capture.driver.live(CHECKPOINTED, traces=True)  # raises before JAX is imported
    from jaxlens.questions.memory.measure.checkpoint import attempts

    ways = list(attempts(live))
    jit = capture.program.jit
    if not saved(capture).backward:
        raise UnavailableError("nothing is differentiated here that jax.checkpoint could change")
    scans = [node for node in capture.jaxpr.module.nodes() if node.opcode == "scan"]
    lines = {str(node.owner): None for node in scans if node.owner and _BACKWARD not in node.scope}
    function = _differentiated(capture.jaxpr.module, capture.program)
    loops = f" ({listed([*lines])})" if lines else ""
    tried = [
        _trial(_placed(name, loops, function), _in_words_of(jit, code), make)
        for name, code, make in ways
        if scans or "scan" not in name
    ]
    try:
        now = memory_use(capture).peak
    except Exception as error:
        if refusal(error) is None:
            raise
        now = None
    if now and not any(_lowers(trial, now) for trial in tried):
        tried += _over_loops(capture)
    return tuple(tried)


def _placed(name: str, loops: str, function: str) -> str:
    """Returns what is checkpointed with the lines of its loops, or with its function."""
    if name == UNCHECKPOINTED:
        return name
    return name + (loops if "scan" in name else function)


def _differentiated(module: Module, program: Program) -> str:
    """Returns " (loss, cell 3:4)" of the function that is differentiated; "" for none, or several.

    It is the innermost function whose frames all equations of the forward pass share, unless
    others have them too: then it only calls what is differentiated.
    """
    forward, others = list[list[Span]](), list[Function]()
    for region in module.regions.values():
        if any(_FORWARD in node.scope for node in region.nodes):
            for node in region.nodes:
                spans = [span for span in reversed(node.spans) if not span.library]
                if _FORWARD not in node.scope:
                    others += [*map(_function, spans)]
                elif _BACKWARD not in node.scope and spans:
                    forward.append(spans)
    shared = shared_frames([[*map(_function, spans)] for spans in forward])
    if not shared or _function(forward[0][shared - 1]) in others:
        return ""
    first = min((spans[shared - 1] for spans in forward), key=lambda span: span.line)
    name = first.function.rpartition("<locals>.")[2]
    if name == program.name and not program.transforms:
        return ""  # it calls two gradients and does nothing else
    return f" ({name}, {first})"


def _function(span: Span) -> Function:
    return span.file, span.function


def _in_words_of(jit: str, code: str) -> str:
    """Returns the code for a library whose models hold functions, which `jax.checkpoint` refuses.

    Args:
        jit: The jit, as `Program.jit` names it.
        code: The code for arguments that are arrays.
    """
    if jit != "eqx.filter_jit" or "scan" in code:
        return code
    for name in ("grad", "checkpoint"):
        code = code.replace(f"jax.{name}(", f"eqx.filter_{name}(")
    return code


def _over_loops(capture: Capture) -> Iterator[Tried]:
    """Tries scans with a checkpointed body in place of unrolled loops, if there are any.

    In an unrolled loop XLA may merge recomputed values with those of the forward pass (CSE), or
    compute them early. In the body of a scan it can do neither, because a trip of the backward
    pass has only its own inputs.
    """
    lines = [loop.line for loop in written_out(capture)[1] if not loop.backward]
    if not lines:
        return
    within: list[Unrolled] = []  # loops in the differentiated function

    def spans(module: Module) -> list[tuple[int, int, int]]:
        loops = [n for n in written_out(capture, module)[1] if n.region == module.entry]
        within.extend(loops)
        return sorted((loop.first, loop.size, loop.count) for loop in loops)

    from jaxlens.questions.memory.measure.checkpoint import scan_attempt

    trial = _trial(*scan_attempt(capture.driver.live(CHECKPOINTED, traces=True), spans))
    if not within:
        why = "what is differentiated calls the function it stands in"
        trial = replace(trial, peak=None, why=why)
    where = [line for line in dict.fromkeys([n.line for n in within] or lines) if line]
    whose = f"the loop{'s' if len(where) > 1 else ''} at {listed(where)}" if where else "the loop"
    yield replace(trial, name=f"the body of a scan in place of {whose}", over_loops=True)


def _lowers(trial: Tried, now: int) -> bool:
    return trial.peak is not None and trial.peak < _LOWER * now


def _trial(name: str, code: str, make: Callable[[], Capture]) -> Tried:
    try:
        variant = make()
        checkpointed = any(node.opcode in REMAT for node in variant.jaxpr.module.nodes())
        if name == UNCHECKPOINTED and checkpointed:
            return Tried(name, code, why="one is in a body that cannot be traced again")
        if name != UNCHECKPOINTED and not checkpointed:
            return Tried(name, code, why="the gradient was made in another way than by jax.vjp")
        trial = _figures(name, code, memory_use(variant), variant)
    except UnavailableError as why:
        return Tried(name, code, why=str(why))
    except Exception as error:  # XLA's, which no public name holds
        refused = refusal(error)
        if refused is None:
            raise
        return Tried(name, code, why=refused.text, takes=refused.least)
    loosened = _has_barrier(variant.hlo.module) and not _has_barrier(variant.optimized.module)
    return replace(trial, loosened=loosened)


def _figures(name: str, code: str, use: MemoryUse, program: Seen) -> Tried:
    elsewhere = {space.name: space.peak for space in use.spaces}
    flops = count_module(program.jaxpr.module).counted
    return Tried(name, code, use.peak, use.saved.bytes, flops, elsewhere, takes=use.reserved)


def _has_barrier(module: Module) -> bool:
    return any(node.opcode == "opt-barrier" for node in module.nodes())


def sentences(tried: Sequence[Tried], now: int | None, subject: Subject) -> Iterator[Finding]:
    """Yields the findings on `jax.checkpoint`.

    Args:
        tried: The trials.
        now: Bytes at the peak of the program as it is.
        subject: The program as it is.
    """
    failed = [trial for trial in tried if trial.why]
    for trial in tried:
        if trial.name == UNCHECKPOINTED and trial.peak is not None and now:
            yield _without(trial, now, subject)
    worked = [t for t in tried if t.peak is not None and t.name != UNCHECKPOINTED]
    best = min(worked, key=lambda trial: trial.peak or 0, default=None)
    if best and now and _lowers(best, now):
        lead, stacks = "", ""
        if best.over_loops:
            lead = (
                "No way of jax.checkpoint tried with the loop unrolled lowers the peak by more "
                "than 2%. "
            )
            stacks = " (what stacks its inputs is counted in it)"
        # Values moved to another memory are not a saving, so they are named.
        least = 0.01 * (best.peak or 0)
        spaces = [f"{amount(n)} of {m}" for m, n in best.elsewhere.items() if n > least]
        beside = f" beside {listed(spaces)}" if spaces else ""
        flops = _change(best.flops, count_module(subject.jaxpr.module).counted)
        yield Finding(
            f"{lead}With jax.checkpoint round {best.name} the peak is {amount(best.peak)}{beside}, "
            f"{_change(best.peak, now)}{stacks}, and flops {flops}: {best.code}.",
        )
    elif best and now:
        yield Finding("No way of jax.checkpoint that was tried lowers the peak by more than 2%.")
    if now and any(trial.loosened and not _lowers(trial, now) for trial in worked):
        yield Finding(loosened(subject.program.target.platform), "xla")
    if now and any(trial.over_loops for trial in failed):
        yield Finding(
            "A `lax.scan` over the steps of the loop, its body under jax.checkpoint, would keep "
            "what each step hands to the next and compute the rest again; by how much that "
            "lowers the peak was not tried.",
            "estimate",
        )
    for trial in failed:
        if trial.name == UNCHECKPOINTED:
            text = f"Whether the jax.checkpoint that is there saves memory is unknown: {trial.why}."
            yield Finding(text, "unknown")
            continue
        yield Finding(
            f"jax.checkpoint round {trial.name} could not be tried: {trial.why}.", "unknown"
        )


def _without(trial: Tried, now: int, subject: Subject) -> Finding:
    """Returns whether the `jax.checkpoint` that is there lowers the peak."""
    flops = _change(trial.flops, count_module(subject.jaxpr.module).flops)
    peak = trial.peak or 0
    figures = f"without it the peak is {amount(peak)}, {_change(peak, now)}, and flops {flops}"
    if peak < _LOWER * now:
        return Finding(f"The jax.checkpoint that is there costs memory: {figures}.")
    if now < _LOWER * peak:
        return Finding(f"The jax.checkpoint that is there saves memory: {figures}.")
    return Finding(f"The jax.checkpoint that is there saves no memory: {figures}.")


def loosened(platform: str) -> str:
    """Returns the sentence on barriers of `jax.checkpoint` that XLA removes on a platform."""
    return (
        f"XLA takes jax.checkpoint's barriers out on {platform}, so that what is computed again "
        "may come long before it is needed: on another device the peak can fall where it does not "
        "here."
    )


def table(tried: Sequence[Tried], use: MemoryUse, subject: Subject) -> Table:
    """Returns a table of the program as it is and with each way of `jax.checkpoint`."""
    if not tried:
        return Table("With jax.checkpoint", (), ())
    removed = any(trial.name == UNCHECKPOINTED for trial in tried)
    now = _figures("as it is" if removed else "nothing (as it is)", "", use, subject)
    worked = [now, *(trial for trial in tried if not trial.why)]
    apart = any(trial.elsewhere for trial in worked)
    rows = tuple(
        (
            Cell(trial.name),
            Cell(amount(trial.peak), trial.peak),
            Cell("" if trial is now else _change(trial.peak, now.peak)),
            *([Cell(amount(sum(trial.elsewhere.values())))] if apart else []),
            Cell(amount(trial.saved), trial.saved),
            Cell(amount(trial.flops, "flop"), trial.flops),
            Cell("" if trial is now else _change(trial.flops, now.flops)),
            Cell(trial.code),
        )
        for trial in worked
    )
    note = "Each was traced and compiled; nothing was run."
    more = ("on the chip",) if apart else ()
    columns = (
        "jax.checkpoint round",
        "peak",
        "change of peak",
        *more,
        "saved",
        "flops",
        "change of flops",
        "in Python",
    )
    right = tuple(range(1, len(columns) - 1))
    shown = barred(rows, (1,), (3 + apart,), (4 + apart,))
    return Table("With jax.checkpoint", columns, shown, note, right=right)


def _change(new: int | None, old: int | None) -> str:
    if new is None or not old:
        return "unknown"
    change = new / old - 1
    if abs(change) < 0.005:
        return "the same"
    return f"{abs(change):.0%} {'less' if change < 0 else 'more'}"
