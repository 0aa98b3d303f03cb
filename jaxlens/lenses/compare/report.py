"""Reports what changed between two captures: after an edit, on another version, device or flag.

Facts: `compare/facts.py`; sentences: `compare/sentences.py`; tables: `compare/tables.py`.
"""

from collections.abc import Sequence

from jaxlens.lenses.compare.facts import NAMES, Comparison, Names
from jaxlens.lenses.compare.sentences import findings
from jaxlens.lenses.compare.tables import tables
from jaxlens.report import Overlay, Report, Table


def report(comparison: Comparison, names: Names = NAMES, seconds: Sequence[Table] = ()) -> Report:
    """Reports a comparison in sentences and tables.

    Args:
        comparison: The alignment of two captures.
        names: Names of the two in headings.
        seconds: More tables, of measurements; those without rows are left out.
    """
    new = dict.fromkeys(comparison.new, 1.0) | dict.fromkeys(comparison.changed.values(), 0.5)
    overlay = Overlay("new (1) or changed (0.5)", "jaxpr", new)
    full = (*tables(comparison, names), *(table for table in seconds if table.rows))
    return Report("What changed", tuple(findings(comparison, names)), full, (overlay,))
