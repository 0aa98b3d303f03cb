"""Whether a program fits a device, and what would make it fit: each tried by a compile.

A program is compared by what it reserves from start to end. What else is on the device (other
arrays, other programs, fragments) is not known, so a figure near the limit decides nothing.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import Input, Target, root_name
from jaxlens.lenses.memory.capacity import Capacity, capacity, refusal
from jaxlens.lenses.memory.checkpoint import Tried, loosened, trials
from jaxlens.lenses.memory.donation import donatable, donations, option
from jaxlens.lenses.memory.peak import MemoryUse, memory_use, read
from jaxlens.lenses.sentences import listed
from jaxlens.report import Cell, Finding, Report, Table, amount, barred, share

_NEAR = 0.05  # of the limit: nearer than that, nothing is said
_ROUNDED = 0.02  # by which an allocation may be rounded up
_LESS = 0.99  # share of the bytes below which an action counts


@dataclass(frozen=True, slots=True)
class ShardedAxis:
    """The axis of a batch, over two devices.

    Attributes:
        input: Name of an input that has it as its first axis.
        size: Its size.
        peak: Bytes at the peak of each device at best: an estimate.
    """

    input: str
    size: int
    peak: int


@dataclass(frozen=True, slots=True)
class FitFacts:
    """Whether a program fits.

    Attributes:
        capacity: The limit.
        takes: Bytes that the program reserves, else those at its peak; None where XLA refuses it
            and names none.
        use: Its memory; None where XLA refuses it.
        target: What it was compiled for.
        actions: What would make it take less, least first; () where it fits.
        refused: XLA's reason not to compile it; "" where it does.
        widened: Bytes at the peak that may be f32 copies of bf16 and f16 values, which a CPU's
            program has and that of the device of the limit may not.
        sharding: The axis to shard; None where it fits, or where no axis is known to be a batch's.
    """

    capacity: Capacity
    takes: int | None
    use: MemoryUse | None
    target: Target
    actions: tuple[Tried, ...] = ()
    refused: str = ""
    widened: int = 0
    sharding: ShardedAxis | None = None

    @property
    def fits(self) -> bool | None:
        """Whether it fits; None where it is too near to say, or a CPU's program cannot tell."""
        peak = self.use.peak if self.use else None
        return False if self.refused else self.would_fit(self.takes, peak)

    def would_fit(self, takes: int | None, peak: int | None) -> bool | None:
        """Returns whether a program of this target fits; None where that cannot be said."""
        limit = self.capacity.usable
        # For TPUs the sum of XLA's sizes can exceed a memory for which XLA compiles the program.
        if self.target.platform == "tpu" and (peak or limit) < limit < (takes or 0):
            return None
        fits = within(takes or 0, limit)
        may = self.widened and within((takes or 0) - self.widened, limit) is not False
        return None if may and not fits else fits

    def near(self, takes: int | None) -> bool:
        """Whether a size is too near to the limit to say."""
        return within(takes or 0, self.capacity.usable) is None


def within(takes: int, limit: float) -> bool | None:
    """Returns whether a size fits a limit; None where it is too near to say."""
    return None if abs(takes / limit - 1) < _NEAR else takes < limit


def facts(capture: Capture, fits: str) -> FitFacts:
    """Compares a program with a limit, and tries what would make it fit if it does not.

    Args:
        capture: The program.
        fits: A device, or a size such as "16 GB".

    Raises:
        OptionError: The limit cannot be read.
        UnavailableError: The backend gives no sizes.
    """
    limit = capacity(fits)
    use, takes, refused = _sized(capture)
    widened = _widened(capture, use) if use and limit.name else 0
    fit = FitFacts(limit, takes, use, capture.program.target, (), refused, widened)
    if fit.fits:
        return fit
    actions = [*_donating(capture, not use), *_checkpointing(capture)]
    actions.sort(key=lambda action: (bool(action.why), action.takes is None, action.takes or 0))
    return replace(fit, actions=tuple(actions), sharding=_sharding(capture, use) if use else None)


def _sized(capture: Capture) -> tuple[MemoryUse | None, int | None, str]:
    """Returns the memory of a program, what it takes, and why XLA does not compile it.

    Raises:
        UnavailableError: The backend gives no sizes.
    """
    try:
        use = memory_use(capture)
    except Exception as error:  # XLA's, which no public name holds
        refused = refusal(error)
        if refused is None:
            raise
        return None, refused.least, refused.text
    takes = use.peak if use.reserved is None else use.reserved
    if takes is None:
        raise UnavailableError(f"XLA gives no sizes of {capture.program.name} here")
    return use, takes, ""


def _widened(capture: Capture, use: MemoryUse) -> int:
    """Returns bytes of f32 temporaries at a CPU's peak that have the size of bf16 or f16 values."""
    if capture.program.target.platform != "cpu":
        return 0
    values = (value for node in capture.optimized.module.nodes() for value in node.results)
    narrow = {count for value in values for count in _elements(str(value.type), "bf16|f16")}
    kept = (one for one in use.at_peak if one.kind == "temporary")
    return sum(one.bytes for one in kept if narrow & {*_elements(one.type, "f32")})


def _elements(type: str, dtypes: str) -> Iterator[int]:
    """Yields the numbers of elements of the arrays in a type that have one of the dtypes."""
    for sizes in re.findall(rf"\b(?:{dtypes})\[([\d,]*)\]", type):
        yield math.prod(int(n) for n in sizes.split(",") if n)


def _donating(capture: Capture, is_refused: bool) -> Iterator[Tried]:
    """Yields the donation of all inputs whose memory a result could use."""
    possible = donatable(capture) if is_refused else donations(capture)
    possible = tuple(one for one in possible if not one.donated and one.result)
    if not possible or not capture.program.jit:
        return
    roots = list(dict.fromkeys(re.split(r"[\[.]", one.name)[0] for one in possible))
    jit = capture.program.jit
    name, code = f"donating {listed(roots)}", f"{jit}(f, {option(roots, jit)})"
    try:
        made = Capture(*capture.driver.donating([one.name for one in possible]))
        use, takes, refused = _sized(made)
    except UnavailableError as why:
        yield Tried(name, code, why=str(why))
        return
    yield Tried(name, code, use.peak if use else None, why=refused, takes=takes)


def _checkpointing(capture: Capture) -> list[Tried]:
    try:
        tried = trials(capture)
    except UnavailableError as why:
        return [Tried("jax.checkpoint", "jax.checkpoint(f)", why=str(why))]
    return [replace(one, name=f"jax.checkpoint round {one.name}") for one in tried]


def _sharding(capture: Capture, use: MemoryUse) -> ShardedAxis | None:
    """Returns the first axis of a batch that takes most at the peak, if there is one.

    Only sizes are compared: all arrays of a batch have the same first axis, and are not replaced
    by a result, as a state is. If another axis has its size, which values have the axis is not
    known, and nothing is said.
    """
    inputs = [leaf for leaf in capture.program.inputs if leaf.type.shape]
    donated = [leaf.name for leaf in inputs if leaf.donated]
    state = {root_name(name) for name in (*donated, *(one.name for one in donatable(capture)))}
    firsts = defaultdict[str, set[object]](set)
    for leaf in inputs:
        firsts[root_name(leaf.name)].add(leaf.type.shape[0])
    alike = [leaf for leaf in inputs if len(firsts[root_name(leaf.name)]) == 1]
    batch = [leaf for leaf in alike if root_name(leaf.name) not in state] or alike
    others = {n for leaf in inputs for n in leaf.type.shape[1 if leaf in batch else 0 :]}
    leaves = {n: leaf for leaf in reversed(batch) if (n := _even(leaf)) and n not in others}
    if not leaves or not use.peak or capture.program.target.devices > 1:
        return None
    size = max(leaves, key=lambda size: _with_axis(use, lambda n: n == size))
    known = {n for leaf in inputs for n in leaf.type.shape}
    # XLA may have merged the axis with others into one that no input has.
    whole = _with_axis(use, lambda n: n == size or (n % size == 0 and n not in known))
    return ShardedAxis(leaves[size].name, size, use.peak - whole // 2)


def _even(leaf: Input) -> int:
    """Returns the size of an input's first axis; 0 for an odd one, and for that of a random key."""
    size = leaf.type.shape[0]
    is_key = leaf.type.dtype == "u32" and len(leaf.type.shape) == 1
    return size if isinstance(size, int) and not size % 2 and not is_key else 0


def _with_axis(use: MemoryUse, is_axis: Callable[[int], bool]) -> int:
    """Returns bytes at the peak of the values with such an axis, given its size."""
    sizes = [(value.bytes, re.findall(r"(?<=[\[,])\d+", value.type)) for value in use.at_peak]
    return sum(count for count, axes in sizes if any(is_axis(int(n)) for n in axes))


def report(fit: FitFacts) -> Report:
    """Reports the verdict, then what was tried, then what was not."""
    findings = [_verdict(fit), *_published(fit), *_tried(fit), *_loosened(fit), *_sharded(fit)]
    rows = [action for action in fit.actions if action.takes is not None]
    peak = fit.use.peak if fit.use else None
    now = Tried("nothing (as it is)", "", peak, why=fit.refused, takes=fit.takes)

    def unsure(action: Tried) -> str:
        return "too near" if fit.near(action.takes) else "unknown"

    cells = (
        (
            Cell(action.name),
            Cell(_takes(action), action.takes),
            Cell("" if action.peak is None else amount(action.peak), action.peak),
            Cell({True: "yes", False: "no", None: unsure(action)}[_fits(fit, action)]),
            Cell(action.code),
        )
        for action in (now, *rows)
    )
    columns = ("with", "takes", "peak", "fits", "in Python")
    note = "Each was compiled for this; nothing was run."
    table = Table("What would fit", columns, barred(cells, (1,), (2,)), note, right=(1, 2))
    return Report("Will it fit", tuple(findings), (table,) if rows else ())


def _fits(fit: FitFacts, action: Tried) -> bool | None:
    return False if action.why else fit.would_fit(action.takes, action.peak)


def _takes(action: Tried) -> str:
    return f"{'at least ' if action.why else ''}{amount(action.takes)}"


def _verdict(fit: FitFacts) -> Finding:
    limit, use = fit.capacity, fit.use
    if use is None:
        kind = fit.target.kind or fit.target.platform
        text = f"It does not fit: XLA does not compile it for {kind}: {fit.refused}."
        return Finding(text, "xla", weight=1.0)
    most = None if use.peak is None else amount(use.peak)
    peak = f", {most} of it at the peak" if most not in (None, amount(fit.takes)) else ""
    when = f" {use.moment}" if peak and use.moment else ""
    said = {
        True: f"It fits {limit.words}: it takes {amount(fit.takes)}{peak}{when}, "
        f"{share(fit.takes or 0, limit.usable)} of that.",
        False: f"It does not fit {limit.words}: it takes {amount(fit.takes)}{peak}{when}.",
        None: f"It takes {amount(fit.takes)}{peak}{when}, which is too near to {limit.words} to "
        "say whether it fits.",
    }[fit.fits]
    if fit.fits is None and fit.widened and not fit.near(fit.takes):
        floor = (fit.takes or 0) - (use.temporaries or 0)
        said = (
            f"Whether it fits {limit.words} cannot be said: it takes {amount(fit.takes)} as "
            f"compiled for cpu, but up to {amount(fit.widened)} of it can be f32 copies of bf16 "
            f"or f16 values, which other devices do not need; arguments and results take "
            f"{amount(floor)}."
        )
    return Finding(said, "xla", weight=0.0 if fit.fits else 1.0)


def _published(fit: FitFacts) -> Iterator[Finding]:
    limit = fit.capacity
    if not limit.source:
        return
    if not limit.is_of(fit.target.kind):
        yield Finding(
            f"It was compiled for {fit.target.kind or fit.target.platform}: XLA would make "
            f"another program for {limit.name}, which may take more or less; look with target "
            f"{target_of(limit.name)}.",
            "estimate",
        )
    if limit.usable < limit.bytes and not fit.fits and (fit.takes or 0) < limit.bytes:
        yield Finding(
            f"JAX takes {limit.usable / limit.bytes:.0%} of a GPU's memory by default: "
            "XLA_PYTHON_CLIENT_MEM_FRACTION=.95 in the environment gives it more.",
            "estimate",
        )


def _tried(fit: FitFacts) -> Iterator[Finding]:
    for action in fit.actions:
        is_code = action.name.startswith("jax.")
        name = action.name if is_code else f"{action.name[:1].upper()}{action.name[1:]}"
        if action.takes is not None:
            if not fit.takes or action.takes > _LESS * fit.takes:
                continue
            unsure = "too near to say" if fit.near(action.takes) else "which may fit"
            fits = {True: "which fits", False: "which does not fit", None: unsure}
            verdict = fits[_fits(fit, action)]
            text = f"{name}: {_takes(action)}, {verdict}: {action.code}."
            yield Finding(text, "measured")
        else:
            yield Finding(f"{name} was not tried: {action.why}.", "unknown")
    tried = [action for action in fit.actions if action.takes is not None]
    if tried and not any((a.takes or 0) <= _LESS * (fit.takes or 0) for a in tried):
        names = listed([action.name for action in tried])
        yield Finding(f"Tried without taking less: {names}.", "measured")


def _sharded(fit: FitFacts) -> Iterator[Finding]:
    if one := fit.sharding:
        text = (
            f"Sharding axis 0 of {one.input} ({one.size:,}) over 2 devices was not tried: at best "
        )
        text += f"{amount(one.peak)} at the peak of each (jax.NamedSharding(mesh, jax.P('x')))."
        yield Finding(text, "estimate")


def _loosened(fit: FitFacts) -> Iterator[Finding]:
    """Yields that `jax.checkpoint` may do more elsewhere, if XLA removed its barriers here."""
    if any(a.loosened and (a.takes or 0) > _LESS * (fit.takes or 0) for a in fit.actions):
        yield Finding(loosened(fit.target.platform), "xla")


def allocates(capture: Capture, size: int) -> bool:
    """Whether a program has one allocation, or results or temporaries, of a number of bytes."""
    memory = capture.memory
    sizes = {memory.temporaries, memory.outputs}
    assignment = read(capture)
    sizes |= {one.size for one in assignment.allocations} if assignment else set()
    return any(is_about(size, known) for known in sizes)


def is_about(size: int, known: int | None) -> bool:
    """Whether bytes that XLA names may be a known number of bytes, rounded."""
    return bool(known) and abs((known or 0) / size - 1) <= _ROUNDED


def target_of(device: str) -> str:
    """Returns the target that compiles for a device; "" for a size, or where none is described.

    Args:
        device: A limit, as `capacity` reads it.
    """
    name = capacity(device).name if device else ""
    if name.startswith("TPU"):
        key = name.removeprefix("TPU ")
        return f"tpu:{key}:2x2" if key in ("v5e", "v6e") else f"tpu:{key}:2x2x1"
    return f"gpu:{name.partition(' ')[0].lower()}" if name else ""
