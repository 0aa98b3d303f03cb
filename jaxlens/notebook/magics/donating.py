"""Says whether a call that could not be captured may be made all the same."""

from contextlib import suppress

from jaxlens.errors import LensError
from jaxlens.notebook.cell.evaluate_call import EvaluatedCall
from jaxlens.notebook.magics.tracebacks import in_traced_code


def donates(call: EvaluatedCall, error: Exception | None) -> bool:
    """Whether a call takes away arrays of the user's.

    Args:
        call: The call.
        error: Why it could not be captured. One of the user's function is raised by the call
            too, before it takes anything.
    """
    from jaxlens import api  # not imported by %load_ext

    if error is not None and not isinstance(error, LensError) and in_traced_code(error):
        return False
    with suppress(Exception):  # it is refused, as the call will be
        program = api.take(call.function, call.args, call.kwargs).program
        return any(one.donated for one in program.inputs)
    return False
