"""Cuts one instruction out of an optimised program, as a program of its own.

The text is cut, never optimised again: the computation up to the instruction gives its operands and
its result. Values in a loop are those of its first
iteration.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, takewhile
from typing import Any

import jax
import numpy as np

from jaxlens import compat, progress
from jaxlens.captures import Capture
from jaxlens.errors import OptionError, UnavailableError, nearest
from jaxlens.ir.facts import Input
from jaxlens.ir.graph import Module, Node, Type
from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.questions.variants.extracted import Extracted
from jaxlens.questions.variants.measure.edit import editable, of_text, parsed
from jaxlens.stages.compile.program_text import compiled_text, execute_text
from jaxlens.stages.driver import LiveDriver
from jaxlens.stages.measure.execute import run

_ROOT = re.compile(r"^(\s*)ROOT ")
# Opcodes that give a part or a view of a value, and compute nothing.
VIEWS = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast")
# What overwrites an operand of its own.
_IN_PLACE = ("while", "call", "conditional", "dynamic-update-slice", "scatter", "sort")
_IN_PLACE_FUSION = re.compile(r" (?:dynamic-update-slice|scatter)\(")

Values = Sequence[Any]
_Typed = Sequence[tuple[str, Type]]
Execute = Callable[[str, Values], list[Any]]


@dataclass(frozen=True, slots=True)
class InstructionCut:
    """An instruction as a program.

    Attributes:
        opcode: The instruction's opcode.
        text: Optimised HLO that computes it from its operands.
        inputs: The operands' values, flat.
        expected: The result of the program run up to it, flat; None for a loop's body.
        loop: The loop in whose first iteration it runs; "" outside of loops.
        copied: Whether the program copies its inputs first, which the instruction overwrites.
    """

    opcode: str
    text: str
    inputs: list[Any]
    expected: list[Any] | None
    loop: str
    copied: bool


class ProgramCuts:
    """The text of an optimised program, from which parts are cut.

    Args:
        text: Optimised HLO with constants in full.
        execute: Compiles a text as it is written, runs it, and returns its flat results.
    """

    def __init__(self, text: str, execute: Execute) -> None:
        self._module: Module = hlo.read(text, stage="optimized")
        self._execute = execute
        self._head = text.lstrip().partition(",")[0]
        self._lines: dict[str, list[str]] = dict(split(text))
        self._callers = {
            called: (region, node)
            for region, body in self._module.regions.items()
            for node in body.nodes
            for called in node.regions
        }

    def extract(self, name: str, arguments: Values) -> InstructionCut:
        """Cuts out an instruction or a loop's body, and runs the program up to it.

        Args:
            name: Name of an instruction, or of the computation that is a loop's body.
            arguments: The program's arguments.

        Raises:
            OptionError: There is no such instruction, or it computes nothing by itself.
            UnavailableError: It is inside of a fusion or a branch.
        """
        if name in self._callers and self._callers[name][1].opcode == "while":
            return self._body(name, arguments)
        homes = {n.id: key for key, body in self._module.regions.items() for n in body.nodes}
        if name not in homes:
            known = [node.id for node in self._module.body().nodes if node.opcode not in VIEWS]
            raise OptionError(f"no instruction {name!r}; {nearest(name, known)}")
        region = homes[name]
        node = next(one for one in self._module.regions[region].nodes if one.id == name)
        if node.opcode in VIEWS:
            raise OptionError(f"{name} is a {node.opcode}, which computes nothing by itself")
        operands = self._typed(region, node)
        flat = self._execute(
            self._cut(region, node, operands, [(name, node.type)]),
            self._entering(region, arguments),
        )
        count_ = sum(_leaves(kind) for _, kind in operands)
        inputs, expected = flat[:count_], flat[count_:]
        copied = node.opcode in _IN_PLACE or any(
            _IN_PLACE_FUSION.search(line) for called in node.regions for line in self._lines[called]
        )
        fresh, lines = _Fresh(), list[str]()
        for operand, kind in operands:
            lines += fresh.parameter(operand, kind, copied)
        lines += [
            defined(self._lines[region])[name],
            *fresh.copies([(name, node.type)]),
            fresh.root(),
        ]
        text = self._text(lines, node.regions)
        return InstructionCut(node.opcode, text, inputs, expected, self._loop(region), copied)

    def _body(self, name: str, arguments: Values) -> InstructionCut:
        """Cuts out the body of a loop: its first iteration."""
        nodes = {node.id: node for node in self._module.regions[name].nodes}
        last = nodes[self._module.regions[name].results[0]]
        text = self._cut(name, last, [], [(last.id, last.type)])
        inputs = list(self._entering(name, arguments))
        return InstructionCut("body", text, inputs, None, self._callers[name][1].id, True)

    def _typed(self, region: str, node: Node) -> list[tuple[str, Type]]:
        """Returns an instruction's operands, each once, with their types."""
        types = {one.id: one.type for one in self._module.regions[region].nodes}
        return [(name, types[name]) for name in dict.fromkeys(node.operands) if name in types]

    def _cut(self, region: str, node: Node, before: _Typed, after: _Typed) -> str:
        """Returns a computation up to an instruction, which gives values before and after it.

        What is given is copied at once: a later instruction may overwrite it.
        """
        nodes, lines = self._module.regions[region].nodes, defined(self._lines[region])
        is_entry = region == self._module.entry
        fresh, cut, called = _Fresh(), list[str](), list[str]()
        for one in nodes:  # the parameters, also those that only the rest reads
            if one.opcode == "parameter":
                own = [lines[one.id]]
                cut += own if is_entry else fresh.parameter(one.id, one.type, True)
        for one in takewhile(lambda one: one.id != node.id, nodes):
            if one.opcode != "parameter":
                cut.append(lines[one.id])
                called += one.regions
        cut += fresh.copies(before)
        if after:
            cut += [lines[node.id], *fresh.copies(after)]
            called += node.regions
        return self._text([*cut, fresh.root()], called)

    def _entering(self, region: str, arguments: Values) -> Values:
        """Returns the values with which a computation is entered first, flat."""
        if region == self._module.entry:
            return arguments
        caller, node = self._callers[region]
        if node.opcode not in ("while", "call"):
            raise UnavailableError(
                f"{region} is a part of {node.id} ({node.opcode}), which is compiled as a whole: "
                f"jaxlens.extract(cap, {node.id!r})"
            )
        operands = self._typed(caller, node)
        text = self._cut(caller, node, operands, [])
        return self._execute(text, self._entering(caller, arguments))

    def _loop(self, region: str) -> str:
        while region != self._module.entry:
            region, node = self._callers[region]
            if node.opcode == "while":
                return node.id
        return ""

    def _text(self, body: Sequence[str], called: Sequence[str]) -> str:
        """Returns a module of an entry and the computations that it needs, callees first."""
        needed: dict[str, None] = {}
        pending = list(called)
        while pending:
            name = pending.pop()
            needed.pop(name, None)
            needed[name] = None
            pending += [c for node in self._module.regions[name].nodes for c in node.regions]
        parts = ["\n".join(self._lines[name]) for name in reversed(needed)]
        entry = "\n".join(["ENTRY %jaxlens_entry {", *body, "}"])
        return "\n\n".join([f"{self._head}, is_scheduled=true", *parts, entry]) + "\n"


class _Fresh:
    """Names and writes the parameters and results of a cut program."""

    def __init__(self) -> None:
        self._numbers = count()
        self._parameters = count()
        self._copies: list[tuple[str, str]] = []

    def _name(self) -> str:
        return f"jaxlens.{next(self._numbers)}"

    def parameter(self, name: str, kind: Type, copied: bool) -> list[str]:
        """Returns the lines that define a value by parameters: one for each leaf of a tuple."""
        if not kind.dtype:
            parts = [self._name() for _ in kind.parts]
            lines = [
                line
                for part, inner in zip(parts, kind.parts, strict=True)
                for line in self.parameter(part, inner, copied)
            ]
            operands = ", ".join(f"%{part}" for part in parts)
            return [*lines, f"  %{name} = {written(kind)} tuple({operands})"]
        plain = written(kind, default=True)
        number = next(self._parameters)
        if not copied and plain == written(kind):
            return [f"  %{name} = {plain} parameter({number})"]
        given = self._name()
        return [
            f"  %{given} = {plain} parameter({number})",
            f"  %{name} = {written(kind)} copy(%{given})",
        ]

    def copies(self, values: _Typed) -> list[str]:
        """Returns the lines that copy values for the result, with tuples taken apart."""
        lines: list[str] = []
        for name, kind in values:
            if kind.dtype:
                plain, copy = written(kind, default=True), self._name()
                lines.append(f"  %{copy} = {plain} copy(%{name})")
                self._copies.append((copy, plain))
                continue
            for index, inner in enumerate(kind.parts):
                part = self._name()
                element = f"get-tuple-element(%{name}), index={index}"
                lines.append(f"  %{part} = {written(inner)} {element}")
                lines += self.copies([(part, inner)])
        return lines

    def root(self) -> str:
        """Returns the line of the result: what was copied."""
        types = ", ".join(kind for _, kind in self._copies)
        names = ", ".join(f"%{name}" for name, _ in self._copies)
        if len(self._copies) == 1:
            return f"  ROOT %{self._name()} = {types} bitcast({names})"
        return f"  ROOT %{self._name()} = ({types}) tuple({names})"


def _leaves(kind: Type) -> int:
    return 1 if kind.dtype else sum(map(_leaves, kind.parts))


def written(kind: Type, default: bool = False) -> str:
    """Returns a type as HLO writes it, in its own layout or the default one."""
    if not kind.dtype:
        return f"({', '.join(written(part, default) for part in kind.parts)})"
    rank = len(kind.shape)
    layout = "{" + ",".join(map(str, reversed(range(rank)))) + "}" if rank else ""
    return f"{kind}{layout if default else kind.layout}"


def split(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the name and lines of each computation."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.endswith("{") and line.startswith(("%", "ENTRY ")):
            lines = []
        lines.append(line)
        if line == "}":
            name = lines[0].removeprefix("ENTRY ").lstrip("%").partition(" ")[0]
            yield name, lines


def defined(lines: Sequence[str]) -> dict[str, str]:
    """Returns the line of each instruction of a computation, none as the root."""
    plain = [_ROOT.sub(r"\1", line) for line in lines[1:-1]]
    return {line.strip().lstrip("%").partition(" ")[0]: line for line in plain}


def extracted(capture: Capture, name: str, n: int) -> tuple[Capture, Extracted]:
    """Runs one instruction alone, and the whole, `n` times each; see `verbs.extract`.

    Returns:
        The instruction as a program of its own, and what its runs gave.

    Raises:
        OptionError: There is no such instruction, or an argument has no data.
        UnavailableError: This is not a live call, or this jaxlib cannot compile it alone.
    """
    live: LiveDriver = capture.driver.live()
    text = editable(capture, "optimized")
    with live.taken("a kernel by itself") as lowered:
        arguments = live.passed(lowered)
        options = compat.options_of(lowered) or ()
        cuts = ProgramCuts(text, partial(execute_text, options=options))
        with progress.step(f"jaxlens runs {capture.program.name} up to {name}"):
            cut = cuts.extract(name, arguments)
        done = run(compiled_text(cut.text, options), tuple(cut.inputs), n)
    made = tuple(np.asarray(leaf) for leaf in jax.tree.leaves(done.outputs))
    pairs = zip(made, cut.expected or (), strict=cut.expected is not None)
    equal = all(np.asarray(leaf).tobytes() == output.tobytes() for output, leaf in pairs)
    facts = Extracted(
        capture.program.name,
        name,
        cut.opcode,
        cut.text,
        cut.loop,
        cut.copied,
        tuple(cut.inputs),
        made,
        None if cut.expected is None else equal,
        done.seconds,
        live.run(n).seconds,
        done.how,
    )
    inputs = tuple(Input(f"input {i}", type_of(x)) for i, x in enumerate(cut.inputs))
    outputs = tuple(Input(f"result[{i}]", type_of(x)) for i, x in enumerate(made))
    sent = parsed("optimized", cut.text, inputs, outputs, options)
    alone = of_text(live, f"{name} by itself", sent, inputs, lambda: [*cut.inputs])
    return alone, facts
