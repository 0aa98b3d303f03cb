"""The parts of an output, as data.

A view (`viewer/jaxpr.py`, `viewer/hlo.py`, `viewer/compile.py`) makes a
`Document`; `text/document_text.py` and `html/document_html.py` render it. Nothing here depends on
JAX. All text in a document is data: the renderers escape it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from jaxlens.ir.facts import TapeStep
from jaxlens.render.graph.figure import Figure
from jaxlens.render.link_data import Web
from jaxlens.report import Finding, Table

Kind = Literal[
    "", "op", "type", "name", "literal", "attr", "comment", "keyword", "fold", "warn"
]  # "fold": metadata, layouts, long types; hidden by default


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of characters of one kind."""

    text: str
    kind: Kind = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a listing.

    Attributes:
        pieces: Its text, left to right.
        id: Id of the node that it shows; "" for none.
        indent: Levels of indentation.
        line: The source line that owns the node ("cell 3:4"); "" for none. Lines of one owner
            share a hue in every pane.
        folds: Number of lines behind it that it stands for until it is opened; it has no id.
    """

    pieces: tuple[Piece, ...]
    id: str = ""
    indent: int = 0
    line: str = ""
    folds: int = 0


@dataclass(frozen=True, slots=True)
class Listing:
    """A program's text, line by line.

    Attributes:
        stage: The stage whose ids the lines carry.
        lines: The lines in the page, without those that one of them folds.
        note: What was left out and where it is ("3,400 more lines: cap.optimized.text").
        more: The other lines, for a viewer that scrolls; each is made on access. First those that
            `lines` fold, then those after them.
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
        text: Its text.
        share: Its share of the measured quantity (equations, flops, bytes), 0..1; None where it
            is unknown.
        note: The same in words ("5 eqns", "98 % of flops").
        under: Lines of the nodes that it became, shown when it is opened.
        line: Its name as an owner, as in `Line.line`.
        more: Further counts ("3 backward, 15 more in calls"), shown where there is room.
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
    """The user's source lines, tinted.

    Attributes:
        title: The file or cell.
        scale: The quantity of the tint.
        lines: The lines.
        indent: Number of blanks that all of them begin with and that their texts leave out.
    """

    title: str
    scale: str
    lines: tuple[SourceLine, ...]
    indent: int = 0


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One row of two columns; `fate` is one word ("fused", "same", ...), `note` explains it."""

    left: Line | None
    right: Line | None
    fate: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class DiffGroup:
    """Rows under one heading: a fusion with the instructions it fused, or one kind of change."""

    title: str
    rows: tuple[DiffRow, ...]
    open: bool = True


@dataclass(frozen=True, slots=True)
class Diff:
    """Two programs side by side, before and after.

    Attributes:
        left: Title of the program before.
        right: Title of the program after.
        groups: The rows.
        note: What was left out, and how the two were matched.
        stages: The stages whose ids the lines before and after carry; "" where they are not linked.
    """

    left: str
    right: str
    groups: tuple[DiffGroup, ...]
    note: str = ""
    stages: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class GraphPane:
    """A graph; `alt` describes it in words."""

    figure: Figure
    alt: str


@dataclass(frozen=True, slots=True)
class Code:
    """Text of another language, verbatim (LLVM IR, assembly, buffer assignment).

    `title` is shown above it and `note` below.
    """

    language: Literal["llvm", "asm", "ptx", "text"]
    text: str
    note: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Findings:
    """A list of findings, one sentence each."""

    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table.

    Attributes:
        table: Title, columns and cells.
        asked: Whether the user requested it: the text form then has it even if it is volatile
            (changes from run to run).
    """

    table: Table
    asked: bool = False


@dataclass(frozen=True, slots=True)
class PassRow:
    """One row of the diff of a pass, which matches instructions by identity and not by text.

    Attributes:
        mark: What the pass did to it, one of `fate_marks.MARKS`. "adjusted": the same value with
            another layout, attribute or operand name; "moved": the same in another computation.
        line: The instruction, or the title of a computation (without id).
        gone: Whether it exists only in the program before the pass.
        note: A few words on the mark ("with add.3", "dead: nothing read it"), "" for none.
    """

    mark: str
    line: Line
    gone: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class PassStep:
    """The program after one pass that changed it; the first step is the program before any.

    Attributes:
        index: `PassStage.index`; in the viewer, its instructions have the stage "pass:INDEX".
        title: Pipeline and pass, unique ("simplification / algsimp (2)").
        name: The pass ("algsimp").
        size: Number of instructions after it; None where they were not counted.
        did: Counts of changes ("8 fused, 2 removed"); "" where they are unknown.
        meaning: What the pass is for, in a sentence; "" where that is unknown.
        rows: The program after it, and the instructions that it removed; None where left out.
        atoms: Atoms of the nodes in its rows (see `link_data.py`), by id.
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
    """The optimisation passes, step by step.

    Attributes:
        steps: The first is the program before optimisation.
        tables: The same without rows, for text: the timeline, and the purpose of each pass.
        note: What was left out, and where it is.
    """

    steps: tuple[PassStep, ...]
    tables: tuple[Table, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class TapeReel:
    """The steps of a line trace, shown one at a time, forwards and backwards.

    Attributes:
        steps: Steps as in `ir/facts.py`.
        notes: Sentences on a step, by its number.
        texts: The source lines shown, with their numbers, by file.
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
    """A chart, drawn by `chart.py`, and its equivalent in lines of text.

    Attributes:
        title: Heading above it.
        alt: Alternative text: the title and the main figure.
        svg: SVG document made by `chart.chart`.
        text: Its lines in the text form; none depends on the machine's speed.
        stage: The stage whose ids its marks carry; "" for none.
        note: Legend, or how its figures are known; shown below it.
        legend: How to read the drawing; shown before `note`, but not in the text form.
    """

    title: str
    alt: str
    svg: str
    text: tuple[str, ...] = ()
    stage: str = ""
    note: str = ""
    legend: str = ""


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
        title: Its label.
        blocks: Its content.
        in_text: Whether the text form shows it.
        help: What it shows, in a sentence.
        key: A stable short name ("source", "jaxpr", "graph", "passes", a stage's name), by
            which the viewer remembers which panes are side by side. "": the title is the key.
        count: How much it has ("61 equations", "50 to 19 operations"); the chain shows the number.
    """

    title: str
    blocks: tuple["Block", ...]
    in_text: bool = False
    help: str = ""
    key: str = ""
    count: str = ""


@dataclass(frozen=True, slots=True)
class Tabs:
    """Panes, one shown at a time; the first of `open` is shown at first.

    Attributes:
        tabs: The panes.
        verb: Verb of the document that these are from, where it is not this one; the viewer
            remembers by it which panes a reader chose.
        open: Keys of the panes that the viewer puts side by side at first: two, or three where
            there is room. (): the first.
        chain: Names of the panes by key: of the stages in order, then of what stands beside them.
            Those without a pane are named too, as what was not made. (): no such names.
    """

    tabs: tuple[Tab, ...]
    verb: str = ""
    open: tuple[str, ...] = ()
    chain: tuple[Mapping[str, str], ...] = ()

    @property
    def first(self) -> int:
        """The place of the pane that is shown where no script runs."""
        keys = [tab.key for tab in self.tabs]
        return next((keys.index(key) for key in self.open[:1] if key in keys), 0)


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
class Ask:
    """A question that can be asked of a program that is shown.

    Attributes:
        name: Its name.
        sentence: The question.
        line: The magic that answers it: "%%compile --memory".
    """

    name: str
    sentence: str
    line: str


@dataclass(frozen=True, slots=True)
class Document:
    """A whole output.

    Attributes:
        verb: "jaxpr", "hlo" or "compile".
        taken: The first line: function, inputs, statics, target.
        blocks: The content below it.
        web: Links between the nodes shown; None where nothing is linked.
        deviations: Differences between the program shown and the one that runs, a sentence each.
        timed: Whether the user requested times: the text form then has every volatile figure.
        versions: The programs that made it ("jaxlens 0.1.0, jax 0.10.2"), for a report of a bug.
        asks: Questions that the viewer offers.
    """

    verb: str
    taken: str
    blocks: tuple[Block, ...]
    web: Web | None = None
    deviations: tuple[str, ...] = ()
    timed: bool = False
    versions: str = ""
    asks: tuple[Ask, ...] = ()


Part = Block | Tab


@dataclass(frozen=True, slots=True)
class BlockStep:
    """One step of the walk.

    Attributes:
        move: "block" for a block without inner blocks; "enter" and "leave" around the content
            of a fold, a set of tabs or a tab; "skip" for one whose content is not visited.
        part: The block or tab.
        depth: Number of enclosing folds and tabs; a set of tabs adds none.
        place: Index among its siblings.
    """

    move: Literal["block", "enter", "leave", "skip"]
    part: Part
    depth: int
    place: int


def walk(
    blocks: Sequence[Part], opens: Callable[[Fold | Tabs | Tab], bool] = lambda _: True
) -> Iterator[BlockStep]:
    """Yields the steps through `blocks`; the content of a part is visited if `opens(part)`."""
    pending = [BlockStep("enter", block, 0, i) for i, block in enumerate(blocks)][::-1]
    while pending:
        step = pending.pop()
        part, depth = step.part, step.depth
        if step.move == "leave":
            yield step
        elif not isinstance(part, Fold | Tabs | Tab):
            yield BlockStep("block", part, depth, step.place)
        elif not opens(part):
            yield BlockStep("skip", part, depth, step.place)
        else:
            yield step
            pending.append(BlockStep("leave", part, depth, step.place))
            deeper = depth + (not isinstance(part, Tabs))
            parts: Sequence[Part] = part.tabs if isinstance(part, Tabs) else part.blocks
            pending += [BlockStep("enter", p, deeper, i) for i, p in enumerate(parts)][::-1]
