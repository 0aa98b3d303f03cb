"""Explains why an equation produced a NaN or infinity; may rerun the program.

Each run is of the whole program: one for every equation that is described, up to
`_MOST_UNDERFLOW_RUNS` more where it read a 0, and up to two in each of `_MOST_TRIAL_ROUNDS` rounds
in which a cure is tried.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from jaxlens.ir.graph import Node, Span
from jaxlens.program.lines import span_of, spot
from jaxlens.program.sentences import listed, named_line
from jaxlens.questions.nan.maker import CureTrial, LoopIteration, Maker
from jaxlens.questions.nan.measure.guards import GUARDS, measure_guarded
from jaxlens.questions.nan.measure.nonfinite import measure_equation
from jaxlens.questions.nan.reasons import DERIVED, LITERAL, ZERO_AT, reason
from jaxlens.questions.nan.records import (
    EquationValues,
    NonFiniteElements,
    NonFiniteExecution,
    NonFiniteRun,
    ValueRange,
)
from jaxlens.questions.nan.walk import Use, Walker
from jaxlens.stages.session.running import Running
from jaxlens.taps.primitives import BODIES_MEASURED, LOOPS, MOVES, Path

_DIFFERENTIATED, _BACKWARD = "jvp(", "transpose("
_MOST_TRIAL_ROUNDS = 5
_MOST_UNDERFLOW_RUNS = 3  # equations that are measured to find an underflow
_MOST_TO_WHERE = 60  # equations from a zero operand back to the `where` that it comes from
_MOST_TO_PRIMAL = 8  # equations from a derivative back to what it is the derivative of
_NEVER_ZERO = frozenset("exp exp2 logistic erfc".split())  # unless they underflow
_ZERO_OF_ZERO = frozenset(  # which are 0 only if an operand is, or if they underflow
    "mul div square integer_pow pow reduce_prod cumprod convert_element_type".split()
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Explains equations of one run.

    Attributes:
        live: Runs the program.
        walker: Follows its values.
        owner: The user's line of each equation.
        run: Which equations had NaN and infinities.
    """

    live: Running
    walker: Walker
    owner: Mapping[str, Span]
    run: NonFiniteRun

    def nan_makers(self) -> tuple[Path, ...]:
        """Returns the equations that made NaN of operands without, in program order."""
        nan = self.run.nan
        made = {path[-1]: path for path in nan.executions if self.walker.made(path, nan)}
        return tuple(made[ident] for ident in sorted(made, key=lambda ident: int(ident[1:])))

    def maker(self, path: Path, elements: NonFiniteElements, way: Sequence[Path] = ()) -> Maker:
        """Returns an equation with what it read and made, and why; runs the program again.

        Args:
            path: The equation.
            elements: What it made: the NaN, or the infinities, of the run.
            way: The equations that its elements went through to the results.
        """
        node, walker = self.walker.nodes[path[-1]], self.walker
        at = elements.executions.get(path, NonFiniteExecution())
        measured = path in elements.executions
        values = measure_equation(self.live, path, at) if measured else EquationValues()
        if elements.name == "inf":  # where its results have both, the NaN are another question
            bare = (
                v and replace(v, nan=0, first=None if v.nan else v.first) for v in values.results
            )
            values = replace(values, results=tuple(bare))
        why, underflow = LITERAL[elements.name], None
        if measured and self.walker.made(path, elements):
            derived, backward = self.derivative_of(path), self.scoped(path, _BACKWARD)
            underflow = None if derived else self.underflow(path, values, at)
            passed = any(self.scoped(step, _BACKWARD) for step in way) and not backward
            why = reason(
                node.opcode,
                values,
                node.results[0].type.dtype if node.results else "",
                untaken_where_line=self.untaken_where_line(path, values) if backward else "",
                discarded_by_where_line=self.discarded_by_where_line(path) if passed else "",
                derived=derived,
                underflow=underflow is not None,
            )
        around = (path[:n] for n in range(1, len(path)))
        loops = (loop for loop in around if walker.opcode(loop) in LOOPS)
        return Maker(
            path,
            node.opcode,
            self.span(path),
            tuple(map(self.loop_iteration, loops, at.iterations)),
            at.device,
            self.in_gradient(path),
            values,
            why,
            str(node.results[0].type) if node.results else "",
            underflow,
        )

    def loop_iteration(self, loop: Path, number: int) -> LoopIteration:
        """Returns an iteration of a loop, with what it reads if a `scan` runs in reverse."""
        attrs = self.walker.nodes[loop[-1]].attrs
        length = attrs.get("length", "")
        backward = attrs.get("reverse") == "True" and length.isdigit()
        element = int(length) - 1 - number if backward else None
        return LoopIteration(self.span(loop), number, element)

    def find_infinity_source(
        self, path: Path, way: Sequence[Path]
    ) -> tuple[Maker | None, Collection[int]]:
        """Returns the equation that made the infinity which an equation read, or its inputs."""
        inf = self.run.inf
        origins = self.walker.origins_of_operands(path, inf)
        inputs = inf.inputs & origins.inputs
        if inputs or not origins.makers:
            return None, inputs
        return self.maker(origins.makers[0], inf, way), inputs

    def scoped(self, path: Path, scope: str) -> bool:
        """Whether an equation, or a call that leads to it, is within a scope."""
        return any(scope in self.walker.nodes[step].scope for step in path)

    def span(self, path: Path) -> Span | None:
        """Returns the user's line of an equation, or of the call that leads to it."""
        return span_of(path, self.owner)

    def first_gradient_line(self, way: Sequence[Path]) -> Span | None:
        """Returns the line of the first gradient of a way; None for one that ends in none."""
        if not way or not self.in_gradient(way[-1]):
            return None
        return self.span(next(path for path in way if self.in_gradient(path)))

    def nearest_sources(
        self, uses: Sequence[Use], most: int, scope: str = ""
    ) -> Iterator[tuple[Use, Node | None]]:
        """Yields values and what they are computed from, each with its equation, the near first.

        With a scope, only what equations within it read and made.
        """
        walked = self.walker.iter_sources(
            uses,
            lambda path, _: self.walker.operands(path),
            includes=lambda path: not scope or self.scoped(path, scope),
        )
        steps = 0
        for use, path in walked:
            steps += bool(path)
            if steps > most:
                return
            yield use, self.walker.nodes[path[-1]] if path else None

    def untaken_where_line(self, path: Path, values: EquationValues) -> str:
        """Returns the line of the `where` that made an operand 0 on the way back; "" for none."""
        uses = self.walker.operands(path, _zeros(values.operands))
        for use, made in self.nearest_sources(uses, _MOST_TO_WHERE, _BACKWARD):
            if made is not None and made.opcode == "select_n":
                return named_line(self.span((*use.calls, made.id)))
        return ""

    def discarded_by_where_line(self, path: Path) -> str:
        """Returns the line of the `where` that did not take what an equation made; "" for none."""
        walker, nonfinite = self.walker, self.run.nan.executions.keys() | self.run.inf.executions
        for ident, region in walker.regions.items():
            for calls in walker.call_paths(region) if walker.opcode((ident,)) == "select_n" else ():
                here = (*calls, ident)
                if here in nonfinite or self.scoped(here, _BACKWARD):
                    continue
                if any(made == path for _, made in walker.moved_from(walker.operands(here))):
                    return named_line(self.span(here))
        return ""

    def in_gradient(self, path: Path) -> bool:
        """Whether an equation is part of a gradient, as far as it shows."""
        return self.scoped(path, _BACKWARD) or bool(self.derivative_of(path))

    def derivative_of(self, path: Path) -> str:
        """Returns the primitive whose derivative an equation computes, as far as it shows; "" else.

        The rule of a derivative reads what the primitive on the same line reads or makes.
        """
        if not self.scoped(path, _DIFFERENTIATED):
            return ""
        node, span = self.walker.nodes[path[-1]], self.span(path)
        rules = {name: rule for name, rule in DERIVED.items() if node.opcode in rule.opcodes}
        if not rules or span is None:
            return ""
        half = bool(node.operands) and node.operands[0].startswith("0.5:")
        backward = self.scoped(path, _BACKWARD)
        for use, made in self.nearest_sources(self.walker.operands(path), _MOST_TO_PRIMAL):
            near = [] if made is None else [made]
            for other in (*near, *self.walker.readers.get(use.variable, [])):
                rule = rules.get(other.opcode)
                if rule is None or other is node:
                    continue
                always = not (rule.half or rule.backward)
                if (rule.half and half) or (rule.backward and backward) or always:
                    line = self.span((*use.calls, other.id))
                    if line is not None and spot(line) == spot(span):
                        return other.opcode
        return ""

    def underflow(
        self, path: Path, values: EquationValues, at: NonFiniteExecution
    ) -> tuple[str, Span | None] | None:
        """Returns the equation that made the 0 which an equation read of numbers that are not 0."""
        index = ZERO_AT.get(self.walker.opcode(path))
        read = values.operands[index] if index is not None else None
        if index is None or read is None or not read.zeros or read.least < 0:
            return None
        uses = self.walker.operands(path, (index,))
        for _ in range(_MOST_UNDERFLOW_RUNS):
            here = self.may_underflow(uses)
            if here is None:
                return None
            opcode = self.walker.opcode(here)
            inner = measure_equation(self.live, here, at)
            if not _zeros(inner.results):
                return None
            zeros = _zeros(inner.operands)
            if opcode in _NEVER_ZERO or not zeros:
                infinite = any(v is not None and v.inf for v in inner.operands)
                return None if infinite else (opcode, self.span(here))
            uses = self.walker.operands(here, zeros)
        return None

    def may_underflow(self, uses: Sequence[Use]) -> Path | None:
        """Returns the product or function that a value is of, past what moves elements."""
        for use, made in self.nearest_sources(uses, _MOST_TO_PRIMAL):
            if made is None or made.opcode in MOVES or made.opcode in BODIES_MEASURED:
                continue
            can = made.opcode in _NEVER_ZERO or made.opcode in _ZERO_OF_ZERO
            return (*use.calls, made.id) if can else None
        return None

    def trial(
        self, makers: Sequence[Path], kind: str, *, guard_infinity_source: bool
    ) -> CureTrial | None:
        """Runs the program with equations guarded; None where there is no guard for them.

        Args:
            makers: The equations that made what is not finite.
            kind: Whether that is "nan" or "inf".
            guard_infinity_source: Whether what made the infinities that they read is guarded.
        """
        paths: list[Path] = []
        diagnosis, change, cured, infinity_remains = self, None, False, False
        for _ in range(_MOST_TRIAL_ROUNDS):
            sources = [diagnosis.to_guard(path, guard_infinity_source) for path in makers]
            new = [path for path in dict.fromkeys(sources) if path not in paths]
            if not new or any(self.walker.opcode(path) not in GUARDS for path in sources):
                break
            paths += new
            run, change = measure_guarded(self.live, paths)
            left = run.of_results()
            if not left.results or (left.name == "inf" and kind == "nan"):
                cured, infinity_remains = True, bool(left.results)
                break
            diagnosis, guard_infinity_source = replace(self, run=run), False
            makers = self.walker.trace_origins(left, self.walker.results(left)).makers
        if not paths:
            return None
        words: dict[str, list[str]] = {}
        for path in paths:
            words.setdefault(GUARDS[self.walker.opcode(path)], []).append(path[-1])
        guards = " and ".join(text.format(listed(ids)) for text, ids in words.items())
        return CureTrial(tuple(paths), guards, cured, infinity_remains, change)

    def to_guard(self, path: Path, infinity_source: bool) -> Path:
        """Returns an equation, or the first that made an infinity which it read."""
        if not infinity_source and self.walker.opcode(path) in GUARDS:
            return path
        return next(iter(self.walker.origins_of_operands(path, self.run.inf).makers), path)


def _zeros(values: Sequence[ValueRange | None]) -> list[int]:
    """Returns the indices of the values that have zeros."""
    return [n for n, value in enumerate(values) if value is not None and value.zeros]
