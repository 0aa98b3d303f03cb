"""What `times` and `captured` cost beyond the compile that they look at, in CPU seconds.

    python -m tests.bench.bench_times [--layers 12]

A plain compile with the dumps that every look makes stands beside one under the profiler and one
with dumps of all passes; then what each lens makes of them, as a share of the plain compile.
"""

import argparse
import time
from collections.abc import Callable

import jaxlens
from jaxlens.program.equations import written_out
from jaxlens.questions.constants import facts as constants
from jaxlens.questions.constants.report import report as constants_report
from jaxlens.questions.times import report as times_report
from jaxlens.questions.times.facts import facts
from tests.support import programs


def taken(layers: int) -> jaxlens.Capture:
    """A train step, lowered and read as far as no compile is needed."""
    f, args = programs.gpt_step(layers=layers)
    cap = jaxlens.capture(lambda *a: f(*a), *args)
    assert cap.jaxpr.module
    assert cap.stablehlo.module
    return cap


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    layers = parser.parse_args().layers
    seconds(lambda: taken(1).optimized)  # warm
    plain, profiled, passes = taken(layers), taken(layers), taken(layers)
    base = seconds(lambda: plain.optimized.module)
    print(f"plain compile, read    {base:6.2f} s")
    for name, work in (
        ("profiled compile", lambda: (profiled.profile, profiled.optimized.module)),
        ("compile, all passes", lambda: (passes.passes, passes.optimized.module)),
        ("equations and loops", lambda: written_out(profiled)),
        ("times, the rest", lambda: times_report.report(facts(profiled))),
        ("captured", lambda: constants_report(constants.facts(passes))),
    ):
        spent = seconds(work)
        print(f"{name:<22} {spent:6.2f} s  {spent / base:6.1%} of the plain compile")


if __name__ == "__main__":
    main()
