"""The equation at which a result loses most of its digits, and values promoted to a wider type."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from jaxlens.captures import Capture
from jaxlens.ir.graph import Node, Span
from jaxlens.links.name_stack import EquationModules
from jaxlens.program.lines import owners, span_of
from jaxlens.program.subject import ProgramFacts
from jaxlens.questions.numerics.promotion import Promotion, promotions
from jaxlens.questions.numerics.rounding import (
    BITS,
    NumericsRun,
    ResultRounding,
    RoundingExecution,
    convert_ulps,
    digits_lost,
)
from jaxlens.taps.primitives import MOVES, Path

_STEP = 8.0  # factor by which one equation must increase the error to be named: about a digit
_REPEATS = 8  # executions of an equation whose roundings can add up to as much
_CANCELS = 4.0  # operands so much larger than their exact sum cancel: 2 bits of them are gone
_CHAIN = 5_000  # executions that are followed back from a result; bounds the time for long loops
_ADDS = ("add", "add_any", "sub")  # of two operands
_SUMS = (*_ADDS, "reduce_sum", "cumsum", "dot_general", "conv_general_dilated")  # of many terms too
Kind = Literal[
    "cancellation", "residue", "overflow", "underflow", "rounding", "amplification", "accumulation"
]


@dataclass(frozen=True, slots=True)
class DigitLoss:
    """Where a result loses its digits.

    Attributes:
        kind: How. A residue is the sum of terms that cancel so far that float64 has no digits of
            it left either.
        execution: The execution that loses them; of an accumulation the last one.
        result: The result that gets the error.
        opcode: The primitive.
        span: The user's line; None if unknown.
        operands: The primitives that made its operands, past those that only move elements; "" for
            inputs and literals.
        before: The largest error of its operands, in ulps.
        times: How often the equation was executed on the way to the result.
    """

    kind: Kind
    execution: RoundingExecution
    result: ResultRounding
    opcode: str
    span: Span | None
    operands: tuple[str, ...]
    before: float
    times: int


@dataclass(frozen=True, slots=True)
class EquationRounding:
    """The worst errors of an equation over all its executions, in ulps.

    Attributes:
        path: The equation, within its calls.
        dtype: The element type of its result.
        own: Its own error.
        total: Its result's against the program in float64.
        iterations: Loop indices of the execution with the largest total, outermost first; a reverse
            scan counts in execution order.
        lost: Decimal digits lost, relative to the narrowest type the value passed through.
        module: Module path, outermost first; () if none.
        backward: Whether a derivative's transpose made it.
    """

    path: Path
    dtype: str
    own: float
    total: float
    iterations: tuple[int, ...]
    lost: float
    module: tuple[str, ...] = ()
    backward: bool = False


@dataclass(frozen=True, slots=True)
class Numerics(ProgramFacts):
    """What rounding does to a program's results.

    Attributes:
        run: All that was measured.
        equations: The errors by equation, in the order of execution.
        losses: Where results lose digits, the largest loss first, each equation once.
        promotions: Where a narrow value silently became a wider one.
        worst: The largest error of a result op by op, in ulps of the narrowest type on the way of
            its error, and that type.
        bound: The largest error of a result in either run, op by op or compiled, likewise.
        names: The primitive of each equation, by id.
        spans: The user's line of each equation, by id.
    """

    run: NumericsRun
    equations: tuple[EquationRounding, ...]
    losses: tuple[DigitLoss, ...]
    promotions: tuple[Promotion, ...]
    worst: tuple[float, str]
    bound: tuple[float, str]
    names: Mapping[str, str]
    spans: Mapping[str, Span | None]

    @property
    def found(self) -> bool:
        """Whether a result loses digits, or a value is promoted."""
        return bool(self.losses or self.promotions)

    @property
    def difference(self) -> float:
        """The largest difference between compiled and op by op, in ulps; see its `size`."""
        return max((one.size for one in self.run.differences), default=0.0)


def facts(capture: Capture) -> Numerics:
    """Runs a program op by op, in float64 beside it, and compiled.

    Raises:
        UnavailableError: It cannot be run here.
    """
    module = capture.jaxpr.module
    nodes = {node.id: node for node in module.nodes()}
    live = capture.driver.live()  # raises before JAX is imported
    from jaxlens.questions.numerics.measure.run import run_and_compare

    run = run_and_compare(live)
    owner = owners(module)
    spans = {ident: owner.get(ident) for ident in nodes}
    chains = [_chain(run.executions, result) for result in run.results]
    none = (0.0, "float32")
    return Numerics(
        run,
        tuple(_by_equation(run.executions, EquationModules(module))),
        tuple(_losses(run.executions, chains, nodes, spans)),
        tuple(promotions(module, capture.program.inputs, spans)),
        max((chain.error(chain.result.total) for chain in chains), default=none),
        max((chain.error(chain.result.largest) for chain in chains), default=none),
        {ident: node.opcode for ident, node in nodes.items()},
        spans,
        _subject=capture,
    )


def _by_equation(
    executions: Sequence[RoundingExecution], modules: EquationModules
) -> Iterator[EquationRounding]:
    runs: defaultdict[Path, list[tuple[RoundingExecution, str]]] = defaultdict(list)
    narrowest: list[str] = []  # type that the value of each execution passed through
    for one in executions:
        passed = (one.dtype, *(narrowest[n] for n in one.operands if n >= 0))
        narrowest.append(min(passed, key=BITS.__getitem__))
        runs[one.path].append((one, narrowest[-1]))
    for path, every in runs.items():
        worst, narrow = max(every, key=lambda run: run[0].total)
        yield EquationRounding(
            path,
            worst.dtype,
            max(one.own for one, _ in every),
            worst.total,
            worst.iterations,
            digits_lost(convert_ulps(worst.total, worst.dtype, narrow), narrow),
            *modules.within(path),
        )


def _relative(ulps: float, dtype: str) -> float:
    return ulps * 2.0 ** -BITS[dtype]


class _Link(NamedTuple):
    """An execution that an error went through.

    Attributes:
        factor: By how much it increased the error.
        execution: Its index.
        before: The largest error of its operands, relative to their size.
    """

    factor: float
    execution: int
    before: float


class _Chain(NamedTuple):
    """The executions that the largest error of a result went through.

    Attributes:
        result: The result.
        links: The executions, the last first; [] for an input or a constant.
        dtype: The narrowest type on the way.
    """

    result: ResultRounding
    links: list[_Link]
    dtype: str

    def error(self, ulps: float) -> tuple[float, str]:
        """Returns an error of the result in ulps of the narrowest type, and that type."""
        return convert_ulps(ulps, self.result.dtype, self.dtype), self.dtype


def _chain(executions: Sequence[RoundingExecution], result: ResultRounding) -> _Chain:
    """Follows the largest error back from a result."""
    links: list[_Link] = []
    index = result.maker
    while index >= 0 and len(links) < _CHAIN:
        one = executions[index]
        errors = {n: _relative(executions[n].total, executions[n].dtype)
                  for n in one.operands if n >= 0}  # fmt: skip
        before, error = max(errors.values(), default=0.0), _relative(one.total, one.dtype)
        factor = 1.0 if error == before else error / max(before, _relative(1.0, one.dtype))
        links.append(_Link(factor, index, before))
        index = max(errors, key=errors.__getitem__, default=-1)
    dtypes = [executions[link.execution].dtype for link in links] or [result.dtype]
    return _Chain(result, links, min(dtypes, key=BITS.__getitem__))


def _losses(
    executions: Sequence[RoundingExecution],
    chains: Sequence[_Chain],
    nodes: Mapping[str, Node],
    spans: Mapping[str, Span | None],
) -> list[DigitLoss]:
    losses: dict[Path, DigitLoss] = {}
    for chain in sorted(chains, key=lambda chain: -chain.result.largest):
        if (loss := _loss(executions, chain, nodes, spans)) is not None:
            losses.setdefault(loss.execution.path, loss)
    # A residue is most likely 0 by construction, and harmless: these come last.
    return sorted(losses.values(), key=lambda loss: loss.kind == "residue")


def _loss(
    executions: Sequence[RoundingExecution],
    chain: _Chain,
    nodes: Mapping[str, Node],
    spans: Mapping[str, Span | None],
) -> DigitLoss | None:
    """Returns where an error is made; None if it is small, or of many equations."""
    result, links, dtype = chain
    # A result cannot have more digits than the narrowest type on its way: of these, 3 of the 7 of
    # float32 must be lost (10 of 24 bits), of bfloat16 4 of its 8 bits: a few roundings take 3.
    least = 2.0 ** (max(4, round(0.42 * BITS[dtype])) - BITS[dtype])
    if not links or _relative(result.largest, result.dtype) < least:
        return None
    link = max(links, key=lambda link: link.factor)
    paths = Counter(executions[n].path for _, n, _ in links)
    adds_up = link.factor < _STEP
    if adds_up:
        path, times = paths.most_common(1)[0]
        if times < _REPEATS:
            return None
        link = next(link for link in links if executions[link.execution].path == path)
    one = executions[link.execution]
    opcode = nodes[one.path[-1]].opcode
    return DigitLoss(
        "accumulation" if adds_up else _kind(one, opcode),
        one,
        result,
        opcode,
        span_of(one.path, spans),
        tuple(_made_by(n, executions, nodes) for n in one.operands),
        link.before / _relative(1.0, one.dtype),
        paths[one.path],
    )


def _kind(one: RoundingExecution, opcode: str) -> Kind:
    pairs = zip(one.read, one.read_exact, strict=True)
    if any(value == 0 and exact not in (0, None) for value, exact in pairs):
        return "underflow"
    if one.own == float("inf"):
        return "overflow"
    # Float32 errs by about 2**-24 of the terms of a sum. If that is 2**29 ulps of the exact sum, it
    # is 2**-29 of the terms, and of float64's 53 bits no more than float32's own 24 are left to it.
    if opcode in _SUMS and 2.0 ** (53 - BITS[one.dtype]) <= one.total < float("inf"):
        return "residue"
    # Not amplified, each of two operands brings at most 1 / _STEP of the total: where its own error
    # is a quarter, it is the cause.
    if one.own >= one.total / 4:
        return "rounding"
    sizes = [abs(x) for x in one.read if x is not None]
    cancels = opcode in _ADDS and sizes and max(sizes) >= _CANCELS * abs(one.exact)
    return "cancellation" if cancels else "amplification"


def _made_by(index: int, executions: Sequence[RoundingExecution], nodes: Mapping[str, Node]) -> str:
    while index >= 0:
        one = executions[index]
        opcode = nodes[one.path[-1]].opcode
        if opcode not in MOVES or opcode == "abs":
            return opcode
        index = next((n for n in one.operands if n >= 0), -1)
    return ""
