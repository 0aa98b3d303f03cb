"""What became of every equation, from the ids that its ops carry through the compiler.

Names of fates: "kept" (an instruction or kernel of its own computes it), "fused" with others,
"rewritten" (other instructions compute it, or none has to), "folded" into a constant, "merged"
with an equation of the same value, "dead" (nothing reads it), "dropped" (JAX or XLA needed no
instruction for it), "inlined" (a call whose body took its place), "loop" (a loop or branch that
stands in the program), "unknown", and then the sentence says why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from jaxlens.ir.facts import CONVERSION, PassStage
from jaxlens.ir.graph import Node
from jaxlens.links.atoms import LOOPS
from jaxlens.links.evidence import CALLS, Evidence, word
from jaxlens.links.linked import Linked
from jaxlens.links.match.numbered import NumberedModules
from jaxlens.links.responsible_pass import Blame, By, blame

FateName = Literal[
    "kept",
    "fused",
    "rewritten",
    "folded",
    "merged",
    "dead",
    "dropped",
    "inlined",
    "loop",
    "unknown",
]
_SHOWN = 3  # names in a sentence; of more their number


@dataclass(frozen=True, slots=True)
class EquationFate:
    """What became of one equation.

    Attributes:
        id: The equation.
        name: The fate in one word.
        sentence: The same in one sentence.
        into: What runs it in the optimised program: fusions, or instructions outside them.
        partners: Equations that it was merged with.
        by: The pass that did it, or an interval of passes; "" where no dumps say so.
        index: The dump that first shows it, `PassStage.index`; None where there is none.
        instructions: What computes it in the optimised program, inside fusions too.
    """

    id: str
    name: FateName
    sentence: str
    into: tuple[str, ...] = ()
    partners: tuple[str, ...] = ()
    by: str = ""
    index: int | None = None
    instructions: tuple[str, ...] = ()


def fates(
    linked: Linked, passes: Sequence[PassStage] = (), programs: NumberedModules | None = None
) -> dict[str, EquationFate]:
    """The fate of every equation, nested ones too.

    Args:
        linked: With StableHLO, HLO before optimisation ("hlo") and "optimized".
        passes: Dumps of all passes, if they are at hand; they name who did it.
        programs: Programs of this compile, where these are compared with others too.
    """
    evidence = Evidence(linked, programs or NumberedModules())
    judge = _Judge(evidence, blame(passes, linked.modules["optimized"]))
    return {id: judge.fate(node) for id, node in evidence.equations.items()}


class _Judge:
    """Draws the conclusion for each equation."""

    def __init__(self, evidence: Evidence, by: Blame) -> None:
        self.evidence = evidence
        self.blame = by

    def fate(self, node: Node) -> EquationFate:
        ops = self.evidence.ops.get(node.id, [])
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
        return self._lives(node, ops, carriers) if carriers else self._gone(node, ops)

    def _without_ops(self, node: Node) -> EquationFate:
        """JAX's lowering made no op."""
        if node.id not in self.evidence.needed:
            sentence = "Dead: no result depends on it, so JAX did not lower it."
            return EquationFate(node.id, "dead", sentence, by="lowering")
        if node.regions:
            body = ", ".join(node.regions[:_SHOWN])
            sentence = f"Inlined when JAX lowered it: the equations of {body} stand in its place."
            return EquationFate(node.id, "inlined", sentence, by="lowering")
        if not self.evidence.exact:
            return self._unknown(node)
        if node.opcode in _COMPUTING:
            sentence = "Dead: JAX left it out when it lowered, and no op computes it."
            return EquationFate(node.id, "dead", sentence, by="lowering")
        why = "it needs no op of its own"
        operands = [
            self.evidence.types.get(name) or name.rpartition(":")[2] for name in node.operands
        ]
        if node.opcode in _CARRYING and operands == [str(node.type)]:
            why = f"it hands its operand on unchanged ({node.type})"
        sentence = f"Dropped when JAX lowered it: {why}."
        return EquationFate(node.id, "dropped", sentence, by="lowering")

    def _call(self, node: Node, ops: Sequence[str]) -> EquationFate:
        calls = [id for op in ops for id in self.evidence.after_of.get(op, ()) if self._is_call(id)]
        body = ", ".join(node.regions[:_SHOWN])
        if calls:
            sentence = f"Kept: {_names(calls)} calls {body}."
            return EquationFate(node.id, "kept", sentence, tuple(calls))
        by = self._by(self.blame.ended, ops)
        sentence = f"Inlined: the equations of {body} took the call's place{_behind(by)}."
        return _judged(node.id, "inlined", sentence, by=by)

    def _is_call(self, id: str) -> bool:
        return self.evidence.after[id].opcode == "call"

    def _loop(self, node: Node, ops: Sequence[str]) -> EquationFate | None:
        """A loop or branch that stands in the program; None where it does not."""
        kinds = ("while", "conditional")
        loops = [
            i
            for op in ops
            for i in self.evidence.after_of.get(op, ())
            if self.evidence.after[i].opcode in kinds
        ]
        loops = list(dict.fromkeys(loops))
        if not loops:
            return None
        sentence = f"Became {_names(loops)}, which runs {', '.join(node.regions[:_SHOWN])}."
        return EquationFate(node.id, "loop", sentence, tuple(loops), instructions=tuple(loops))

    def _merged(
        self, node: Node, ops: Sequence[str], carriers: Sequence[str]
    ) -> EquationFate | None:
        """Another equation has the same value, and one computation was kept for both."""
        own = set(carriers)
        for other in self.evidence.peers.get(node.id, ()):
            others = self.evidence.left(self.evidence.ops[other]) if other != node.id else []
            if not others or (own and own != set(others)):
                continue
            if own and self.evidence.peers[node.id][0] == node.id:
                continue  # of several with joint ids the first stands for all
            by = self._by(self.blame.ended, ops[-1:])
            if by is not None and by.words == "dce":
                return _judged(node.id, "dead", "Dead: nothing reads it, by dce.", by=by)
            named = f"{other} ({self.evidence.equations[other].opcode})"
            sentence = f"Merged with {named}, which has the same value{_behind(by)}."
            return _judged(
                node.id, "merged", sentence, self.evidence.homes(others), (other,), by, others
            )
        return None

    def _lives(self, node: Node, ops: Sequence[str], carriers: Sequence[str]) -> EquationFate:
        """Instructions carry its id to the end."""
        opcodes = list(dict.fromkeys(self.evidence.after[id].opcode for id in carriers))
        if opcodes == ["constant"]:
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
            known = set(self.evidence.after_of.get(ops[-1], ())) if self.evidence.exact else set()
            again = (
                ", computed in each" if same and len(homes) > 1 and known >= set(carriers) else ""
            )
            sentence = f"Fused into {_names(homes)}{became}{again}{_behind(by)}."
            return _judged(node.id, "fused", sentence, homes, (), by, carriers)
        alone = ", a fusion of its own" if fusions else ""
        if same or were[-1] == "call":
            sentence = f"Kept: runs as {_kinds(homes, opcodes)}{alone}."
            return _judged(node.id, "kept", sentence, homes, instructions=carriers)
        by = self._by(self.blame.changed, ops)
        more = ", which costs nothing" if opcodes == ["bitcast"] else alone
        sentence = f"Rewritten: {were[-1]} became {_kinds(homes, opcodes)}{more}{_behind(by)}."
        return _judged(node.id, "rewritten", sentence, homes, (), by, carriers)

    def _gone(self, node: Node, ops: Sequence[str]) -> EquationFate:
        """No instruction carries its id: what the two programs say without ids."""
        before = self.evidence.gone(ops)
        if not before:
            return self._converted(node, ops[-1])
        main = self.evidence.change.fates[before]
        by = self._by(self.blame.ended, ops)
        if main.into:
            return self._lives(node, ops, main.into)
        if main.name == "folded":
            sentence = f"Folded into a constant{_note(main.note)}{_behind(by)}."
            return _judged(node.id, "folded", sentence, by=by)
        if node.id not in self.evidence.needed or main.note.startswith("dead"):
            return _judged(node.id, "dead", f"Dead: nothing reads it{_behind(by)}.", by=by)
        if main.note.endswith("is read in its place"):
            sentence = f"Rewritten: simplified away, {main.note}{_behind(by)}."
            return _judged(node.id, "rewritten", sentence, by=by)
        return self._taken_up(node, before, by) if self.evidence.exact else self._unknown(node)

    def _unknown(self, node: Node) -> EquationFate:
        """Where no exact ids came through, that nothing is found says nothing."""
        sentence = "Unknown: this capture carries no exact ids, and names and places do not tell."
        return EquationFate(node.id, "unknown", sentence)

    def _converted(self, node: Node, op: str) -> EquationFate:
        """The conversion from StableHLO, which folds and simplifies a little, left nothing."""
        kind, by = word(self.evidence.opcode[op]), CONVERSION
        if op in self.evidence.constant:
            sentence = f"Folded into a constant before XLA's first pass: {kind} of constants."
            return EquationFate(node.id, "folded", sentence, by=by)
        if not self.evidence.exact:
            return self._unknown(node)
        if node.id not in self.evidence.needed:
            sentence = "Dead: no result depends on it, and XLA's first program has no trace of it."
            return EquationFate(node.id, "dead", sentence, by=by)
        sentence = f"Dropped: {kind} was simplified away between StableHLO and HLO."
        return EquationFate(node.id, "dropped", sentence, by=by)

    def _taken_up(self, node: Node, before: str, by: By | None) -> EquationFate:
        """What read it was rewritten, and needs or holds it no more."""
        readers = [id for id in self.evidence.readers(before) if id != node.id]
        named = _names([f"{id} ({self.evidence.equations[id].opcode})" for id in readers])
        into = list(
            dict.fromkeys(i for id in readers for i in self.evidence.left(self.evidence.ops[id]))
        )
        kind = word(self.evidence.opcode[self.evidence.ops[node.id][-1]])
        kin = [id for id in into if self.evidence.after[id].opcode == kind]
        if kin:
            homes = self.evidence.homes(kin)
            sentence = f"Rewritten together with {named}: both are in {_names(homes)}{_behind(by)}."
            return _judged(node.id, "rewritten", sentence, homes, (), by, kin)
        if by is not None and by.words == "constant_folding":
            return _judged(node.id, "folded", "Folded into a constant, by constant_folding.", by=by)
        if readers:
            sentence = f"Rewritten away with what read it, {named}{_behind(by)}."
            return _judged(node.id, "rewritten", sentence, by=by)
        return _judged(
            node.id, "rewritten", f"Rewritten away with what read it{_behind(by)}.", by=by
        )

    def _by(self, passes: Mapping[str, By], ops: Sequence[str]) -> By | None:
        return next((passes[op] for op in reversed(ops) if op in passes), None)


# Where nothing computes these, nothing needs them.
_COMPUTING = frozenset(
    "abs acos add add_any and asin atan atan2 cbrt ceil conv_general_dilated cos cosh div "
    "dot_general eq erf exp exp2 expm1 floor ge gt is_finite le log log1p logistic lt max min mul "
    "ne neg not or pow rem round rsqrt sign sin sinh sqrt square sub tan tanh xor".split()
)
# These can lower to their operand as it is.
_CARRYING = frozenset(
    "broadcast_in_dim convert_element_type copy copy_p integer_pow name pad reduce_precision "
    "reshape sharding_constraint slice squeeze stop_gradient transpose".split()
)


def _judged(
    id: str,
    name: FateName,
    sentence: str,
    into: tuple[str, ...] = (),
    partners: tuple[str, ...] = (),
    by: By | None = None,
    instructions: Sequence[str] = (),
) -> EquationFate:
    words, index = (by.words, by.index) if by else ("", None)
    return EquationFate(id, name, sentence, into, partners, words, index, tuple(instructions))


def _behind(by: By | None) -> str:
    """`, by cse`; an interval stands as it is."""
    if by is None:
        return ""
    return f" ({by.words})" if " " in by.words else f", by {by.words}"


def _note(note: str) -> str:
    return f": {note}" if note else ""


def _kinds(ids: Sequence[str], opcodes: Sequence[str]) -> str:
    """`transpose.3`; `fusion.2 (dot)` where a name does not begin with the opcode."""
    said = all(any(id.startswith(opcode) for id in ids) for opcode in opcodes)
    return _names(ids) if said else f"{_names(ids)} ({_names(opcodes)})"


def _names(ids: Sequence[str]) -> str:
    shown = ", ".join(ids[:_SHOWN])
    return shown if len(ids) <= _SHOWN else f"{shown} and {len(ids) - _SHOWN} more"
