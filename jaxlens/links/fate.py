"""The fate of each equation, concluded from the stamps of its ops in the compiled programs.

The fates: "kept" (an instruction or fusion of its own computes it), "fused" with others,
"rewritten" (other instructions compute it, or none), "folded" into a constant, "merged" with an
equation of the same value, "dead" (nothing reads it), "dropped" (it needed no op or instruction),
"inlined" (a call that its body replaced), "loop" (a loop or branch of the optimised program) and
"unknown", where the sentence says why.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from jaxlens.ir.facts import CONVERSION, PassStage
from jaxlens.ir.graph import Node
from jaxlens.links.atoms import LOOPS
from jaxlens.links.evidence import CALLS, Evidence, word
from jaxlens.links.linked import Linked
from jaxlens.links.match.numbered import NumberedModules
from jaxlens.links.responsible_pass import Blame, By, blame

_SHOWN = 3  # names in a sentence; further ones are counted


@dataclass(frozen=True, slots=True)
class EquationFate:
    """The fate of one equation.

    Attributes:
        id: The equation.
        name: The fate in one word.
        sentence: The fate in one sentence.
        into: Fusions, or instructions outside fusions, that compute it in the optimised program.
        partners: Equations that it was merged with.
        by: The responsible pass, or an interval of passes; "" without dumps of them.
        index: `PassStage.index` of the dump that first shows the change; None without dumps.
        instructions: Instructions that compute it, those in bodies of fusions too.
    """

    id: str
    name: str
    sentence: str
    into: tuple[str, ...] = ()
    partners: tuple[str, ...] = ()
    by: str = ""
    index: int | None = None
    instructions: tuple[str, ...] = ()


def fates(
    linked: Linked, passes: Sequence[PassStage] = (), programs: NumberedModules | None = None
) -> dict[str, EquationFate]:
    """Returns the fate of each equation, nested ones too.

    Args:
        linked: Modules "jaxpr", "stablehlo", "hlo" (before optimisation) and "optimized".
        passes: The dumps of all passes, if there are any, to name the responsible pass.
        programs: Numbered modules of this compile, to share with other comparisons.
    """
    evidence = Evidence(linked, programs or NumberedModules())
    judge = _Judge(evidence, blame(passes, linked.modules["optimized"]))
    return {id: judge.fate(node) for id, node in evidence.equations.items()}


class _Judge:
    """Concludes the fate of each equation from the evidence."""

    def __init__(self, evidence: Evidence, by: Blame) -> None:
        self.evidence = evidence
        self.blame = by

    def fate(self, node: Node) -> EquationFate:
        ops = self.evidence.ops.get(node.id, ())
        if not ops:
            return self._without_ops(node)
        if node.regions and all(self.evidence.opcode[op] in CALLS for op in ops):
            return self._call(node, ops)
        if node.opcode in LOOPS:
            loop = self._loop(node, ops)
            if loop is not None:
                return loop
        carriers = self.evidence.left(ops)
        merged = self._merged(node, ops, carriers)
        if merged is not None:
            return merged
        return self._lives_together(node, ops, carriers) if carriers else self._gone(node, ops)

    def _without_ops(self, node: Node) -> EquationFate:
        """Returns the fate of an equation that JAX lowered to no op."""
        types = self.evidence.types
        fate = "dead"
        if node.id not in self.evidence.needed:
            sentence = "Dead: no result depends on it, so JAX did not lower it."
        elif node.regions:
            fate, body = "inlined", ", ".join(node.regions[:_SHOWN])
            sentence = f"Inlined when JAX lowered it: the equations of {body} stand in its place."
        elif not self.evidence.exact:
            return self._unknown(node)
        elif node.opcode in _COMPUTING:
            sentence = "Dead: JAX left it out when it lowered, and no op computes it."
        else:
            fate, reason = "dropped", "it needs no op of its own"
            operands = [types.get(name) or name.rpartition(":")[2] for name in node.operands]
            if node.opcode in _CARRYING and operands == [str(node.type)]:
                reason = f"it hands its operand on unchanged ({node.type})"
            sentence = f"Dropped when JAX lowered it: {reason}."
        return EquationFate(node.id, fate, sentence, by="lowering")

    def _call(self, node: Node, ops: tuple[str, ...]) -> EquationFate:
        calls = [id for id in self._after(ops) if self.evidence.after[id].opcode == "call"]
        body = ", ".join(node.regions[:_SHOWN])
        if calls:
            sentence = f"Kept: {_names(calls)} calls {body}."
            return EquationFate(node.id, "kept", sentence, tuple(calls))
        by = self._by(self.blame.ended, ops)
        sentence = f"Inlined: the equations of {body} took the call's place{_behind(by)}."
        return _judged(node.id, "inlined", sentence, by=by)

    def _after(self, ops: tuple[str, ...]) -> Iterator[str]:
        """Yields the instructions of the optimised program that came from these ops."""
        return (id for op in ops for id in self.evidence.after_of.get(op, ()))

    def _loop(self, node: Node, ops: tuple[str, ...]) -> EquationFate | None:
        """Returns the fate of a loop or branch that the optimised program has, else None."""
        kinds, after = ("while", "conditional"), self.evidence.after
        loops = tuple(dict.fromkeys(i for i in self._after(ops) if after[i].opcode in kinds))
        if not loops:
            return None
        sentence = f"Became {_names(loops)}, which runs {', '.join(node.regions[:_SHOWN])}."
        return EquationFate(node.id, "loop", sentence, loops, instructions=loops)

    def _merged(
        self, node: Node, ops: tuple[str, ...], carriers: tuple[str, ...]
    ) -> EquationFate | None:
        """Returns the fate of an equation merged with one of equal value; None if there is none."""
        own = set(carriers)
        for peer in self.evidence.peers.get(node.id, ()):
            instructions = self.evidence.left(self.evidence.ops[peer]) if peer != node.id else ()
            if not instructions or (own and own != set(instructions)):
                continue
            if own and self.evidence.peers[node.id][0] == node.id:
                continue  # of equations with the same instructions the first counts
            by = self._by(self.blame.ended, ops[-1:])
            if by is not None and by.words == "dce":
                return _judged(node.id, "dead", "Dead: nothing reads it, by dce.", by=by)
            name = f"{peer} ({self.evidence.equations[peer].opcode})"
            sentence = f"Merged with {name}, which has the same value{_behind(by)}."
            homes = self.evidence.homes(instructions)
            return _judged(node.id, "merged", sentence, homes, (peer,), by, instructions)
        return None

    def _lives_together(
        self, node: Node, ops: tuple[str, ...], carriers: tuple[str, ...]
    ) -> EquationFate:
        """Returns the fate in `_lives`, said of all equations that cannot be told apart."""
        fate, alike = self._lives(node, ops, carriers), self.evidence.alike(ops)
        if alike == 1:
            return fate
        sentence = f"{fate.sentence[0].lower()}{fate.sentence[1:]}"
        together = f"The {alike} equations of its line, which have no ids here, together"
        return replace(fate, sentence=f"{together}: {sentence}")

    def _lives(self, node: Node, ops: tuple[str, ...], carriers: tuple[str, ...]) -> EquationFate:
        """Returns the fate of an equation that has instructions in the optimised program."""
        opcodes = self.evidence.opcodes(carriers)
        if opcodes == ("constant",):
            by = self._by(self.blame.ended, ops[-1:])
            sentence = f"Folded into {_names(carriers)} while compiling{_behind(by)}."
            return _judged(node.id, "folded", sentence, tuple(carriers), (), by, carriers)
        homes = self.evidence.homes(carriers)
        fusions = [id for id in homes if self.evidence.after[id].opcode == "fusion"]
        were = list(dict.fromkeys(word(self.evidence.opcode[op]) for op in ops))
        same = bool({*were, "fusion"} & set(opcodes))
        was = "" if were[-1] == "call" else f" (it was {were[-1]})"
        became = "" if same else f" as {_names(opcodes)}{was}"
        if any(self.evidence.company(id, node.id) for id in fusions):
            by = self._by(self.blame.fused, ops)
            exact = set(self._after(ops[-1:])) if self.evidence.exact else set()
            copied = same and len(homes) > 1 and exact >= set(carriers)
            again = ", computed in each" if copied else ""
            sentence = f"Fused into {_names(homes)}{became}{again}{_behind(by)}."
            return _judged(node.id, "fused", sentence, homes, (), by, carriers)
        alone = ", a fusion of its own" if fusions else ""
        if same or were[-1] == "call":
            sentence = f"Kept: runs as {_kinds(homes, opcodes)}{alone}."
            return _judged(node.id, "kept", sentence, homes, instructions=carriers)
        by = self._by(self.blame.changed, ops)
        more = ", which costs nothing" if opcodes == ("bitcast",) else alone
        sentence = f"Rewritten: {were[-1]} became {_kinds(homes, opcodes)}{more}{_behind(by)}."
        return _judged(node.id, "rewritten", sentence, homes, (), by, carriers)

    def _gone(self, node: Node, ops: tuple[str, ...]) -> EquationFate:
        """Returns the fate of an equation without instructions, from that of its first HLO."""
        before = self.evidence.gone(ops)
        if not before:
            return self._converted(node, ops[-1])
        main = self.evidence.change.fates[before]
        by = self._by(self.blame.ended, ops)
        if main.into:
            return self._lives_together(node, ops, main.into)
        if main.name == "folded":
            note = f": {main.note}" if main.note else ""
            sentence = f"Folded into a constant{note}{_behind(by)}."
            return _judged(node.id, "folded", sentence, by=by)
        if node.id not in self.evidence.needed or main.note.startswith("dead"):
            return _judged(node.id, "dead", f"Dead: nothing reads it{_behind(by)}.", by=by)
        if main.note.endswith("is read in its place"):
            sentence = f"Rewritten: simplified away, {main.note}{_behind(by)}."
            return _judged(node.id, "rewritten", sentence, by=by)
        return self._taken_up(node, before, by) if self.evidence.exact else self._unknown(node)

    def _unknown(self, node: Node) -> EquationFate:
        """Returns the unknown fate: without stamps a missing instruction proves nothing."""
        sentence = "Unknown: this capture carries no exact ids, and names and places do not tell."
        return EquationFate(node.id, "unknown", sentence)

    def _converted(self, node: Node, op: str) -> EquationFate:
        """Returns the fate of ops that the StableHLO to HLO conversion folded or simplified."""
        fate = "dropped"
        kind = word(self.evidence.opcode[op])
        sentence = f"Dropped: {kind} was simplified away between StableHLO and HLO."
        if op in self.evidence.constant:
            fate = "folded"
            sentence = f"Folded into a constant before XLA's first pass: {kind} of constants."
        elif not self.evidence.exact:
            return self._unknown(node)
        elif node.id not in self.evidence.needed:
            fate = "dead"
            sentence = "Dead: no result depends on it, and XLA's first program has no trace of it."
        return EquationFate(node.id, fate, sentence, by=CONVERSION)

    def _taken_up(self, node: Node, before: str, by: By | None) -> EquationFate:
        """Returns the fate of an equation that was rewritten together with its readers."""
        readers = [id for id in self.evidence.readers.get(before, ()) if id != node.id]
        names = _names([f"{id} ({self.evidence.equations[id].opcode})" for id in readers])
        left = (self.evidence.left(self.evidence.ops[id]) for id in readers)
        into = dict.fromkeys(chain.from_iterable(left))
        kind = word(self.evidence.opcode[self.evidence.ops[node.id][-1]])
        kin = [id for id in into if self.evidence.after[id].opcode == kind]
        if kin:
            homes = self.evidence.homes(tuple(kin))
            sentence = f"Rewritten together with {names}: both are in {_names(homes)}{_behind(by)}."
            return _judged(node.id, "rewritten", sentence, homes, (), by, kin)
        if by is not None and by.words == "constant_folding":
            return _judged(node.id, "folded", "Folded into a constant, by constant_folding.", by=by)
        named = f", {names}" if readers else ""
        sentence = f"Rewritten away with what read it{named}{_behind(by)}."
        return _judged(node.id, "rewritten", sentence, by=by)

    def _by(self, passes: Mapping[str, By], ops: tuple[str, ...]) -> By | None:
        return next((passes[op] for op in reversed(ops) if op in passes), None)


# Primitives that compute: without an op the equation is dead.
_COMPUTING = frozenset(
    "abs acos add add_any and asin atan atan2 cbrt ceil conv_general_dilated cos cosh div "
    "dot_general eq erf exp exp2 expm1 floor ge gt is_finite le log log1p logistic lt max min mul "
    "ne neg not or pow rem round rsqrt sign sin sinh sqrt square sub tan tanh xor".split()
)
# Primitives that can lower to their operand itself.
_CARRYING = frozenset(
    "broadcast_in_dim convert_element_type copy copy_p integer_pow name pad reduce_precision "
    "reshape sharding_constraint slice squeeze stop_gradient transpose".split()
)


def _judged(
    id: str,
    name: str,
    sentence: str,
    into: tuple[str, ...] = (),
    partners: tuple[str, ...] = (),
    by: By | None = None,
    instructions: Sequence[str] = (),
) -> EquationFate:
    by = by or By("", None)
    instructions = tuple(instructions)
    return EquationFate(id, name, sentence, into, partners, by.words, by.index, instructions)


def _behind(by: By | None) -> str:
    """Returns `, by cse`; an interval in brackets: ` (between cse and dce)`."""
    if by is None:
        return ""
    return f" ({by.words})" if " " in by.words else f", by {by.words}"


def _kinds(ids: Sequence[str], opcodes: Sequence[str]) -> str:
    """Returns `transpose.3`, or `fusion.2 (dot)` if a name does not begin with the opcode."""
    named = all(any(id.startswith(opcode) for id in ids) for opcode in opcodes)
    return _names(ids) if named else f"{_names(ids)} ({_names(opcodes)})"


def _names(ids: Sequence[str]) -> str:
    shown = ", ".join(ids[:_SHOWN])
    return shown if len(ids) <= _SHOWN else f"{shown} and {len(ids) - _SHOWN} more"
