"""Reads HLO module text into a Module.

One regular expression reads a line as XLA prints it; what does not fit it (operands with
types, long literals, quotes in odd places) is read token by token. Computations are located at
once and read on first use, as are a node's type and attributes. A line that cannot be parsed goes
to `Module.unknown`; text that is no module, or breaks off, is a ReadError at once.

What a Node has beyond the contract: `opcode` is as printed, so the sugared forms of
asynchronous ops (`all-gather-start`, `custom-call-done`) stay; a parameter's number and a
constant's literal are the attributes `index` and `literal`. An execution thread, which is
printed behind a computation, is the module's attribute `NAME.execution_thread`.

Dumps of jax 0.12 leave `get-tuple-element` out and write `%x#1` where it is read. It is an
instruction all the same: a node of that name, with no text of its own, stands before its
first reader.
"""

import re
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from jaxlens.errors import ReadError
from jaxlens.ir.graph import Module, Node, Region, Type, Value, in_order
from jaxlens.ir.hlo import text as hlo_text
from jaxlens.ir.hlo.frames import Frames, Origins
from jaxlens.ir.hlo.lazy_module import HEADER, Block, Computation, Instruction, find_blocks
from jaxlens.ir.hlo.text import cut, instructions
from jaxlens.ir.lazy import lazy, unfilled

_LINE = re.compile(
    r"""^[ \t]*(?:
      ((ROOT[ ])?%?([^\s=()"{}\[\],]+)[ ]=[ ]                                     # name
        ([a-z][a-z0-9]*\[[^\]"\n]*\](?:\{[^{}"\n]*\})?                            # array
          |\((?:[^()"\n]++|\([^()"\n]*\))*\))[ ]                                  # or tuple
        ([a-z][\w\-]*)\(                                                          # opcode
        ((?:[^(){}\[\]"\s,]+(?:,[ ][^(){}\[\]"\s,]+)*)?)\)                        # operands
        (?:([^"\n]*),[ ]metadata=\{op_name=("[^"\\\n]*"(?:[ ]stack_frame_id=\d{1,9})?)\})?
        (.*))
      |(\S.*)
    )$""",
    re.MULTILINE | re.VERBOSE,
)
# Left to the slow path: calls in unusual places, and a second instruction.
_CALLING = re.compile("|".join([*(f"{key}=" for key in hlo_text.CALLS), r"\s=\s"]))
_SECOND = re.compile(r"\s=\s")
_COMMENT = re.compile(r"/\*[^*]*\*/")
_FIRST = re.compile(r"\s*HloModule\s+([^\s,]+)")

# A frozen dataclass assigns each field through a call; filling its slots halves a reader's time.
_new = object.__new__
_set_id, _set_opcode, _set_operands, _set_regions = (
    vars(Node)[name].__set__ for name in ("id", "opcode", "operands", "regions")
)
_set_line, _set_shape, _set_said = (
    vars(Instruction)[name].__set__ for name in ("_line", "shape", "said")
)


_Line = tuple[Node, bool, str | None]
"""An instruction, whether it is a ROOT, and its number if it is a parameter."""


@dataclass(slots=True)
class Reused:
    """What modules with equal tables of frames have in common, so that it is read once.

    Attributes:
        frames: The tables.
        attributes: Texts of attributes, each with itself and the computations that it names.
        blocks: Computations that were found, by `Block.text`.
        regions: Computations that were read, by `Block.text`, with their unknown lines.
        lines: Instructions by line. None where modules are not expected to share any.
    """

    frames: Frames
    attributes: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    blocks: dict[str, Block] = field(default_factory=dict)
    regions: dict[str, tuple[Region, tuple[str, ...]]] = field(default_factory=dict)
    lines: dict[str, _Line] | None = None


def read(
    text: str,
    *,
    stage: str = "hlo",
    origins: Origins | None = None,
    reused: dict[str, Reused] | None = None,
) -> Module:
    """Reads what `as_text(dialect="hlo")`, `compiled.as_text()` or a dump holds.

    Args:
        text: One module, with stamps if it has any (`Stage.raw`).
        stage: The module's stage in `ir.stage.STAGES`.
        origins: Gives the frames of the ops that the stamps name. Stamps keep apart what would
            have been one location, and XLA keeps no frames of two.
        reused: What was read of other dumps of the same compile, by the text of their tables;
            equal computations and lines of this one are the same objects.

    Raises:
        ReadError: The text does not begin with `HloModule`, breaks off within a computation,
            names two computations alike, or has other than one ENTRY.
    """
    return _Reader(text, Reused(Frames(origins))).module(stage, reused)


@dataclass(slots=True)
class _Open:
    """A computation that is being read."""

    name: str
    start: int
    nodes: list[Node] = field(default_factory=list)
    root: str = ""
    parameters: list[tuple[str, Node]] = field(default_factory=list)
    values: dict[str, Type] = field(default_factory=dict)
    counted: int = 0  # nodes whose values are in `values`, which is filled on demand

    def imply(self, names: tuple[str, ...]) -> bool:
        """Adds the tuple elements `x#1` among the names; False where one has no tuple before it."""
        for node in self.nodes[self.counted :]:
            self.values[node.id] = node.results[0].type
        self.counted = len(self.nodes)
        for name in names:
            base, *indices = name.split("#")
            for index in indices:
                whole, base = base, f"{base}#{index}"
                if base not in self.values and not self._element(base, whole, index):
                    return False
        return True

    def _element(self, name: str, whole: str, index: str) -> bool:
        parts = self.values[whole].parts if whole in self.values else ()
        if not (index.isdecimal() and len(index) < 10 and int(index) < len(parts)):
            return False
        value = Value(name, parts[int(index)])
        self.values[name] = value.type
        self.nodes.append(Node(name, "get-tuple-element", (whole,), (value,), {"index": index}))
        self.counted += 1
        return True

    def close(self) -> Region:
        root = self.root or (self.nodes[-1].id if self.nodes else "")
        values = tuple([node.results[0] for _, node in sorted(self.parameters, key=_number)])
        results = (root,) if root else ()
        return Region(self.name, values, tuple(self.nodes), results, "computation")


def _number(parameter: tuple[str, Node]) -> int:
    number = parameter[0]  # of ten digits, or none, is no parameter's
    return int(number) if number.isdecimal() and len(number) < 10 else 0


def _read_block(block: Block, reused: Reused) -> tuple[Region, tuple[str, ...]]:
    region = reused.regions.get(block.text)
    if region is None:
        region = _Reader(block.text, reused).block(block)
        if reused.lines is not None:
            reused.regions[block.text] = region
    return region


class _Reader:
    """State while a text is read."""

    def __init__(self, text: str, reused: Reused) -> None:
        self.text = text
        self.reused = reused
        self.unknown: list[str] = []
        self.attrs: dict[str, str] = {}
        self.open: _Open | None = None

    def module(self, stage: str, reused: dict[str, Reused] | None) -> Module:
        """A module whose computations are read on first use."""
        first = _FIRST.match(self.text)
        if first is None:
            head = self.text.strip()[:40]
            raise ReadError(f"expected HLO text that begins with 'HloModule NAME', got {head!r}")
        start = self._header(first.end(), reused)
        blocks = find_blocks(self.text, start, self.reused.blocks)
        if blocks is None:
            lines = map(str.strip, self.text.split("\n"))
            tidy = "\n".join(f"  {x}" if hlo_text.RESULT.match(x) else x for x in lines)
            if tidy != self.text:  # copied from somewhere
                return _Reader(tidy, self.reused).module(stage, reused)
            raise ReadError(
                f"the HLO text of {first[1]} is not as XLA prints it: one computation is ENTRY, "
                "and each ends with a line of its own, '}'; read the whole text"
            )
        computations: dict[str, Computation] = {}
        for block, footer in blocks:
            body = partial(_read_block, block, self.reused)
            computations[block.name] = unfilled(
                Computation,
                name=block.name,
                kind="computation",
                function="",
                arguments=(),
                _read=body,
            )
            for key, value in hlo_text.attributes(footer).items():
                self.attrs[f"{block.name}.{key}"] = value
        entry = next(block.name for block, _ in blocks if block.entry)
        calls = {block.name: block.calls for block, _ in blocks}

        def unknown(_: Module) -> tuple[str, ...]:
            """Lines that cannot be parsed; this reads all computations."""
            return tuple(chain(self.unknown, *(c.unknown for c in computations.values())))

        return lazy(
            Module,
            {"unknown": unknown},
            name=first[1],
            stage=stage,
            entry=entry,
            regions=in_order(computations, calls, entry),
            attrs=self.attrs,
        )

    def block(self, block: Block) -> tuple[Region, tuple[str, ...]]:
        """Reads one computation: the region, and lines that cannot be parsed."""
        self.open = _Open(block.name, block.start)
        if self.reused.lines is None:
            self._computations(block.start, len(block.text))
        else:
            self._lines(block, self.open, self.reused.lines)
        return self.open.close(), tuple(self.unknown)

    def _lines(self, block: Block, region: _Open, lines: dict[str, _Line]) -> None:
        """Reads a computation; lines that stood in another dump are not read again."""
        place, new = block.start, list[str]()
        for line in block.text[block.start :].split("\n"):
            known = lines.get(line)
            if known is None:
                new.append(line)
                continue
            if new:
                place = self._new_lines(place, new, region, lines)
                new = []
            place += len(line) + 1
            node, root, number = known
            region.nodes.append(node)
            if number is not None:
                region.parameters.append((number, node))
            if root:
                region.root = node.id
        if new:
            self._new_lines(place, new, region, lines)

    def _new_lines(self, place: int, new: list[str], region: _Open, lines: dict[str, _Line]) -> int:
        """Reads consecutive lines, and keeps them for other dumps; returns where they end."""
        count, unknown = len(region.nodes), len(self.unknown)
        parameters = len(region.parameters)
        end = place + sum(map(len, new)) + len(new)
        self._computations(place, end - 1)
        nodes = region.nodes[count:]
        if len(nodes) == len(new) and len(self.unknown) == unknown:
            numbers = {id(node): number for number, node in region.parameters[parameters:]}
            for line, node in zip(new, nodes, strict=True):
                if "#" not in line:  # `x#1` depends on the lines before
                    lines[line] = node, node.id == region.root, numbers.get(id(node))
        return end

    def _header(self, start: int, reused: dict[str, Reused] | None) -> int:
        """Reads the first line's attributes and the tables; returns where computations begin."""
        header = HEADER.search(self.text, start)
        end = header.start() if header else len(self.text)
        lines = self.text[start:end].split("\n")
        depth, used = hlo_text.balance(lines[0]), 1
        while depth > 0 and used < len(lines) and lines[used]:
            depth += hlo_text.balance(lines[used])
            used += 1
        self.attrs = hlo_text.attributes(" ".join(lines[:used]).strip(" ,"))
        tables = "\n".join(lines[used:])
        if reused is None or tables not in reused:
            unknown = self.reused.frames.read(lines[used:])
            self.unknown += unknown
            if reused is not None and not unknown:
                self.reused.lines = {}
                reused[tables] = self.reused
        else:
            self.reused = reused[tables]
        return end

    def _computations(self, start: int, end: int) -> None:
        """The fast path, for lines as XLA prints them; all others go to `_slow`."""
        calls, frames, region = self.reused.attributes, self.reused.frames, self.open
        for found in _LINE.findall(self.text, start, end):
            line, root, name, shape, opcode, operands, attrs, metadata, rest, other = found
            if not line or region is None:
                if not other.startswith("//"):
                    self._slow(other)
                continue
            if not metadata:
                if '"' in rest or "metadata=" in rest:
                    self._slow(line)
                    continue
                attrs, rest = rest, ""
            prefix = calls.get(attrs) or self._called(attrs)
            if prefix is None or (rest and _CALLING.search(rest)):
                self._slow(line)
                continue
            plain_attrs, called = prefix
            node = _new(Instruction)
            names: tuple[str, ...] = ()
            if opcode == "parameter":
                region.parameters.append((operands, node))
            elif operands and opcode != "constant":
                if "/*" in operands:
                    operands = _COMMENT.sub("", operands)
                names = tuple(operands.replace("%", "").split(", "))
                if "#" in operands and not region.imply(names):
                    self.unknown.append(line)
                    continue
            _set_id(node, name)
            _set_opcode(node, opcode)
            _set_operands(node, names)
            _set_regions(node, called)
            _set_line(node, line)
            _set_shape(node, shape)
            _set_said(node, plain_attrs)
            node.came_from(frames.known.get(metadata) or frames.printed(metadata))
            region.nodes.append(node)
            if root:
                region.root = name

    def _called(self, attrs: str) -> tuple[str, tuple[str, ...]] | None:
        """The attributes before the metadata and what they call; None where they are incomplete."""
        if hlo_text.balance(attrs) != 0 or _SECOND.search(attrs):
            return None
        self.reused.attributes[attrs] = called = attrs, hlo_text.called(hlo_text.attributes(attrs))
        return called

    def _slow(self, line: str) -> None:
        """Reads a line of any form token by token, and all instructions on it."""
        for part in instructions(line):
            self._instruction(part)

    def _instruction(self, line: str) -> None:
        region, parts = self.open, cut(line)
        if parts is None or region is None or hlo_text.read_type(parts.type) is None:
            self.unknown.append(line)
            return
        literal = parts.opcode in ("parameter", "constant")
        names = () if literal else hlo_text.operand_names(parts.operands)
        if names is None or ("#" in parts.operands and not region.imply(names)):
            self.unknown.append(line)
            return
        node = unfilled(
            Instruction,
            id=parts.name,
            opcode=parts.opcode,
            operands=names,
            regions=hlo_text.called(hlo_text.attributes(parts.attributes)),
            _line=line,
            _frames=self.reused.frames,
            shape=parts.type,
            said=None,
        )
        region.nodes.append(node)
        if parts.opcode == "parameter":
            region.parameters.append((parts.operands.strip(), node))
        if parts.root:
            region.root = parts.name
