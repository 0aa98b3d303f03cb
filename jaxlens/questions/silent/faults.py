"""What JAX does without a word: each fault of a key, index, gradient or order, in a sentence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from jaxlens.captures import Capture
from jaxlens.ir.graph import Node, Span
from jaxlens.links.live_equations import live_equations
from jaxlens.program.lines import owners, span_of
from jaxlens.program.sentences import listed, located, named_line, quoter
from jaxlens.questions.silent.gradients import is_float, unread, zero_gradients
from jaxlens.questions.silent.keys import KeyReuse, KeyUse, reused_keys
from jaxlens.taps.primitives import CALLS, LOOPS, MOVES, Path


@dataclass(frozen=True, slots=True)
class IndexOutside:
    """An equation whose index was out of bounds, at its first execution of this kind.

    Attributes:
        path: The equation.
        effect: What JAX did: "clamped", "dropped", "filled", "zeros" (of `one_hot`), or "cut": by
            a `size`.
        index: The first such index, as the program computed it before negative ones were wrapped;
            of what is cut, the number of elements.
        window: The number of elements from there that it reads or writes.
        size: The size of the axis.
        count: The number of such indices in all executions.
        iterations: Iterations of the loops around it, from 0, the outermost first.
    """

    path: Path
    effect: str
    index: int
    window: int
    size: int
    count: int
    iterations: tuple[int, ...]


Kind = Literal["key", "index", "size", "gradient", "unread", "order"]
_SUMS = ("scatter-add", "scatter_add", "scatter-mul", "scatter_mul")
_FOLLOWED = {*MOVES, "convert_element_type"}
_UNREAD = "the loss does not read it"
_ORDER = (
    "may differ from run to run on this GPU: XLA adds what falls on one index in any order, unless "
    "--xla_gpu_deterministic_ops=true."
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that JAX does without a word.

    Attributes:
        kind: "key" for one that is used twice, "index" for one out of bounds, "size" for elements
            that are beyond it and dropped, "gradient" for one that is zero by construction,
            "unread" for an argument that no result depends on, and "order" for an operation
            whose result may differ from run to run.
        sentence: What happens, and where.
        spans: The lines, that of the fault last; empty where there is none.
        ids: Ids of the equations.
        name: The argument; "" where it is none.
        index: The index that was out of bounds, or the number of elements for a `size`;
            None for other kinds.
        size: The size of its axis, or that `size`; 0 for other kinds.
        iterations: Iterations of the loops around it, from 0, the outermost first.
    """

    kind: Kind
    sentence: str
    spans: tuple[Span, ...] = ()
    ids: tuple[str, ...] = ()
    name: str = ""
    index: int | None = None
    size: int = 0
    iterations: tuple[int, ...] = ()

    @property
    def span(self) -> Span | None:
        """The line and columns of the fault; None for none."""
        return self.spans[-1] if self.spans else None

    @property
    def line(self) -> int | None:
        """The number of that line."""
        return self.spans[-1].line if self.spans else None


class Faults:
    """Finds the faults of a program, and says of each what happens and where."""

    def __init__(self, capture: Capture) -> None:
        self.module = module = capture.jaxpr.module
        self.owner, self.live, self.quote = owners(module), live_equations(module), quoter(capture)
        self.nodes = {node.id: node for node in module.nodes()}
        names = [leaf.name for leaf in capture.program.inputs]
        self.names = [""] * (len(module.body().parameters) - len(names)) + names

    def keys(self) -> Iterator[Fault]:
        """Yields a fault for each key that is used twice."""
        told = set[object]()
        for reuse in reused_keys(self.module, self.live):
            uses = self._own(reuse)
            stacks = tuple(self._stack(self._call(use.path)) for use in uses)
            if uses and stacks not in told:
                told.add(stacks)
                yield self._key(reuse, uses)

    def _own(self, reuse: KeyReuse) -> list[KeyUse]:
        """Returns the uses in the user's code, the first one among them; none for a library's.

        JAX's samplers may try two ways and select one; Diffrax draws a path anew where it needs it.
        """
        first, *rest = reuse.uses
        call = self._call(first.path)
        stack = self._stack(call)
        if reuse.copies > 1:
            return [first]
        if reuse.loop is not None:
            loop = self._stack(reuse.loop)
            own = loop != stack and not (_library(loop[-1:]) and _library(stack[-1:]))
            return [first] if own else []
        others = []
        for use in rest:
            other = self._call(use.path)
            frames = zip(stack, self._stack(other), strict=False)
            apart = next((pair for pair in frames if pair[0] != pair[1]), ())
            same = stack == self._stack(other) and self._result(use) != self._result(first)
            if (other != call or reuse.carried) and not same and not _library(apart):
                others.append(use)
        return [first, *others] if others else []

    def _key(self, reuse: KeyReuse, uses: Sequence[KeyUse]) -> Fault:
        spans, name = self._apart([self._call(use.path) for use in uses]), self._name(reuse)
        lines = list(dict.fromkeys(map(self._at, spans)))
        if len(uses) > 1:
            results = 0 if reuse.carried else len({self._result(use) for use in uses})
            end = "they are not independent"
            if 0 < results < len(uses):
                split = self.nodes[self._call(uses[0].path)[-1]].opcode == "random_split"
                gives = "make the same keys" if split else "draw the same numbers"
                end = f"{'they' if results == 1 else 'some'} {gives}"
            times = "twice" if len(uses) == 2 else f"{len(uses)} times"
            where = " and at ".join(lines) if len(lines) < 3 else listed(lines)
            again = ", there by the next iteration" if reuse.carried else ""
            text = f"{name} is used {times}: at {where}{again}: {end}."
        elif reuse.loop is not None:
            loop = named_line(self._span(reuse.loop))
            text = f"{name} is used in every iteration of the loop at {loop}: {lines[0]}."
        else:
            text = f"{name} is {reuse.copies} of the keys of one operation: {lines[0]}."
        ids = tuple(use.path[-1] for use in uses)
        own = name.strip("`") if name.startswith("`") else ""
        return Fault("key", text, tuple(s for s in spans if s), ids, own)

    def _name(self, reuse: KeyReuse) -> str:
        index = "".join(f"[{n}]" for n in reuse.index)
        if isinstance(reuse.origin, int):
            name = self.names[reuse.origin]
            return f"`{name}{index}`" if name else f"A captured key{index}"
        if reuse.origin is None:
            return "A key"
        span = self._span(self._call(reuse.origin))
        which = f"Key {', '.join(map(str, reuse.index))}" if reuse.index else "The key"
        return f"{which} made at {self._at(span)}"

    def _at(self, span: Span | None) -> str:
        return located(span, self.quote)

    def _call(self, path: Path) -> Path:
        """Returns the steps to the user's own call: what JAX jits itself has stale lines."""
        for n, step in enumerate(path):
            node = self.nodes[step]
            body = node.regions[0] if node.opcode in CALLS and node.regions else ""
            if body and not self.module.regions[body].function:
                return path[: n + 1]
        return path

    def _result(self, use: KeyUse) -> int:
        return use.calls[len(self._call(use.path)) - 1]

    def _stack(self, path: Path) -> tuple[Span, ...]:
        """Returns the frames of a call, outermost first."""
        return tuple(span for step in path for span in reversed(self.nodes[step].spans))

    def _span(self, path: Path) -> Span | None:
        return span_of(path, self.owner)

    def _apart(self, paths: Sequence[Path]) -> list[Span | None]:
        """Returns a line for each call; where these are one line, the lines that led there."""
        spans = [self._span(path) for path in paths]
        apart = list(spans)
        for span in set(spans):
            same = [n for n, own in enumerate(spans) if own == span]
            levels = zip(*(self._stack(paths[n]) for n in same), strict=False)
            lines = next((level for level in levels if len(set(level)) > 1), ())
            for n, line in zip(same, lines, strict=False):
                apart[n] = line
        return apart

    def indices(self, outside: Sequence[IndexOutside]) -> Iterator[Fault]:
        """Yields a fault for each line with an index out of bounds, unless its result is masked."""
        told = set[Span | None]()
        for one in outside:
            call = self._call(one.path)
            opcode, span = self.nodes[one.path[-1]].opcode, self._span(call)
            reads = opcode in ("gather", "dynamic_slice")
            masked = reads and self._masked(self.nodes[call[-1]])
            if span not in told and one.path[-1] in self.live and not masked:
                told.add(span)
                yield self._index(one, span, reads)

    def _index(self, one: IndexOutside, span: Span | None, reads: bool) -> Fault:
        node, is_cut = self.nodes[one.path[-1]], one.effect == "cut"
        verb, axis = "reads" if reads else "writes", f"an axis with {one.size:,} elements"
        if node.opcode == "eq":
            verb, axis = "encodes", f"{one.size:,} classes"
        many = f"{one.window} elements from " if one.window > 1 else ""
        what = f"{verb} {many}index {one.index} of {axis}"
        what = f"finds {one.index:,} elements for a `size` of {one.size:,}" if is_cut else what
        did = {
            "clamped": f"takes index {0 if one.index < 0 else one.size - one.window}",
            "dropped": "drops it",
            "filled": f"fills in {'NaN' if is_float(node.type) else 'a number of its own'}",
            "zeros": "makes zeros of it",
            "cut": "drops the rest",
        }[one.effect]
        when = ""
        if one.iterations:
            steps = " within iteration ".join(map(str, reversed(one.iterations)))
            loop = max(n for n, step in enumerate(one.path) if self.nodes[step].opcode in LOOPS)
            around = named_line(self._span(one.path[: loop + 1]))
            when = f", in iteration {steps} (from 0) of the loop at {around}"
        text = f"{self._at(span)} {what}{when}: JAX {did}."
        if one.count > 1 and not is_cut:
            text += f" It has {one.count:,} such indices in this run."
        kind: Kind = "size" if is_cut else "index"
        spans = (span,) if span else ()
        return Fault(kind, text, spans, (node.id,), "", one.index, one.size, one.iterations)

    def _masked(self, node: Node) -> bool:
        """Whether all that reads an equation's result, or has it moved, is a `jnp.where`."""
        region = next(r for r in self.module.regions.values() if node in r.nodes)
        pending = [value.name for value in node.results]
        while pending:
            name = pending.pop()
            if name in region.results:
                return False
            for reader in (node for node in region.nodes if name in node.operands):
                first, called = reader.operands[0] == name, reader.attrs.get("name", "")
                if first and reader.opcode in _FOLLOWED:
                    pending += [value.name for value in reader.results]
                elif first or (reader.opcode != "select_n" and called != "_where"):
                    return False
        return True

    def arguments(self) -> Iterator[Fault]:
        """Yields a fault for each array of floats that no result depends on, or no gradient."""
        main = self.module.body()
        # A gradient may not depend on an argument that the loss reads.
        loss = {node.id for node in self.module.nodes() if "jvp(" in node.scope}
        unused = {n for n in unread(self.module, self.live | loss) if self.names[n]}
        for n in sorted(n for n in unused if is_float(main.parameters[n].type)):
            name = self.names[n]
            yield Fault("unread", f"No result depends on `{name}`.", name=name)
        for zero in zero_gradients(self.module, self.names):
            cut = self.nodes.get(zero.cut)
            library = cut is not None and any(span.library for span in cut.spans[:1])
            if zero.parameter in unused or library:  # which stops its gradients on purpose
                continue
            name, span = self.names[zero.parameter], self.owner.get(zero.cut or zero.zeros)
            why = f"`{cut.opcode}` in {self._at(span)} lets none through" if cut else _UNREAD
            text = f"The gradient with respect to `{name}` is zero by construction: {why}."
            ids = tuple(filter(None, (zero.cut, zero.zeros)))
            yield Fault("gradient", text, (span,) if span else (), ids, name)

    def orders(self) -> Iterator[Fault]:
        """Yields a fault for each line whose sums a GPU makes in any order."""
        told = set[Span | None]()
        for node in self.module.nodes():
            sums = node.opcode in _SUMS and node.attrs.get("unique_indices") != "True"
            span = self.owner.get(node.id)
            if sums and is_float(node.type) and span not in told:
                told.add(span)
                text = f"`{node.opcode}` in {self._at(span)} {_ORDER}"
                yield Fault("order", text, (span,) if span else (), (node.id,))


def _library(spans: Sequence[Span]) -> bool:
    return bool(spans) and all(span.library for span in spans)
