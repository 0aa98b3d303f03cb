"""The copies, transposes and layout changes of the optimised program, their causes, and mends.

A copy counts where it is an instruction of its own, or a fusion that does nothing else. One inside
of a fusion that computes is no traffic of its own: the fusion reads its operand in another order.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import root_name
from jaxlens.ir.graph import Module, Node
from jaxlens.ir.hlo.instructions import numbers, written
from jaxlens.ir.trips import RunCount, runs
from jaxlens.program.donated import OF_ALL, option
from jaxlens.program.kernels import inside
from jaxlens.program.sentences import listed
from jaxlens.program.subject import Given, ProgramFacts, devices
from jaxlens.questions.copies.causes import MOVES, Causes, CopyCause, moves

if TYPE_CHECKING:
    from jaxlens.questions.copies.measure import Alteration
    from jaxlens.stages.driver import LiveDriver

_MOST = 5_000  # instructions of a program that is compiled again for trials
REWRITTEN = "Python function that could be traced and compiled with a change"


@dataclass(frozen=True, slots=True)
class Copy:
    """One instruction that only moves a value.

    Attributes:
        id: The instruction.
        type: Its type as text.
        bytes: The size of the value; a copy reads and writes as much.
        times: How often it runs, with one pass of each loop in `open`.
        open: Loops around it whose trips are unknown, by line.
        cause: Why it is there.
    """

    id: str
    type: str
    bytes: int
    times: int
    open: tuple[str, ...]
    cause: CopyCause

    @property
    def total(self) -> int:
        """Bytes copied in a run of the program."""
        return self.bytes * self.times


@dataclass(frozen=True, slots=True)
class Mend:
    """A change of the program that was tried.

    Attributes:
        name: What is changed, in words.
        code: How to write it.
        copies: Copies of the program compiled with it; None where it could not be compiled.
        bytes: Bytes that they copy in a run.
        why: Why it could not be tried; "" where it was.
    """

    name: str
    code: str
    copies: int | None = None
    bytes: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Copies(ProgramFacts):
    """The copies of a program.

    Attributes:
        copies: Those of arrays, most bytes a run first; scalars are left out.
        fused: Copies and transposes inside fusions that compute.
        mends: What was tried.
        untried: Why nothing was tried; "" where it was, or where nothing was known to try.
    """

    copies: tuple[Copy, ...]
    fused: int = 0
    mends: tuple[Mend, ...] = ()
    untried: str = ""

    @property
    def bytes(self) -> int:
        """Bytes copied in a run; with one pass of a loop whose trips are unknown."""
        return sum(copy.total for copy in self.copies)

    @property
    def causes(self) -> dict[CopyCause, tuple[Copy, ...]]:
        """The copies by cause, that of most bytes first."""
        groups: defaultdict[CopyCause, list[Copy]] = defaultdict(list)
        for copy in self.copies:
            groups[copy.cause].append(copy)
        ranked = sorted(groups.items(), key=lambda item: -sum(copy.total for copy in item[1]))
        return {cause: tuple(copies) for cause, copies in ranked}


def facts(capture: Capture) -> Copies:
    """Finds the copies of a program, why each is there, and tries what would remove them.

    Raises:
        UnavailableError: The backend provides no optimised HLO.
    """
    module, causes = capture.optimized.module, Causes(capture)
    found = (_copy(node, often, causes.cause(node)) for node, often in moved(module))
    copies = tuple(sorted(found, key=lambda copy: -copy.total))
    mends = Given(lambda: _tried(capture, copies) if copies else ())
    tried, untried = mends.or_else(()), mends.lacking
    return Copies(copies, _fused(module), tried, untried, _subject=capture)


def moved(module: Module) -> Iterator[tuple[Node, RunCount]]:
    """Yields the instructions that only move an array, and how often each runs."""
    for name, often in runs(module).items():
        for node in module.regions[name].nodes:
            if moves(node, module) and written(node).shape:
                yield node, often


def _copy(node: Node, often: RunCount, cause: CopyCause) -> Copy:
    size = written(node).bytes or 0
    return Copy(node.id, str(written(node)), size, often.times, often.open, cause)


def _fused(module: Module) -> int:
    """Returns the number of copies and transposes of arrays inside fusions that compute."""
    fusions = (node for name in runs(module) for node in module.regions[name].nodes)
    parts = (p for node in fusions if not moves(node, module) for p in inside(node, module))
    return sum(part.opcode in MOVES and bool(part.type.shape) for part in parts)


def _tried(capture: Capture, copies: Sequence[Copy]) -> tuple[Mend, ...]:
    """Compiles the program with each change that could remove copies, and with those that help.

    Raises:
        UnavailableError: The program is not live, or cannot be compiled again.
    """
    live = capture.driver.live(REWRITTEN, traces=True)
    if devices(capture) > 1:
        raise UnavailableError("changes are tried of programs for one device alone")
    if (size := capture.optimized.module.size) > _MOST:
        raise UnavailableError(f"it has {size:,} instructions, more than are compiled for a trial")
    changes = list(_changes(capture, [copy.cause for copy in copies]))
    mends = [_trial(live, [change]) for change in changes]
    least = sum(copy.total for copy in copies)
    joined: list[tuple[str, str, Alteration]] = []
    ranked = sorted(zip(mends, changes, strict=True), key=lambda pair: pair[0].bytes)
    for alone, change in ranked:  # beside the best, what leaves less with it
        mend = _trial(live, [*joined, change]) if joined and least else alone
        if not mend.why and mend.bytes < least:
            least, joined = mend.bytes, [*joined, change]
            mends += [mend] if mend is not alone else []
    return tuple(mends)


def _changes(
    capture: Capture, causes: Sequence[CopyCause]
) -> Iterator[tuple[str, str, "Alteration"]]:
    """Yields changes that could remove copies of these causes: in words, in code, as data."""
    from jaxlens.questions.copies.measure import Alteration

    inputs, jit = capture.program.inputs, capture.program.jit
    parameters = numbers(capture.optimized.module, inputs)
    leaves = {parameters[i.name]: n for n, i in enumerate(inputs) if i.name in parameters}
    known = [c for c in causes if c.argument in leaves or c.result is not None]
    buffers = sorted({leaves[c.argument] for c in known if c.argument in leaves and not c.order})
    if jit and (roots := [root_name(inputs[n].name) for n in buffers if not inputs[n].donated]):
        roots, is_all = list(dict.fromkeys(roots)), jit == OF_ALL
        own = (n for n, i in enumerate(inputs) if is_all or root_name(i.name) in roots)
        name = "donating every array" if is_all else f"donating {listed(roots)}"
        donated = frozenset(n for n in own if not inputs[n].donated)
        yield name, option(roots, jit), Alteration(switched=donated)
    if taken := [n for n in buffers if inputs[n].donated]:
        names = listed([inputs[n].name for n in taken])
        yield f"not donating {names}", f"no donation of {names}", Alteration(frozenset(taken))
    if orders := {c.value.strip("`"): c.order for c in known if c.order}:
        code = listed([f"{name}.transpose{order}" for name, order in orders.items()])
        arguments = {leaves[c.argument]: c.order for c in known if c.order and c.argument in leaves}
        results = {c.result: c.order for c in known if c.result is not None}
        name = f"giving {listed([*orders])} another order of dimensions"
        yield name, code, Alteration(arguments=arguments, results=results)
    if loops := {c.loop for c in causes if c.loop and c.kind in ("shifted", "read")}:
        found = [capture.links.back(loop, "jaxpr", "optimized") for loop in loops]
        scans = frozenset(id for ids in found for id in ids)
        yield "taking two steps a trip", "unroll=2 in the loop", Alteration(unrolled=scans)
    if any(c.kind == "read" for c in causes):
        code = "old, total = jax.lax.optimization_barrier((old, total))"
        yield "reading before writing", code, Alteration(reordered=True)


def _trial(live: "LiveDriver", changes: Sequence[tuple[str, str, "Alteration"]]) -> Mend:
    """Compiles the program with some changes at once."""
    from jaxlens.questions.copies.measure import compiled

    names, codes, alterations = zip(*changes, strict=True)
    name, code = " and ".join(names), "; ".join(codes)
    try:
        left = list(moved(compiled(live, reduce(or_, alterations))))
    except UnavailableError as why:
        return Mend(name, code, why=str(why))
    size = sum((written(node).bytes or 0) * often.times for node, often in left)
    return Mend(name, code, len(left), size)
