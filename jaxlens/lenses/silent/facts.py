"""The faults of a program that JAX does not mention."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from jaxlens.captures import Capture
from jaxlens.errors import OptionError, UnavailableError
from jaxlens.ir.graph import Module, Node, Span
from jaxlens.ir.run.bounds import IndexOutside
from jaxlens.ir.run.nonfinite import CALLS, MOVES, Path
from jaxlens.lenses.lines import Owners, owners
from jaxlens.lenses.nonfinite.facts import place
from jaxlens.lenses.nonfinite.walk import LOOPS
from jaxlens.lenses.sentences import Quoter, bracketed, listed, quoter
from jaxlens.lenses.silent.gradients import ZeroGradient, is_float, unread, zero_gradients
from jaxlens.lenses.silent.keys import KeyReuse, KeyUse, reused_keys
from jaxlens.lenses.subject import ProgramFacts, subject_of
from jaxlens.links.live_equations import Place, ValueFlow, live_equations

Kind = Literal["key", "index", "gradient", "unread", "order"]
_SUMS = ("scatter-add", "scatter_add", "scatter-mul", "scatter_mul")
_FOLLOWED = {*MOVES, "convert_element_type", "slice"}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that JAX does without a word.

    Attributes:
        kind: "key" for one that is used twice, "index" for one out of bounds, "gradient" for one
            that is zero by construction, "unread" for an argument that no result depends on, and
            "order" for an operation whose result may differ from run to run.
        sentence: What happens, and where.
        spans: The lines, that of the fault last; empty where there is none.
        ids: Ids of the equations.
        name: The argument; "" where it is none.
        index: The index that was out of bounds; None for other kinds.
        size: The size of its axis; 0 for other kinds.
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


@dataclass(frozen=True, slots=True)
class Silent(ProgramFacts):
    """What JAX does in a program without a word.

    Attributes:
        faults: The faults: keys, indices, arguments, then operations.
        platform: Where the program is to run.
        not_run: Why no index was looked at; "" if the program was run.
    """

    faults: tuple[Fault, ...]
    platform: str
    not_run: str = ""

    @property
    def found(self) -> bool:
        """Whether there is a fault."""
        return bool(self.faults)


def facts(capture: Capture) -> Silent:
    """Reasons from the jaxpr, and runs the program once if it indexes anything.

    Raises:
        UnavailableError: It is a program of `jaxlens.core`, or has been freed or saved.
    """
    subject = subject_of(capture, "jaxpr")
    module = subject.jaxpr.module
    target = capture.program.target
    not_run, outside = "", tuple[IndexOutside, ...]()
    try:
        outside = capture.driver.bounds()
    except OptionError as error:
        not_run = str(error)
    except UnavailableError as error:
        if not target.absent:
            raise
        not_run = str(error)
    names = [leaf.name for leaf in capture.program.inputs]
    names = [""] * (len(module.body().parameters) - len(names)) + names
    look = _Look(module, names, quoter(subject))
    flags = " ".join(capture.program.flags)
    differs = target.platform == "gpu" and "deterministic" not in flags
    faults = (
        *look.keys(),
        *look.indices(outside),
        *look.arguments(),
        *(look.orders() if differs else ()),
    )
    return Silent(faults, target.platform, not_run, _subject=subject)


@dataclass(frozen=True, slots=True)
class _Look:
    module: Module
    names: Sequence[str]
    quote: Quoter
    owner: Owners = field(init=False)
    live: frozenset[str] = field(init=False)
    nodes: Mapping[str, Node] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "owner", owners(self.module))
        object.__setattr__(self, "live", live_equations(self.module))
        object.__setattr__(self, "nodes", {node.id: node for node in self.module.nodes()})

    def keys(self) -> Iterator[Fault]:
        """Yields a fault for each key that is used twice."""
        told = set[object]()
        for reuse in reused_keys(self.module, self.live):
            uses = self._own(reuse)
            key = tuple(self._stack(self._call(use.path)) for use in uses)
            if uses and key not in told:
                told.add(key)
                yield self._key(reuse, uses)

    def _own(self, reuse: KeyReuse) -> list[KeyUse]:
        """Returns the uses in the user's code: JAX's samplers may try two ways and select one."""
        first, *rest = reuse.uses
        stack, call = self._stack(self._call(first.path)), self._call(first.path)
        if not rest:
            inside = reuse.loop is None or self._stack(reuse.loop) == stack
            return [] if inside and first.copies == 1 else [first]
        others = [
            use
            for use in rest
            if self._call(use.path) != call or reuse.carried
            if self._stack(self._call(use.path)) != stack
            or self._result(use) == self._result(first)
        ]
        return [first, *others] if others else []

    def _key(self, reuse: KeyReuse, uses: Sequence[KeyUse]) -> Fault:
        spans = self._apart([self._call(use.path) for use in uses])
        name = self._name(reuse)
        lines = list(dict.fromkeys(f"{place(s)}{bracketed(s, self.quote(s))}" for s in spans))
        one = uses[0]
        if len(uses) == 1 and reuse.loop is not None:
            loop = self._span(reuse.loop)
            which = f"in every iteration of the loop at {place(loop)}"
            end = "each time with the same result" if one.opcode == "random_bits" else ""
            text = f"{name} is used {which}: {lines[0]}" + (f", {end}." if end else ".")
        elif len(uses) == 1:
            text = f"{name} is among the keys of one operation {one.copies} times: {lines[0]}."
        else:
            results = 0 if reuse.carried else len({self._result(use) for use in uses})
            end = "the results are not independent"
            if 0 < results < len(uses):
                end = (
                    "the results are equal"
                    if results == 1
                    else "some results are equal, others not independent"
                )
            times = "twice" if len(uses) == 2 else f"{len(uses)} times"
            where = " and at ".join(lines) if len(lines) < 3 else listed(lines, 3)
            again = ", there by the next iteration" if reuse.carried else ""
            text = f"{name} is used {times}: at {where}{again}: {end}."
        ids = tuple(use.path[-1] for use in uses)
        return Fault("key", text, tuple(s for s in spans if s), ids, name.strip("`"))

    def _name(self, reuse: KeyReuse) -> str:
        index = "".join(f"[{n}]" for n in reuse.index)
        if reuse.parameter is not None:
            name = self.names[reuse.parameter]
            return f"`{name}{index}`" if name else f"A captured key{index}"
        if reuse.made is None:
            return "A key"
        span, opcode = self._span(self._call(reuse.made)), self.nodes[reuse.made[-1]].opcode
        if opcode in ("scan", "while"):
            return f"A key that the loop at {place(span)} carries"
        which = f"Key {', '.join(map(str, reuse.index))}" if reuse.index else "The key"
        return f"{which} made at {place(span)}{bracketed(span, self.quote(span))}"

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
        """Returns the user's line of an equation, or of the call that leads to it."""
        spans = [span for step in reversed(path) if (span := self.owner.get(step)) is not None]
        own = (span for span in spans if not span.library)
        return next(own, spans[0] if spans else None)

    def _apart(self, paths: Sequence[Path]) -> list[Span | None]:
        """Returns a line for each call; where these are one line, the lines that led there."""
        spans = [self._span(path) for path in paths]
        apart = list(spans)
        for span in set(spans):
            same = [n for n, own in enumerate(spans) if own == span]
            for level in zip(*(self._stack(paths[n]) for n in same), strict=False):
                if len(set(level)) > 1 and not any(one.library for one in level):
                    for n, one in zip(same, level, strict=True):
                        apart[n] = one
                    break
        return apart

    def indices(self, outside: Sequence[IndexOutside]) -> Iterator[Fault]:
        """Yields a fault for each line with an index out of bounds, unless its result is masked."""
        told = set[Span | None]()
        for one in outside:
            span, reads = self._span(one.call), one.opcode in ("gather", "dynamic_slice")
            no_harm = one.path[-1] not in self.live or (reads and self._masked(one.path[-1]))
            if span not in told and not no_harm:
                told.add(span)
                yield self._index(one, span, reads)

    def _index(self, one: IndexOutside, span: Span | None, reads: bool) -> Fault:
        what = f"index {one.index}"
        if one.window > 1:
            what = f"{one.window} elements from index {one.index}"
        last = one.size - one.window
        dtype = self.nodes[one.path[-1]].results[0].type
        did = {
            "clamped": f"JAX takes index {0 if one.index < 0 else last}",
            "dropped": "JAX drops it",
            "filled": f"JAX fills in {'NaN' if is_float(dtype) else 'a number of its own'}",
        }[one.effect]
        loops = [step for step in one.path[:-1] if self.nodes[step].opcode in LOOPS]
        when = ""
        if one.iterations and loops:
            steps = " of ".join(map(str, reversed(one.iterations)))
            loop = self._span(one.path[: one.path.index(loops[-1]) + 1])
            when = f" in iteration {steps} (from 0) of the loop at {place(loop)}"
        where = f"{place(span)}{bracketed(span, self.quote(span))}"
        more = f" It has {one.count:,} such indices in this run." if one.count > 1 else ""
        text = (
            f"{where} {'reads' if reads else 'writes'} {what}{when}, and axis {one.axis} has "
            f"{one.size:,} elements: {did}.{more}"
        )
        spans = (span,) if span else ()
        ids = (one.path[-1],)
        return Fault("index", text, spans, ids, "", one.index, one.size, one.iterations)

    def _masked(self, ident: str) -> bool:
        """Whether all that is made of an equation's result goes through a `jnp.where`."""
        flow = ValueFlow(self.module)
        start = next(place for place, (_, node) in flow.makers.items() if node.id == ident)
        pending, visited = [start], set[Place]()
        while pending:
            here = pending.pop()
            if here in visited:
                continue
            visited.add(here)
            region = flow.regions[here[0]]
            for n in (n for n, name in enumerate(region.results) if name == here[1]):
                callers = flow.callers[region.name]
                if not callers or any(node.opcode not in CALLS for _, node in callers):
                    return False
                pending += [(outer.name, node.results[n].name) for outer, node in callers]
            for node in (node for node in region.nodes if here[1] in node.operands):
                first = node.operands[0] == here[1]
                if node.opcode == "select_n" and not first:
                    continue
                if node.opcode in CALLS and node.regions:
                    inner = flow.regions[node.regions[0]]
                    pairs = zip(reversed(node.operands), reversed(inner.parameters), strict=False)
                    pending += [(inner.name, own.name) for name, own in pairs if name == here[1]]
                elif node.opcode in _FOLLOWED and first:
                    pending += [(region.name, value.name) for value in node.results]
                else:
                    return False
        return True

    def arguments(self) -> Iterator[Fault]:
        """Yields a fault for each array of floats that no result depends on, or no gradient."""
        main = self.module.body()
        # A gradient may not depend on an argument that the loss reads.
        loss = {node.id for node in self.module.nodes() if "jvp(" in node.scope}
        ids = self.live | loss
        unused = {n for n in unread(self.module, ids) if is_float(main.parameters[n].type)}
        for n in sorted(unused):
            if name := self.names[n]:
                yield Fault("unread", f"No result depends on `{name}`.", name=name)
        for zero in zero_gradients(self.module, self.names):
            stack = self.nodes[zero.cut].spans if zero.cut else ()
            own = not stack or not stack[0].library  # a library stops its gradients on purpose
            if zero.parameter not in unused and own:
                yield self._gradient(zero)

    def _gradient(self, zero: ZeroGradient) -> Fault:
        name, span = self.names[zero.parameter], self.owner.get(zero.cut or zero.zeros)
        why = "the loss does not read it"
        if zero.cut:
            where = f"{place(span)}{bracketed(span, self.quote(span))}"
            why = f"`{self.nodes[zero.cut].opcode}` in {where} lets none through"
        text = f"The gradient with respect to `{name}` is zero by construction: {why}."
        ids = tuple(filter(None, (zero.cut, zero.zeros)))
        return Fault("gradient", text, (span,) if span else (), ids, name)

    def orders(self) -> Iterator[Fault]:
        """Yields a fault for each line whose sums a GPU makes in any order."""
        told = set[Span | None]()
        for node in self.module.nodes():
            unique = node.attrs.get("unique_indices") == "True"
            sums = node.opcode in _SUMS and not unique and is_float(node.type)
            span = self.owner.get(node.id)
            if sums and span not in told:
                told.add(span)
                where = f"{place(span)}{bracketed(span, self.quote(span))}"
                text = (
                    f"`{node.opcode}` in {where} may differ from run to run on this GPU: XLA adds "
                    "what falls on one index in any order, unless "
                    "--xla_gpu_deterministic_ops=true."
                )
                yield Fault("order", text, (span,) if span else (), (node.id,))
