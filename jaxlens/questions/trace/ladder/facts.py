"""What transforms did: the jaxprs of f, grad(f), vmap(grad(f)), ..., with linked equations.

Each jaxpr is a rung. JAX gives an equation that a transform produces the frames of the equation
that it was produced for, so an equation comes from those of the rung below with the same source
span. If several have it, the rules of their primitives say which of them produces such an equation
(`rules.tsv`). An equation with `transpose` in its name stack is part of the backward pass:

    f            e0 = sin x                       model.py:3
    grad(f)      e0 = sin x; e1 = cos x           model.py:3, forward: both come from e0
                 e2 = mul ct e1                   model.py:3, transpose(jvp()): comes from e0

`grad` has three steps: linearization (`jvp`), partial evaluation into the equations that depend
only on the primals (forward) and those linear in the tangents, and transposition of the latter
(`transpose`), which gives the backward pass. Source: "You Only Linearize Once" (Radul et al., 2022,
arXiv:2204.10923). `vmap` rewrites each equation for one more axis. A test applies each rule and
compares it with its sentence.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jaxlens.captures import Capture
from jaxlens.ir.graph import Module, Node
from jaxlens.links.call_stacks import equation_transforms
from jaxlens.program.subject import ProgramFacts
from jaxlens.reading import table_rows

Ids = tuple[str, ...]
STAGE = "jaxpr:"  # followed by the number of a rung: the stage of its equations


class Rules(NamedTuple):
    """Descriptions of the rules of one primitive.

    Attributes:
        forward: What `grad` adds to the forward pass, and the residuals it keeps.
        backward: What the backward pass does with the cotangent `ct` of the result.
        makes: Primitives of the equations that both add, to link equations of one line.
        batch: What `vmap` does.
    """

    forward: str
    backward: str
    makes: str
    batch: str


_TABLE = table_rows("jaxlens.questions.trace.ladder", "rules.tsv")
RULES: Mapping[str, Rules] = {name: Rules(*rules) for name, *rules in _TABLE[1:]}
"""The rules by primitive."""


@dataclass(frozen=True, slots=True)
class LadderProgram(ProgramFacts):
    """One program of the ladder.

    Attributes:
        title: The call as code: "vmap(grad(loss))".
        transform: The outermost transform; "" for the function itself.
        module: Its jaxpr.
        equations: Number of equations, those of each body once.
        backward: Ids of the equations of the backward pass.
        steps: Equations of the rung below that each one came from, by id; {} for the first.
    """

    title: str
    transform: str
    module: Module
    equations: int
    backward: frozenset[str]
    steps: Mapping[str, Ids]

    @property
    def forward(self) -> int:
        """Number of equations outside the backward pass."""
        return self.equations - len(self.backward)


@dataclass(frozen=True, slots=True)
class RuleUse:
    """A rule of a primitive that a transform applied.

    Attributes:
        rung: Number of the rung with the results.
        rule: "forward", "backward" or "batch".
        primitive: The primitive that the rule belongs to.
        sources: The equations of the rung below that it was applied to.
        made: The equations that it produced.
        words: What it does; "" if `rules.tsv` does not describe it.
    """

    rung: int
    rule: str
    primitive: str
    sources: Ids
    made: Ids
    words: str


@dataclass(frozen=True, slots=True)
class Ladder:
    """The rungs, the function itself first, and the rules that were applied between them."""

    rungs: tuple[LadderProgram, ...]
    rules: tuple[RuleUse, ...]

    def ties(self, n: int) -> dict[str, Ids]:
        """Returns the equations of the function itself that each equation of rung `n` came from."""
        if not n:
            return {node.id: (node.id,) for node in self.rungs[0].module.nodes()}
        below = self.ties(n - 1)
        return {
            id: tuple(dict.fromkeys(source for step in steps for source in below[step]))
            for id, steps in self.rungs[n].steps.items()
        }

    @property
    def equations(self) -> tuple[int, ...]:
        """Number of equations of each rung."""
        return tuple(rung.equations for rung in self.rungs)


def facts(captures: Sequence[Capture]) -> Ladder:
    """Links each rung's equations with those of the rung below, and lists the rules.

    Args:
        captures: The function first, then with one more transform each; traced only.
    """
    rungs: list[LadderProgram] = []
    for capture in captures:
        program, module = capture.program, capture.jaxpr.module
        transform = program.transforms[0] if program.transforms else ""
        by_equation = equation_transforms(module)
        backward = frozenset(id for id, names in by_equation.items() if "transpose" in names)
        steps = _steps(module, backward, rungs[-1], transform) if rungs else {}
        facts = program.title, transform, module, module.size, backward, steps
        rungs.append(LadderProgram(*facts, _subject=capture))
    return Ladder(tuple(rungs), tuple(u for n in range(1, len(rungs)) for u in _rules(n, rungs)))


Place = tuple[tuple[str, int, int, int], ...]
_WITHIN: Place = (("", 0, 0, 0),)


def places_of(module: Module) -> Mapping[str, Place]:
    """Returns the source spans of each equation, with those of the calls that led to it.

    Equations in bodies of JAX's own functions have no frames of the user's; they have the spans of
    the equation with the body.
    """
    by_region: dict[str, Place] = {}
    by_id: dict[str, Place] = {}
    for region in module.regions.values():  # callers before callees
        outer = by_region.get(region.name, ())
        for node in region.nodes:
            user = [span for span in node.spans if not span.library] or node.spans
            place = tuple((s.key or s.file, s.line, s.column, s.end_column) for s in user)
            place = place or (outer if outer[-1:] == _WITHIN or not outer else outer + _WITHIN)
            by_id[node.id] = place
            for name in node.regions:
                by_region.setdefault(name, place)
    return by_id


def by_place(module: Module) -> Mapping[Place, list[Node]]:
    places = places_of(module)
    nodes: defaultdict[Place, list[Node]] = defaultdict(list)
    for node in module.nodes():
        if place := places[node.id]:
            nodes[place].append(node)
    return nodes


def _steps(
    module: Module, backward: frozenset[str], below: LadderProgram, transform: str
) -> dict[str, Ids]:
    """Returns the equations of the rung below that each equation came from."""
    before = by_place(below.module)
    places = places_of(module)
    turns: Counter[tuple[Place, str, bool]] = Counter()
    came_from = {}
    for node in module.nodes():
        place, back = places[node.id], node.id in backward
        outside = place[:-1] if place[-1:] == _WITHIN else place  # of the equation with the body
        sources = before.get(place) or before.get(outside, [])
        if below.backward:  # forward and backward equations keep their side
            sources = [s for s in sources if (s.id in below.backward) == back]
        turned = back and not below.backward
        alike = [s for s in sources if s.opcode == node.opcode and not turned]
        if len(alike) > 1:  # of equal primitives the n-th comes from the n-th
            turn = turns[place, node.opcode, back]
            turns[place, node.opcode, back] += 1
            alike = [alike[turn % len(alike)]]
        makers = alike or [s for s in sources if _makes(s.opcode, node.opcode, transform)]
        came_from[node.id] = tuple(source.id for source in makers or sources)
    return came_from


def _makes(primitive: str, opcode: str, transform: str) -> bool:
    """Whether a transform's rule for a primitive produces equations with an opcode."""
    if transform == "vmap":
        return opcode in _BATCHED.get(primitive, ())
    return primitive in RULES and (opcode == primitive or opcode in RULES[primitive].makes.split())


_BATCHED: Mapping[str, frozenset[str]] = {
    "cond": frozenset({"eq", "stop_gradient", "broadcast_in_dim", "select_n"}),
    "dynamic_slice": frozenset({"gather", "iota", "concatenate", "broadcast_in_dim"}),
    "dynamic_update_slice": frozenset({"scatter", "iota", "concatenate", "broadcast_in_dim"}),
    "gather": frozenset({"iota", "concatenate", "broadcast_in_dim"}),
    "dot_general": frozenset({"transpose"}),
}


def _rules(n: int, rungs: Sequence[LadderProgram]) -> Iterator[RuleUse]:
    """Yields the rules that the transform of rung `n` applied, by primitive of the rung below."""
    rung, below = rungs[n], rungs[n - 1]
    opcode = {node.id: node.opcode for node in below.module.nodes()}
    if rung.transform != "vmap":
        for id in _ruled(below.module):
            del opcode[id]
    sources: defaultdict[str, list[str]] = defaultdict(list)
    for id, name in opcode.items():
        sources[name].append(id)
    results: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for id, from_ in sorted(rung.steps.items(), key=lambda step: step[0] in rung.backward):
        side = "backward" if id in rung.backward else "forward"
        for name in dict.fromkeys(opcode[source] for source in from_ if source in opcode):
            results[name, "batch" if rung.transform == "vmap" else side].append(id)
    for name, ids in sources.items():
        for rule in _SIDES.get(rung.transform, ()):
            if made := results[name, rule]:
                words = getattr(RULES[name], rule) if name in RULES else ""
                yield RuleUse(n, rule, name, tuple(ids), tuple(made), words)


def _ruled(module: Module) -> Iterator[str]:
    """Yields equations in bodies of custom_jvp and custom_vjp calls, whose rules are not used."""
    inside: set[str] = set()
    for region in module.regions.values():  # callers before callees
        for node in region.nodes:
            if region.name in inside:
                yield node.id
            if region.name in inside or node.opcode in ("custom_jvp_call", "custom_vjp_call"):
                inside.update(node.regions)


_SIDES: Mapping[str, tuple[str, ...]] = {
    "grad": ("forward", "backward"),
    "value_and_grad": ("forward", "backward"),
    "jacrev": ("forward", "backward"),
    "jvp": ("forward",),
    "jacfwd": ("forward",),
    "vmap": ("batch",),
}
