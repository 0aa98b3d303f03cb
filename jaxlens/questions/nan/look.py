"""Looks at the equations that made a NaN or an infinity, with runs of the program."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from jaxlens.captures import Capture
from jaxlens.ir.graph import Node, Region, Span
from jaxlens.ir.jaxpr.bodies import operand
from jaxlens.links.live_equations import Place
from jaxlens.program.lines import Owners, span_of, spot
from jaxlens.program.maker import DERIVED, LITERAL, ZERO_AT, CureTrial, Maker, reason
from jaxlens.program.sentences import listed
from jaxlens.questions.nan.walk import NonFiniteKind, Spot, Walker
from jaxlens.taps.executions import (
    CALLS,
    GUARDS,
    INSIDE,
    LOOPS,
    MOVES,
    EquationValues,
    NonFiniteExecution,
    NonFiniteRun,
    Path,
    ValueRange,
)

_FORWARD, _BACKWARD = "jvp(", "transpose("
_TRIED = 5  # rounds of a trial
_STEPS = 60  # equations from a zero operand back to the `where` that it comes from
_NEAR = 8  # equations from a derivative back to what it is the derivative of
_POSITIVE = frozenset("exp exp2 logistic erfc".split())  # functions that are nowhere 0
_PRODUCTS = frozenset(  # which are 0 only if an operand is
    "mul div square integer_pow pow reduce_prod cumprod convert_element_type".split()
)
_RUNS = 3  # equations that are measured to find an underflow


@dataclass(frozen=True, slots=True)
class Look:
    """Looks at equations.

    Attributes:
        capture: The program.
        walker: Walks through it.
        owner: The user's line of each equation.
        run: Which equations had NaN and infinities.
        readers: The equations that read a variable.
    """

    capture: Capture
    walker: Walker
    owner: Owners
    run: NonFiniteRun
    readers: dict[Place, list[tuple[Region, Node]]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        readers: dict[Place, list[tuple[Region, Node]]] = defaultdict(list)
        for region in self.walker.flow.regions.values():
            for node in region.nodes:
                for name in dict.fromkeys(node.operands):
                    readers[region.name, name].append((region, node))
        object.__setattr__(self, "readers", readers)

    def kind(self, *, nan: bool) -> NonFiniteKind:
        """Returns what of the run had NaN, or infinities."""
        run = self.run
        if nan:
            return NonFiniteKind(run.nan, frozenset(run.nan_inputs), "nan")
        return NonFiniteKind(run.inf, frozenset(run.inf_inputs), "inf")

    def maker(self, path: Path, way: Sequence[Path] = (), *, nan: bool) -> Maker:
        """Returns an equation with what it read and made; runs the program once more.

        Args:
            path: The equation.
            way: The equations that its elements went through to the results.
            nan: Whether it made a NaN.
        """
        from jaxlens.questions.nan.measure.runs import equation_values

        node = self.walker.nodes[path[-1]]
        at = (self.run.nan if nan else self.run.inf).get(path, NonFiniteExecution())
        values = equation_values(self.capture.driver.live(), path, at)
        if not nan:  # where its results have both, the NaN are another question
            values = replace(values, results=tuple(map(_without_nan, values.results)))
        backward, derived = self.scoped(path, _BACKWARD), self.derivative_of(path)
        ends = [n for n, step in enumerate(path[:-1]) if self.walker.nodes[step].opcode in LOOPS]
        kind = self.kind(nan=nan)
        literal = any(self.walker.has(spot, kind) for spot in self.walker.before(path, kind))
        dtype = node.results[0].type.dtype if node.results else ""
        why, underflow = LITERAL, None
        if not literal:
            underflow = None if derived else self.underflow(path, values, at)
            passed = any(self.scoped(step, _BACKWARD) for step in way) and not backward
            why = reason(
                node.opcode,
                values,
                dtype,
                untaken=self.untaken(path, values) if backward else "",
                masked=self.masked(path) if passed else "",
                derived=derived,
                underflow=underflow is not None,
            )
        return Maker(
            path,
            node.opcode,
            self.span(path),
            tuple(self.span(path[: n + 1]) for n in ends),
            at.iterations[: len(ends)],
            tuple(
                _element(self.walker.nodes[path[n]], step)
                for n, step in zip(ends, at.iterations, strict=False)
            ),
            at.device,
            backward or bool(derived),
            values,
            why,
            str(node.results[0].type) if node.results else "",
            underflow,
        )

    def infinity(self, path: Path, way: Sequence[Path]) -> tuple[Maker | None, frozenset[int]]:
        """Returns the equation that made the infinity which an equation read, or its inputs."""
        kind = self.kind(nan=False)
        spots = [spot for spot in self.walker.operands(path) if self.walker.has(spot, kind)]
        origins = self.walker.back(spots, kind)
        inputs = kind.inputs & origins.inputs
        if inputs or not origins.makers:
            return None, inputs
        return self.maker(origins.makers[0], way, nan=False), inputs

    def scoped(self, path: Path, scope: str) -> bool:
        """Whether an equation, or a call that leads to it, is within a scope."""
        return any(scope in self.walker.nodes[step].scope for step in path)

    def span(self, path: Path) -> Span | None:
        """Returns the user's line of an equation, or of the call that leads to it."""
        return span_of(path, self.owner)

    def behind(
        self, spots: Sequence[Spot], most: int, scope: str = ""
    ) -> Iterator[tuple[Spot, Node | None]]:
        """Yields values and what they are computed from, each with its equation, the near first.

        With a scope, only what equations within it read and made.
        """
        walked = self.walker.walk(
            spots,
            lambda path, _: self.walker.operands(path),
            enter=lambda path: not scope or self.scoped(path, scope),
        )
        steps = 0
        for value, path in walked:
            steps += bool(path)
            if steps > most:
                return
            yield value, self.walker.nodes[path[-1]] if path else None

    def untaken(self, path: Path, values: EquationValues) -> str:
        """Returns the line of the `where` that made an operand 0 on the way back; "" for none."""
        zeros = [n for n, v in enumerate(values.operands) if v is not None and v.zeros]
        for (prefix, _, _), made in self.behind(
            self.walker.operands(path, zeros), _STEPS, _BACKWARD
        ):
            if made is not None and made.opcode == "select_n":
                return str(self.span((*prefix, made.id)) or "unknown line")
        return ""

    def masked(self, path: Path) -> str:
        """Returns the line of the `where` that did not take what an equation made; "" for none."""
        node, region = self.walker.nodes[path[-1]], self.walker.regions[path[-1]]
        pending = [(path[:-1], (region, value.name)) for value in node.results]
        for prefix, place in pending:  # grows on the way
            for _, reader in self.readers.get(place, ()):
                here = (*prefix, reader.id)
                if self.scoped(here, _BACKWARD):
                    continue
                if reader.opcode == "select_n" and not (
                    here in self.run.nan or here in self.run.inf
                ):
                    return str(self.span(here) or "unknown line")
                if reader.opcode in MOVES:
                    pending += [(prefix, (place[0], value.name)) for value in reader.results]
                elif reader.opcode in CALLS:
                    pending += [(here, inner) for inner in self.parameters(reader, place[1])]
            if prefix and place[1] in self.walker.flow.regions[place[0]].results:
                caller = self.walker.nodes[prefix[-1]]
                if caller.opcode in CALLS:
                    index = self.walker.flow.regions[place[0]].results.index(place[1])
                    outside = self.walker.regions[caller.id], caller.results[index].name
                    pending.append((prefix[:-1], outside))
        return ""

    def parameters(self, node: Node, name: str) -> Iterator[Place]:
        """Yields the parameters of a call's body that an operand binds."""
        for region in (self.walker.flow.regions[n] for n in node.regions):
            for index, value in enumerate(region.parameters):
                if node.operands[operand(node, index, len(region.parameters))] == name:
                    yield region.name, value.name

    def derives(self, path: Path) -> bool:
        """Whether an equation is part of a gradient, as far as it shows."""
        return self.scoped(path, _BACKWARD) or bool(self.derivative_of(path))

    def derivative_of(self, path: Path) -> str:
        """Returns the primitive whose derivative an equation computes, as far as it shows; "" else.

        The rule of a derivative reads what the primitive on the same line reads or makes.
        """
        if not self.scoped(path, _FORWARD):
            return ""
        node, span = self.walker.nodes[path[-1]], self.span(path)
        rules = {name: rule for name, rule in DERIVED.items() if node.opcode in rule.opcodes}
        if not rules or span is None:
            return ""
        half = bool(node.operands) and node.operands[0].startswith("0.5:")
        backward = self.scoped(path, _BACKWARD)
        for (prefix, place, _), made in self.behind(self.walker.operands(path), _NEAR):
            near = [] if made is None else [made]
            for other in (*near, *(reader for _, reader in self.readers.get(place, ()))):
                rule = rules.get(other.opcode)
                if rule is None or other is node:
                    continue
                if (rule.half and half) or (rule.backward and backward) or rule.always:
                    line = self.span((*prefix, other.id))
                    if line is not None and spot(line) == spot(span):
                        return other.opcode
        return ""

    def underflow(
        self, path: Path, values: EquationValues, at: NonFiniteExecution
    ) -> tuple[str, Span | None] | None:
        """Returns the equation that made the 0 which an equation read of numbers that are not 0."""
        index = ZERO_AT.get(self.walker.nodes[path[-1]].opcode)
        read = values.operands[index] if index is not None else None
        if index is None or read is None or not read.zeros or read.least < 0:
            return None
        from jaxlens.questions.nan.measure import runs

        spots = self.walker.operands(path, (index,))
        for _ in range(_RUNS):
            found = self.computed(spots)
            if found is None:
                return None
            here, opcode = found
            inner = runs.equation_values(self.capture.driver.live(), here, at)
            if not any(v is not None and v.zeros for v in inner.results):
                return None
            zeros = [n for n, v in enumerate(inner.operands) if v is not None and v.zeros]
            if opcode in _POSITIVE or not zeros:
                infinite = any(v is not None and v.inf for v in inner.operands)
                return None if infinite else (opcode, self.span(here))
            spots = self.walker.operands(here, zeros)
        return None

    def computed(self, spots: Sequence[Spot]) -> tuple[Path, str] | None:
        """Returns the product or function that a value is of, past those that move elements."""
        for (prefix, _, _), made in self.behind(spots, _NEAR):
            if made is None or made.opcode in MOVES or made.opcode in INSIDE:
                continue
            can = made.opcode in _POSITIVE or made.opcode in _PRODUCTS
            return ((*prefix, made.id), made.opcode) if can else None
        return None

    def trial(self, makers: Sequence[Path], *, nan: bool, infinity: bool) -> CureTrial | None:
        """Runs the program with the equations guarded; None where there is no guard for them.

        Args:
            makers: The equations that made what is not finite.
            nan: Whether that is a NaN.
            infinity: Whether the infinities that they read are to be cured instead.
        """
        from jaxlens.questions.nan.measure.runs import guarded as guarded_run

        paths: list[Path] = []
        look, change = self, 0.0
        made = partial(CureTrial, cured=False, infinite=False)
        for _ in range(_TRIED):
            guarded = list(dict.fromkeys(look.to_guard(path, infinity) for path in makers))
            if not guarded or any(self.opcode(path) not in GUARDS for path in guarded):
                return made(tuple(paths), self.changes(paths), change=change) if paths else None
            paths += [path for path in guarded if path not in paths]
            run, change = guarded_run(self.capture.driver.live(), paths)
            left = run.nan_results or (() if nan else run.inf_results)
            if not left:
                infinite = bool(run.inf_results)
                return CureTrial(tuple(paths), self.changes(paths), True, infinite, change)
            look, infinity = Look(self.capture, self.walker, self.owner, run), False
            kind = look.kind(nan=bool(run.nan_results))
            makers = self.walker.back(self.walker.results(left, kind), kind).makers
            if not {look.to_guard(path, infinity) for path in makers} - set(paths):
                break
        return made(tuple(paths), self.changes(paths), change=change)

    def to_guard(self, path: Path, infinity: bool) -> Path:
        """Returns an equation, or the first that made an infinity which it read."""
        if not infinity and self.opcode(path) in GUARDS:
            return path
        kind = self.kind(nan=False)
        spots = [one for one in self.walker.operands(path) if self.walker.has(one, kind)]
        return next(iter(self.walker.back(spots, kind).makers), path)

    def changes(self, paths: Sequence[Path]) -> str:
        """Returns how equations are changed, in words."""
        by: dict[str, list[str]] = {}
        for path in paths:
            by.setdefault(GUARDS[self.opcode(path)], []).append(path[-1])
        return " and ".join(text.format(listed(ids)) for text, ids in by.items())

    def opcode(self, path: Path) -> str:
        """The primitive of an equation."""
        return self.walker.nodes[path[-1]].opcode


def _without_nan(value: ValueRange | None) -> ValueRange | None:
    return replace(value, nan=0, first=None) if value is not None and value.nan else value


def _element(loop: Node, iteration: int) -> int | None:
    """Returns the index of what an iteration reads of arrays if a `scan` runs in reverse."""
    length = loop.attrs.get("length", "")
    backward = loop.attrs.get("reverse") == "True" and length.isdigit()
    return int(length) - 1 - iteration if backward else None
