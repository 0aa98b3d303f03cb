"""The view of one kernel, or of all machine code."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jaxlens.captures import Capture
from jaxlens.errors import OptionError, nearest
from jaxlens.program.kernels import Work
from jaxlens.program.sentences import listed
from jaxlens.render.document import Block, Findings, Listing, Tab, Tabs
from jaxlens.report import Finding, amount
from jaxlens.views.listings import stage_blocks


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """The facts of `%%compile --kernel` and `--asm`.

    Attributes:
        subject: The program.
        works: Its kernels.
        kernel: The name of one kernel; "" for all.
        asm: Whether to show only machine code.
    """

    subject: Capture
    works: Sequence[Work]
    kernel: str = ""
    asm: bool = False


def kernel_blocks(facts: KernelFacts, full: bool = False) -> list[Block]:
    """Returns one kernel's HLO, source lines, LLVM IR and machine code, or all machine code.

    Raises:
        OptionError: There is no kernel of that name.
    """
    name, works = facts.kernel, facts.works
    if not name:
        return stage_blocks.native(facts.subject, "asm")
    work = next((w for w in works if name in (w.kernel.name, w.kernel.instruction)), None)
    if work is None:
        raise OptionError(f"no kernel {name!r}; {nearest(name, [w.kernel.name for w in works])}")
    assembly = stage_blocks.asm(work.kernel, facts.subject)
    if facts.asm:
        return [*assembly] or [_missing(work)]
    codes = [*stage_blocks.llvm(work.kernel), *assembly]
    hlo = tuple(stage_blocks.computed(work, stage_blocks.names_of(facts.subject)))
    tabs = [Tab("HLO", (Listing("optimized", hlo),) if hlo else (), in_text=True)]
    tabs += [Tab(code.title, (replace(code, title=""),), in_text=True) for code in codes]
    missing = [] if codes else [_missing(work)]
    return [_summary(work), *missing, Tabs(tuple(t for t in tabs if t.blocks))]


def _summary(work: Work) -> Findings:
    """Returns a sentence on a kernel: kind, launch, source lines, bytes."""
    kernel = work.kernel
    moved = work.read is not None and work.written is not None
    parts = (
        f"{kernel.name} is a {kernel.kind}",
        work.place,
        f"launched as {kernel.launch}" if kernel.launch else "",
        f"from {listed(work.lines)}" if work.lines else "",
        f"{amount(work.read)} in, {amount(work.written)} out" if moved else "",
    )
    sentence = Finding(f"{', '.join(filter(None, parts))}.", ids=(kernel.instruction,))
    return Findings((sentence, *([Finding(f"{kernel.note}.")] if kernel.note else [])))


def _missing(work: Work) -> Findings:
    note = work.kernel.note or f"a {work.kernel.kind} has no code of its own"
    return Findings((Finding(f"{work.kernel.name}: {note}.", "unknown"),))
