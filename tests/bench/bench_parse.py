"""How fast HLO text is read, beside jaxlib's own parser, as ratios in one run.

    python -m tests.bench.bench_parse [--layers 4] [--rounds 7]

Both sides read the same text in one process ("parse"). jaxlib reads all of it; ours finds the
computations and reads them when they are looked at, so "visit" adds a visit of every
instruction's name, opcode and operands on both sides, and "in full" sets a visit with types,
scopes and frames, which jaxlib's objects do not give, against jaxlib's plain visit.
"""

from collections.abc import Callable
from functools import partial

import jax
from jaxlib import _hlo

from jaxlens.ir.hlo import reader as hlo
from tests.bench.turns import options, ratio
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


def theirs(text: str) -> None:
    for computation in _hlo.hlo_module_from_text(text).computations():
        for instruction in computation.instructions():
            _ = instruction.name, instruction.opcode, instruction.operands()


def ours(text: str) -> None:
    for node in hlo.read(text).nodes():
        _ = node.id, node.opcode, node.operands


def ours_in_full(text: str) -> None:
    for node in hlo.read(text).nodes():
        _ = node.id, node.opcode, node.operands, node.type, node.scope, node.spans


RUNS: dict[str, tuple[Callable[[str], object], Callable[[str], object]]] = {
    "parse": (hlo.read, _hlo.hlo_module_from_text),
    "visit": (ours, theirs),
    "in full": (ours_in_full, theirs),
}


def main() -> None:
    given = options(__doc__, layers=4, rounds=7)
    for name, text in texts(given.layers).items():
        n = sum(1 for _ in hlo.read(text).nodes())
        print(f"{name}: {len(text) / 1e6:.2f} MB, {n:,} instructions; jaxlens, jaxlib")
        for what, sides in RUNS.items():
            ratio(what, *(partial(side, text) for side in sides), given.rounds)


if __name__ == "__main__":
    main()
