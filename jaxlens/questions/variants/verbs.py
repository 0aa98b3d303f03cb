"""The verbs that change a program, or write it to a file."""

import os
from typing import overload

from jaxlens.captures import Capture
from jaxlens.questions.variants import edited
from jaxlens.questions.variants.edited import Edited
from jaxlens.questions.variants.reproduced import Reproducer
from jaxlens.render.document import Code, Document, Fold
from jaxlens.views.report_blocks import report_blocks
from jaxlens.views.view import View

__all__ = ["edit", "reproducer"]


@overload
def edit(capture: Capture, stage: str, /) -> str: ...


@overload
def edit(capture: Capture, stage: str, text: str, /, *, run: int = 10) -> View[Edited]: ...


def edit(
    capture: Capture, stage: str, text: str | None = None, /, *, run: int = 10
) -> str | View[Edited]:
    """Returns a text to change; given a changed one, compiles and runs it and compares.

        text = jaxlens.edit(cap, "stablehlo")
        jaxlens.edit(cap, "stablehlo", text.replace("stablehlo.tanh", "stablehlo.logistic"))

    The text has every value of its constants, and neither your lines nor names of scopes.
    Both programs run on the same arguments; donated ones are copied. Optimised HLO is compiled
    as it is written, without a pass of XLA's.

    Args:
        capture: The program.
        stage: "stablehlo", "hlo" (before optimisation) or "optimized".
        text: The changed text, with the parameters of the original.
        run: How often each is run; 0 compiles the changed program, and runs neither.

    Returns:
        Without `text` the text; with it the comparison, with `.outputs`, `.equal`, `.seconds`,
        `.edited_seconds`, `.kernels` and `.capture`, the Capture of the changed program.

    Raises:
        ReadError: The text cannot be parsed; the message has the line and column.
        OptionError: It has other parameters, or an argument has no data.
        UnavailableError: The program is not live, for several devices, or calls Python.
    """
    capture.driver.live("program that could be changed")  # raises before JAX is imported
    from jaxlens.questions.variants.measure.edit import compared, editable

    if text is None:
        return editable(capture, stage)
    changed, facts = compared(capture, stage, text, run)

    def document() -> Document:
        made = edited.report(facts)
        return Document("in_hand", made.title, tuple(report_blocks(made)))

    return View(changed, document, know=lambda: facts, tell=lambda: edited.report(facts))


def reproducer(
    capture: Capture, path: str | os.PathLike[str], /, *, data: bool = False
) -> View[Reproducer]:
    """Writes one file of Python that compiles and runs the program with jax alone.

        jaxlens.reproducer(jaxlens.capture(step, params, x), "repro.py")

    For the report of a bug: the file has the StableHLO, shapes, versions, compiler options,
    XLA_FLAGS and settings, and neither your code nor its paths. Nothing is compiled or run
    here, so it works for a program that crashes XLA.

    Args:
        capture: The program.
        path: Path of the file; an existing file is replaced.
        data: Whether the arguments' values, and those of arrays that it closes over, are
            saved in a .npz file beside it. Else the file draws them with a fixed seed. Arrays
            that are constants of the program are in its text either way.

    Returns:
        The file, with `.path`, `.code` and `.data`.

    Raises:
        UnavailableError: The program is for several devices or an absent one, calls Python
            functions, or is not live.
        OptionError: The file cannot be written, or an argument has no data to save.
    """
    capture.driver.live("program that could be written to a file")  # raises before JAX is imported
    from jaxlens.questions.variants.measure.reproducer import written_for

    made = written_for(capture, path, data)
    file = Fold("the file", (Code("text", made.code),))
    return View(None, lambda: Document("in_hand", str(made), (file,)), know=lambda: made)
