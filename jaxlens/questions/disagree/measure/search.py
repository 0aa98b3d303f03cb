"""Finds out whether a compiled program is wrong, where, and without which pass it is right."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from jaxlens import compat, progress
from jaxlens.call import isolate
from jaxlens.call.traceable import prepare
from jaxlens.captures import Capture
from jaxlens.errors import LensError, UnavailableError
from jaxlens.ir.hlo.passes import START
from jaxlens.ir.jaxpr.bodies import bodies, opened
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.questions.disagree.disagreement import CheckedResult, ReducedProgram
from jaxlens.questions.disagree.measure.cut import Cut, recorded, smallest
from jaxlens.questions.disagree.measure.judge import ResultJudge
from jaxlens.questions.numerics.rounding import BITS
from jaxlens.questions.variants.measure.reproducer import written_for
from jaxlens.questions.variants.reproduced import Reproducer
from jaxlens.stages.child.recompile import outputs_without
from jaxlens.stages.compile.xla_options import xla_flags
from jaxlens.stages.driver import prepared
from jaxlens.stages.session.running import Running

_BUDGET = 100  # programs that are compiled to cut one down
_FLAGS = {"cpu": ("xla_backend_optimization_level=0", "xla_cpu_use_fusion_emitters=false")}


@dataclass(frozen=True, slots=True)
class FoundPart:
    """What was found in a program.

    Attributes:
        results: The program's results.
        part: A small part that is wrong.
        why: Why there is none; "" where nothing is wrong.
        trials: Whether the part is right, by what was left out.
        capture: The part as a program.
        right: Its results op by op, each with the error relative to the value that rounding
            explains; None for no error.
    """

    results: tuple[CheckedResult, ...]
    part: ReducedProgram | None = None
    why: str = ""
    trials: Mapping[str, bool | None] = field(default_factory=dict)
    capture: Capture | None = None
    right: Sequence[tuple[Any, float | None]] = ()

    def reproducer(self, path: str) -> Reproducer:
        """Returns a file that compiles and runs the part, and says whether it is wrong.

        Args:
            path: Where it is written; "" for nowhere.

        Raises:
            UnavailableError: The part calls Python.
            OptionError: The file cannot be written.
        """
        assert self.capture is not None
        return written_for(self.capture, path, True, self.right)


def disagreement(live: Running) -> FoundPart:
    """Compares a program as compiled with op by op, and cuts it down where that is wrong.

    Raises:
        OptionError: An argument is a shape without data.
        UnavailableError: The program cannot run here, or has an `io_callback`.
    """
    with live.measuring("compiled, op by op and in float64", "--miscompile") as (closed, leaves):
        live.check_effects("--miscompile runs the program in several ways")
        options = dict(compat.options_of(live.staging.lowered) or ())
        made = jax.tree.leaves(live.run(1).outputs)
        with isolate.untouched(isolate.context()), compat.persistent_cache_off():
            args = [jax.numpy.asarray(x) for x in leaves]
            results = ResultJudge(closed, args)(made)
            if not any(result.wrong for result in results):
                return FoundPart(results)
            return _part(closed, args, results, options)


def _part(
    closed: Any, args: Sequence[Any], results: tuple[CheckedResult, ...], options: dict[str, Any]
) -> FoundPart:
    known = bodies(opened(closed))
    number, last = 0, ""

    def fails(trial: Cut) -> bool:
        nonlocal number, last
        if number >= _BUDGET:
            return False
        number += 1
        last = f"{number} of at most {_BUDGET} compiles, {len(trial.steps):,} equations"
        try:
            return any(
                one.wrong for one in ResultJudge(trial.closed(), trial.inputs).compiled(options)
            )
        except LensError:
            raise
        except Exception:  # whatever JAX, or a primitive of the user's, says of such a part
            return False

    with progress.step("jaxlens cuts down what is compiled wrongly", lambda: last):
        cut = recorded(closed, args, known)
        if not fails(cut):
            text = (
                "compiled again from its equations it is right, so that donated arguments, where "
            )
            return FoundPart(results, why=f"{text}they are, or its jit may make the difference")
        wrong = (n for n, one in zip(cut.results, results, strict=True) if one.wrong)
        fewer = cut.only([n for n in wrong if isinstance(n, int)])
        cut = smallest(fewer if fails(fewer) else cut, fails, known)
    complete = number < _BUDGET
    judge = ResultJudge(cut.closed(), cut.inputs)
    checked = judge.compiled(options)
    part = ReducedProgram(
        cut.paths,
        tuple(step.eqn.primitive.name for step, _ in cut.steps),
        tuple(str(type_of(x)) for x in cut.inputs),
        checked,
        number,
        complete,
    )
    function = jax.jit(cut.function(), compiler_options=options or None)
    capture = Capture(*prepared(prepare(function, cut.inputs, {}, "reduced"), None, ()))
    trials = _trials(capture, judge, options)
    right = [
        (value, None if one.allowed is None else one.allowed * 2.0 ** (1 - BITS.get(one.dtype, 53)))
        for value, one in zip(judge.values, checked, strict=True)
    ]
    return FoundPart(results, part, "", trials, capture, right)


def _names(capture: Capture, options: Mapping[str, Any]) -> Iterator[str]:
    """Yields what is changed in turn: flags to other values, and a pass each left out."""
    yield from _FLAGS.get(capture.program.target.platform, ())
    pairs = [flag.partition("=")[::2] for flag in xla_flags()]
    for name, value in (*pairs, *options.items()):
        if (text := str(value or "true").lower()) in ("true", "false"):
            yield f"{name}={str(text == 'false').lower()}"
    try:
        changed = dict.fromkeys(p.name for p in capture.passes if p.changed and p.name != START)
    except UnavailableError:
        return
    yield from changed


def _trials(
    capture: Capture, judge: ResultJudge, options: Mapping[str, Any]
) -> dict[str, bool | None]:
    """Compiles a part in another process: as it is, and if that is wrong, with each change."""
    trials = {"": _is_right(capture, judge, "")}
    if trials[""] is False:
        trials |= {name: _is_right(capture, judge, name) for name in _names(capture, options)}
    return trials


def _is_right(capture: Capture, judge: ResultJudge, name: str) -> bool | None:
    try:
        made = outputs_without(capture, name)
    except LensError:  # XLA does not compile it so
        return None
    return not any(one.wrong for one in judge(made))
