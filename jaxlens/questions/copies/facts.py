"""The copies, transposes and layout changes of the optimised program, their causes, and mends.

A copy counts where it is an instruction of its own, or a fusion that does nothing else. One inside
of a fusion that computes is no traffic of its own: the fusion reads its operand in another order.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import root_name
from jaxlens.ir.graph import Module, Node
from jaxlens.ir.hlo.data_flow import moves
from jaxlens.ir.hlo.instructions import numbers, written
from jaxlens.program.donated import OF_ALL, option
from jaxlens.program.kernel_cost import instruction_costs
from jaxlens.program.sentences import listed
from jaxlens.program.subject import Given, ProgramFacts, devices
from jaxlens.questions.copies.causes import Causes, CopyCause

_MOST = 5_000  # instructions of a program that is compiled again for trials
Change = tuple[str, str, dict[str, Any]]
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
        name: What is changed, in words; with the changes before that helped.
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
        mends: What was tried.
        untried: Why nothing was tried; "" where it was, or where nothing was known to try.
    """

    copies: tuple[Copy, ...]
    mends: tuple[Mend, ...] = ()
    untried: str = ""

    @property
    def bytes(self) -> int:
        """Bytes copied in a run; with one pass of a loop whose trips are unknown."""
        return sum(copy.total for copy in self.copies)


def facts(capture: Capture) -> Copies:
    """Finds the copies of a program, why each is there, and tries what would remove them.

    Raises:
        UnavailableError: The backend provides no optimised HLO.
    """
    module = capture.optimized.module
    copies = _copies(module, Causes(capture).cause)
    mends = Given(lambda: _tried(capture, copies) if copies else ())
    return Copies(copies, mends.or_else(()), mends.lacking, _subject=capture)


def _copies(module: Module, cause: Callable[[Node], CopyCause]) -> tuple[Copy, ...]:
    """Returns the instructions that only move an array, those of most bytes first."""
    found, nodes = list[Copy](), {node.id: node for node in module.nodes()}
    for cost in instruction_costs(module):
        node, type_ = nodes[cost.instruction], written(nodes[cost.instruction])
        if type_.shape and moves(node, module):
            size = type_.bytes or 0
            found.append(Copy(node.id, str(type_), size, cost.runs, cost.open, cause(node)))
    return tuple(sorted(found, key=lambda copy: -copy.total))


def _tried(capture: Capture, copies: Sequence[Copy]) -> tuple[Mend, ...]:
    """Compiles the program with each change that could remove copies, beside those that did.

    Raises:
        UnavailableError: The program is not live, or cannot be compiled again.
    """
    from jaxlens.questions.copies.measure import Alteration, compiled

    live = capture.driver.live(REWRITTEN, traces=True)
    if devices(capture) > 1:
        raise UnavailableError("changes are tried of programs for one device alone")
    if (size := capture.optimized.module.size) > _MOST:
        raise UnavailableError(f"it has {size:,} instructions, more than are compiled for a trial")
    best, changed = Mend("", "", bytes=sum(copy.total for copy in copies)), dict[str, Any]()
    tried: list[Mend] = []
    for name, code, change in _changes(capture, [copy.cause for copy in copies]):
        names, codes = (list(filter(None, pair)) for pair in ((best.name, name), (best.code, code)))
        mend = Mend(" and ".join(names), "; ".join(codes))
        try:
            module = compiled(live, Alteration(**changed | change))
            left = _copies(module, lambda _: CopyCause("unknown"))
            mend = replace(mend, copies=len(left), bytes=sum(copy.total for copy in left))
        except UnavailableError as why:
            mend = replace(mend, why=str(why))
        tried.append(mend)
        if not mend.why and mend.bytes < best.bytes:
            best, changed = mend, changed | change
    return tuple(tried)


def _changes(capture: Capture, causes: Sequence[CopyCause]) -> Iterator[Change]:
    """Yields changes that could remove copies of these causes: in words, in code, as data."""
    inputs, jit = capture.program.inputs, capture.program.jit
    parameters = numbers(capture.optimized.module, inputs)
    leaves = {parameters[i.name]: n for n, i in enumerate(inputs) if i.name in parameters}
    orders = [c for c in causes if c.order and (c.argument in leaves or c.result is not None)]
    buffers = {leaves[c.argument] for c in causes if c.argument in leaves and not c.order}
    kept = sorted(n for n in buffers if not inputs[n].donated)
    if late := [c.value.strip("`") for c in causes if c.kind == "read"]:
        pair = f"{next((name for name in late if ' ' not in name), 'old')}, read"
        code = f"{pair} = jax.lax.optimization_barrier(({pair}))"
        yield "reading before writing", code, {"reordered": True}
    if kept and jit:
        roots, is_all = list(dict.fromkeys(root_name(inputs[n].name) for n in kept)), jit == OF_ALL
        own = (n for n, i in enumerate(inputs) if is_all or root_name(i.name) in roots)
        name = "donating every array" if is_all else f"donating {listed(roots)}"
        yield name, option(roots, jit), {"donated": frozenset(own)}
    if orders:
        values = {c.value.strip("`"): c.order for c in orders}
        code = listed([f"{name}.transpose{order}" for name, order in values.items()])
        arguments = {leaves[c.argument]: c.order for c in orders if c.argument in leaves}
        results = {c.result: c.order for c in orders if c.result is not None}
        name = f"giving {listed([*values])} another order of dimensions"
        yield name, code, {"arguments": arguments, "results": results}
    loops = {c.loop for c in causes if c.loop and c.kind in ("shifted", "read")}
    ids = {id for loop in loops for id in capture.links.back(loop, "jaxpr", "optimized")}
    eqns = (eqn for eqn in capture.jaxpr.module.nodes() if loops and eqn.opcode == "scan")
    if scans := frozenset(eqn.id for eqn in eqns if eqn.id in ids):
        yield "taking two steps a trip", "unroll=2 in the loop", {"unrolled": scans}
    if taken := sorted(n for n in buffers if inputs[n].donated):
        names = listed([inputs[n].name for n in taken])
        yield f"not donating {names}", f"no donation of {names}", {"kept": frozenset(taken)}
