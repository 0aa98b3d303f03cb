"""Finds the equation that made the first NaN or infinity of a result (`FirstNan` has the rule)."""

from collections.abc import Iterable, Sequence

from jaxlens.captures import Capture
from jaxlens.ir.graph import Value
from jaxlens.program.lines import owners
from jaxlens.program.subject import subject_of
from jaxlens.questions.nan.first_nan import FirstNan
from jaxlens.questions.nan.walk import Walker


def facts(capture: Capture) -> FirstNan:
    """Runs a program with measurements, and follows what is not finite back to its origin.

    Raises:
        UnavailableError: It cannot be run here.
    """
    subject = subject_of(capture, "jaxpr")
    module = subject.jaxpr.module
    live = capture.driver.live()  # raises before JAX is imported
    from jaxlens.questions.nan.measure import runs
    from jaxlens.questions.nan.measure.diagnose import Diagnosis

    run = runs.nonfinite(live)
    walker = Walker(module)
    diagnosis = Diagnosis(live, walker, owners(module), run)
    names = _input_names(capture, module.body().parameters)

    def named(indices: Iterable[int]) -> tuple[str, ...]:
        return tuple(names[n] for n in sorted(indices))

    nonfinite = run.of_results()
    kind = nonfinite.name if nonfinite.results else ""
    origins = walker.trace_origins(nonfinite, walker.results(nonfinite))
    arguments = named(nonfinite.inputs & origins.inputs)
    nan_makers = diagnosis.nan_makers()
    unseen = nan_makers[0] if nan_makers and not kind else ()
    told = {path[-1] for path in (*origins.makers, unseen) if path}
    others = tuple(path[-1] for path in nan_makers if path[-1] not in told)
    if arguments or not origins.makers:
        return FirstNan(
            kind,
            None,
            None,
            arguments,
            (),
            origins.way,
            others,
            run,
            gradient=diagnosis.first_gradient_line(origins.way),
            unseen=diagnosis.maker(unseen, run.nan) if unseen else None,
            _subject=subject,
        )
    makers = tuple(sorted(origins.makers, key=diagnosis.in_gradient))  # stable: by execution
    path = makers[0]
    maker = diagnosis.maker(path, nonfinite, origins.way)
    infinity_maker, infinity_inputs = (
        diagnosis.find_infinity_source(path, origins.way) if kind == "nan" else (None, ())
    )
    treated = maker if maker.reason.cure or infinity_maker is None else infinity_maker
    trial = None
    if treated.reason.cure and treated.reason.can_be_tried:
        trial = diagnosis.trial(makers, kind, guard_infinity_source=treated is infinity_maker)
    return FirstNan(
        kind,
        maker,
        infinity_maker,
        (),
        named(walker.inputs_of(walker.operands(path)) if path in nonfinite.executions else ()),
        origins.way,
        others,
        run,
        makers,
        trial,
        named(infinity_inputs),
        _subject=subject,
    )


def _input_names(capture: Capture, parameters: Sequence[Value]) -> list[str]:
    names = [leaf.name for leaf in capture.program.inputs]
    types = [value.type for value in parameters[: len(parameters) - len(names)]]
    captured = [f"{constant.name} (captured)" for constant in capture.constants]
    if [constant.type for constant in capture.constants] != types:  # bodies hold some of them
        captured = [f"constant {n}" for n in range(len(types))]
    return captured + names
