"""What changed between two captures: an edit, another JAX version, another device, another flag.

Facts: `compare/facts.py`; sentences: `compare/sentences.py`; tables: `compare/tables.py`.
"""

from collections.abc import Sequence

from jaxlens.captures import Capture
from jaxlens.lenses.compare.facts import NAMES, Comparison, Names, of
from jaxlens.lenses.compare.sentences import findings
from jaxlens.lenses.compare.tables import tables, times
from jaxlens.report import Overlay, Report, Table


def compare(
    before: Capture, after: Capture, names: Names = NAMES, *, compiled: bool = True
) -> Report:
    """What changed, the biggest consequence first.

    Args:
        before: One capture: live or saved, of any target.
        after: The other.
        names: What the two are called in headings.
        compiled: Compare what they compile to; else the equations alone, without a compile.
    """
    seconds = times(before, after, names) if compiled else []
    return report(of(before, after, compiled=compiled), names, seconds)


def report(found: Comparison, names: Names = NAMES, seconds: Sequence[Table] = ()) -> Report:
    """Puts a comparison into sentences and tables.

    Args:
        found: Two captures, aligned.
        names: What the two are called in headings.
        seconds: More tables, of what was measured; those without rows are left out.
    """
    new = dict.fromkeys(found.new, 1.0) | dict.fromkeys(found.changed.values(), 0.5)
    overlay = Overlay("new (1) or changed (0.5)", "jaxpr", new)
    full = (*tables(found, names), *(table for table in seconds if table.rows))
    return Report("What changed", tuple(findings(found, names)), full, (overlay,))
