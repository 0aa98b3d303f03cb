"""Builds the blocks of a stage: its listing, its code by kernel, or the user's source lines."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import Kernel, Stage
from jaxlens.lenses.cost.facts import Counted
from jaxlens.lenses.program.kernels import Work, what
from jaxlens.lenses.subject import Subject
from jaxlens.render.document import Block, Code, Findings, Fold, Line, Listing, Piece, SourcePane
from jaxlens.report import Finding, Overlay
from jaxlens.views import source_pane
from jaxlens.views.listings import hlo as hlo_lines
from jaxlens.views.listings import hlo_brief
from jaxlens.views.listings import jaxpr as jaxpr_lines
from jaxlens.views.listings import stablehlo as stablehlo_lines

_EVERYTHING = 10**9
_PRODUCTS = frozenset({"dot", "convolution"})
_UNDER = 40  # kernels listed under one line
_ALONE = 400  # lines in the page of a program shown alone; the rest is deflated
_NO_LINES = "No line of known source text owns any of it."


def listing(
    stage: Stage,
    full: bool = False,
    inputs: Sequence[str] = (),
    *,
    alone: bool = True,
    head: int = _ALONE,
) -> Listing:
    """Returns the listing of a stage's program.

    Args:
        stage: Any stage that is a program.
        full: Whether to leave nothing out.
        inputs: Names of a jaxpr's inputs.
        alone: Whether it is shown alone, not as one pane of several: HLO then keeps its metadata
            and layouts, folded.
        head: Lines in the page for one pane of several.
    """
    module = stage.module
    if stage.info.name == "jaxpr":
        limit = _EVERYTHING if full else jaxpr_lines.LIMIT
        return jaxpr_lines.listing(module, inputs=inputs, limit=limit)
    if stage.info.name == "stablehlo":
        limit = _EVERYTHING if full else _ALONE if alone else head
        return stablehlo_lines.listing(module, stage.text, limit=limit)
    limit = _EVERYTHING if full else _ALONE if alone else head
    return (
        hlo_lines.listing(module, limit=limit)
        if alone or full
        else hlo_brief.listing(module, limit)
    )


def became(subject: Subject) -> list[Block]:
    """Returns the user's lines with the instructions of the optimised program under them."""
    module = subject.optimized.module
    panes = source_pane.blocks(module, subject.sources, hlo_brief.instructions(module))
    return list(panes) or [Findings((Finding(_NO_LINES, "unknown"),))]


def costs(counted: Counted, done: Sequence[Work]) -> list[Block]:
    """Returns the user's lines tinted by flops, with the kernels that came from each under it."""
    subject, cost = counted.subject, counted.cost
    if cost is None:  # opened from a later stage: lines are tinted by instructions
        panes = source_pane.blocks(subject.optimized.module, subject.sources, {})
    else:
        overlay = Overlay("flops", "jaxpr", {id: float(n) for id, n in cost.by_node.items()})
        panes = source_pane.blocks(subject.jaxpr.module, subject.sources, {}, overlay, "flop")
    under: defaultdict[str, list[Work]] = defaultdict(list)
    for work in done:
        for line in work.lines:
            under[line].append(work)
    return [_with(pane, under) for pane in panes] or [Findings((Finding(_NO_LINES, "unknown"),))]


def _kernel_line(work: Work, line: str) -> Line:
    pieces = (
        Piece(f"{work.kernel.kind} ", "comment"),
        Piece(work.kernel.name, "name"),
        Piece(f": {what(work)}"),
    )
    return Line(pieces, work.kernel.instruction, 0, line)


def _with(pane: Block, under: Mapping[str, Sequence[Work]]) -> Block:
    """Returns a source pane with kernels under its lines; other blocks unchanged."""
    if not isinstance(pane, SourcePane):
        return pane
    names = {row.number: f"{pane.title}:{row.number}" for row in pane.lines}
    rows = tuple(
        replace(row, under=_kernel_lines(under.get(names[row.number], ()), names[row.number]))
        for row in pane.lines
    )
    return SourcePane(pane.title, pane.scale, rows)


def _weight(work: Work) -> tuple[bool, int]:
    """Returns a sort key that estimates run time: dots and convolutions, then bytes moved."""
    return any(node.opcode in _PRODUCTS for node in work.inside), work.moved or 0


def _kernel_lines(done: Sequence[Work], line: str) -> tuple[Line, ...]:
    heaviest = sorted(done, key=_weight, reverse=True)
    shown = [_kernel_line(work, line) for work in heaviest[:_UNDER]]
    left = len(done) - len(shown)
    return (*shown, *([Line((Piece(f"... {left:,} more", "comment"),))] if left else []))


def native(subject: Subject, name: str) -> list[Block]:
    """Returns the LLVM IR or assembly of every kernel, each in a fold with its name.

    Raises:
        UnavailableError: No kernel has any.
    """
    folds: list[Block] = [
        Fold(kernel.name, tuple(blocks), open=True)
        for kernel in subject.kernels
        if (blocks := llvm(kernel) if name == "llvm" else asm(kernel, subject))
    ]
    without = [kernel.name for kernel in subject.kernels if not _has(kernel, name)]
    if len(folds) == 0:
        subject.stage(name)  # raises with the reason, if the backend gives one
        raise UnavailableError(f"no kernel of this program has {name}; see %%compile for them")
    if without:
        note = f"Without {name}: {', '.join(without)} (library calls and the runtime's own)."
        folds.insert(0, Findings((Finding(note, "unknown"),)))
    return folds


def _has(kernel: Kernel, name: str) -> bool:
    return bool(kernel.asm if name == "asm" else kernel.llvm_before or kernel.llvm_after)


def llvm(kernel: Kernel) -> list[Code]:
    """Returns a kernel's LLVM IR before and after LLVM's optimisations."""
    found = []
    if kernel.llvm_before:
        found.append(Code("llvm", kernel.llvm_before, title="LLVM IR"))
    if kernel.llvm_after:
        found.append(Code("llvm", kernel.llvm_after, title="LLVM IR, optimised"))
    return found


def asm(kernel: Kernel, subject: Subject) -> list[Code]:
    """Returns a kernel's machine code: assembly, or PTX on a GPU."""
    if not kernel.asm:
        return []
    gpu = subject.program.target.platform in ("gpu", "cuda", "rocm")
    language: Literal["ptx", "asm"] = "ptx" if gpu else "asm"
    return [Code(language, kernel.asm, title="PTX" if gpu else "Assembly")]
