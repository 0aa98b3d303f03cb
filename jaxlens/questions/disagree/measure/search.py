"""Finds out whether a compiled program is wrong, where, and without which pass it is right."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import jax

from jaxlens import compat, progress
from jaxlens.call import isolate
from jaxlens.call.traceable import prepare
from jaxlens.captures import Capture
from jaxlens.errors import LensError, UnavailableError
from jaxlens.ir.hlo.passes import START
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.questions.disagree.disagreement import Disagreement, ReducedProgram
from jaxlens.questions.disagree.measure.cut import ProgramCut, smallest
from jaxlens.questions.disagree.measure.judge import ResultJudge
from jaxlens.questions.numerics.rounding import BITS
from jaxlens.questions.variants.measure.reproducer import written_for
from jaxlens.stages.child.recompile import outputs_without
from jaxlens.stages.compile.xla_options import xla_flags
from jaxlens.stages.driver import prepared

_BUDGET = 100  # programs that are compiled to cut one down
_FLAGS = {"cpu": ("xla_backend_optimization_level=0", "xla_cpu_use_fusion_emitters=false")}


def disagreement(capture: Capture, write: str) -> Disagreement:
    """Compares a program as compiled with op by op, and cuts it down where that is wrong.

    Args:
        capture: The program.
        write: Where the file that compiles and runs the part is written; "" for nowhere.

    Raises:
        OptionError: An argument is a shape without data, or the file cannot be written.
        UnavailableError: The program cannot run here, or has an `io_callback`.
    """
    live = capture.driver.live()
    with live.measuring("compiled, op by op and in float64", "--miscompile") as (closed, leaves):
        live.check_effects("--miscompile runs the program in several ways")
        if any(map(compat.is_ref, leaves)):
            raise UnavailableError(
                "--miscompile compares results, and not what a program writes to refs: look at a "
                "function of arrays"
            )
        options = dict(compat.options_of(live.staging.lowered) or ())
        made = jax.tree.leaves(live.run(1).outputs)
        with isolate.untouched(isolate.context()), compat.persistent_cache_off():
            judge = ResultJudge(closed, map(jax.numpy.asarray, leaves))
            known = Disagreement(judge(made), _subject=capture)
            return _reduced(known, judge, options, write) if known.found else known


def _reduced(
    known: Disagreement, judge: ResultJudge, options: dict[str, Any], write: str
) -> Disagreement:
    number = 0

    def fails(trial: ProgramCut) -> bool:
        nonlocal number
        number += 1
        try:
            return number <= _BUDGET and any(one.wrong for one in trial.judge().compiled(options))
        except Exception:  # whatever JAX, or a primitive of the user's, says of such a part
            return False

    with progress.step(
        "jaxlens cuts down what is compiled wrongly", lambda: f"compile {number} of {_BUDGET}"
    ):
        cut = smallest(judge, fails)
    if cut is None:
        return known
    inputs, judge = list(cut.inputs.values()), cut.judge()
    results = judge.compiled(options)
    part = ReducedProgram(
        tuple(step.path for step in cut.steps),
        tuple(step.eqn.primitive.name for step in cut.steps),
        tuple(str(type_of(x)) for x in inputs),
        results,
        min(number, _BUDGET),
        number <= _BUDGET,
    )
    function = jax.jit(cut.function(), compiler_options=options or None)
    capture = Capture(*prepared(prepare(function, inputs, {}, "reduced"), None, ()))
    trials = _trials(capture, judge, options)
    limits = (one.allowed and one.allowed * 2.0 ** (1 - BITS.get(one.dtype, 53)) for one in results)
    made = written_for(capture, write, True, list(zip(judge.values, limits, strict=True)))
    return replace(known, reduced=part, trials=trials, code=made.code, written=made.path)


def _changes(capture: Capture, options: Mapping[str, Any]) -> Iterator[str]:
    """Yields what is changed in turn: flags to other values, and a pass each left out."""
    yield from _FLAGS.get(capture.program.target.platform, ())
    pairs = [flag.partition("=")[::2] for flag in xla_flags()]
    for name, value in (*pairs, *options.items()):
        if (text := str(value or "true").lower()) in ("true", "false"):
            yield f"{name}={str(text == 'false').lower()}"
    try:
        yield from dict.fromkeys(p.name for p in capture.passes if p.changed and p.name != START)
    except UnavailableError:
        return


def _trials(
    capture: Capture, judge: ResultJudge, options: Mapping[str, Any]
) -> dict[str, bool | None]:
    """Compiles a part in another process: as it is, and if that is wrong, with each change."""

    def right(name: str) -> bool | None:
        try:
            return not any(one.wrong for one in judge(outputs_without(capture, name)))
        except LensError:  # XLA does not compile it so
            return None

    trials = {"": right("")}
    changes = _changes(capture, options) if trials[""] is False else ()
    return trials | {name: right(name) for name in changes}
