"""After a cell that ran out of memory: what the failed program takes, below the traceback."""

from typing import Any

from IPython.display import display


def out_of_memory(result: Any) -> None:
    """Shows the answer if a cell ended in XLA's exception for want of memory.

    Args:
        result: IPython's result of the cell; for any other it does next to nothing.
    """
    error = getattr(result, "error_in_exec", None)
    kind = type(error).__name__
    is_served = kind == "ValueError" and str(error).startswith("RESOURCE_EXHAUSTED")  # C++ raises
    if error is None or not (is_served or kind in ("JaxRuntimeError", "XlaRuntimeError")):
        return
    from jaxlens.questions.memory.verbs import out_of_memory  # not imported by %load_ext

    try:
        view = out_of_memory(error)
        if view is not None:
            display(view.compute())
    except Exception as why:  # the user has an error to read already
        print(f"jaxlens could not look at what ran out of memory: {type(why).__name__}")
