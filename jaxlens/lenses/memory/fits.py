"""Whether a program fits a device, and what would make it fit: each tried by a compile.

A program is compared by what it reserves from start to end. What else is on the device (other
arrays, other programs, fragments) is not known, so a figure near the limit decides nothing.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from jaxlens.captures import Capture
from jaxlens.errors import OptionError, UnavailableError
from jaxlens.ir.facts import Input, Target, root_name
from jaxlens.lenses.memory.capacity import Capacity, capacity, refusal
from jaxlens.lenses.memory.checkpoint import loosened, trials
from jaxlens.lenses.memory.donation import donatable, donations, option
from jaxlens.lenses.memory.peak import MemoryUse, memory_use, read
from jaxlens.lenses.sentences import listed
from jaxlens.report import Cell, Finding, Report, Table, amount, barred, share

_NEAR = 0.05  # of the limit: nearer than that, nothing is said
_ROUNDED = 0.02  # by which an allocation may be rounded up
_LESS = 0.99  # share of the bytes below which an action counts


@dataclass(frozen=True, slots=True)
class Action:
    """A way to take less memory.

    Attributes:
        name: What is done, in words.
        code: The same in Python.
        takes: Bytes that the program then reserves; None where it was not tried.
        peak: Bytes at its peak then.
        why: Why it was not tried, or could not be.
        at_best: An estimate of the bytes, where it was not tried; None for none.
        loosened: Whether XLA removed the barriers that keep the recomputation in place.
    """

    name: str
    code: str
    takes: int | None = None
    peak: int | None = None
    why: str = ""
    at_best: int | None = None
    loosened: bool = False


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
    """

    capacity: Capacity
    takes: int | None
    use: MemoryUse | None
    target: Target
    actions: tuple[Action, ...] = ()
    refused: str = ""
    widened: int = 0

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


def facts(capture: Capture, fits: str = "") -> FitFacts:
    """Compares a program with a limit, and tries what would make it fit if it does not.

    Args:
        capture: The program.
        fits: A device, or a size such as "16 GB"; by default the device that it was compiled for.

    Raises:
        OptionError: The limit cannot be read.
        UnavailableError: The backend gives no sizes, or the memory of its device is not known.
    """
    limit = capacity(fits) if fits else _own(capture.program.target.kind)
    use, takes, refused = _sized(capture)
    widened = _widened(capture, use) if use and limit.name else 0
    found = FitFacts(limit, takes, use, capture.program.target, (), refused, widened)
    if found.fits:
        return found
    actions = [*_donating(capture, not use), *_checkpointing(capture)]
    actions += _sharding(capture, use) if use else ()
    actions.sort(key=lambda action: (bool(action.why), action.takes is None, action.takes or 0))
    return replace(found, actions=tuple(actions))


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


def _own(kind: str) -> Capacity:
    try:
        return capacity(kind)
    except OptionError:
        raise UnavailableError(
            f'the memory of {kind} is not known here: name a device or a size, as in "16 GB"'
        ) from None


def _donating(capture: Capture, is_refused: bool) -> Iterator[Action]:
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
        yield Action(name, code, why=str(why))
        return
    yield Action(name, code, takes, use.peak if use else None, refused)


def _checkpointing(capture: Capture) -> Iterator[Action]:
    try:
        tried = trials(capture)
    except UnavailableError as why:
        yield Action("jax.checkpoint", "jax.checkpoint(f)", why=str(why))
        return
    for one in tried:
        name = f"jax.checkpoint round {one.name}"
        yield Action(name, one.code, one.reserved, one.peak, one.why, loosened=one.loosened)


class _Doubt(NamedTuple):
    """What speaks against the first axis of an input as that of a batch; the smallest has least.

    Attributes:
        is_mixed: Arrays of its argument have several first axes; those of a batch have one.
        is_ambiguous: Another axis has its size: which values have the axis is not known.
        is_state: A result takes the place of an array of its argument.
    """

    is_mixed: bool
    is_ambiguous: bool
    is_state: bool


def _sharding(capture: Capture, use: MemoryUse) -> Iterator[Action]:
    """Yields the first axis of an argument over two devices: that of a batch, if there is one."""
    inputs = [leaf for leaf in capture.program.inputs if leaf.type.shape]
    even = [(doubt, leaf) for doubt, leaf in _doubts(capture, inputs) if _even(leaf)]
    if not even or not use.peak or capture.program.target.devices > 1:
        return
    least = min(doubt for doubt, _ in even)
    if least.is_ambiguous and (least.is_mixed or least.is_state):
        return  # which of the arrays to shard is not known either
    leaves: dict[int, Input] = {}  # the first of each size
    for doubt, leaf in even:
        if doubt == least:
            leaves.setdefault(_even(leaf), leaf)
    size = max(leaves, key=lambda size: _with_axis(use, lambda n: n == size))
    known = {n for leaf in inputs for n in leaf.type.shape}
    # XLA may have merged the axis with others into one that no input has.
    whole = _with_axis(use, lambda n: n == size or (n % size == 0 and n not in known))
    why = "other axes have its size, so by how much is not known" if least.is_ambiguous else ""
    yield Action(
        f"sharding axis 0 of {leaves[size].name} ({size:,}) over 2 devices",
        "jax.NamedSharding(mesh, jax.P('x'))",
        why=why,
        at_best=None if why else use.peak - whole // 2,
    )


def _doubts(capture: Capture, inputs: Sequence[Input]) -> Iterator[tuple[_Doubt, Input]]:
    """Yields each input with what speaks against its first axis; only sizes are compared."""
    given = [leaf.name for leaf in inputs if leaf.donated]
    state = {root_name(name) for name in (*given, *(one.name for one in donatable(capture)))}
    roots = [(root_name(leaf.name), leaf) for leaf in inputs]
    firsts, axes = defaultdict[str, set[object]](set), defaultdict[object, set[object]](set)
    for root, leaf in roots:
        firsts[root].add(leaf.type.shape[0])
        for axis, n in enumerate(leaf.type.shape):
            # All arguments that are not state are one batch.
            axes[n].add((leaf.name if root in state else "", axis))
    for root, leaf in roots:
        is_ambiguous = len(axes[leaf.type.shape[0]]) > 1
        yield _Doubt(len(firsts[root]) > 1, is_ambiguous, root in state), leaf


def _even(leaf: Input) -> int:
    """Returns the size of an input's first axis; 0 for an odd one, and for that of a random key."""
    size = leaf.type.shape[0]
    is_key = leaf.type.dtype == "u32" and len(leaf.type.shape) == 1
    return size if isinstance(size, int) and not size % 2 and not is_key else 0


def _with_axis(use: MemoryUse, is_axis: Callable[[int], bool]) -> int:
    """Returns bytes at the peak of the values with such an axis, given its size."""
    sizes = [(value.bytes, re.findall(r"(?<=[\[,])\d+", value.type)) for value in use.at_peak]
    return sum(count for count, axes in sizes if any(is_axis(int(n)) for n in axes))


def report(found: FitFacts) -> Report:
    """Reports the verdict, then what was tried, then what was not."""
    findings = [_verdict(found), *_published(found), *_tried(found), *_loosened(found)]
    rows = [action for action in found.actions if action.takes is not None]
    peak = found.use.peak if found.use else None
    now = Action("nothing (as it is)", "", found.takes, peak, found.refused)

    def unsure(action: Action) -> str:
        return "too near" if found.near(action.takes) else "unknown"

    cells = (
        (
            Cell(action.name),
            Cell(_takes(action), action.takes),
            Cell("" if action.peak is None else amount(action.peak), action.peak),
            Cell({True: "yes", False: "no", None: unsure(action)}[_fits(found, action)]),
            Cell(action.code),
        )
        for action in (now, *rows)
    )
    columns = ("with", "takes", "peak", "fits", "in Python")
    note = "Each was compiled for this; nothing was run."
    table = Table("What would fit", columns, barred(cells, (1,), (2,)), note, right=(1, 2))
    return Report("Will it fit", tuple(findings), (table,) if rows else ())


def _fits(found: FitFacts, action: Action) -> bool | None:
    return False if action.why else found.would_fit(action.takes, action.peak)


def _takes(action: Action) -> str:
    return f"{'at least ' if action.why else ''}{amount(action.takes)}"


def _verdict(found: FitFacts) -> Finding:
    limit, use = found.capacity, found.use
    if use is None:
        kind = found.target.kind or found.target.platform
        text = f"It does not fit: XLA does not compile it for {kind}: {found.refused}."
        return Finding(text, "xla", weight=1.0)
    most = None if use.peak is None else amount(use.peak)
    peak = f", {most} of it at the peak" if most not in (None, amount(found.takes)) else ""
    when = f" {use.moment}" if peak and use.moment else ""
    said = {
        True: f"It fits {limit.words}: it takes {amount(found.takes)}{peak}{when}, "
        f"{share(found.takes or 0, limit.usable)} of that.",
        False: f"It does not fit {limit.words}: it takes {amount(found.takes)}{peak}{when}.",
        None: f"It takes {amount(found.takes)}{peak}{when}, which is too near to {limit.words} to "
        "say whether it fits.",
    }[found.fits]
    if found.fits is None and found.widened and not found.near(found.takes):
        floor = (found.takes or 0) - (use.temporaries or 0)
        said = (
            f"Whether it fits {limit.words} cannot be said: it takes {amount(found.takes)} as "
            f"compiled for cpu, but up to {amount(found.widened)} of it can be f32 copies of bf16 "
            f"or f16 values, which other devices do not need; arguments and results take "
            f"{amount(floor)}."
        )
    return Finding(said, "xla", weight=0.0 if found.fits else 1.0)


def _published(found: FitFacts) -> Iterator[Finding]:
    limit = found.capacity
    if not limit.source:
        return
    try:
        is_same = capacity(found.target.kind).name == limit.name
    except OptionError:
        is_same = False
    if not is_same:
        yield Finding(
            f"It was compiled for {found.target.kind or found.target.platform}: XLA would make "
            f"another program for {limit.name}, which may take more or less; look with target "
            f"{target_of(limit.name)}.",
            "estimate",
        )
    if limit.usable < limit.bytes and not found.fits and (found.takes or 0) < limit.bytes:
        yield Finding(
            f"JAX takes {limit.usable / limit.bytes:.0%} of a GPU's memory by default: "
            "XLA_PYTHON_CLIENT_MEM_FRACTION=.95 in the environment gives it more.",
            "estimate",
        )


def _tried(found: FitFacts) -> Iterator[Finding]:
    for action in found.actions:
        is_code = action.name.startswith("jax.")
        name = action.name if is_code else f"{action.name[:1].upper()}{action.name[1:]}"
        if action.takes is not None:
            if not found.takes or action.takes > _LESS * found.takes:
                continue
            unsure = "too near to say" if found.near(action.takes) else "which may fit"
            fits = {True: "which fits", False: "which does not fit", None: unsure}
            verdict = fits[_fits(found, action)]
            text = f"{name}: {_takes(action)}, {verdict}: {action.code}."
            yield Finding(text, "measured")
        elif action.at_best is not None:
            text = f"{name} was not tried: at best {amount(action.at_best)} at the peak of each."
            yield Finding(text, "estimate")
        else:
            yield Finding(f"{name} was not tried: {action.why}.", "unknown")
    tried = [action for action in found.actions if action.takes is not None]
    if tried and not any((a.takes or 0) <= _LESS * (found.takes or 0) for a in tried):
        names = listed([action.name for action in tried])
        yield Finding(f"Tried without taking less: {names}.", "measured")


def _loosened(found: FitFacts) -> Iterator[Finding]:
    """Yields that `jax.checkpoint` may do more elsewhere, if XLA removed its barriers here."""
    if any(a.loosened and (a.takes or 0) > _LESS * (found.takes or 0) for a in found.actions):
        yield Finding(loosened(found.target.platform), "xla")


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
