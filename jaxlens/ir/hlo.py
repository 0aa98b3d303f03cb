"""Reads HLO module text into a Module.

One regular expression reads a line as XLA prints it; what does not fit it (operands with
types, long literals, quotes in odd places, instructions over several lines) is read token
by token. Attributes stay text and are taken apart when first looked at. A line that neither
way can read goes to `Module.unknown`; text that is no module, or breaks off, is a ReadError.

What a Node holds beyond the contract: `opcode` is as printed, so the sugared forms of
asynchronous ops (`all-gather-start`, `custom-call-done`) stay; a parameter's number and a
constant's literal are the attributes `index` and `literal`. An execution thread, which is
printed behind a computation, is the module's attribute `NAME.execution_thread`.

Dumps of jax 0.12 leave `get-tuple-element` out and write `%x#1` where it is read. It is an
instruction all the same: a node of that name, with no text of its own, stands before its
first reader.
"""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from jaxlens.errors import ReadError
from jaxlens.ir import hlo_text
from jaxlens.ir.graph import Module, Node, Region, Span, Type, Value
from jaxlens.ir.hlo_frames import Frames, origin
from jaxlens.ir.hlo_line import Attributes, cut
from jaxlens.ir.hlo_order import callers_first

_HEADER = re.compile(
    r'^[ \t]*(ENTRY[ ])?[ \t]*%?([^\s"(){}\[\]=,]+)[ \t]*((?:\([^"\n]*)?)\{[ \t\r]*$', re.MULTILINE
)
_LINE = re.compile(
    r"""^[ \t]*(?:
      ((ROOT[ ])?%?([^\s=()"{}\[\],]+)[ ]=[ ]                                     # name
        ([a-z][a-z0-9]*\[[^\]"\n]*\](?:\{[^{}"\n]*\})?                            # array
          |\((?:[^()"\n]++|\([^()"\n]*\))*\))[ ]                                  # or tuple
        ([a-z][\w\-]*)\(                                                          # opcode
        ((?:[^(){}\[\]"\s,]+(?:,[ ][^(){}\[\]"\s,]+)*)?)\)                        # operands
        (?:([^"\n]*),[ ]metadata=\{op_name="([^"\\\n]*)"(?:[ ]stack_frame_id=(\d{1,9}))?\})?
        (.*))
      |(\}.*)
      |(\S.*)
    )$""",
    re.MULTILINE | re.VERBOSE,
)
_CALLING = re.compile("|".join(f"{key}=" for key in hlo_text.CALLS))
_COMMENT = re.compile(r"/\*[^*]*\*/")
_PARAMETER = re.compile(r"[ ]parameter\([ ]*(\d{1,9})[ ]*\)")
_FIRST = re.compile(r"\s*HloModule\s+([^\s,]+)")

# A frozen dataclass assigns each field through a call; filling its slots halves a reader's time.
_new = object.__new__
_set_name, _set_type = (vars(Value)[name].__set__ for name in ("name", "type"))
(
    _set_id, _set_opcode, _set_operands, _set_results, _set_attrs,
    _set_regions, _set_scope, _set_spans, _set_text,
) = (vars(Node)[name].__set__ for name in Node.__slots__)  # fmt: skip


def read(text: str, *, stage: str = "hlo") -> Module:
    """Reads what `as_text(dialect="hlo")`, `compiled.as_text()` or a dump holds.

    Args:
        text: One module.
        stage: The module's stage in `ir.stage.STAGES`.

    Raises:
        ReadError: The text does not begin with `HloModule`, breaks off within a computation,
            names two computations alike, or has no one ENTRY.
    """
    with _no_collection():
        return _Reader(text).module(stage)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Many objects that all stay: each round of the garbage collector would be for nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(slots=True)
class _Open:
    """A computation that is being read."""

    name: str
    start: int
    nodes: list[Node] = field(default_factory=list)
    root: str = ""
    values: dict[str, Type] = field(default_factory=dict)
    counted: int = 0  # nodes whose values are in `values`, which is filled only when needed

    def imply(self, names: tuple[str, ...]) -> bool:
        """Adds the tuple elements among the names; False where one has no tuple before it."""
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
        parameters = sorted(
            (node for node in self.nodes if node.opcode == "parameter"), key=_parameter_number
        )
        values = tuple(node.results[0] for node in parameters)
        results = (root,) if root else ()
        return Region(self.name, values, tuple(self.nodes), results, "computation")


def _parameter_number(node: Node) -> int:
    found = _PARAMETER.search(node.text)
    return int(found[1]) if found else 0


class _Reader:
    """What is known while one text is read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.frames = Frames()
        self.unknown: list[str] = []
        self.attrs: dict[str, str] = {}
        self.regions: dict[str, Region] = {}
        self.entry = ""
        self.open: _Open | None = None
        self.broken: list[str] = []  # lines of an instruction whose brackets are still open
        self.depth = 0
        self.types: dict[str, Type | None] = {}
        self.calls: dict[str, tuple[str, ...] | None] = {}
        self.origins: dict[str, tuple[str, tuple[Span, ...]]] = {}

    def module(self, stage: str) -> Module:
        first = _FIRST.match(self.text)
        if first is None:
            got = self.text.strip()[:40]
            raise ReadError(f"expected HLO text that begins with 'HloModule NAME', got {got!r}")
        start = self._header(first.end())
        self._computations(start)
        if self.open is not None:
            raise ReadError(
                f"the HLO text breaks off within computation {self.open.name!r}, which begins on "
                f"line {self._line(self.open.start)}: expected '}}'; read the whole text"
            )
        if not self.entry and len(self.regions) == 1:
            self.entry = next(iter(self.regions))
        if not self.entry:
            raise ReadError(
                f"expected one ENTRY computation in the HLO text, found none among "
                f"{len(self.regions)}; read the whole text"
            )
        regions = callers_first(self.regions, self.entry)
        return Module(first[1], stage, self.entry, regions, self.attrs, tuple(self.unknown))

    def _header(self, start: int) -> int:
        """Reads the first line's attributes and the tables; returns where computations begin."""
        found = _HEADER.search(self.text, start)
        end = found.start() if found else len(self.text)
        lines = self.text[start:end].split("\n")
        depth, used = hlo_text.balance(lines[0]), 1
        while depth > 0 and used < len(lines) and lines[used]:
            depth += hlo_text.balance(lines[used])
            used += 1
        self.attrs = hlo_text.attributes(" ".join(lines[:used]).strip(" ,"))
        self.unknown += self.frames.read(lines[used:])
        return end

    def _computations(self, start: int) -> None:
        """The fast path, for lines as XLA prints them; all others go to `_odd` or `_slow`."""
        types, calls, stack = self.types, self.calls, self.frames.stack
        for match in _LINE.finditer(self.text, start):
            line, root, name, shape, opcode, operands, attrs, scope, frame, rest, close, other = (
                match.groups()
            )
            if line is None or self.open is None or self.broken:
                self._odd(match.start(), line or close or other, instruction=line is not None)
                continue
            if scope is None and '"' not in rest and "metadata=" not in rest:
                attrs, scope, rest = rest, "", ""
            called = calls[attrs] if attrs in calls else self._called(attrs)
            type_ = types[shape] if shape in types else self._type(shape)
            if called is None or scope is None or type_ is None or (rest and _CALLING.search(rest)):
                self._slow(line)
                continue
            names: tuple[str, ...] = ()
            if operands and opcode != "constant" and opcode != "parameter":
                if "/*" in operands:
                    operands = _COMMENT.sub("", operands)
                names = tuple(operands.replace("%", "").split(", "))
                if "#" in operands and not self.open.imply(names):
                    self.unknown.append(line)
                    continue
            value = _new(Value)
            _set_name(value, name)
            _set_type(value, type_)
            node = _new(Node)
            _set_id(node, name)
            _set_opcode(node, opcode)
            _set_operands(node, names)
            _set_results(node, (value,))
            _set_attrs(node, Attributes(line))
            _set_regions(node, called)
            _set_scope(node, scope)
            _set_spans(node, stack(frame) if frame else ())
            _set_text(node, line)
            self.open.nodes.append(node)
            if root:
                self.open.root = name

    def _type(self, shape: str) -> Type | None:
        self.types[shape] = found = hlo_text.read_type(shape)
        return found

    def _called(self, attrs: str | None) -> tuple[str, ...] | None:
        """Computations named by the attributes before the metadata; None where they are cut."""
        if attrs is None or hlo_text.balance(attrs) != 0:
            return None
        self.calls[attrs] = found = hlo_text.called(hlo_text.attributes(attrs))
        return found

    def _slow(self, line: str) -> None:
        """Reads a line of any form token by token."""
        parts = cut(line)
        type_ = self._type(parts.type) if parts else None
        if parts is None or type_ is None or self.open is None:
            self.unknown.append(line)
            return
        attrs = hlo_text.attributes(parts.attributes)
        scope, spans = self._origin(attrs.get("metadata", ""))
        literal = parts.opcode in ("parameter", "constant")
        names = () if literal else hlo_text.operand_names(parts.operands)
        if names is None or not self.open.imply(names):
            self.unknown.append(line)
            return
        node = Node(
            parts.name,
            parts.opcode,
            names,
            (Value(parts.name, type_),),
            Attributes(line),
            hlo_text.called(attrs),
            scope,
            spans,
            line,
        )
        self.open.nodes.append(node)
        if parts.root:
            self.open.root = parts.name

    def _origin(self, metadata: str) -> tuple[str, tuple[Span, ...]]:
        if metadata not in self.origins:
            self.origins[metadata] = origin(metadata, self.frames)
        return self.origins[metadata]

    def _odd(self, start: int, line: str, *, instruction: bool) -> None:
        """What is not a plain instruction: a computation's first or last line, a broken line."""
        header = None if instruction else _HEADER.match(line)
        closes = line.startswith("}") and (not self.broken or self.text[start] == "}")
        if self.broken and (instruction or header or closes):
            self._give_up()
        if self.broken:
            self._continue(line)
        elif header:
            self._begin(header, start)
        elif self.open is None:
            self.unknown.append(line)
        elif closes:
            self._end(line)
        elif not line.startswith("//"):
            self._continue(line)

    def _begin(self, header: re.Match[str], start: int) -> None:
        """A computation's first line."""
        name = header[2]
        if self.open is not None:
            raise ReadError(
                f"expected '}}' to end computation {self.open.name!r}, got computation {name!r} "
                f"on line {self._line(start)} of the HLO text"
            )
        if name in self.regions:
            raise ReadError(
                f"expected each computation once in the HLO text, got {name!r} again on line "
                f"{self._line(start)}"
            )
        if header[1] and self.entry:
            raise ReadError(
                f"expected one ENTRY computation in the HLO text, got {self.entry!r} and {name!r}"
            )
        if header[1]:
            self.entry = name
        self.open = _Open(name, start)

    def _line(self, position: int) -> int:
        return self.text.count("\n", 0, position) + 1

    def _end(self, line: str) -> None:
        """A computation's last line, with what is printed behind it."""
        region, self.open = self.open, None
        assert region is not None
        self.regions[region.name] = region.close()
        for key, value in hlo_text.attributes(line[1:].strip(" ,\r\t")).items():
            self.attrs[f"{region.name}.{key}"] = value

    def _continue(self, line: str) -> None:
        """A line within an instruction of several, or an instruction of an unusual form."""
        self.depth += hlo_text.balance(line)
        if self.depth > 0:
            self.broken.append(line)
            return
        whole = " ".join([*self.broken, line])
        self.broken, self.depth = [], 0
        self._slow(whole)

    def _give_up(self) -> None:
        """What was gathered never closed its brackets."""
        self.unknown += self.broken
        self.broken, self.depth = [], 0
