"""The copies, transposes and layout changes of the optimised program, their causes, and mends.

A copy counts where it is an instruction of its own, or a fusion that does nothing else. One inside
of a fusion that computes is no traffic of its own: the fusion reads its operand in another order.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
        """The copies by cause, that of most bytes first; values of which it is one are joined."""
        groups: defaultdict[CopyCause, list[Copy]] = defaultdict(list)
        for copy in self.copies:
            one = replace(copy.cause, value="", order=(), argument=None, result=None)
            groups[one].append(copy)
        ranked = sorted(groups.values(), key=lambda group: -sum(copy.total for copy in group))
        return {_joined([copy.cause for copy in group]): tuple(group) for group in ranked}


def _joined(causes: Sequence[CopyCause]) -> CopyCause:
    """Returns one cause of several values; their order, where it is one."""
    values, orders = [*dict.fromkeys(c.value for c in causes)], {c.order for c in causes}
    order = causes[0].order if len(orders) == 1 else ()
    return replace(causes[0], value=listed(values), order=order)


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
    size, now = capture.optimized.module.size, sum(copy.total for copy in copies)
    if devices(capture) > 1:
        raise UnavailableError("changes are tried of programs for one device alone")
    if size > _MOST:
        raise UnavailableError(f"it has {size:,} instructions, more than are compiled for a trial")
    changes = list(_changes(capture, list(dict.fromkeys(copy.cause for copy in copies))))
    mends = [_trial(live, [change]) for change in changes]
    ranked = sorted(zip(mends, changes, strict=True), key=lambda pair: pair[0].bytes)
    helped = [(mend, change) for mend, change in ranked if not mend.why and mend.bytes < now]
    if helped:
        least, joined = helped[0][0], [helped[0][1]]
        for _, change in helped[1:]:  # beside the best, what leaves less with it
            both = _trial(live, [*joined, change]) if least.bytes else least
            if not both.why and both.bytes < least.bytes:
                least, joined = both, [*joined, change]
        mends += [least] if len(joined) > 1 else []
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

    def of(*kinds: str) -> list[int]:
        return sorted(
            {leaves[c.argument] for c in known if c.kind in kinds and c.argument in leaves}
        )

    if (freed := of("kept", "returned")) and jit:
        roots = list(dict.fromkeys(root_name(inputs[n].name) for n in freed))
        every = jit == OF_ALL
        own = (n for n, leaf in enumerate(inputs) if every or root_name(leaf.name) in roots)
        name = "donating every array" if every else f"donating {listed(roots)}"
        yield name, option(roots, jit), Alteration(donated=frozenset(own))
    if taken := of("read", "itself", "exchanged"):
        names = listed([inputs[n].name for n in taken])
        yield f"not donating {names}", f"no donation of {names}", Alteration(kept=frozenset(taken))
    if moved := [c for c in known if c.kind == "layout"]:
        orders = {c.value.strip("`"): c.order for c in moved}
        code = listed([f"{name}.transpose{order}" for name, order in orders.items()])
        arguments = {leaves[c.argument]: c.order for c in moved if c.argument in leaves}
        results = {c.result: c.order for c in moved if c.result is not None}
        name = f"giving {listed([*orders])} another order of dimensions"
        yield name, code, Alteration(arguments=arguments, results=results)
    if loops := [c.loop for c in causes if c.loop and c.kind in ("shifted", "read", "itself")]:
        found = (capture.links.back(loop, "jaxpr", "optimized") for loop in dict.fromkeys(loops))
        scans = frozenset(id for ids in found for id in ids)
        yield "taking two steps a trip", "unroll=2 in the loop", Alteration(unrolled=scans)
    if any(c.kind == "read" for c in causes):
        code = "old, total = jax.lax.optimization_barrier((old, total))"
        yield "reading before writing", code, Alteration(reordered=True)


def _trial(live: "LiveDriver", changes: Sequence[tuple[str, str, "Alteration"]]) -> Mend:
    """Compiles the program with some changes at once."""
    from jaxlens.questions.copies.measure import compiled

    name = " and ".join(name for name, _, _ in changes)
    code = "; ".join(code for _, code, _ in changes)
    try:
        program = compiled(live, reduce(or_, (change for _, _, change in changes)))
    except UnavailableError as why:
        return Mend(name, code, why=str(why))
    left = [(written(node).bytes or 0) * often.times for node, often in moved(program)]
    return Mend(name, code, len(left), sum(left))
