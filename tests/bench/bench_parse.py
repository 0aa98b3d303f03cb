"""How fast HLO text is read, beside jaxlib's own parser, as ratios in one run.

    python -m tests.bench.bench_parse [--layers 4] [--rounds 7]

Both sides read the same text in one process ("parse"). jaxlib reads all of it; ours finds the
computations and reads them when they are looked at, so "visit" adds a visit of every
instruction's name, opcode and operands on both sides, and "in full" sets a visit with types,
scopes and frames, which jaxlib's objects do not give, against jaxlib's plain visit. The
order rotates from round to round, the garbage collector runs between measurements and not in
them, and the figures are medians of CPU seconds.
"""

import argparse
import gc
import statistics
import time
from collections.abc import Callable

import jax
from jaxlib import _hlo

from jaxlens.ir.hlo import reader as hlo
from tests.support import programs


def texts(layers: int) -> dict[str, str]:
    """HLO before and after optimisation of a train step."""
    f, args = programs.gpt_step(layers)
    lowered = jax.jit(f).lower(*args)
    module = lowered.compiler_ir("hlo")
    return {
        "before optimisation": lowered.as_text(dialect="hlo"),
        "with metadata": module.as_hlo_module().to_string(),
        "optimised": lowered.compile().as_text(),
    }


def by_jaxlib(text: str) -> object:
    return _hlo.hlo_module_from_text(text)


def theirs_visited(text: str) -> int:
    n = 0
    for computation in _hlo.hlo_module_from_text(text).computations():
        for instruction in computation.instructions():
            n += len((instruction.name, instruction.opcode, instruction.operands()))
    return n


def ours(text: str) -> object:
    return hlo.read(text)


def ours_visited(text: str) -> int:
    n = 0
    for node in hlo.read(text).nodes():
        n += len((node.id, node.opcode, node.operands))
    return n


def ours_in_full(text: str) -> int:
    n = 0
    for node in hlo.read(text).nodes():
        n += len((node.id, node.opcode, node.operands, node.type, node.scope, node.spans))
    return n


RUNS: dict[str, Callable[[str], object]] = {
    "jaxlib": by_jaxlib,
    "jaxlib, visited": theirs_visited,
    "jaxlens": ours,
    "jaxlens, visited": ours_visited,
    "jaxlens, in full": ours_in_full,
}


def measure(text: str, rounds: int) -> dict[str, float]:
    """Median CPU seconds of each run."""
    seconds: dict[str, list[float]] = {name: [] for name in RUNS}
    names = list(RUNS)
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            gc.collect()
            start = time.process_time()
            kept = RUNS[name](text)
            took = time.process_time() - start
            del kept
            if turn:  # the first round warms up
                seconds[name].append(took)
    return {name: statistics.median(found) for name, found in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(
        f"gpt_step({options.layers}), jax {jax.__version__}, median CPU seconds of {options.rounds}"
    )
    row = "{:<22}{:>7}{:>14}{:>10}{:>10}{:>9}{:>9}{:>9}"
    print(
        row.format("text", "MB", "instructions", "jaxlib", "jaxlens", "parse", "visit", "in full")
    )
    for name, text in texts(options.layers).items():
        figures = measure(text, options.rounds)
        n = sum(1 for _ in hlo.read(text).nodes())
        print(
            row.format(
                name,
                f"{len(text) / 1e6:.2f}",
                f"{n:,}",
                f"{figures['jaxlib']:.3f}",
                f"{figures['jaxlens']:.3f}",
                f"{figures['jaxlib'] / figures['jaxlens']:.2f}x",
                f"{figures['jaxlib, visited'] / figures['jaxlens, visited']:.2f}x",
                f"{figures['jaxlib, visited'] / figures['jaxlens, in full']:.2f}x",
            )
        )


if __name__ == "__main__":
    main()
