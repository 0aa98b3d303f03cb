"""What each verb costs beside the bare JAX calls that it needs, as ratios in one run.

    python -m tests.bench.bench_verbs [--layers 12] [--rounds 5] [--verb compile]

Both sides do the same work on a function object that JAX has not seen: the bare side traces
and prints, or traces and lowers, or traces, lowers and compiles with no dumps; ours makes the
verb's text and HTML on top. The order rotates from round to round, the garbage collector runs
between measurements and not in them, and the figures are medians of CPU seconds (all
threads of the process), since a shared machine's clock says little.
"""

import argparse
import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import jax

import jaxlens
from jaxlens.render.graph.layout import arranged, layout
from tests.support import programs


def fresh(f):
    """The same function as a new object, so that no cache of JAX's knows it."""
    return lambda *args: f(*args)


def bare_jaxpr(f, args):
    str(jax.jit(fresh(f)).trace(*args).jaxpr)


def bare_lower(f, args):
    jax.jit(fresh(f)).trace(*args).lower().as_text()


def bare_compile(f, args):
    # An option that differs each time keeps XLA's in-process cache out, as a fresh dump
    # folder does on our side; it dumps nothing.
    jax.jit(fresh(f)).trace(*args).lower().compile(compiler_options=next(_UNSEEN))


def _unseen():
    number = 1_000
    while True:
        number += 1
        yield {"xla_dump_max_hlo_modules": number}


_UNSEEN = _unseen()


def shown(view) -> None:
    view._repr_mimebundle_()


def ours_jaxpr(f, args):
    shown(jaxlens.jaxpr(fresh(f), *args))


def ours_jaxpr_text(f, args):
    shown(jaxlens.jaxpr(jaxlens.capture(fresh(f), *args), text=True))


def ours_stablehlo(f, args):
    shown(jaxlens.hlo(jaxlens.capture(fresh(f), *args), stage="stablehlo"))


def ours_hlo(f, args):
    shown(jaxlens.hlo(fresh(f), *args))


def ours_compile(f, args):
    shown(jaxlens.compile(fresh(f), *args))


PAIRS: dict[str, tuple[Callable, Callable, str]] = {
    "%%jaxpr": (ours_jaxpr, bare_jaxpr, "trace + str"),
    "%%jaxpr --text": (ours_jaxpr_text, bare_jaxpr, "trace + str"),
    "%%hlo --stage stablehlo": (ours_stablehlo, bare_lower, "trace + lower + text"),
    "%%compile": (ours_compile, bare_compile, "trace + lower + compile"),
    "%%hlo": (ours_hlo, bare_compile, "trace + lower + compile"),
}


def seconds(task: Callable, f, args) -> float:
    layout.cache_clear()  # a user's program has not been drawn before
    arranged.cache_clear()
    gc.collect()
    gc.disable()
    start = time.process_time()
    task(f, args)
    taken = time.process_time() - start
    gc.enable()
    return taken


def compare(name: str, f, args, rounds: int, only: str) -> None:
    for verb, (ours, bare, needs) in PAIRS.items():
        if only not in verb:
            continue
        times: dict[Callable, list[float]] = {ours: [], bare: []}
        for index in range(rounds + 1):
            for task in (ours, bare) if index % 2 else (bare, ours):
                taken = seconds(task, f, args)
                if index:  # the first round warms caches that are not the program's
                    times[task].append(taken)
        a, b = statistics.median(times[ours]), statistics.median(times[bare])
        print(
            f"{name:<15}{verb:<26}{a * 1e3:>11,.1f} ms {b * 1e3:>11,.1f} ms"
            f"{a / b:>8.2f}x {(a - b) * 1e3:>+10,.1f} ms   {needs}",
            flush=True,
        )


def extension_load(rounds: int) -> None:
    """What `%load_ext jaxlens` adds to a process that has imported jax: wall milliseconds."""
    code = (
        "import jax, time; from IPython.core.interactiveshell import InteractiveShell as S;"
        "shell = S.instance(); start = time.perf_counter();"
        "shell.run_line_magic('load_ext', 'jaxlens'); print((time.perf_counter() - start) * 1e3)"
    )
    runs = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(rounds)
    ]
    print(f"%load_ext jaxlens after `import jax`: {statistics.median(runs):.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large-rounds", type=int, default=3)
    parser.add_argument("--verb", default="", help="measure only verbs with this in their name")
    options = parser.parse_args()
    print(f"jax {jax.__version__}, {jax.default_backend()}, medians of CPU time")
    print(f"{'program':<15}{'verb':<26}{'ours':>14} {'bare':>14}{'ratio':>9} {'more':>13}")
    if not options.verb:
        extension_load(options.rounds)
    compare("MLP step", *programs.mlp_step(), options.rounds, options.verb)
    large = programs.gpt_step(layers=options.layers)
    compare(f"GPT, {options.layers} layers", *large, options.large_rounds, options.verb)


if __name__ == "__main__":
    main()
