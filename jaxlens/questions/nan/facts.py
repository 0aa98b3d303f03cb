"""The equation that made the first NaN or infinity of a result, and what it is computed from."""

from collections.abc import Sequence

from jaxlens.captures import Capture
from jaxlens.ir.graph import Value
from jaxlens.program.lines import owners
from jaxlens.program.subject import subject_of
from jaxlens.questions.nan.first_nan import FirstNan, Kind
from jaxlens.questions.nan.look import Look
from jaxlens.questions.nan.walk import Walker
from jaxlens.taps.executions import Path


def facts(capture: Capture) -> FirstNan:
    """Runs a program once with measurements, and follows what is not finite back to its origin.

    Raises:
        UnavailableError: It cannot be run here.
    """
    subject = subject_of(capture, "jaxpr")
    module = subject.jaxpr.module
    live = capture.driver.live()  # raises before JAX is imported
    from jaxlens.questions.nan.measure.runs import nonfinite

    run = nonfinite(live)
    walker = Walker(module)
    look = Look(capture, walker, owners(module), run)
    names = _inputs(capture, module.body().parameters)
    kind: Kind = "nan" if run.nan_results else "inf" if run.inf_results else ""
    nan = kind == "nan"
    had = look.kind(nan=nan)
    results = run.nan_results if nan else run.inf_results
    origins = walker.back(walker.results(results, had), had)
    bad_inputs = had.inputs & origins.inputs if kind else frozenset()
    paths = _makers_of_nan(look)
    every = tuple(path[-1] for path in paths)
    if not kind or bad_inputs or not origins.makers:
        arguments = tuple(names[n] for n in sorted(bad_inputs))
        backward = [look.derives(path) for path in origins.way]
        span = look.span(origins.way[backward.index(True)]) if True in backward[-1:] else None
        return FirstNan(
            kind,
            None,
            None,
            arguments,
            (),
            origins.way,
            every,
            run,
            gradient=span,
            unseen=look.maker(paths[0], nan=True) if paths and not kind else None,
            _subject=subject,
        )
    # What a derivative made says less than what the forward pass made, and may stand before it.
    makers = tuple(sorted(origins.makers, key=look.derives))
    path = makers[0]
    maker = look.maker(path, origins.way, nan=nan)
    infinity, infinite = look.infinity(path, origins.way) if nan else (None, frozenset())
    inputs = walker.all_inputs(walker.operands(path))
    reached = {maker[-1] for maker in makers}
    others = tuple(ident for ident in every if ident not in reached)
    cured = maker if maker.reason.cure or infinity is None else infinity
    trial = None
    if cured.reason.cure and cured.reason.guard:
        trial = look.trial(makers, nan=nan, infinity=cured is infinity)
    return FirstNan(
        kind,
        maker,
        infinity,
        (),
        tuple(names[n] for n in sorted(inputs)),
        origins.way,
        others,
        run,
        makers,
        trial,
        tuple(names[n] for n in sorted(infinite)),
        _subject=subject,
    )


def _inputs(capture: Capture, parameters: Sequence[Value]) -> list[str]:
    names = [leaf.name for leaf in capture.program.inputs]
    types = [value.type for value in parameters[: len(parameters) - len(names)]]
    captured = [f"{constant.name} (captured)" for constant in capture.constants]
    if [constant.type for constant in capture.constants] != types:  # bodies hold some of them
        captured = [f"constant {n}" for n in range(len(types))]
    return captured + names


def _makers_of_nan(look: Look) -> tuple[Path, ...]:
    """Returns the equations that made NaN of operands without, in program order."""
    kind, walker = look.kind(nan=True), look.walker
    made = {
        path[-1]: path
        for path in look.run.nan
        if not any(walker.has(spot, kind) for spot in walker.before(path, kind))
    }
    return tuple(made[ident] for ident in sorted(made, key=lambda ident: int(ident[1:])))
