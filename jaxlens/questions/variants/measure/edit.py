"""Compiles and runs the text of a program that a user has changed."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxlens import compat
from jaxlens.captures import Capture
from jaxlens.errors import OptionError, UnavailableError, first_line, nearest
from jaxlens.ir.facts import Input, Program
from jaxlens.questions.variants.edited import Edited, changes
from jaxlens.questions.variants.measure import edited_text
from jaxlens.questions.variants.measure.edited_text import EditedText
from jaxlens.questions.variants.runs import ProgramRun
from jaxlens.stages.child.first_in_child import tried, vouch
from jaxlens.stages.compile.program_text import plain_array
from jaxlens.stages.driver import ExistingDriver, LiveDriver
from jaxlens.stages.session.existing_trace import ExistingTrace

EDITABLE = ("stablehlo", "hlo", "optimized")
_NOUN = "program that could be changed"


def compared(capture: Capture, stage: str, text: str, n: int) -> Edited:
    """Compiles a changed text, runs both programs `n` times and compares; see `verbs.edit`."""
    other = _edited(capture, stage, text)
    named = capture.program.name, other.driver.holder.removeprefix("edited ")
    # HLO is converted to StableHLO to be compiled: so is the original, as its unchanged text.
    again = stage == "hlo"
    first = _edited(capture, stage, editable(capture, stage)) if again else capture
    try:
        kernels = _numbers_of_kernels(first, other)
        if not n:
            return Edited(*named, other, kernels=kernels)
        before, after = flat_run(first, n), flat_run(other, n)
    except RuntimeError as error:  # XLA's
        raise UnavailableError(
            f"XLA does not compile or run this {named[1]}: {first_line(error, 200)}"
        ) from None
    outputs = changes([leaf.name for leaf in capture.outputs], before, after)
    return Edited(*named, other, outputs, before.seconds, after.seconds, kernels, before.how)


def editable(capture: Capture, stage: str) -> str:
    """Returns a stage's text with constants in full and without your lines.

    Raises:
        OptionError: There is no such stage to change.
        UnavailableError: The program is not live, for several devices, or calls Python.
    """
    live: LiveDriver = capture.driver.live(_NOUN)
    if stage not in EDITABLE:
        raise OptionError(f"no text {stage!r} to change; {nearest(stage, EDITABLE)}")
    live.stage(stage)  # raises if this program does not have it
    with live.taken("an edited program") as lowered:
        if stage == "stablehlo":
            operation = lowered.compiler_ir("stablehlo").operation
            text = str(operation.get_asm(enable_debug_info=False))
        elif stage == "hlo":
            text = compat.editable_text(compat.hlo_computation(lowered).as_hlo_module())
        else:
            (module,) = live.executable.runtime_executable().hlo_modules()
            text = compat.editable_text(module)
    return vouch(text) if live.own_text else text


def flat_run(capture: Capture, n: int) -> ProgramRun:
    """Executes a program `n` times, with its results as NumPy arrays; raises as `Driver.run`."""
    done = capture.driver.run(n)
    outputs = tuple(np.asarray(plain_array(leaf)) for leaf in jax.tree.leaves(done.outputs))
    return ProgramRun(done.seconds, outputs, done.how)


def of_text(
    live: LiveDriver,
    holder: str,
    sent: EditedText,
    inputs: tuple[Input, ...],
    given: Callable[[], list[Any]],
) -> Capture:
    """Returns the program of a text, with the arguments to run it with."""
    name, target = live.staging.call.name, live.staging.place.target
    staging = ExistingTrace(
        name,
        inputs,
        target,
        holder,
        f"look at the capture of {name}",
        outputs=lambda: sent.outputs,
        make=lambda: sent.lowered,
        given=given,
    )
    driver = ExistingDriver(staging, {}, {"jaxpr": "jaxpr", **sent.missing})
    return Capture(Program(name, inputs, (), target, origin=holder), driver)


def _edited(capture: Capture, stage: str, text: str) -> Capture:
    """Returns the program of a changed text, with this one's arguments; compiles nothing.

    Raises:
        ReadError: The text cannot be parsed.
        OptionError: It takes other arguments.
        UnavailableError: See `editable`.
    """
    live: LiveDriver = capture.driver.live(_NOUN)
    inputs = live.entry_inputs()
    live.check_refs(edited=True)
    with live.taken("an edited program") as lowered:
        options = compat.options_of(lowered) or ()
        outputs = live.outputs()
        tried(text, live.staging.place.target, options=options)
        sent = edited_text.parsed(stage, text, inputs, outputs, options)
    return of_text(live, f"edited {sent.language}", sent, inputs, partial(live.passed, lowered))


def _numbers_of_kernels(before: Capture, after: Capture) -> tuple[int, int] | None:
    try:
        return len(before.kernels), len(after.kernels)
    except UnavailableError:
        return None
