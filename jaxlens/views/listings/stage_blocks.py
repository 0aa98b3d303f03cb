"""Builds the blocks of a stage: its listing, its code by kernel, or the user's source lines."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import Input, Kernel, Stage
from jaxlens.program.kernels import Work, what
from jaxlens.render.document import Block, Code, Findings, Fold, Line, Listing, Piece, SourcePane
from jaxlens.report import Finding, Overlay
from jaxlens.views import source_pane
from jaxlens.views.listings import hlo as hlo_lines
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
    *,
    alone: bool = True,
    head: int = _ALONE,
    inputs: Sequence[Input] = (),
) -> Listing:
    """Returns the listing of a stage's program.

    Args:
        stage: Any stage that is a program.
        full: Whether to leave nothing out.
        alone: Whether it is shown alone, not as one pane of several: HLO then keeps its metadata
            and layouts, folded.
        head: Lines in the page for one pane of several.
        inputs: The inputs of its program.
    """
    module = stage.module
    if stage.info.name == "jaxpr":
        return jaxpr_lines.listing(module, limit=_EVERYTHING if full else jaxpr_lines.LIMIT)
    limit = _EVERYTHING if full else _ALONE if alone else head
    if stage.info.name == "stablehlo":
        return stablehlo_lines.listing(module, stage.text, limit=limit, inputs=inputs)
    return hlo_lines.listing(module, limit, inputs, brief=not (alone or full))


def became(subject: Capture) -> list[Block]:
    """Returns the user's lines with the instructions of the optimised program under them."""
    module = subject.optimized.module
    under = hlo_lines.instructions(module, subject.program.inputs, brief=True)
    panes = source_pane.blocks(module, subject.sources, under)
    return list(panes) or [Findings((Finding(_NO_LINES, "unknown"),))]


def costs(subject: Capture, flops: Mapping[str, int] | None, works: Sequence[Work]) -> list[Block]:
    """Returns the user's lines tinted by flops, with the kernels that came from each under it.

    Args:
        subject: The program.
        flops: Those of each equation; None where a later stage was opened: lines are then tinted
            by instructions.
        works: The kernels.
    """
    if flops is None:
        panes = source_pane.blocks(subject.optimized.module, subject.sources, {})
    else:
        overlay = Overlay("flops", "jaxpr", {id: float(n) for id, n in flops.items()})
        panes = source_pane.blocks(subject.jaxpr.module, subject.sources, {}, overlay, "flop")
    under: defaultdict[str, list[Work]] = defaultdict(list)
    for work in works:
        for line in work.lines:
            under[line].append(work)

    def with_kernels(pane: Block) -> Block:
        """Returns a source pane with kernels under its lines; other blocks unchanged."""
        if not isinstance(pane, SourcePane):
            return pane
        rows = []
        for row in pane.lines:
            name = f"{pane.title}:{row.number}"
            rows.append(replace(row, under=_kernel_lines(under.get(name, ()), name)))
        return replace(pane, lines=tuple(rows))

    return list(map(with_kernels, panes)) or [Findings((Finding(_NO_LINES, "unknown"),))]


def _weight(work: Work) -> tuple[bool, int]:
    """Returns a sort key that estimates run time: dots and convolutions, then bytes moved."""
    return any(node.opcode in _PRODUCTS for node in work.inside), work.moved or 0


def _kernel_lines(works: Sequence[Work], line: str) -> tuple[Line, ...]:
    lines = []
    for work in sorted(works, key=_weight, reverse=True)[:_UNDER]:
        kernel = work.kernel
        kind, name = Piece(f"{kernel.kind} ", "comment"), Piece(kernel.name, "name")
        lines.append(Line((kind, name, Piece(f": {what(work)}")), kernel.instruction, 0, line))
    if left := len(works) - len(lines):
        lines.append(Line((Piece(f"... {left:,} more", "comment"),)))
    return tuple(lines)


def native(subject: Capture, name: str) -> list[Block]:
    """Returns the LLVM IR or assembly of every kernel, each in a fold with its name.

    Raises:
        UnavailableError: No kernel has any.
    """
    folds: list[Block] = []
    without: list[str] = []
    for kernel in subject.kernels:
        if code := llvm(kernel) if name == "llvm" else asm(kernel, subject):
            folds.append(Fold(kernel.name, tuple(code), open=True))
        else:
            without.append(kernel.name)
    if not folds:
        subject.stage(name)  # raises with the reason, if the backend gives one
        raise UnavailableError(f"no kernel of this program has {name}; see %%compile for them")
    if without:
        note = f"Without {name}: {', '.join(without)} (library calls and the runtime's own)."
        folds.insert(0, Findings((Finding(note, "unknown"),)))
    return folds


def llvm(kernel: Kernel) -> list[Code]:
    """Returns a kernel's LLVM IR before and after LLVM's optimisations."""
    texts = {"LLVM IR": kernel.llvm_before, "LLVM IR, optimised": kernel.llvm_after}
    return [Code("llvm", text, title=title) for title, text in texts.items() if text]


def asm(kernel: Kernel, subject: Capture) -> list[Code]:
    """Returns a kernel's machine code: assembly, or PTX on a GPU."""
    if not kernel.asm:
        return []
    gpu = subject.program.target.platform in ("gpu", "cuda", "rocm")
    language: Literal["ptx", "asm"] = "ptx" if gpu else "asm"
    return [Code(language, kernel.asm, title="PTX" if gpu else "Assembly")]


def names_of(subject: Capture) -> Mapping[str, str]:
    """Returns the names that the optimised program's arguments have in Python."""
    return hlo_lines.names_of(subject.optimized.module, subject.program.inputs)


def computed(work: Work, names: Mapping[str, str]) -> list[Line]:
    """Returns a kernel's HLO instructions as lines."""
    if work.node is None:
        return []
    nodes = (work.node, *(node for node in work.inside if node is not work.node))
    return [hlo_lines.instruction(node, str(node.owner or ""), names, brief=True) for node in nodes]
