"""What large programs cost: from traced to the first HTML of `%%jaxpr`, beside jaxviz.

    python -m tests.bench.bench_scale [--rounds 3] [--most 100000] [--jaxviz PYTHON]

Straight lines of 1,000, 10,000 and 100,000 equations, and train steps of unrolled layers. All
figures are CPU seconds, medians over rounds whose order rotates; the garbage collector runs
between measurements and not in them. "first picture" begins when JAX has traced and ends with
the whole HTML; "asked" is what a live kernel then takes for lines that somebody scrolls to.
"model" is what the columns take beyond what JAX holds. jaxviz is measured if a Python that has
it is named; it runs in a process of its own on the same functions, traced beforehand.
"""

import argparse
import gc
import itertools
import json
import math
import statistics
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from tests.support import programs
from tests.support.paths import environment

LAYERS = {"gpt, 3 layers": 3, "gpt, 12 layers": 12, "gpt, 48 layers": 48}
ASKED = 200  # lines that a screen shows and what is about it


def made(name: str) -> programs.Program:
    """The function of a row, as a new object that no cache of JAX's knows."""
    kind, number, *_ = name.split()
    if kind == "line,":
        return programs.straight_line(int(number.replace(",", "")))
    return programs.gpt_step(int(number), width=16, length=8, vocab=32, biases=True)


def rows(most: int) -> list[str]:
    lines = [f"line, {n:,} eqns" for n in (1_000, 10_000, 100_000) if n <= most]
    return [*lines, *LAYERS]


def seconds(task: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of a task, without garbage collection, and what it gives."""
    gc.collect()
    gc.disable()
    start = time.process_time()
    found = task()
    taken = time.process_time() - start
    gc.enable()
    return taken, found


def ours(name: str) -> dict[str, float]:
    """One look at a fresh trace."""
    import jaxlens
    from jaxlens.ir.columns import columns
    from jaxlens.render.document import Listing, Tabs
    from jaxlens.render.graph.layout import arranged, layout

    layout.cache_clear()  # a user's program has not been drawn before
    arranged.cache_clear()
    f, args = made(name)
    capture = jaxlens.capture(f, *args)
    trace, stage = seconds(lambda: capture.jaxpr)
    first, html = seconds(lambda: jaxlens.jaxpr(capture).html())
    program = columns(stage.module)
    tabs = next(b for b in jaxlens.jaxpr(capture).document.blocks if isinstance(b, Tabs))
    listing = next(b for tab in tabs.tabs for b in tab.blocks if isinstance(b, Listing))
    middle = len(listing.more) // 2
    asked, _ = seconds(lambda: tuple(listing.more[middle : middle + ASKED]))
    model = 0
    for region in program.regions.values():
        per_step = (region.kind, region.place, region.first_result, region.first_operand)
        arrays = (*per_step, region.distance, region.types)
        model += sum(len(column) * column.itemsize for column in arrays)
    return {
        "eqns": len(program),
        "trace": trace,
        "first": first,
        "html": len(html),
        "asked": asked,
        "model": model / len(program),
    }


def peak(name: str) -> float:
    """Most memory held by a look, beyond what the trace holds, in bytes per equation."""
    import jaxlens

    f, args = made(name)
    capture = jaxlens.capture(f, *args)
    _ = capture.jaxpr  # traced before the count begins
    gc.collect()
    tracemalloc.start()
    jaxlens.jaxpr(capture).html()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


# Runs where jaxviz is. It traces for itself, so the time of a trace is taken off.
_THEIRS = """
import gc, json, time
import jax, jaxviz
from tests.support import programs
found = {{}}
for name in {names!r}:
    kind, number, *_ = name.split()
    number = int(number.replace(",", ""))
    if kind == "line,":
        f, args = programs.straight_line(number)
    else:
        f, args = programs.gpt_step(number, width=16, length=8, vocab=32, biases=True)
    start = time.process_time(); jaxpr = jax.make_jaxpr(f)(*args)
    trace = time.process_time() - start
    gc.collect(); gc.disable(); start = time.process_time()
    try:
        html = jaxviz.trace_model(lambda *given: f(*given), *args, return_html=True)
        found[name] = trace, max(0, time.process_time() - start - trace), len(html)
    except Exception as error:
        found[name] = trace, None, type(error).__name__ + ": " + str(error)[:80]
    gc.enable()
    print(json.dumps(found), flush=True)
"""


def theirs(python: str, names: list[str]) -> dict[str, Any]:
    """What jaxviz takes, by row."""
    code = _THEIRS.format(names=names)
    run = subprocess.run([python, "-c", code], capture_output=True, text=True, env=environment())
    if not run.stdout:
        print(f"jaxviz did not run: {run.stderr.strip().splitlines()[-1:]}")
        return {}
    found: dict[str, Any] = json.loads(run.stdout.strip().splitlines()[-1])
    return found


def exponent(small: dict[str, float], large: dict[str, float], key: str) -> float:
    """How a figure grows with the number of equations: 1 is linear."""
    return math.log(large[key] / small[key]) / math.log(large["eqns"] / small["eqns"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most", type=int, default=100_000)
    parser.add_argument("--jaxviz", default="", help="a Python that can import jaxviz")
    options = parser.parse_args()
    names = rows(options.most)
    ours("gpt, 3 layers")  # warms what is not the program's
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for turn in range(options.rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            runs[name].append(ours(name))
    found = {
        name: {key: statistics.median(run[key] for run in every) for key in every[0]}
        for name, every in runs.items()
    }
    other = theirs(options.jaxviz, names) if options.jaxviz else {}
    table(found, other, {name: peak(name) for name in names})


def table(
    found: dict[str, dict[str, float]], other: dict[str, Any], peaks: dict[str, float]
) -> None:
    import jax

    print(f"jax {jax.__version__}, medians of CPU seconds; aim: first <= 0.10 x trace + 0.1 s")
    head = "program", "eqns", "trace", "first", "aim", "ratio", "HTML kB", "peak MB", "model B/eqn"
    row = "{:<20}{:>9}{:>9}{:>9}{:>9}{:>8}{:>9}{:>9}{:>13}{:>12}   {}"
    print(row.format(*head, f"{ASKED} asked ms", "jaxviz: s, ratio, MB"))
    for name, f in found.items():
        trace, first = f["trace"], f["first"]
        theirs = other.get(name)
        beside = "-" if theirs is None else str(theirs[2])
        if theirs is not None and theirs[1] is not None:
            beside = f"{theirs[1]:.2f}, {theirs[1] / theirs[0]:.2f}x, {theirs[2] / 1e6:.1f}"
        print(
            row.format(
                name,
                f"{f['eqns']:,.0f}",
                f"{trace:.3f}",
                f"{first:.3f}",
                f"{0.1 * trace + 0.1:.3f}",
                f"{first / trace:.2f}x",
                f"{f['html'] / 1e3:,.0f}",
                f"{peaks[name] / 1e6:.1f}",
                f"{f['model']:.1f}",
                f"{f['asked'] * 1e3:.1f}",
                beside,
            )
        )
    for kind in ("line", "gpt"):
        same = [f for name, f in found.items() if name.startswith(kind)]
        for small, large in itertools.pairwise(same):
            sizes = f"{small['eqns']:,.0f} to {large['eqns']:,.0f}"
            print(f"{kind}: growth from {sizes}: n^{exponent(small, large, 'first'):.2f}")


if __name__ == "__main__":
    main()
