"""What large programs cost: from traced to the first HTML of `%%jaxpr`.

    python -m tests.bench.bench_scale [--rounds 3] [--most 100000]

Straight lines of 1,000, 10,000 and 100,000 equations, and train steps of unrolled layers. "first"
begins when JAX has traced and ends with the whole HTML; "asked" is what a live kernel then takes
for lines that somebody scrolls to. "model" is what the columns take beyond what JAX holds.
`bench_table.py` has the same beside other tools.
"""

import gc
import itertools
import math
import statistics
import tracemalloc

from tests.bench.turns import options, rotated, seconds
from tests.support import programs

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


def ours(name: str) -> dict[str, float]:
    """One look at a fresh trace."""
    import jaxlens
    from jaxlens.ir.columns import columns
    from jaxlens.render.document import Listing, Tabs

    f, args = made(name)
    capture = jaxlens.capture(f, *args)
    trace = seconds(lambda: capture.jaxpr).cpu
    first = seconds(lambda: jaxlens.jaxpr(capture).html()).cpu
    view, program = jaxlens.jaxpr(capture), columns(capture.jaxpr.module)
    tabs = next(b for b in view.document.blocks if isinstance(b, Tabs))
    listing = next(b for tab in tabs.tabs for b in tab.blocks if isinstance(b, Listing))
    middle = len(listing.more) // 2
    asked = seconds(lambda: tuple(listing.more[middle : middle + ASKED])).cpu
    model = 0
    for region in program.regions.values():
        per_step = (region.kind, region.place, region.first_result, region.first_operand)
        arrays = (*per_step, region.distance, region.types)
        model += sum(len(column) * column.itemsize for column in arrays)
    return {
        "eqns": len(program),
        "trace": trace,
        "first": first,
        "html": len(view.html()),
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


def exponent(small: dict[str, float], large: dict[str, float], key: str) -> float:
    """How a figure grows with the number of equations: 1 is linear."""
    return math.log(large[key] / small[key]) / math.log(large["eqns"] / small["eqns"])


def main() -> None:
    given = options(__doc__, rounds=3, most=100_000)
    names = rows(given.most)
    ours("gpt, 3 layers")  # warms what is not the program's
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for turn in range(given.rounds):
        for name in rotated(names, turn):
            runs[name].append(ours(name))
    found = {
        name: {key: statistics.median(run[key] for run in every) for key in every[0]}
        for name, every in runs.items()
    }
    table(found, {name: peak(name) for name in names})


def table(found: dict[str, dict[str, float]], peaks: dict[str, float]) -> None:
    print("CPU seconds; aim: first <= 0.10 x trace + 0.1 s")
    head = "program", "eqns", "trace", "first", "aim", "ratio", "HTML kB", "peak MB", "model B/eqn"
    row = "{:<20}{:>9}{:>9}{:>9}{:>9}{:>8}{:>9}{:>9}{:>13}{:>14}"
    print(row.format(*head, f"{ASKED} asked ms"))
    for name, f in found.items():
        trace, first = f["trace"], f["first"]
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
            )
        )
    for kind in ("line", "gpt"):
        same = [f for name, f in found.items() if name.startswith(kind)]
        for small, large in itertools.pairwise(same):
            sizes = f"{small['eqns']:,.0f} to {large['eqns']:,.0f}"
            print(f"{kind}: growth from {sizes}: n^{exponent(small, large, 'first'):.2f}")


if __name__ == "__main__":
    main()
