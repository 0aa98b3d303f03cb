"""Compares ways to apply `jax.checkpoint`: each is traced and compiled, none is executed."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.driver import REMAT
from jaxlens.ir.graph import Module
from jaxlens.program.counted import count_module
from jaxlens.program.equations import written_out
from jaxlens.program.published_limits import refusal
from jaxlens.program.sentences import listed
from jaxlens.questions.memory.facts import MemoryFacts, Tried, facts
from jaxlens.questions.memory.residuals import residuals_of
from jaxlens.report import Finding, NumberColumn, Table, amount, table

CHECKPOINTED = "Python function that could be traced under jax.checkpoint"
_BACKWARD = "transpose("  # in name stacks of the backward pass of a gradient
_TAKES_FUNCTIONS = re.compile(r"(?<!scan\()jax\.(grad|checkpoint)\(")
_LOWER = 0.98  # share of the peak below which a trial counts as lower


def all_facts(capture: Capture, checkpoint: bool = False) -> MemoryFacts:
    """Computes the memory of a program, and with `checkpoint` that of the trials.

    Raises:
        UnavailableError: The backend provides no sizes, or `checkpoint` cannot be tried.
    """
    found = facts(capture)
    return replace(found, tried=trials(capture)) if checkpoint else found


def trials(capture: Capture) -> tuple[Tried, ...]:
    """Compiles the program with each way of `jax.checkpoint` that could change it.

    Raises:
        UnavailableError: It holds no function (a file, a Lowered), or has no backward pass.
    """
    live = capture.driver.live(CHECKPOINTED, traces=True)  # raises before JAX is imported
    from jaxlens.questions.memory.measure.checkpoint import attempts

    ways = attempts(live)
    if not residuals_of(capture).is_differentiated:
        raise UnavailableError("nothing is differentiated here that jax.checkpoint could change")
    scans = [node for node in capture.jaxpr.module.nodes() if node.opcode == "scan"]
    lines = {str(node.owner): None for node in scans if node.owner and _BACKWARD not in node.scope}
    where = f" ({listed([*lines])})" if lines else ""
    # Models of Equinox hold functions, which `jax.checkpoint` refuses.
    filtered = capture.program.jit == "eqx.filter_jit"
    return tuple(
        _trial(
            name + where * ("scan" in name),
            _TAKES_FUNCTIONS.sub(r"eqx.filter_\1(", code) if filtered else code,
            make,
        )
        for name, code, make in ways
        if scans or "scan" not in name
    )


def _trial(name: str, code: str, make: Callable[[], Capture]) -> Tried:
    try:
        variant = make()
        if not any(node.opcode in REMAT for node in variant.jaxpr.module.nodes()):
            return Tried(name, code, why="the gradient was made in another way than by jax.vjp")
        loosened = _has_barrier(variant.hlo.module) and not _has_barrier(variant.optimized.module)
        return _figures(name, code, facts(variant), variant, loosened)
    except UnavailableError as why:
        return Tried(name, code, why=str(why))
    except Exception as error:  # XLA's, which no public name holds
        refused = refusal(error)
        if refused is None:
            raise
        return Tried(name, code, why=refused.text, takes=refused.least)


def _figures(
    name: str, code: str, use: MemoryFacts, program: Capture, loosened: bool = False
) -> Tried:
    flops = count_module(program.jaxpr.module).counted
    return Tried(name, code, use.peak, use.saved.bytes, flops, "", loosened, use.reserved)


def _has_barrier(module: Module) -> bool:
    return any(node.opcode == "opt-barrier" for node in module.nodes())


def sentences(use: MemoryFacts) -> Iterator[Finding]:
    """Yields the findings on `jax.checkpoint`, by what is reserved where no peak is known."""
    subject, has_peak = use.subject(), use.peak is not None
    what, now = ("the peak", use.peak) if has_peak else ("what is reserved", use.reserved)
    tried = ((trial.peak if has_peak else trial.takes, trial) for trial in use.tried)
    sizes = [(size, trial) for size, trial in tried if size is not None and not trial.why]
    least, best = min(sizes, key=lambda pair: pair[0], default=(0, None))
    if not now or best is None:
        pass
    elif least < _LOWER * now:
        flops = _change(best.flops, count_module(subject.jaxpr.module).counted)
        yield Finding(
            f"With jax.checkpoint round {best.name} {what} is {amount(least)}, "
            f"{_change(least, now)}, and flops {flops}: {best.code}.",
        )
    else:
        yield Finding(f"No way of jax.checkpoint that was tried lowers {what} by more than 2%.")
        yield from _of_loops(subject)
    if any(trial.loosened and size >= _LOWER * (now or 0) for size, trial in sizes):
        yield Finding(loosened(subject.program.target.platform), "xla")
    for trial in use.tried:
        if trial.why:
            text = f"jax.checkpoint round {trial.name} could not be tried: {trial.why}."
            yield Finding(text, "unknown")


def _of_loops(subject: Capture) -> Iterator[Finding]:
    """Yields what is left to try where checkpoints of an unrolled loop lower nothing.

    In such a loop XLA may merge recomputed values with those of the forward pass (CSE), or compute
    them early. In the body of a scan it can do neither, because a trip of the backward pass has
    only its own inputs.
    """
    if lines := [loop.line for loop in written_out(subject)[1] if loop.line and not loop.backward]:
        yield Finding(
            f"The loop at {listed(list(dict.fromkeys(lines)))} is unrolled: with jax.checkpoint "
            "round each step, best in the body of a `lax.scan`, it would keep what each step hands "
            "to the next, and compute the rest again (not tried).",
            "estimate",
        )


def loosened(platform: str) -> str:
    """Returns the sentence on barriers of `jax.checkpoint` that XLA removes on a platform."""
    return (
        f"XLA takes jax.checkpoint's barriers out on {platform}, so that what is computed again "
        "may come long before it is needed: on another device the peak can fall where it does not "
        "here."
    )


def checkpoint_table(use: MemoryFacts) -> Table:
    """Returns a table of the program as it is and with each way of `jax.checkpoint`."""
    now = [_figures("nothing (as it is)", "", use, use.subject())] if use.tried else []
    worked = [trial for trial in (*now, *use.tried) if not trial.why]
    rows = ((trial.name, trial.peak, trial.saved, trial.flops, trial.code) for trial in worked)
    peak, kept = (NumberColumn(name, amount, name) for name in ("peak", "saved"))
    flops = NumberColumn("flops", partial(amount, unit="flop"), "flops")
    columns = ("jax.checkpoint round", peak, kept, flops, "in Python")
    note = "Each was traced and compiled; nothing was run."
    return table("With jax.checkpoint", columns, rows, note)


def _change(new: int | None, old: int | None) -> str:
    if new is None or not old:
        return "unknown"
    change = new / old - 1
    if abs(change) < 0.005:
        return "the same"
    return f"{abs(change):.0%} {'less' if change < 0 else 'more'}"
