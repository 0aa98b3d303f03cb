"""Runs one instruction of an optimised program alone."""

from functools import partial

import jax
import numpy as np

from jaxlens import compat, progress
from jaxlens.captures import Capture
from jaxlens.ir.facts import Input
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.questions.variants.extracted import Extracted
from jaxlens.questions.variants.measure import edited_text
from jaxlens.questions.variants.measure.edit import editable, of_text
from jaxlens.questions.variants.measure.extract import ProgramCuts
from jaxlens.questions.variants.runs import ExtractedRun
from jaxlens.stages.compile.program_text import compiled_text, execute_text
from jaxlens.stages.driver import LiveDriver
from jaxlens.stages.measure.execute import run


def extracted(capture: Capture, name: str, n: int) -> Extracted:
    """Runs one instruction alone, and the whole, `n` times each; see `verbs.extract`.

    Raises:
        OptionError: There is no such instruction, or an argument has no data.
        UnavailableError: This is not a live call, or this jaxlib cannot compile it alone.
    """
    live: LiveDriver = capture.driver.live()
    done = _extraction(capture, live, name, n)
    inputs = tuple(Input(f"input {i}", type_of(x)) for i, x in enumerate(done.inputs))
    outputs = tuple(Input(f"result[{i}]", type_of(x)) for i, x in enumerate(done.outputs))
    options = compat.options_of(live.lowered) or ()
    sent = edited_text.parsed("optimized", done.text, inputs, outputs, options)
    alone = of_text(live, f"{name} by itself", sent, inputs, partial(list, done.inputs))
    return Extracted(capture.program.name, done, alone)


def _extraction(capture: Capture, live: LiveDriver, name: str, n: int) -> ExtractedRun:
    text = editable(capture, "optimized")
    with live.taken("a kernel by itself") as lowered:
        arguments = live.passed(lowered)
        options = compat.options_of(lowered) or ()
        cuts = ProgramCuts(text, partial(execute_text, options=options))
        with progress.step(f"jaxlens runs {capture.program.name} up to {name}"):
            cut = cuts.extract(name, arguments)
        compiled = compiled_text(cut.text, options)
        alone = run(compiled, tuple(cut.inputs), n)
    outputs = tuple(np.asarray(leaf) for leaf in jax.tree.leaves(alone.outputs))
    pairs = zip(outputs, cut.expected or (), strict=cut.expected is not None)
    equal = all(np.asarray(leaf).tobytes() == output.tobytes() for output, leaf in pairs)
    return ExtractedRun(
        name,
        cut.opcode,
        cut.text,
        cut.loop,
        cut.copied,
        tuple(cut.inputs),
        outputs,
        None if cut.expected is None else equal,
        alone.seconds,
        live.run(n).seconds,
        alone.how,
    )
