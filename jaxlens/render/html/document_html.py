"""A document as a fragment of HTML for a notebook's output, which needs no kernel.

Tabs and folds are `<details>`, so they work without scripts and styles. `assets.py` adds the CSS
and the scripts that turn this HTML into linked panes. They read `data-pane` of each tab,
`data-stage` of each program, `data-id` of what shows nodes (several ids with blanks between),
`data-file` of the user's lines, `data-line` of what a source line owns, and the data of
`payload.py`.

Keys while the focus is inside an output ("?" shows them there; `keyboard.js`): j and k or the
arrows go through the rows of a pane, Home and End to its ends, n and N through the lit ones; Enter
pins, Escape unpins, Space opens; 1 to 9 choose panes, with Shift beside the others, [ and ] go
from one to the next; / searches; c copies the row and C the pane; h explains its words.
"""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from jaxlens.errors import GraphError
from jaxlens.ir.graph import paused
from jaxlens.render.document import (
    Block,
    BlockStep,
    Code,
    Diff,
    Document,
    Findings,
    Fold,
    GraphPane,
    Listing,
    PassSteps,
    Picture,
    SourcePane,
    Tab,
    TableBlock,
    Tabs,
    TapeReel,
    walk,
)
from jaxlens.render.html.assets import Kit, scripts, styles
from jaxlens.render.html.diff import diff_html
from jaxlens.render.html.glossary_help import help_data, lesson_links
from jaxlens.render.html.line_trace import line_trace_html
from jaxlens.render.html.listing import code_html, listing_html
from jaxlens.render.html.marks import Ink, attr, escaped, image, ink, note, prose
from jaxlens.render.html.passes import passes_html
from jaxlens.render.html.payload import (
    COMPILED_ROWS,
    MOST,
    ROWS,
    SAVED,
    Budget,
    data_html,
    web_html,
)
from jaxlens.render.html.source import source_html
from jaxlens.render.html.table import findings_html, table_html

_KITS: Mapping[Kit, type[Block]] = {
    "graph": GraphPane,
    "source": SourcePane,
    "passes": PassSteps,
    "line_trace": TapeReel,
    "chart": Picture,
}
_KEY = "\0"  # placeholder of the hash; escaped text never has this character


def html(document: Document, *, extra: Collection[Kit] = ()) -> str:
    """The document as a fragment that needs nothing else.

    Args:
        document: What to show.
        extra: Kits beside those that its blocks need.

    Returns:
        HTML, the same for the same document. Names of tab groups are made of a hash of the
        content; `viewer.js` gives equal outputs on one page different ones.
    """
    kits: list[Kit] = ["viewer"]
    kinds = {type(step.part) for step in walk(document.blocks)}
    for kit, block_type in _KITS.items():
        if any(issubclass(kind, block_type) for kind in kinds):
            kits.append(kit)
    kits += extra
    with paused():  # the many short strings of a large program would trigger the GC
        page = body(document, whole="page" in kits)
        if '<script type="application/json" data-jl=help>' in page:
            kits.append("glossary")
        if " data-lines=" in page:
            kits.append("list")
        return f"{styles(kits)}{page}{scripts(kits)}"


def body(document: Document, whole: bool = False) -> str:
    """The document without CSS and scripts, as an untrusted notebook shows it.

    Args:
        document: What to show.
        whole: Whether every box of a drawing opens, in a page that no kernel will serve.
    """
    hues = ink(document)
    # %%jaxpr has to be quick, %%explore has many panes.
    rows = ROWS if document.verb == "jaxpr" else COMPILED_ROWS
    most = MOST if whole else SAVED
    budget = Budget(bytes=most, rows=rows, pictures=document.verb != "explore", whole=whole)
    kernels = document.web.atoms.get("kernels", {}) if document.web else {}
    data = web_html(document.web, budget) if document.web else ""
    label = attr("aria-label", f"jaxlens {document.verb}")
    label += attr("data-versions", document.versions)
    parts = [f"<div class=jaxlens data-key={_KEY} data-verb={document.verb} role=group{label}>"]
    title = [document.taken, *(f"Not what runs: {sentence}" for sentence in document.deviations)]
    head = "\n".join(map(prose, title))
    parts.append(f"<pre class=title-line>{head}</pre>")
    groups: list[tuple[str, int]] = []  # names of sets of tabs, with the place of the open one
    groups_opened = hidden_depth = 0
    tabs: list[str] = []  # titles of those that the part is in
    programs: list[tuple[int, Block, Ink]] = []  # with their places: they get the room that is left
    for step in walk(document.blocks):
        if isinstance(step.part, Tabs) and step.move == "enter":
            groups.append((f"{_KEY}-{groups_opened}", step.part.first))
            groups_opened += 1
        deeper = {"enter": 1, "leave": -1}.get(step.move, 0)
        if isinstance(step.part, Tab) and deeper:
            tabs.append(step.part.title) if deeper > 0 else tabs.pop()
        hidden_depth += deeper * _is_shut(step, groups)
        paint = replace(hues.behind() if hidden_depth else hues, tab=tabs[-1] if tabs else "")
        if isinstance(step.part, Tabs | Tab | Fold):
            parts.append(_step(step.part, step, groups, kernels))
        elif isinstance(step.part, Listing | Code):
            programs.append((len(parts), step.part, paint))
            parts.append("")
        else:
            before = budget.bytes
            parts.append(block_html(step.part, paint, budget))
            budget.bytes = before - len(parts[-1])
        if isinstance(step.part, Tabs) and step.move == "leave":
            groups.pop()
    for place, program, paint in programs:
        parts[place] = block_html(program, paint, budget)
    if document.asks:
        asks = [(ask.name, ask.sentence, ask.line) for ask in document.asks]
        data += budget.take(data_html("asks", asks))
    entries = help_data(document, budget.words)
    help = budget.take(data_html("help", entries) + lesson_links(entries)) if entries else ""
    markup = "".join([*parts, data])
    # Names that must differ between outputs have a hash of the content.
    content = f"{markup}</div>".encode(errors="surrogatepass")
    key = hashlib.blake2b(content, digest_size=5).hexdigest()
    return f"{markup.replace(_KEY, f'jl{key}')}{help}</div>"


def _is_shut(step: BlockStep, groups: Sequence[tuple[str, int]]) -> bool:
    """Whether a tab or fold is shut at first."""
    part = step.part
    if isinstance(part, Tab):
        return bool(groups) and step.place != groups[-1][1]
    return isinstance(part, Fold) and not part.open


def _step(
    part: Tabs | Tab | Fold,
    step: BlockStep,
    groups: Sequence[tuple[str, int]],
    kernels: Collection[str],
) -> str:
    enters = step.move == "enter"
    if isinstance(part, Tabs):
        names = attr("data-verb", part.verb) + attr("data-open", " ".join(part.open))
        names += attr("data-chain", "|".join(map(_steps, part.chain)))
        return f"<div class=pane-tabs{names}>" if enters else "</div>"
    if not enters:
        return "</div></details>"
    if isinstance(part, Tab):
        name, first = groups[-1]
        opened = " open" if step.place == first else ""
        title = f"<summary{attr('title', part.help)}>{prose(part.title)}</summary>"
        pane = attr("data-pane", pane_key(part)) + attr("data-count", part.count)
        return f"<details name={name}{pane}{opened}>{title}<div>"
    # A title that begins with the name of a kernel stands for that kernel.
    kernel = part.title.partition(":")[0]
    node = f" data-stage=kernels{attr('data-id', kernel)}" if kernel in kernels else ""
    opened = " open" if part.open else ""
    return f"<details{opened}><summary{node}>{prose(part.title)}</summary><div class=indented>"


def _steps(names: Mapping[str, str]) -> str:
    """The steps of a chain for `panes.js`: `source:Your code;jaxpr:jaxpr`."""
    return ";".join(f"{key}:{name}" for key, name in names.items())


def pane_key(tab: Tab) -> str:
    """The name of a tab in the viewer: its key, else its title in lower case with dashes."""
    return tab.key or re.sub(r"\W+", "-", tab.title.lower()).strip("-")


def block_html(block: Block, hues: Ink, budget: Budget | None = None) -> str:
    """A block without blocks inside; the budget is for lines beyond those shown."""
    match block:
        case Listing():
            return listing_html(block, hues, budget)
        case SourcePane():
            return source_html(block, hues)
        case Diff():
            return diff_html(block, hues)
        case Code():
            return code_html(block, budget)
        case Findings():
            return findings_html(block)
        case TableBlock():
            return table_html(block.table, hues.inline, not hues.tab, block.table.title != hues.tab)
        case PassSteps():
            return passes_html(block, hues, budget)
        case TapeReel():
            return line_trace_html(block, budget)
        case Picture():
            return _chart(block)
        case GraphPane():
            return _graph(block, hues, budget or Budget())
        case _:
            raise TypeError(f"expected a block that holds no others, got {type(block).__name__}")


def _chart(picture: Picture) -> str:
    """The picture under its title; `chart/chart.js` brings it to life."""
    stage = attr("data-stage", picture.stage)
    below = f"{picture.legend} {picture.note}".strip()
    return (
        f"<figure class=chart-figure data-own{stage}>"
        f"<figcaption>{escaped(picture.title)}</figcaption>"
        f"{image(picture.svg, picture.alt)}</figure>{note(below)}"
    )


def _graph(pane: GraphPane, hues: Ink, budget: Budget) -> str:
    """The drawing; the reason where it cannot be laid out, as the rest can be shown."""
    from jaxlens.render.html.figure import graph_html  # loads Graphviz

    try:
        size = {"picture": budget.pictures, "whole": budget.whole}
        return graph_html(pane.figure, pane.alt, hues.hues, **size)
    except GraphError as why:
        return note(f"No graph: {why}")
