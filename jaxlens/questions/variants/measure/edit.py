"""Compiles and runs the text of a program that a user has changed."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxlens import compat
from jaxlens.captures import Capture
from jaxlens.errors import OptionError, UnavailableError, first_line, nearest
from jaxlens.ir.driver import Run
from jaxlens.ir.facts import Input, Program
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.program.subject import Given
from jaxlens.questions.variants.edited import Edited, changes
from jaxlens.stages.child.first_in_child import tried, vouch
from jaxlens.stages.compile.program_text import (
    is_scheduled,
    of_hlo,
    of_module,
    plain_array,
    struct,
)
from jaxlens.stages.driver import ExistingDriver, LiveDriver
from jaxlens.stages.session.existing_trace import ExistingTrace

EDITABLE = ("stablehlo", "hlo", "optimized")


def compared(capture: Capture, stage: str, text: str, n: int) -> tuple[Capture, Edited]:
    """Compiles a changed text, runs both programs `n` times and compares; see `verbs.edit`.

    Returns:
        The changed program, and the comparison.
    """
    other = _edited(capture, stage, text)
    named = capture.program.name, other.driver.holder.removeprefix("edited ")
    first = capture
    if stage == "hlo":  # converted to StableHLO to be compiled: so is the original, unchanged
        first = _edited(capture, stage, editable(capture, stage))
    try:
        numbers = Given[tuple[int, int] | None](lambda: (len(first.kernels), len(other.kernels)))
        kernels = numbers.or_else(None)
        if not n:
            return other, Edited(*named, kernels=kernels)
        before, after = first.driver.run(n), other.driver.run(n)
        names = [leaf.name for leaf in capture.outputs]
        outputs = changes(names, _arrays(before), _arrays(after))
    except RuntimeError as error:  # XLA's
        raise UnavailableError(
            f"XLA does not compile or run this {named[1]}: {first_line(error, 200)}"
        ) from None
    times = before.seconds, after.seconds
    return other, Edited(*named, outputs, *times, kernels, before.how)


def editable(capture: Capture, stage: str) -> str:
    """Returns a stage's text with constants in full and without your lines.

    Raises:
        OptionError: There is no such stage to change.
        UnavailableError: The program is not live, for several devices, or calls Python.
    """
    live: LiveDriver = capture.driver.live()
    if stage not in EDITABLE:
        raise OptionError(f"no text {stage!r} to change; {nearest(stage, EDITABLE)}")
    live.stage(stage)  # raises if this program does not have it
    with live.taken("an edited program") as lowered:
        if stage == "stablehlo":
            operation = lowered.compiler_ir("stablehlo").operation
            text = str(operation.get_asm(enable_debug_info=False))
        elif stage == "hlo":
            text = compat.hlo_text(compat.hlo_computation(lowered).as_hlo_module(), editable=True)
        else:
            (module,) = live.executable.runtime_executable().hlo_modules()
            text = compat.hlo_text(module, editable=True)
    return vouch(text) if live.own_text else text


def _arrays(done: Run) -> list[np.ndarray]:
    return [np.asarray(plain_array(leaf)) for leaf in jax.tree.leaves(done.outputs)]


def _edited(capture: Capture, stage: str, text: str) -> Capture:
    """Returns the program of a changed text, with this one's arguments; compiles nothing.

    Raises:
        ReadError: The text cannot be parsed.
        OptionError: It is in another language, or takes other arguments.
        UnavailableError: See `editable`.
    """
    live: LiveDriver = capture.driver.live()
    inputs, place = live.entry_inputs(), live.staging.place
    live.check_refs(edited=True)
    is_hlo = text.lstrip().startswith("HloModule")
    with live.taken("an edited program") as lowered:
        options = compat.options_of(lowered) or ()
        names = [leaf.name for leaf in live.outputs()]
        tried(text, place.target, options=options)
        if is_hlo != (stage != "stablehlo"):
            languages = ("StableHLO", "HLO") if is_hlo else ("HLO", "StableHLO")
            raise OptionError(
                f"expected {languages[0]}, got {languages[1]}: change the text of "
                f"jaxlens.edit(cap, {stage!r})"
            )
        sent = of_hlo(text, options) if is_hlo else of_module(text, options=options)
    language, missing = "StableHLO", {"jaxpr": "jaxpr"}
    if is_hlo:
        language, missing["stablehlo"] = "HLO", "StableHLO"
    if is_hlo and is_scheduled(text):
        language, missing["hlo"] = "optimised HLO", "HLO before optimisation"
    expected = [struct(leaf.type) for leaf in inputs]
    got = [shape for _, shape in sent.arguments]
    if [(s.shape, s.dtype) for s in got] != [(s.shape, s.dtype) for s in expected]:
        raise OptionError(
            f"expected the arguments of the original, {_types(expected)}, got {_types(got)} in the "
            f"{language}; it is run with the same arrays: leave the parameters as they are"
        )
    if len(names) != len(sent.results):
        names = [f"result[{number}]" for number in range(len(sent.results))]
    outputs = tuple(Input(n, type_of(s)) for n, s in zip(names, sent.results, strict=True))
    name, target, holder = live.staging.call.name, place.target, f"edited {language}"
    staging = ExistingTrace(
        name,
        inputs,
        target,
        holder,
        f"look at the capture of {name}",
        outputs=lambda: outputs,
        make=lambda: sent.lowered,
        given=partial(live.passed, lowered),
    )
    driver = ExistingDriver(staging, {}, missing)
    return Capture(Program(name, inputs, (), target, origin=holder), driver)


def _types(shapes: Sequence[Any]) -> str:
    return ", ".join(str(type_of(shape)) for shape in shapes) or "none"
