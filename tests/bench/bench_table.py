"""The whole speed table in one run: a row for each figure that the project has a goal for.

    python -m tests.bench.bench_table [--rounds 3] [--layers 12] [--only NAME] [--write FILE]

With `--write notebooks/site/bench.md` it makes the site's page. Figures are of the wall clock, what
a user waits for, and need a machine with two idle cores; "CPU" marks seconds of all threads, which
tell how much work is hidden beside XLA's. JAX's own `jaxpr_to_html` (jax 0.12 and later) stands
beside ours where this jax has it.
"""

import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxlib import _hlo

import jaxlens
from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.needs import Needs
from jaxlens.questions.session.verbs import SessionWatch
from jaxlens.questions.timeline.measure.record import TimelineRecording
from jaxlens.questions.values.measure import Statistics
from jaxlens.taps.execute import CompiledPieces, execute
from tests.backend.test_output_size import sizes
from tests.bench.turns import fresh, options, rotated, seconds, turns
from tests.support import programs
from tests.support.paths import environment

LINES = 100_000


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    Attributes:
        what: What is measured.
        now: The figure.
        unit: "ms", "s", "kB", "x" (a ratio) or "%" (a share).
        goal: The most that the project allows.
        more: Further figures, in words.
    """

    what: str
    now: float
    unit: str
    goal: float
    more: str = ""

    def number(self, value):
        digits = 2 if self.unit in ("s", "x") else 1 if value < 10 else 0
        return f"{value:,.{digits}f}{' ' if self.unit != 'x' else ''}{self.unit}"


Rows = Iterator[Row]


def against(what, goal, ours, bare, rounds, unit="x", collects=False, **peers):
    """A row of two sides that take turns: their ratio, what ours adds in percent, or in ms."""
    found = turns({"ours": ours, "bare": bare, **peers}, rounds, collects=collects)

    def figure(side):
        taken, least = found[side].wall, found["bare"].wall
        by_unit = {"x": taken / least, "%": 100 * (taken / least - 1), "ms": 1e3 * (taken - least)}
        return by_unit[unit]

    milliseconds = " against ".join(f"{found[s].wall * 1e3:,.0f} ms" for s in ("ours", "bare"))
    row = Row(what, figure("ours"), unit, goal)
    beside = "".join(f"; {name} {row.number(figure(name))}" for name in peers)
    cpu = found["ours"].cpu / found["bare"].cpu
    return Row(what, row.now, unit, goal, f"{milliseconds}; CPU {cpu:.2f}x{beside}")


_UNSEEN = count(1_000)


def bare_jaxpr(f, args):
    str(jax.jit(fresh(f)).trace(*args).jaxpr)


def bare_compile(f, args):
    # An option that differs each time keeps XLA's in-process cache out, as a fresh dump
    # folder does on our side; it dumps nothing.
    unseen = {"xla_dump_max_hlo_modules": next(_UNSEEN)}
    jax.jit(fresh(f)).trace(*args).lower().compile(compiler_options=unseen)


def extension(rounds, layers):
    """Processes of their own, with compiled files, as an installed package has them."""
    code = (
        "import jax, time; from IPython.core.interactiveshell import InteractiveShell as S;"
        "shell = S.instance(); start = time.perf_counter();"
        "shell.run_line_magic('load_ext', 'jaxlens'); print(time.perf_counter() - start)"
    )
    run = [sys.executable, "-c", code]
    every = [
        float(subprocess.run(run, capture_output=True, check=True, env=environment()).stdout)
        for _ in range(rounds + 1)
    ]
    median = statistics.median(every[1:]) * 1e3
    yield Row("`%load_ext jaxlens` after `import jax`", median, "ms", 10)


def jaxpr(rounds, layers):
    """The page beside trace and print."""
    small = programs.mlp_step()
    scanned = programs.gpt_step(layers=48, scanned=True, biases=True)
    for what, unit, goal, (f, args), times in (
        ("44 equations, beyond trace and print", "ms", 8, small, rounds * 3),
        ("a scanned 48-layer step / its trace and print", "x", 1.2, scanned, rounds),
    ):
        ours, bare = partial(ours_of, jaxlens.jaxpr, f, args), partial(bare_jaxpr, f, args)
        yield against(f"`%%jaxpr` of {what}", goal, ours, bare, times, unit, **own_html(f, args))


def ours_of(verb, f, args):
    verb(fresh(f), *args)._repr_mimebundle_()


def own_html(f, args):
    """JAX's own HTML of a jaxpr, where this version has it: trace and page."""
    try:
        from jax._src.jaxpr_util import jaxpr_to_html
    except ImportError:
        return {}
    page = lambda: jaxpr_to_html(jax.jit(fresh(f)).trace(*args).jaxpr.jaxpr)  # noqa: E731
    return {"JAX's `jaxpr_to_html`": page}


def compiles(rounds, layers):
    """The verbs beside the bare compile."""
    large, small = programs.gpt_step(layers=layers), programs.mlp_step()
    for verb, name, (f, args), goal, times in (
        (jaxlens.hlo, f"the {layers}-layer step", large, 1.10, rounds),
        (jaxlens.compile, f"the {layers}-layer step", large, 1.05, rounds),
        (jaxlens.explore, "44 equations", small, 1.3, rounds * 3),
    ):
        what = f"`%%{verb.__name__}` of {name} / the compile"
        ours, bare = partial(ours_of, verb, f, args), partial(bare_compile, f, args)
        yield against(what, goal, ours, bare, times)


LENSES = {
    "tape": lambda cap, f, args: str(jaxlens.tape(fresh(f), *args)),
    "key": lambda cap, f, args: str(jaxlens.key(fresh(f), *args)),
    "compare": lambda cap, f, args: str(jaxlens.compare(cap, cap)),
    "receipt": lambda cap, f, args: jaxlens.receipt(cap).stable,
    **{
        name: lambda cap, f, args, name=name: str(getattr(jaxlens, name)(cap))
        for name in ("fusion", "memory", "cost", "sharding", "captured", "times")
    },
}
FATES = "all fates"


def lenses(rounds, layers):
    """What each lens costs beside the compile that it asks about.

    A round makes a capture that JAX has not seen, compiles it under the profiler with the dumps of
    all passes, reads its stages and links, which all lenses share, and then asks one lens after
    another. Of the tape, which traces by itself, a bare trace is taken off.
    """
    f, args = programs.gpt_step(layers=layers)
    times = defaultdict(list)
    for turn in range(rounds):
        bare, cap = jax.jit(fresh(f)), jaxlens.capture(fresh(f), *args)
        steps = {
            "trace": lambda: jax.jit(fresh(f)).trace(*args),
            "compile": lambda bare=bare: bare.trace(*args).lower().compile(),
            "": lambda cap=cap: cap.gather(Needs(compiled=True, passes=True, profile=True)),
            FATES: lambda cap=cap: cap.links.fates(),
            " ": lambda cap=cap: cap.links.coverage(),
        }
        for name in rotated(list(LENSES), turn * 3):
            steps[name] = partial(LENSES[name], cap, f, args)
        for name, task in steps.items():
            traced = times["trace"][-1] if name == "tape" else 0
            times[name].append(seconds(task).cpu - traced)
    median = {name: statistics.median(every) for name, every in times.items()}
    yield Row(f"{FATES} of the {layers}-layer step", median[FATES], "s", 0.5, "CPU")
    for name in LENSES:
        share = 100 * median[name] / median["compile"]
        goal = 5 if name in ("compare", "tape") else 10
        yield Row(f"`{name}` of the {layers}-layer step / a compile", share, "%", goal, "CPU")


def large(rounds, layers):
    """A long straight line, whose trace is no part of the figure."""

    def first():
        f, args = programs.straight_line(LINES)
        capture = jaxlens.capture(f, *args)
        _ = capture.jaxpr
        return seconds(lambda: jaxlens.jaxpr(capture).html()).cpu

    now = statistics.median(first() for _ in range(rounds))
    yield Row(f"{LINES:,} equations, traced to first picture", now, "s", 0.43, "CPU")


def reading(rounds, layers):
    """HLO text in full, with types, scopes and frames, beside jaxlib's parser without them."""
    f, args = programs.gpt_step(layers)
    text = jax.jit(f).lower(*args).compile().as_text()

    def theirs():
        for computation in _hlo.hlo_module_from_text(text).computations():
            for instruction in computation.instructions():
                _ = instruction.name, instruction.opcode, instruction.operands()

    def ours():
        for node in hlo.read(text).nodes():
            _ = node.id, node.opcode, node.operands, node.type, node.scope, node.spans

    yield against("optimised HLO read in full / by jaxlib's parser", 1, ours, theirs, rounds * 2)


def saved(rounds, layers):
    """Bytes of outputs."""
    f, args = programs.mlp_step()
    cap = jaxlens.capture(f, *args)
    for verb in (jaxlens.jaxpr, jaxlens.hlo, jaxlens.compile, jaxlens.explore):
        whole, own = sizes(verb(cap).html())
        what = f"output of `%%{verb.__name__}` in a saved notebook, 44 equations, beside assets"
        yield Row(what, own / 1e3, "kB", 60, f"{whole / 1e3:,.0f} kB with assets")


def without(rounds, layers):
    """A compile more."""
    f, args = programs.mlp_step()
    cap = jaxlens.capture(fresh(f), *args)
    cap.gather(Needs(compiled=True))
    tried = seconds(lambda: str(jaxlens.compare(cap, jaxlens.without(cap, "fusion")))).wall
    yield Row("`--without` of a small program", tried, "s", 3)


def values(rounds, layers):
    """A run with measurements once all is compiled, of a small step and of one that computes."""
    for name, sizes_of, times in (
        (f"the {layers}-layer step", {}, rounds * 5),
        (f"the {layers}-layer step with width 512", {"width": 512, "length": 256}, rounds),
    ):
        f, args = programs.gpt_step(layers=layers, **sizes_of)
        traced = jax.jit(fresh(f)).trace(*args)
        program, kept = traced.lower().compile(), CompiledPieces()
        probe = Statistics(wide=False, has_integers=True)
        leaves = jax.tree.leaves(args)
        measured = partial(execute, traced.jaxpr, probe, leaves, compiled=kept)
        bare = lambda program=program, args=args: jax.block_until_ready(program(*args))  # noqa: E731
        what = f"a run with the measurements of `%%check --values`, compiled, of {name} / a run"
        yield against(what, 2, measured, bare, times)


def timeline(rounds, layers):
    """A training loop that waits for its loss, while it is recorded; reading comes after it."""
    f, args = programs.gpt_step(layers=layers)
    step = jax.jit(fresh(f))
    *state, tokens = args

    def train(recording):
        given = state
        with recording():
            for _ in range(20):
                *given, loss = step(*given, tokens)
                float(loss)

    what = f"what `%%timeline` adds to 20 turns of the {layers}-layer step with `float(loss)`"
    ours, bare = partial(train, TimelineRecording), partial(train, nullcontext)
    yield against(what, 5, ours, bare, rounds * 5, "%")


def watched(rounds, layers):
    """A cell's small compile under `%jaxlens on`, and a job of small compiles, recorded."""
    numbers = count(2)

    def small(times=1):
        for _ in range(times):
            number = next(numbers)
            jax.jit(lambda x: jnp.tanh(x @ x.T * number).sum())(np.ones((9, 4), np.float32))  # noqa: B023

    watch = SessionWatch()

    def cell():
        small()
        watch.cell_done()

    def recorded():
        with tempfile.TemporaryDirectory() as folder, jaxlens.record(folder):
            small(25)

    job = partial(small, 25)
    what = "what a record adds to 25 small compiles"
    yield against(what, 3, recorded, job, rounds * 2, "%", collects=True)
    what = "what `%jaxlens on` adds to a cell with a small compile"
    yield against(what, 5, cell, small, rounds * 10, "%")
    watch.stop()


PARTS: tuple[Callable[[int, int], Rows], ...] = (
    extension,
    jaxpr,
    compiles,
    lenses,
    large,
    reading,
    saved,
    without,
    values,
    timeline,
    watched,
)


def page(rows, rounds):
    """The table as the site shows it."""
    lines = [
        f"Measured with jax {jax.__version__} on {jax.default_backend()}, Python "
        f"{sys.version.split()[0]}, by",
        f"`python -m tests.bench.bench_table --rounds {rounds}`: wall clock, medians; a ratio's",
        "two sides take turns in one process. CPU: seconds of all threads.",
        "",
        "| figure | measured | goal | reached |",
        "|---|---|---|---|",
    ]
    for row in rows:
        reached = "yes" if row.now <= row.goal else "no"
        now = row.number(row.now) + (f" ({row.more})" if row.more else "")
        lines.append(f"| {row.what} | {now} | {row.number(row.goal)} | {reached} |")
    return "\n".join([*lines, ""])


def main():
    given = options(__doc__, rounds=3, layers=12, only="", write="")
    rows: list[Row] = []
    for part in PARTS:
        if given.only not in part.__name__:
            continue
        for row in part(given.rounds, given.layers):
            rows.append(row)
            now, goal = row.number(row.now), row.number(row.goal)
            print(f"{row.what:<75}{now:>10}  goal {goal:<9} {row.more}", flush=True)
        if given.write:  # as far as it is: a run that breaks off leaves what it measured
            Path(given.write).write_text(page(rows, given.rounds), "utf-8")


if __name__ == "__main__":
    main()
