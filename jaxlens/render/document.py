"""The parts of an output, as data. `text/document_text.py` and `html/document_html.py` write it.

A view (`verbs/jaxpr.py`, `verbs/hlo.py`, `compile.py`) turns a capture into a
`Document`; nothing here knows what JAX is. All text in it is data: the faces escape it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from jaxlens.ir.line_trace import TapeStep
from jaxlens.render.graph.figure import Figure
from jaxlens.render.link_data import Web
from jaxlens.report import Finding, Table

Kind = Literal[
    "", "op", "type", "name", "literal", "attr", "comment", "keyword", "fold", "warn"
]  # "fold": metadata, layouts, long types; hidden until asked for


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of characters of one kind."""

    text: str
    kind: Kind = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a listing.

    Attributes:
        pieces: What it says, left to right.
        id: The node it shows; "" for none.
        indent: Levels of nesting.
        line: The source line that owns the node ("cell 3:4"); "" for none. Lines of one owner
            share a hue in every pane.
    """

    pieces: tuple[Piece, ...]
    id: str = ""
    indent: int = 0
    line: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """A program's text, line by line.

    Attributes:
        stage: The stage whose ids the lines carry.
        lines: What is shown.
        note: What was left out and where it is ("3,400 more lines: cap.optimized.text").
        more: The lines left out, for a viewer that scrolls; each is made when looked at.
    """

    stage: str
    lines: tuple[Line, ...]
    note: str = ""
    more: Sequence[Line] = ()


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's code.

    Attributes:
        number: Line number as the editor shows it.
        text: The line.
        share: What it became or cost, 0..1 of the whole; None where nothing is known.
        note: The same in words ("5 eqns", "98 % of flops").
        under: What lies under it, one entry a line, a click away.
        line: The owner name that `Line.line` has.
        more: What else is to say of it ("3 backward, 15 more in calls"), where there is room.
    """

    number: int
    text: str
    share: float | None = None
    note: str = ""
    under: tuple[Line, ...] = ()
    line: str = ""
    more: str = ""


@dataclass(frozen=True, slots=True)
class SourcePane:
    """The user's own lines, tinted. `title` names the file or cell, `scale` what the tint means."""

    title: str
    scale: str
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One row of two columns. `fate` is one word ("fused", "same", ...), `note` the sentence."""

    left: Line | None
    right: Line | None
    fate: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class DiffGroup:
    """Rows that belong together: one fusion with all it swallowed, or one thing that changed."""

    title: str
    rows: tuple[DiffRow, ...]
    open: bool = True


@dataclass(frozen=True, slots=True)
class Diff:
    """Two programs side by side, before and after."""

    left: str
    right: str
    groups: tuple[DiffGroup, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class GraphPane:
    """A drawing; `alt` says in words what it shows."""

    figure: Figure
    alt: str


@dataclass(frozen=True, slots=True)
class Code:
    """Text of another language, verbatim (LLVM IR, assembly, buffer assignment).

    `title` stands above it and `note` below.
    """

    language: Literal["llvm", "asm", "ptx", "text"]
    text: str
    note: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Findings:
    """Sentences."""

    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table.

    Attributes:
        table: Its cells.
        asked: Whether it is what was asked for: then text has it though it changes from run to run.
    """

    table: Table
    asked: bool = False


PassMark = Literal[
    "same",
    "adjusted",
    "moved",
    "renamed",
    "rewritten",
    "fused",
    "merged",
    "folded",
    "removed",
    "added",
]


@dataclass(frozen=True, slots=True)
class PassRow:
    """One row of a program beside the program before a pass, by identity and not by text.

    Attributes:
        mark: What became of it. "adjusted": the same value with another layout, attribute or
            operand name; "moved": the same in another computation.
        line: The instruction, or the title of a computation (without id).
        gone: Whether it stands in the program before the pass only.
        note: A few words on the mark ("with add.3", "dead: nothing read it"), "" for none.
    """

    mark: PassMark
    line: Line
    gone: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class PassStep:
    """The program after one pass that changed it; the first step is the program before any.

    Attributes:
        index: `PassStage.index`. The viewer knows its instructions by the stage "pass:INDEX".
        title: Pipeline and pass, unique ("simplification / algsimp (2)").
        name: The pass ("algsimp").
        size: Instructions after it; None where they were not counted.
        did: What it did, in counts ("8 fused, 2 removed"); "" where that is not known.
        meaning: What such a pass is for, in a sentence; "" where that is not known.
        rows: The program after it together with what is gone; None where left out.
        atoms: What links the nodes of its rows (see `link_data.py`), by id.
    """

    index: int
    title: str
    name: str
    size: int | None
    did: str = ""
    meaning: str = ""
    rows: tuple[PassRow, ...] | None = None
    atoms: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PassSteps:
    """The way through the passes, step by step.

    Attributes:
        steps: The first is the program before optimisation.
        tables: The same without rows, for text: the timeline, and what the passes are for.
        note: What was left out, and where it is.
    """

    steps: tuple[PassStep, ...]
    tables: tuple[Table, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class TapeReel:
    """The steps of a trace, to go through forwards and backwards.

    Attributes:
        steps: As `ir/line_trace.py` has them.
        notes: What is to say of a step, by its number.
        texts: The lines that are shown, with their numbers, by file.
        equations: The equations that the steps recorded, in JAX's notation, by id.
        table: The same as a table, for text and for pages without scripts.
    """

    steps: tuple[TapeStep, ...]
    notes: Mapping[int, tuple[str, ...]]
    texts: Mapping[str, tuple[tuple[int, str], ...]]
    equations: Mapping[str, str]
    table: Table


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart, drawn by `chart.py`, with the same in lines of text.

    Attributes:
        title: What it shows, over it.
        alt: The same with its main figure, for who cannot see it.
        svg: The drawing, as `chart.chart` gives it.
        text: What it shows in the text form; no line depends on the machine's speed.
        stage: The stage whose ids its marks carry; "" for none.
        note: How its figures are known.
    """

    title: str
    alt: str
    svg: str
    text: tuple[str, ...] = ()
    stage: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks behind a heading that opens them."""

    title: str
    blocks: tuple["Block", ...]
    open: bool = False


@dataclass(frozen=True, slots=True)
class Tab:
    """One pane of a set.

    Attributes:
        title: What stands on it.
        blocks: What it holds.
        in_text: Whether the text form shows it.
        help: What it shows, in a sentence.
        key: A short name that stays ("source", "jaxpr", "graph", "passes", a stage's name):
            the viewer remembers by it which panes stand side by side. "" for the title's.
    """

    title: str
    blocks: tuple["Block", ...]
    in_text: bool = False
    help: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Tabs:
    """Panes, one shown at a time; the first is open."""

    tabs: tuple[Tab, ...]


Block = (
    Listing
    | SourcePane
    | Diff
    | GraphPane
    | Code
    | Findings
    | TableBlock
    | PassSteps
    | TapeReel
    | Picture
    | Fold
    | Tabs
)


@dataclass(frozen=True, slots=True)
class Document:
    """A whole output.

    Attributes:
        verb: "jaxpr", "hlo" or "compile".
        taken: The first line: function, inputs, statics, target.
        blocks: What follows.
        web: Who came from whom among the nodes shown; None where nothing is linked.
        deviations: Where the program shown is not the one that runs, a sentence each.
        timed: Whether times are what was asked for: then text has every figure that changes from
            run to run.
    """

    verb: str
    taken: str
    blocks: tuple[Block, ...]
    web: Web | None = None
    deviations: tuple[str, ...] = ()
    timed: bool = False
