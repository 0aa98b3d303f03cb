"""The view of `%%check --values`: what each line and equation held, and the array of one."""

from jaxlens.questions.values.facts import Values
from jaxlens.questions.values.report import report
from jaxlens.questions.values.statistics import ExecutionArray
from jaxlens.render.document import Block, Code, Findings, Tab, TableBlock, Tabs
from jaxlens.views.listings.panes import jaxpr_tab

_TABS = {  # by the title of a table
    "Values by line": ("By line", "lines", "What the floats of each line held."),
    "Values by module": ("By module", "modules", "What the floats of each module held."),
    "Values by equation": ("By equation", "equations", "What the results of each equation held."),
}


def blocks(facts: Values, full: bool = False) -> list[Block]:
    """Returns the sentences, the array, the tables, and the jaxpr."""
    answer = report(facts, full)
    listing = jaxpr_tab(facts.subject(), full, in_text=full)
    tabs = tuple(
        Tab(title, (TableBlock(table),), True, help, key)
        for table in answer.tables
        for title, key, help in [_TABS[table.title]]
    )
    array = () if facts.array is None else (_shown(facts.array),)
    return [Findings(answer.findings), *array, Tabs((*tabs, listing))]


def _shown(made: ExecutionArray) -> Code:
    shape = ",".join(map(str, made.array.shape))
    title = f"{made.path[-1]}: {made.dtype}[{shape}]"
    if made.iterations:
        title += f", iteration {' of '.join(str(n) for n in reversed(made.iterations))} (from 0)"
    title += f", device {made.device}" if made.device is not None else ""
    return Code("text", "\n".join(made.text), title=title)
