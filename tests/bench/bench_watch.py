"""What watching and recording cost: a served call, compiles, memory, and cells under %jaxlens on.

    python -m tests.bench.bench_watch

CPU seconds of the process, with a recording's thread, and of the job's own thread, which waits for
what is done in it. A job compiles for a part of its time only: the shares are those of a job of a
minute that compiles such a train step twice.
"""

import resource
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import count

import jax
import jax.numpy as jnp
import numpy as np
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import jaxlens
from jaxlens.questions.session.verbs import SessionWatch
from tests.bench.turns import Seconds, fresh, medians, options, rotated, seconds, turns
from tests.support import programs

CALLS, COMPILES, LAYERS, MINUTE = 20_000, 25, 8, 60.0
NUMBERS = count(9)  # for functions that were not compiled


@contextmanager
def answered() -> Iterator[None]:
    with jaxlens.recompiles() as log:
        yield
    str(log)


@contextmanager
def session() -> Iterator[None]:
    watch = SessionWatch()
    yield
    watch.cell_done()
    watch.stop()


@contextmanager
def recorded() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder, jaxlens.record(folder):
        yield


WAYS = {
    "bare": nullcontext,
    "in a watched block": jaxlens.recompiles,
    "its answer too": answered,
    "%jaxlens on": session,
    "recorded": recorded,
}


def within(way: str, work: Callable[[], object]) -> None:
    with WAYS[way]():
        work()


def served(rounds: int) -> dict[str, Seconds]:
    """Of a call that JAX's caches serve, once the watch is there."""
    f, x = jax.jit(lambda x: x + 1), jnp.ones(8)
    times: dict[str, list[Seconds]] = {way: [] for way in WAYS}
    f(x).block_until_ready()
    for turn in range(rounds):
        for way in rotated(list(WAYS), turn):
            with WAYS[way]():
                times[way].append(seconds(lambda: f(x), CALLS))
    return medians(times)


def small() -> None:
    """Compiles as many small programs as there are shapes."""
    f = jax.jit(lambda x: jnp.tanh(jnp.where(x > 0, x, 0) @ x.T).sum())
    for n in range(1, COMPILES + 1):
        f(np.ones((n, 4), np.float32))


def large() -> None:
    """Compiles a train step of some thousand equations."""
    f, args = programs.gpt_step(layers=LAYERS)
    jax.jit(fresh(f)).lower(*args).compile()


def compiled(work: Callable[[], None], rounds: int) -> dict[str, Seconds]:
    """Of compiles, from the beginning of the watch to its end."""

    def side(way: str) -> None:
        jax.clear_caches()
        within(way, work)

    return turns({way: lambda way=way: side(way) for way in WAYS}, rounds)


def cells(rounds: int) -> dict[str, Seconds]:
    """Of cells in IPython, with %jaxlens off and on.

    The threads in which XLA compiles take more, and vary more, than what is measured here.
    """
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    shell.run_cell("%load_ext jaxlens\nimport jax, numpy as np\nf = jax.jit(lambda x: x + 1)")
    shell.run_cell("keep = [jax.device_put(np.ones(8)) for _ in range(2_000)]\nx = keep[0]; f(x)")
    codes = {"1 + 1": (100, "1 + 1"), "a call that is served": (100, "f(x);")}
    codes["a small compile"] = (10, "jax.jit(lambda x: x * {})(x);")
    times: dict[str, list[Seconds]] = {f"{c}, {way}": [] for c in codes for way in ("off", "on")}
    with capture_output():
        for _ in range(rounds):
            for way in ("off", "on"):
                shell.run_cell(f"%jaxlens {way}")
                for code, (calls, text) in codes.items():
                    one = lambda text=text: shell.run_cell(text.format(next(NUMBERS)))  # noqa: E731
                    times[f"{code}, {way}"].append(seconds(one, calls))
    return medians(times)


def table(title: str, found: dict[str, Seconds], per: int = 1) -> None:
    print(f"{title:<40}{'all threads':>16}{'its thread':>16}")
    for way, taken in found.items():
        cpu, thread = (seconds / per * 1e3 for seconds in taken[:2])
        print(f"  {way:<38}{cpu:>13,.4f} ms{thread:>13,.4f} ms", flush=True)


def main() -> None:
    given = options(__doc__, rounds=5)
    small()
    large()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    within("recorded", large)
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{more / 1e3:.0f} MB more at most for a recording")
    table("a served call", served(given.rounds))
    table("a small compile", compiled(small, given.rounds), COMPILES)
    steps = compiled(large, given.rounds)
    table("a train step's compile", steps)
    for clock, name in enumerate(("all threads", "its thread")):
        share = 2 * (steps["recorded"][clock] - steps["bare"][clock]) / MINUTE
        print(f"a recorded minute with two such compiles: {share:.2%} of {name}")
    table("a cell", cells(given.rounds))


if __name__ == "__main__":
    main()
