"""Finds the equation that made the first NaN or infinity of a result (`FirstNan` has the rule)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from jaxlens.captures import Capture
from jaxlens.ir.graph import Value
from jaxlens.program.lines import owners
from jaxlens.questions.nan.first_nan import FirstNan
from jaxlens.questions.nan.walk import Walker


def facts(capture: Capture) -> FirstNan:
    """Runs a program with measurements, and follows what is not finite back to its origin.

    Raises:
        UnavailableError: It cannot be run here.
    """
    module = capture.jaxpr.module
    live = capture.driver.live()  # raises before JAX is imported
    from jaxlens.questions.nan.measure.diagnose import Diagnosis
    from jaxlens.questions.nan.measure.nonfinite import measure_nonfinite

    run = measure_nonfinite(live)
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
    answer = FirstNan(kind, run, origins.way, others, arguments, _subject=capture)
    if arguments or not origins.makers:
        return replace(
            answer,
            gradient=diagnosis.first_gradient_line(origins.way),
            unseen=diagnosis.maker(unseen, run.nan) if unseen else None,
        )
    makers = tuple(sorted(origins.makers, key=diagnosis.in_gradient))  # stable: by execution
    path = makers[0]
    maker, infinity_maker = diagnosis.maker(path, nonfinite, origins.way), None
    if kind == "nan":
        infinity_maker, inputs = diagnosis.find_infinity_source(path, origins.way)
        answer = replace(answer, infinity_maker=infinity_maker, infinity_arguments=named(inputs))
    treated = maker if maker.reason.cure or infinity_maker is None else infinity_maker
    trial = None
    if treated.reason.cure and treated.reason.can_be_tried:
        trial = diagnosis.trial(makers, kind, guard_infinity_source=treated is infinity_maker)
    read = walker.operands(path) if path in nonfinite.executions else []
    inputs = walker.inputs_of(read)
    return replace(answer, maker=maker, inputs=named(inputs), makers=makers, trial=trial)


def _input_names(capture: Capture, parameters: Sequence[Value]) -> list[str]:
    names = [leaf.name for leaf in capture.program.inputs]
    types = [value.type for value in parameters[: len(parameters) - len(names)]]
    captured = [f"{constant.name} (captured)" for constant in capture.constants]
    if [constant.type for constant in capture.constants] != types:  # bodies hold some of them
        captured = [f"constant {n}" for n in range(len(types))]
    return captured + names
