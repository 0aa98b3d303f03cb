"""Compares ways to apply `jax.checkpoint`: each is traced and compiled, none is executed."""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace
from functools import partial

from jaxlens import progress
from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.driver import REMAT
from jaxlens.ir.graph import Module, Node
from jaxlens.program.counted import count_module
from jaxlens.program.published_limits import refusal
from jaxlens.program.sentences import listed
from jaxlens.questions.memory.facts import ABSENT, MemoryFacts, Tried, facts
from jaxlens.questions.memory.residuals import residuals_of
from jaxlens.report import Finding, NumberColumn, Table, amount, share, table

CHECKPOINTED = "Python function that could be traced under jax.checkpoint"
_BACKWARD = "transpose("  # in name stacks of the backward pass of a gradient
_TAKES_FUNCTIONS = re.compile(r"(?<!scan\()jax\.(grad|checkpoint)\(")
_LARGE = 2_000  # equations from which each policy compiles for ten seconds or more
_LEAST, _MOST = "nothing_saveable", "everything_saveable"
_LOWER = 0.98  # share of the peak below which a trial counts as lower


def all_facts(capture: Capture, checkpoint: bool = False) -> MemoryFacts:
    """Computes the memory of a program, and with `checkpoint` that of the trials.

    Raises:
        UnavailableError: The backend provides no sizes, or `checkpoint` cannot be tried.
    """
    found = facts(capture)
    return replace(found, tried=trials(capture, found)) if checkpoint else found


def trials(capture: Capture, now: MemoryFacts | None = None) -> tuple[Tried, ...]:
    """Compiles the program with each policy of `jax.checkpoint`, where it could change it.

    Policies replace those of the program's own `jax.checkpoint`s, which are also taken away. Of a
    program without any they are put round each scan's body, or else round the whole function. Of a
    large one only those that offload follow where the one that saves least lowers nothing.

    Args:
        capture: The program.
        now: Its memory; None where XLA gives none.

    Raises:
        UnavailableError: It holds no function (a file, a Lowered), or has no backward pass.
    """
    live = capture.driver.live(CHECKPOINTED, traces=True)  # raises before JAX is imported
    from jaxlens.questions.memory.measure.checkpoint import PRESENT, SCANS, WHOLE, attempts

    nodes = list(capture.jaxpr.module.nodes())
    scans = _lines(nodes, {"scan"})
    present = _lines(nodes, REMAT)
    place = WHOLE if scans is None else SCANS
    where = place if present is None else PRESENT
    names = dict.fromkeys(node.attrs["name"] for node in nodes if node.opcode == "name")
    ways = attempts(live, where, [*names])
    if not residuals_of(capture).is_differentiated:
        raise UnavailableError("nothing is differentiated here that jax.checkpoint could change")
    lines = {SCANS: scans, PRESENT: present}
    # Models of Equinox hold functions, which `jax.checkpoint` refuses.
    filtered = capture.program.jit == "eqx.filter_jit"
    done: dict[str, Tried] = {}
    tried: list[Tried] = []

    def doing() -> str:
        number = min(len(tried) + 1, len(ways))  # a thread asks, also at the end
        return f"{number} of {len(ways)}, {ways[number - 1][1]}"

    is_large, idle = where == WHOLE and len(nodes) >= _LARGE, False
    platform = capture.program.target.platform
    name = f"jaxlens tries jax.checkpoint in {capture.program.name}"
    with progress.step(name, doing, whole=True):
        for at, policy, code, make in ways:
            code = _TAKES_FUNCTIONS.sub(r"eqx.filter_\1(", code) if filtered else code
            way = Tried(at + (lines.get(at) or ""), code, policy=policy)
            if not (idle and (platform == "cpu" or "offload" not in policy)):
                tried.append(_trial(way, make, done))
            idle = is_large and now is not None and _is_idle(tried[0], now)
    return tuple(tried)


def _is_idle(first: Tried, now: MemoryFacts) -> bool:
    """Whether the policy that saves least leaves the peak as it is, so that others will too."""
    size, without = (first.takes, now.reserved) if now.peak is None else (first.peak, now.peak)
    return not first.why and size is not None and size >= _LOWER * (without or 0)


def _lines(nodes: Iterable[Node], opcodes: Container[str]) -> str | None:
    """Returns the lines of equations, as ` (step.py:7)`; None where there are no equations."""
    found = [node for node in nodes if node.opcode in opcodes]
    lines = {str(node.owner): None for node in found if node.owner and _BACKWARD not in node.scope}
    return None if not found else f" ({listed([*lines])})" if lines else ""


def _trial(way: Tried, make: Callable[[], Capture], done: dict[str, Tried]) -> Tried:
    """Compiles a way, unless it makes a program that is in `done`, to which it is added."""
    try:
        variant = make()
        has = any(node.opcode in REMAT for node in variant.jaxpr.module.nodes())
        if way.code != ABSENT and not has:
            return replace(way, why="the gradient was made in another way than by jax.vjp")
        same = done.get(text := variant.stablehlo.text)
        if same is None:
            loosened = _has_barrier(variant.hlo.module) > _has_barrier(variant.optimized.module)
            same = done[text] = _figures(facts(variant), loosened)
        return replace(same, name=way.name, code=way.code, policy=way.policy)
    except UnavailableError as why:
        return replace(way, why=str(why))
    except Exception as error:  # XLA's, which no public name holds
        refused = refusal(error)
        if refused is None:
            raise
        return replace(way, why=refused.text, takes=refused.least)


def _figures(use: MemoryFacts, loosened: bool = False) -> Tried:
    cost, named = count_module(use.subject().jaxpr.module), Counter[str]()
    for residual in use.residuals:
        named[residual.label] += (residual.bytes or 0) if residual.label else 0
    return Tried(
        "",
        peak=use.peak,
        saved=use.saved.bytes,
        flops=cost.counted,
        loosened=loosened,
        takes=use.reserved,
        again=cost.recomputed,
        host=use.host,
        named=+named,
    )


def _has_barrier(module: Module) -> bool:
    return any(node.opcode == "opt-barrier" for node in module.nodes())


def sentences(use: MemoryFacts) -> Iterator[Finding]:
    """Yields the findings on `jax.checkpoint`, by what is reserved where no peak is known."""
    subject, has_peak = use.subject(), use.peak is not None
    what, now = ("the peak", use.peak) if has_peak else ("what is reserved", use.reserved)
    tried = ((trial.peak if has_peak else trial.takes, trial) for trial in use.tried)
    sizes = [(size, trial) for size, trial in tried if size is not None and not trial.why]
    lowest = min((size for size, _ in sizes), default=0)
    # Of what differs by less than 2%, that with the fewest flops.
    least, best = min(
        (pair for pair in sizes if _LOWER * pair[0] <= lowest),
        key=lambda pair: (pair[1].flops or 0, pair[0]),
        default=(0, None),
    )
    if not now or best is None:
        pass
    elif least < _LOWER * now:
        flops = count_module(subject.jaxpr.module).counted
        yield Finding(
            f"With {phrase(best)} {what} is {amount(least)}, {_change(least, now)}, and flops "
            f"{_change(best.flops, flops)}: {best.code}.",
        )
        yield from _cheaper(sizes, (best.flops or 0) - flops, what, now, flops)
    else:
        yield Finding(f"No way of jax.checkpoint that was tried lowers {what} by more than 2%.")
    for size, trial in sizes:
        if trial.code == ABSENT:
            yield _present(use, what, size, now)
    failed: dict[str, list[str]] = {}
    for trial in use.tried:
        if trial.why:
            failed.setdefault(trial.why, []).append(phrase(trial))
    for why, names in failed.items():
        yield Finding(f"{listed(names)} could not be tried: {why}.", "unknown")


def phrase(trial: Tried) -> str:
    """Returns a way in words: where, and the policy unless it is JAX's default."""
    policy = f"({trial.policy}) " if "policy=" in trial.code else ""
    return f"jax.checkpoint {policy}round {trial.name}"


def _present(use: MemoryFacts, what: str, without: int, now: int | None) -> Finding:
    """Returns what the program's own `jax.checkpoint` costs and saves."""
    cost = count_module(use.subject().jaxpr.module)
    part = share(cost.recomputed, cost.counted)
    return Finding(
        f"Your jax.checkpoint computes {amount(cost.recomputed, 'flop')} again, {part} of all "
        f"flops; without it {what} is {amount(without)} in place of {amount(now)}."
    )


def _cheaper(
    sizes: list[tuple[int, Tried]], extra: int, what: str, now: int, flops: int
) -> Iterator[Finding]:
    """Yields the way that lowers the peak most for less than half of the best one's flops again."""
    cheap = [
        (size, trial)
        for size, trial in sizes
        if size < _LOWER * now and (trial.flops or 0) - flops < extra / 2
    ]
    if cheap:
        size, trial = min(cheap, key=lambda pair: pair[0])
        changed = f"{_change(size, now)}, and flops {_change(trial.flops, flops)}"
        yield Finding(f"For fewer flops, {phrase(trial)}: {what} is {amount(size)}, {changed}.")


def loosened(platform: str) -> str:
    """Returns the sentence on barriers of `jax.checkpoint` that XLA removes on a platform."""
    return (
        f"XLA takes jax.checkpoint's barriers out on {platform}, so that what is computed again "
        "may come long before it is needed: on another device the peak can fall where it does not "
        "here."
    )


def checkpoint_table(use: MemoryFacts) -> Table:
    """Returns a table of the program as it is and with each way of `jax.checkpoint`."""
    tried = use.tried
    own = any(trial.code == ABSENT for trial in tried)
    now = replace(_figures(use), name="as it is" if own else "nothing (as it is)")
    worked = [trial for trial in (now, *tried) if not trial.why]
    rows = (
        (
            trial.name,
            trial.policy,
            trial.peak,
            trial.saved,
            trial.flops,
            trial.again or None,
            trial.host or None,
            ", ".join(f"{name} {amount(size)}" for name, size in trial.named.items()),
        )
        for trial in worked
    )
    peak, kept = (NumberColumn(name, amount, name) for name in ("peak", "saved"))
    flop = partial(amount, unit="flop")
    flops, again = NumberColumn("flops", flop, "flops"), NumberColumn("again", flop, none="")
    host = NumberColumn("to host", amount, none="")
    columns = ("jax.checkpoint round", "policy", peak, kept, flops, again, host, "saved by name")
    return table("With jax.checkpoint", columns, rows, " ".join(_notes(use, worked)))


def _notes(use: MemoryFacts, worked: list[Tried]) -> Iterator[str]:
    yield "Each was traced and compiled; nothing was run. `.tried` has each in Python."
    if not any(trial.policy == _MOST for trial in use.tried):
        yield f"{_LEAST} saves least and lowers nothing: policies that save more were not compiled."
    platform = use.subject().program.target.platform
    for trial in worked:
        if trial.policy.startswith(("offload", "save_and_offload")) and not trial.host:
            why = ": of a CPU it is the same memory" * (platform == "cpu")
            yield f"{trial.policy} offloads nothing: no buffer lies in the host's memory{why}."
    if worked and not any(trial.named for trial in worked):
        yield "No value has a name (checkpoint_name) by which a policy could save it."
    if any(trial.loosened and (trial.peak or 0) >= _LOWER * (use.peak or 0) for trial in worked):
        yield loosened(platform)


def _change(new: int | None, old: int | None) -> str:
    if new is None or not old:
        return "unknown"
    change = new / old - 1
    if abs(change) < 0.005:
        return "the same"
    return f"{abs(change):.0%} {'less' if change < 0 else 'more'}"
