"""Whether a program fits a device, and what would make it fit.

A program is compared by what it reserves from start to end. What else is on the device (other
arrays, other programs, fragments) is not known, so a figure near the limit decides nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import Target
from jaxlens.program.donated import option
from jaxlens.program.published_limits import Capacity, capacity, refusal, target_of
from jaxlens.program.sentences import listed
from jaxlens.questions.memory.checkpoint import loosened, phrase, trials
from jaxlens.questions.memory.donation import donatable, roots_of
from jaxlens.questions.memory.facts import MemoryFacts, Tried
from jaxlens.questions.memory.facts import facts as memory_facts
from jaxlens.report import Cell, Finding, NumberColumn, Report, amount, share, table

_NEAR = 0.05  # of the limit: nearer than that, nothing is said
_LESS = 0.99  # share of the bytes below which an action counts


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
    """

    capacity: Capacity
    takes: int | None
    use: MemoryFacts | None
    target: Target
    actions: tuple[Tried, ...] = ()
    refused: str = ""

    @property
    def fits(self) -> bool | None:
        """Whether it fits; None where it is too near to say."""
        peak = self.use.peak if self.use else None
        return False if self.refused else self.would_fit(self.takes, peak)

    def would_fit(self, takes: int | None, peak: int | None) -> bool | None:
        """Returns whether a program of this target fits; None where that cannot be said."""
        limit = self.capacity.usable
        # For TPUs the sum of XLA's sizes can exceed a memory for which XLA compiles the program.
        if self.target.platform == "tpu" and (peak or limit) < limit < (takes or 0):
            return None
        return within(takes or 0, limit)

    @property
    def made(self) -> str:
        """What it was compiled for, in words."""
        return self.target.kind or self.target.platform

    @property
    def is_elsewhere(self) -> bool:
        """Whether it was compiled for another device than that of the limit."""
        return bool(self.capacity.source) and not self.capacity.is_of(self.target.kind)

    def says(self, action: Tried) -> str:
        """Returns whether the program fits with an action, as a clause without its subject."""
        fits = False if action.why else self.would_fit(action.takes, action.peak)
        if fits is None or (fits and self.refused and action.peak is None):
            is_near = within(action.takes or 0, self.capacity.usable) is None
            return "is too near to say" if is_near else "may fit"
        return "fits" if fits else "does not fit"


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
    fit = _compared(capture, capacity(fits))
    if fit.fits:
        return fit
    actions = [*_donating(capture, fit), *_checkpointing(capture, fit.use)]
    actions.sort(key=lambda action: (bool(action.why), action.takes is None, action.takes or 0))
    return replace(fit, actions=tuple(actions))


def _compared(capture: Capture, limit: Capacity) -> FitFacts:
    """Compares a program with a limit.

    Raises:
        UnavailableError: The backend gives no sizes.
    """
    target = capture.program.target
    try:
        use = memory_facts(capture)
    except Exception as error:  # XLA's, which no public name holds
        refused = refusal(error)
        if refused is None:
            raise
        return FitFacts(limit, refused.least, None, target, refused=refused.text)
    takes = use.peak if use.reserved is None else use.reserved
    if takes is None:
        raise UnavailableError(f"XLA gives no sizes of {capture.program.name} here")
    return FitFacts(limit, takes, use, target)


def _donating(capture: Capture, fit: FitFacts) -> Iterator[Tried]:
    """Yields the donation of all inputs whose memory a result could use, by their bytes."""
    jit, takes = capture.program.jit, fit.takes
    if not jit or not takes or (fit.use is None and fit.target.devices > 1):
        return  # how an input is divided is in the compiled program alone
    found = fit.use.donations if fit.use else donatable(capture)
    if possible := [one for one in found if not one.donated]:
        roots = roots_of(possible)
        name, code = f"donating {listed(roots)}", f"{jit}(f, {option(roots, jit)})"
        yield Tried(name, code, takes=takes - sum(one.bytes or 0 for one in possible))


def _checkpointing(capture: Capture, use: MemoryFacts | None) -> list[Tried]:
    try:
        tried = trials(capture, use)
    except UnavailableError as why:
        return [Tried("jax.checkpoint", "jax.checkpoint(f)", why=str(why))]
    return [replace(one, name=phrase(one)) for one in tried]


def report(fit: FitFacts) -> Report:
    """Reports the verdict, then what was tried."""
    findings = [_verdict(fit), *_published(fit), *_tried(fit)]
    rows = [action for action in fit.actions if action.takes is not None]
    peak = fit.use.peak if fit.use else None
    now = Tried("nothing (as it is)", "", peak, why=fit.refused, takes=fit.takes)
    values = (
        (row.name, Cell(_takes(row), row.takes), row.peak, fit.says(row), row.code)
        for row in ((now, *rows) if rows else ())
    )
    sizes = NumberColumn("takes", amount, "takes"), NumberColumn("peak", amount, "peak", none="")
    note = "jax.checkpoint was compiled for this, donation is by bytes; nothing was run."
    shown = table("What would fit", ("with", *sizes, "then it", "in Python"), values, note)
    return Report("Will it fit", tuple(findings), (shown,) if rows else ())


def _takes(action: Tried) -> str:
    return f"{'at least ' if action.why else ''}{amount(action.takes)}"


def _verdict(fit: FitFacts) -> Finding:
    limit, use = fit.capacity, fit.use
    if use is None:
        text = f"It does not fit: XLA does not compile it for {fit.made}: {fit.refused}."
        return Finding(text, "xla", weight=1.0)
    most = None if use.peak is None else amount(use.peak)
    peak = f", {most} of it at the peak" if most not in (None, amount(fit.takes)) else ""
    when = f" {use.moment}" if peak and use.moment else ""
    here = f" as compiled for {fit.made}" if fit.is_elsewhere else ""
    said = {
        True: f"It fits {limit.words}{here}: it takes {amount(fit.takes)}{peak}{when}, "
        f"{share(fit.takes or 0, limit.usable)} of that.",
        False: f"It does not fit {limit.words}{here}: it takes {amount(fit.takes)}{peak}{when}.",
        None: f"It takes {amount(fit.takes)}{peak}{when}, which is too near to {limit.words} to "
        "say whether it fits.",
    }[fit.fits]
    return Finding(said, "xla", weight=0.0 if fit.fits else 1.0)


def _published(fit: FitFacts) -> Iterator[Finding]:
    limit = fit.capacity
    if not limit.source:
        return
    if fit.is_elsewhere:
        yield Finding(
            f"It was compiled for {fit.made}: XLA would make "
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
    """Yields the action that takes least, what was not tried, and what may be so here alone."""
    tried = [action for action in fit.actions if action.takes is not None]
    if tried and (tried[0].takes or 0) <= _LESS * (fit.takes or 0):
        best = tried[0]
        text = f"{_begun(best)}: {_takes(best)}, which {fit.says(best)}: {best.code}."
        yield Finding(text, "estimate" if best.peak is None else "measured")
    elif tried:
        names = listed([action.name for action in tried])
        yield Finding(f"Tried without taking less: {names}.", "measured")
    for action in fit.actions:
        if action.takes is None:
            yield Finding(f"{_begun(action)} was not tried: {action.why}.", "unknown")
    if any(a.loosened and (a.takes or 0) > _LESS * (fit.takes or 0) for a in fit.actions):
        yield Finding(loosened(fit.target.platform), "xla")


def _begun(action: Tried) -> str:
    """Returns the name of an action as the beginning of a sentence; a name of JAX's stays small."""
    name = action.name
    return name if name.startswith("jax.") else f"{name[:1].upper()}{name[1:]}"
