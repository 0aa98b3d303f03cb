"""What became of every equation, from the ids that its ops carry through the compiler.

Names of fates: "kept" (an instruction or kernel of its own computes it), "fused" with others,
"rewritten" (other instructions compute it, or none has to), "folded" into a constant, "merged"
with an equation of the same value, "dead" (nothing reads it), "dropped" (JAX or XLA needed no
instruction for it), "inlined" (a call whose body took its place), "loop" (a loop or branch that
stands in the program), "unknown", and then the sentence says why.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from jaxlens.ir.facts import PassStage
from jaxlens.ir.graph import Node
from jaxlens.ir.numbering import Numbers, number
from jaxlens.links.atoms import LOOPS, Path
from jaxlens.links.blame import Blame, By, blame
from jaxlens.links.change import Change, between, held
from jaxlens.links.linked import Linked
from jaxlens.links.needed import needed
from jaxlens.links.reach import MOVING, TRIVIAL

FateName = Literal[
    "kept", "fused", "rewritten", "folded", "merged", "dead", "dropped", "inlined", "loop",
    "unknown",
]  # fmt: skip
_SHOWN = 3  # names in a sentence; of more their number


@dataclass(frozen=True, slots=True)
class EquationFate:
    """What became of one equation.

    Attributes:
        id: The equation.
        name: The fate in one word.
        sentence: The same in one sentence.
        into: What computes it in the optimised program: fusions, or instructions outside them.
        partners: Equations that it was merged with.
        by: The pass that did it, or an interval of passes; "" where no dumps say so.
        index: The dump that first shows it, `PassStage.index`; None where there is none.
    """

    id: str
    name: FateName
    sentence: str
    into: tuple[str, ...] = ()
    partners: tuple[str, ...] = ()
    by: str = ""
    index: int | None = None


def fates(linked: Linked, passes: Sequence[PassStage] = ()) -> dict[str, EquationFate]:
    """The fate of every equation, nested ones too.

    Args:
        linked: With StableHLO, HLO before optimisation ("hlo") and "optimized".
        passes: Dumps of all passes, if they are at hand; they name who did it.
    """
    judge = _Judge(linked, blame(passes, linked.modules["optimized"]))
    return {id: judge.fate(node) for id, node in judge.equations.items()}


class _Judge:
    """Looks an equation's ops up in the programs before and after optimisation."""

    def __init__(self, linked: Linked, by: Blame) -> None:
        self.linked = linked
        self.blame = by
        self.equations = {node.id: node for node in linked.modules["jaxpr"].nodes()}
        self.exact = any(node.stamps for node in linked.modules["optimized"].nodes())
        self.needed = needed(linked.modules["jaxpr"])
        self.after = {node.id: node for node in linked.modules["optimized"].nodes()}
        self.order = {id: index for index, id in enumerate(self.after)}
        self.held = held(linked.modules["optimized"])
        self.opcode = {node.id: node.opcode for node in linked.modules["stablehlo"].nodes()}
        self.ops = self._ops()
        self.before_of = self._carriers("hlo")
        self.after_of = self._carriers("optimized")
        self.guessed_of = self._carriers("optimized", guessed=True)

    def _ops(self) -> dict[str, list[str]]:
        """The ops that each equation made, the one that gives the result last.

        Where JAX lowered an equation to a call of a function of its own (`cumsum`), the ops of
        that function are among them.
        """
        program = self.linked.modules["stablehlo"]
        blocks = {n.id for r in program.regions.values() if r.kind == "block" for n in r.nodes}
        found: defaultdict[str, list[str]] = defaultdict(list)
        atoms = self.linked.atoms
        for path, equations in zip(atoms.paths, atoms.equations, strict=True):
            if len(path) == 1 and atoms.made.get(path[0]) != "inferred":
                for equation in equations:
                    found[equation[-1]].append(path[0])
        self.equation_of = {op: id for id, ops in found.items() for op in ops}
        bodies = {node.id: node.regions for node in program.nodes() if node.opcode in _CALLS}

        def weight(op: str) -> int:
            return 0 if op in blocks else 1 if self.opcode[op] in _LITERALS else 2

        for id, ops in found.items():
            if not self.equations[id].regions and all(op in bodies for op in ops):
                names = [name for op in ops for name in bodies[op]]
                for name in names:
                    inner = program.regions[name].nodes
                    names += [r for node in inner for r in node.regions if r not in names]
                    ops += [node.id for node in inner]
            ops.sort(key=weight)
        return found

    def _carriers(self, stage: str, guessed: bool = False) -> dict[str, list[str]]:
        """The instructions that are known to come from each op, or inferred to."""
        reach = self.linked.reached(stage)
        paths = self.linked.atoms.paths
        found: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for node in self.linked.modules[stage].nodes():
            if (reach.how.get(node.id) == "inferred") is not guessed:
                continue
            ops = [op for path in node.stamps for op in self._stands_for(path)]
            ops = ops or [paths[n][-1] for n in reach.own.get(node.id, ()) if paths[n]]
            for op in ops:
                found[op][node.id] = None
        return {op: list(ids) for op, ids in found.items()}

    def _stands_for(self, path: Path) -> Path:
        """The op at the end of a path, and the calls before it, where JAX lowered to a call."""
        if self.linked.atoms.made.get(path[-1]) == "inferred":
            return path
        return path[-1:]

    @cached_property
    def change(self) -> Change:
        """The fates of instructions, for those that carry no id to the end."""
        return between(self.linked.modules["hlo"], self.linked.modules["optimized"])

    @cached_property
    def peers(self) -> Mapping[str, tuple[str, ...]]:
        """Equations whose results have one value before optimisation, by equation."""
        numbering = number(self.linked.modules["hlo"], Numbers())
        first = {ops[-1]: id for id, ops in self.ops.items()}
        main = {h: first[op] for op, ids in self.before_of.items() if op in first for h in ids[-1:]}
        found: dict[str, tuple[str, ...]] = {}
        for occurrences in numbering.bodies.values():
            classes: defaultdict[int, dict[str, None]] = defaultdict(dict)
            for occurrence in occurrences:
                if occurrence.id in main:
                    classes[occurrence.number][main[occurrence.id]] = None
            for members in classes.values():
                if len(members) > 1:
                    order = sorted(members, key=lambda id: int(id[1:]) if id[1:].isdigit() else 0)
                    found.update(dict.fromkeys(order, tuple(order)))
        return found

    def fate(self, node: Node) -> EquationFate:
        ops = self.ops.get(node.id, [])
        if not ops:
            return self._without_ops(node)
        if node.regions and all(self.opcode[op] in _CALLS for op in ops):
            return self._call(node, ops)
        if node.opcode in LOOPS:
            loop = self._loop(node, ops)
            if loop is not None:
                return loop
        carriers = self._left(ops)
        merged = self._merged(node, ops, carriers)
        if merged is not None:
            return merged
        return self._lives(node, ops, carriers) if carriers else self._gone(node, ops)

    def _left(self, ops: Sequence[str]) -> list[str]:
        """What is left of an equation: of its result's op if there is any, else of the others.

        What only moves a value stands for the equation where nothing else does, and an
        instruction without an id where it is of the op's own kind.
        """
        moved: list[str] = []
        near = [i for op in ops for of in (self.after_of, self.guessed_of) for i in of.get(op, ())]
        for op in reversed(ops):
            word = _word(self.opcode[op])
            found = [id for id in self.after_of.get(op, ()) if self._counts(id)]
            same = [id for id in near if self.after[id].opcode == word]
            real = same or [id for id in found if self.after[id].opcode not in _SLIGHT]
            inner = [id for id in real if self.after[id].opcode != "fusion"]
            if real:
                return inner or real
            moved = moved or found
        return moved

    def _counts(self, id: str) -> bool:
        opcode = self.after[id].opcode
        return opcode not in TRIVIAL or opcode in ("bitcast", "constant")

    def _without_ops(self, node: Node) -> EquationFate:
        """JAX's lowering made no op."""
        if node.id not in self.needed:
            words = "Dead: no result depends on it, so JAX did not lower it."
            return EquationFate(node.id, "dead", words, by="lowering")
        if node.regions:
            body = ", ".join(node.regions[:_SHOWN])
            words = f"Inlined when JAX lowered it: the equations of {body} stand in its place."
            return EquationFate(node.id, "inlined", words, by="lowering")
        if not self.exact:
            return self._unknown(node)
        if node.opcode in _COMPUTING:
            words = "Dead: JAX left it out when it lowered, and no op computes it."
            return EquationFate(node.id, "dead", words, by="lowering")
        why = "it needs no op of its own"
        operands = [self._types.get(name) or name.rpartition(":")[2] for name in node.operands]
        if node.opcode in _CARRYING and operands == [str(node.type)]:
            why = f"it hands its operand on unchanged ({node.type})"
        words = f"Dropped when JAX lowered it: {why}."
        return EquationFate(node.id, "dropped", words, by="lowering")

    @cached_property
    def _types(self) -> dict[str, str]:
        found = {}
        for region in self.linked.modules["jaxpr"].regions.values():
            for value in region.parameters:
                found[value.name] = str(value.type)
            for node in region.nodes:
                found.update({value.name: str(value.type) for value in node.results})
        return found

    def _call(self, node: Node, ops: Sequence[str]) -> EquationFate:
        calls = [id for op in ops for id in self.after_of.get(op, ()) if self._is_call(id)]
        body = ", ".join(node.regions[:_SHOWN])
        if calls:
            words = f"Kept: {_names(calls)} calls {body}."
            return EquationFate(node.id, "kept", words, tuple(calls))
        by = self._by(self.blame.ended, ops)
        words = f"Inlined: the equations of {body} took the call's place{_behind(by)}."
        return _judged(node.id, "inlined", words, by=by)

    def _is_call(self, id: str) -> bool:
        return self.after[id].opcode == "call"

    def _loop(self, node: Node, ops: Sequence[str]) -> EquationFate | None:
        """A loop or branch that stands in the program; None where it does not."""
        kinds = ("while", "conditional")
        found = [
            i for op in ops for i in self.after_of.get(op, ()) if self.after[i].opcode in kinds
        ]
        found = list(dict.fromkeys(found))
        if not found:
            return None
        words = f"Became {_names(found)}, which runs {', '.join(node.regions[:_SHOWN])}."
        return EquationFate(node.id, "loop", words, tuple(found))

    def _merged(
        self, node: Node, ops: Sequence[str], carriers: Sequence[str]
    ) -> EquationFate | None:
        """Another equation has the same value, and one computation was kept for both."""
        mine = set(carriers)
        for other in self.peers.get(node.id, ()):
            theirs = set(self._left(self.ops[other])) if other != node.id else set()
            if not theirs or (mine and mine != theirs):
                continue
            if mine and self.peers[node.id][0] == node.id:
                continue  # of several with joint ids the first stands for all
            by = self._by(self.blame.ended, ops[-1:])
            if by is not None and by.words == "dce":
                return _judged(node.id, "dead", "Dead: nothing reads it, by dce.", by=by)
            named = f"{other} ({self.equations[other].opcode})"
            words = f"Merged with {named}, which has the same value{_behind(by)}."
            into = self._homes(theirs)
            return _judged(node.id, "merged", words, into, (other,), by)
        return None

    def _homes(self, ids: Sequence[str] | set[str]) -> tuple[str, ...]:
        """The fusions that hold instructions, and those outside all; in program order."""
        ordered = sorted(ids, key=self.order.__getitem__)
        return tuple(dict.fromkeys(self.held.get(id, id) for id in ordered))

    def _lives(self, node: Node, ops: Sequence[str], carriers: Sequence[str]) -> EquationFate:
        """Instructions carry its id to the end."""
        opcodes = list(dict.fromkeys(self.after[id].opcode for id in carriers))
        if opcodes == ["constant"]:
            by = self._by(self.blame.ended, ops[-1:])
            words = f"Folded into {_names(carriers)} while compiling{_behind(by)}."
            return _judged(node.id, "folded", words, tuple(carriers), by=by)
        homes = self._homes(carriers)
        fusions = [id for id in homes if self.after[id].opcode == "fusion"]
        were = list(dict.fromkeys(_word(self.opcode[op]) for op in ops))
        same = bool({*were, "fusion"} & set(opcodes))
        was = "" if were[-1] == "call" else f" (it was {were[-1]})"
        became = "" if same else f" as {_names(opcodes)}{was}"
        if any(self._company(id, node.id) for id in fusions):
            by = self._by(self.blame.fused, ops)
            copies = (
                len(homes) > 1 and same and set(carriers) <= set(self.after_of.get(ops[-1], ()))
            )
            again = ", computed in each" if copies else ""
            sentence = f"Fused into {_names(homes)}{became}{again}{_behind(by)}."
            return _judged(node.id, "fused", sentence, homes, by=by)
        alone = ", a fusion of its own" if fusions else ""
        if same or were[-1] == "call":
            sentence = f"Kept: runs as {_kinds(homes, opcodes)}{alone}."
            return EquationFate(node.id, "kept", sentence, homes)
        by = self._by(self.blame.changed, ops)
        more = ", which costs nothing" if opcodes == ["bitcast"] else alone
        sentence = f"Rewritten: {were[-1]} became {_kinds(homes, opcodes)}{more}{_behind(by)}."
        return _judged(node.id, "rewritten", sentence, homes, by=by)

    def _company(self, fusion: str, id: str) -> bool:
        """Whether a fusion computes other equations too."""
        return len(self._inside.get(fusion, {id} | {""}) - {id}) > 0

    @cached_property
    def _inside(self) -> dict[str, set[str]]:
        """The equations that each fusion computes."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for op, ids in self.after_of.items():
            if op in self.equation_of:
                for id in ids:
                    home = self.held.get(id, id if self.after[id].opcode == "fusion" else "")
                    if home:
                        found[home].add(self.equation_of[op])
        return found

    def _gone(self, node: Node, ops: Sequence[str]) -> EquationFate:
        """No instruction carries its id: what the two programs say without ids."""
        before = [id for op in reversed(ops) for id in self.before_of.get(op, ())]
        if not before:
            return self._converted(node, ops[-1])
        main = self.change.fates[before[0]]
        by = self._by(self.blame.ended, ops)
        if main.into:
            return self._lives(node, ops, main.into)
        if main.name == "folded":
            words = f"Folded into a constant{_note(main.note)}{_behind(by)}."
            return _judged(node.id, "folded", words, by=by)
        if node.id not in self.needed or main.note.startswith("dead"):
            return _judged(node.id, "dead", f"Dead: nothing reads it{_behind(by)}.", by=by)
        if main.note.endswith("is read in its place"):
            words = f"Rewritten: simplified away, {main.note}{_behind(by)}."
            return _judged(node.id, "rewritten", words, by=by)
        return self._taken_up(node, before[0], by) if self.exact else self._unknown(node)

    def _unknown(self, node: Node) -> EquationFate:
        """Where no exact ids came through, that nothing is found says nothing."""
        words = "Unknown: this capture carries no exact ids, and names and places do not tell."
        return EquationFate(node.id, "unknown", words)

    def _converted(self, node: Node, op: str) -> EquationFate:
        """The conversion from StableHLO, which folds and simplifies a little, left nothing."""
        word, by = _word(self.opcode[op]), "conversion to HLO"
        if op in self._constant:
            words = f"Folded into a constant before XLA's first pass: {word} of constants."
            return EquationFate(node.id, "folded", words, by=by)
        if not self.exact:
            return self._unknown(node)
        if node.id not in self.needed:
            words = "Dead: no result depends on it, and XLA's first program has no trace of it."
            return EquationFate(node.id, "dead", words, by=by)
        words = f"Dropped: {word} was simplified away between StableHLO and HLO."
        return EquationFate(node.id, "dropped", words, by=by)

    @cached_property
    def _constant(self) -> set[str]:
        """Ops that depend on constants only."""
        found: set[str] = set()
        for region in self.linked.modules["stablehlo"].regions.values():
            values: set[str] = set()
            for node in region.nodes:
                if node.opcode == "stablehlo.constant" or (
                    node.operands and not node.regions and values.issuperset(node.operands)
                ):
                    found.add(node.id)
                    values.update(value.name for value in node.results)
        return found

    def _taken_up(self, node: Node, before: str, by: By | None) -> EquationFate:
        """What read it was rewritten, and needs or holds it no more."""
        readers = dict.fromkeys(
            self.equation_of[op] for id in self._read_by.get(before, ()) for op in self._ops_of[id]
            if op in self.equation_of
        )  # fmt: skip
        readers.pop(node.id, None)
        named = _names([f"{id} ({self.equations[id].opcode})" for id in readers])
        into = list(dict.fromkeys(i for id in readers for i in self._left(self.ops[id])))
        kin = [i for i in into if self.after[i].opcode == _word(self.opcode[self.ops[node.id][-1]])]
        if kin:
            homes = self._homes(kin)
            words = f"Rewritten together with {named}: both are in {_names(homes)}{_behind(by)}."
            return _judged(node.id, "rewritten", words, homes, by=by)
        if by is not None and by.words == "constant_folding":
            return _judged(node.id, "folded", "Folded into a constant, by constant_folding.", by=by)
        if readers:
            words = f"Rewritten away: what read it was simplified, {named}{_behind(by)}."
            return _judged(node.id, "rewritten", words, by=by)
        return _judged(
            node.id, "rewritten", f"Rewritten away with what read it{_behind(by)}.", by=by
        )

    @cached_property
    def _read_by(self) -> dict[str, list[str]]:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for reader in self.linked.modules["hlo"].nodes():
            for name in dict.fromkeys(reader.operands):
                found[name].append(reader.id)
        return found

    @cached_property
    def _ops_of(self) -> dict[str, list[str]]:
        """The ops of each instruction before optimisation."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for op, ids in self.before_of.items():
            for id in ids:
                found[id].append(op)
        return found

    def _by(self, found: Mapping[str, By], ops: Sequence[str]) -> By | None:
        return next((found[op] for op in reversed(ops) if op in found), None)


# Where nothing computes these, nothing needs them.
_COMPUTING = frozenset({
    "abs", "acos", "add", "add_any", "and", "asin", "atan", "atan2", "cbrt", "ceil",
    "conv_general_dilated", "cos", "cosh", "div", "dot_general", "eq", "erf", "exp", "exp2",
    "expm1", "floor", "ge", "gt",
    "is_finite", "le", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "not",
    "or", "pow", "rem", "round", "rsqrt", "sign", "sin", "sinh", "sqrt", "square", "sub", "tan",
    "tanh", "xor",
})  # fmt: skip
# These can lower to their operand as it is.
_CARRYING = frozenset({
    "broadcast_in_dim", "convert_element_type", "copy", "copy_p", "integer_pow", "name", "pad",
    "reduce_precision", "reshape", "sharding_constraint", "slice", "squeeze", "stop_gradient",
    "transpose",
})  # fmt: skip
_SLIGHT = MOVING | {"constant"}
_LITERALS = frozenset({"stablehlo.constant", "sdy.constant"})
_CALLS = frozenset({"func.call", "stablehlo.composite"})


def _judged(
    id: str,
    name: FateName,
    sentence: str,
    into: tuple[str, ...] = (),
    partners: tuple[str, ...] = (),
    by: By | None = None,
) -> EquationFate:
    words, index = (by.words, by.index) if by else ("", None)
    return EquationFate(id, name, sentence, into, partners, words, index)


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


def _word(op: str) -> str:
    """The HLO opcode of a StableHLO op."""
    word = op.rpartition(".")[2].replace("_", "-")
    return _WORDS.get(word, word)


_WORDS = {
    "dot-general": "dot", "broadcast-in-dim": "broadcast", "case": "conditional",
    "if": "conditional",
}  # fmt: skip
