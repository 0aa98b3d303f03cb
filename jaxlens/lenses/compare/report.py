"""What changed between two captures: an edit, another JAX version, another device, another flag.

Facts: `compare/facts.py`; sentences: `compare/sentences.py`; tables: `compare/tables.py`.
"""

from collections.abc import Sequence

from jaxlens.lenses.compare.facts import NAMES, Comparison, Names
from jaxlens.lenses.compare.sentences import findings
from jaxlens.lenses.compare.tables import tables
from jaxlens.report import Overlay, Report, Table


def report(comparison: Comparison, names: Names = NAMES, seconds: Sequence[Table] = ()) -> Report:
    """Puts a comparison into sentences and tables.

    Args:
        comparison: Two captures, aligned.
        names: What the two are called in headings.
        seconds: More tables, of what was measured; those without rows are left out.
    """
    new = dict.fromkeys(comparison.new, 1.0) | dict.fromkeys(comparison.changed.values(), 0.5)
    overlay = Overlay("new (1) or changed (0.5)", "jaxpr", new)
    full = (*tables(comparison, names), *(table for table in seconds if table.rows))
    return Report("What changed", tuple(findings(comparison, names)), full, (overlay,))
