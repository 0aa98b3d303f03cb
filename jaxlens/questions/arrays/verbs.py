"""The verb about the arrays that live on the devices of this process, and which of them grew."""

import sys
from collections.abc import Mapping
from typing import Any

from jaxlens.questions.arrays.live_arrays import LiveArrays
from jaxlens.questions.arrays.report import document, report
from jaxlens.views.view import View

__all__ = ["arrays"]


def arrays(names: Mapping[str, Any] | None = None) -> View[LiveArrays]:
    """What lives on each device, and what grew? Looks at the live arrays of this process.

        jaxlens.arrays()            # the names are those of the caller: of the notebook

    Deleted and donated arrays do not count. An array has the name that leads to it: a variable,
    or a path into one, such as `params['w']`, or a variable of a function in the last error's
    traceback. What none of these leads to has a `.holder`, where Python's garbage collector knows
    one: a traced program, a module, a library's object.

    Args:
        names: The variables to search; by default those that the caller sees.

    Returns:
        An answer with `.named` and `.unnamed` (each array with `.names`, `.type`, `.bytes`,
        `.by_device`, `.sharding`, `.made`: the line, `.holder`), `.bytes`, `.by_device`,
        `.by_variable`, `.deleted` (names), and since the last look `.new` and `.gone`.
    """
    if names is None:
        caller = sys._getframe(1)
        names = {**caller.f_globals, **caller.f_locals}
    from jaxlens.questions.arrays.measure.live_arrays import look

    return View.of(look(names), document, report)
