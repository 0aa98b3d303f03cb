"""The whole speed table in one run, beside the peers that are installed.

    python -m tests.bench.bench_table [--rounds 3] [--layers 12] [--only NAME] [--peers PYTHON]
        [--write FOLDER]

Prints a row for each figure that the project has a goal for, and with `--write` makes
`bench.json` and `bench.md` in the folder; `notebooks/site` is the site's. Figures are of the wall
clock, what a user waits for, and need a machine with two idle cores; "CPU" marks seconds of all
threads, which tell how much work is hidden beside XLA's.

Peers are measured in the same run: JAX's own `jaxpr_to_html` (jax 0.12 and later) in this process,
jaxviz and Model Explorer's converter in processes of the Python that `--peers` names, by default
this one. One that is not installed is left out, with a line that says so.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jax

import jaxlens
from jaxlens.ir.needs import Needs
from jaxlens.questions.timeline.measure.record import TimelineRecording
from jaxlens.questions.values.measure import Statistics
from jaxlens.taps.execute import CompiledPieces, execute
from tests.bench import bench_scale
from tests.bench.bench_verbs import bare_compile, bare_jaxpr, shown
from tests.bench.turns import Seconds, Task, fresh, medians, rotated, seconds, turns
from tests.support import programs
from tests.support.paths import environment

Program = Callable[[], tuple[Any, Any]]
SCANNED: dict[str, Any] = {"layers": 48, "scanned": True, "biases": True}
LINES = 100_000
OWN_HTML = "JAX's `jaxpr_to_html`"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    Attributes:
        what: What is measured.
        now: The figure.
        unit: "ms", "s", "kB", "x" (a ratio) or "%" (a share).
        goal: The most that the project allows.
        more: Further figures, in words.
        peers: Figures of other tools in the same unit, by name.
    """

    what: str
    now: float
    unit: str
    goal: float
    more: str = ""
    peers: dict[str, float] = field(default_factory=dict)


def in_turns(rounds: int, *tasks: Task) -> list[Seconds]:
    """Medians of tasks that take turns."""
    return list(turns({str(n): task for n, task in enumerate(tasks)}, rounds).values())


def both(ours: Seconds, bare: Seconds) -> str:
    """The two sides in words."""
    return f"{ms(ours.wall)} against {ms(bare.wall)}; CPU {ours.cpu / bare.cpu:.2f}x"


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f} ms"


def extension(options: argparse.Namespace) -> Iterator[Row]:
    """Processes of their own, with compiled files, as an installed package has them."""
    code = (
        "import jax, time; from IPython.core.interactiveshell import InteractiveShell as S;"
        "shell = S.instance(); start = time.perf_counter();"
        "shell.run_line_magic('load_ext', 'jaxlens'); print(time.perf_counter() - start)"
    )
    run = [sys.executable, "-c", code]
    own = {key: value for key, value in environment().items() if key != "PYTHONDONTWRITEBYTECODE"}
    every = [
        float(subprocess.run(run, capture_output=True, check=True, env=own).stdout)
        for _ in range(options.rounds + 1)
    ]
    yield Row(
        "`%load_ext jaxlens` after `import jax`", statistics.median(every[1:]) * 1e3, "ms", 10
    )


def small_jaxpr(options: argparse.Namespace) -> Iterator[Row]:
    f, args = programs.mlp_step()
    ours, bare, *theirs = in_turns(
        options.rounds * 3,
        lambda: shown(jaxlens.jaxpr(fresh(f), *args)),
        lambda: bare_jaxpr(f, args),
        *own_html(f, args),
    )
    peers = {OWN_HTML: (theirs[0].wall - bare.wall) * 1e3} if theirs else {}
    yield Row(
        "`%%jaxpr` of 44 equations, beyond trace and print",
        (ours.wall - bare.wall) * 1e3,
        "ms",
        8,
        both(ours, bare),
        peers,
    )


def own_html(f: Any, args: Any) -> list[Callable[[], object]]:
    """JAX's own HTML of a jaxpr, where this version has it: trace and page."""
    try:
        from jax._src.jaxpr_util import jaxpr_to_html
    except ImportError:
        skipped(OWN_HTML, f"jax {jax.__version__} has none")
        return []
    return [lambda: jaxpr_to_html(jax.jit(fresh(f)).trace(*args).jaxpr.jaxpr)]


def scanned_jaxpr(options: argparse.Namespace) -> Iterator[Row]:
    f, args = programs.gpt_step(**SCANNED)
    ours, bare, *theirs = in_turns(
        options.rounds,
        lambda: shown(jaxlens.jaxpr(fresh(f), *args)),
        lambda: bare_jaxpr(f, args),
        *own_html(f, args),
    )
    peers = {OWN_HTML: theirs[0].wall / bare.wall} if theirs else {}
    elsewhere = outside(options.peers, "scanned")
    for name in ("jaxviz", "Model Explorer's converter"):
        if name in elsewhere:
            peers[name] = elsewhere[name] / elsewhere["bare"]
    yield Row(
        "`%%jaxpr` of a scanned 48-layer step / its trace and print",
        ours.wall / bare.wall,
        "x",
        1.2,
        both(ours, bare),
        peers,
    )


def compiles(options: argparse.Namespace) -> Iterator[Row]:
    small, large = programs.mlp_step, lambda: programs.gpt_step(layers=options.layers)
    layers = f"{options.layers}-layer step"
    verbs: tuple[tuple[str, Callable[..., Any], Program, float], ...] = (
        (f"`%%hlo` of the {layers} / its compile", jaxlens.hlo, large, 1.10),
        (f"`%%compile` of the {layers} / its compile", jaxlens.compile, large, 1.05),
        ("`%%explore` of 44 equations / their compile", jaxlens.explore, small, 1.3),
    )
    for what, verb, program, goal in verbs:
        f, args = program()
        rounds = options.rounds * (3 if program is small else 1)
        ours, bare = in_turns(
            rounds,
            lambda f=f, args=args, verb=verb: shown(verb(fresh(f), *args)),
            lambda f=f, args=args: bare_compile(f, args),
        )
        yield Row(what, ours.wall / bare.wall, "x", goal, both(ours, bare))


def lenses(options: argparse.Namespace) -> Iterator[Row]:
    f, args = programs.gpt_step(layers=options.layers)
    layers = f"{options.layers}-layer step"
    times: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        bare = seconds(lambda: jax.jit(fresh(f)).trace(*args).lower().compile()).wall
        trace = seconds(lambda: jax.jit(fresh(f)).trace(*args)).wall
        caps = [jaxlens.capture(fresh(f), *args) for _ in range(2)]
        for cap in caps:
            cap.gather(Needs(passes="all"))
            for stage in (cap.jaxpr, cap.stablehlo, cap.hlo, cap.optimized):
                sum(1 for _ in stage.module.nodes())
        fates = seconds(lambda caps=caps: caps[0].links.fates()).wall
        caps[1].links.fates()
        compared = seconds(lambda caps=caps: str(jaxlens.compare(*caps))).wall
        tape = seconds(lambda: str(jaxlens.tape(fresh(f), *args))).wall - trace
        once = {"fates": fates, "compare": compared / bare, "tape": tape / bare}
        for name, figure in once.items():
            times.setdefault(name, []).append(figure)
    median = {name: statistics.median(every) for name, every in times.items()}
    yield Row(f"all fates of the {layers} through all passes", median["fates"], "s", 0.5)
    yield Row(
        f"`compare` of two captures of the {layers} / a compile", median["compare"] * 100, "%", 5
    )
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    yield Row(
        f"`tape` of the {layers}, beyond a trace / a compile, Python {python}",
        median["tape"] * 100,
        "%",
        5,
    )


def large(options: argparse.Namespace) -> Iterator[Row]:
    name = f"line, {LINES:,} eqns"
    bench_scale.ours("gpt, 3 layers")  # warms what is not the program's
    first = statistics.median(bench_scale.ours(name)["first"] for _ in range(options.rounds))
    peers = {}
    f, args = programs.straight_line(LINES)
    if pages := own_html(f, args):
        trace = seconds(lambda: jax.jit(fresh(f)).trace(*args)).wall
        peers[OWN_HTML] = seconds(pages[0]).wall - trace
    yield Row(f"{LINES:,} equations, traced to first picture", first, "s", 0.43, "CPU", peers)


def saved(options: argparse.Namespace) -> Iterator[Row]:
    from tests.backend.test_output_size import sizes

    f, args = programs.mlp_step()
    cap = jaxlens.capture(f, *args)
    for verb in (jaxlens.jaxpr, jaxlens.hlo, jaxlens.compile, jaxlens.explore):
        whole, own = sizes(verb(cap).html())
        what = f"output of `%%{verb.__name__}` in a saved notebook, 44 equations, beside assets"
        yield Row(what, own / 1e3, "kB", 60, f"{whole / 1e3:,.0f} kB with assets")


def without(options: argparse.Namespace) -> Iterator[Row]:
    f, args = programs.mlp_step()
    cap = jaxlens.capture(fresh(f), *args)
    cap.gather(Needs(compiled=True))
    tried = seconds(lambda: str(jaxlens.compare(cap, jaxlens.without(cap, "fusion")))).wall
    yield Row("`--without` of a small program", tried, "s", 3)


def values(options: argparse.Namespace) -> Iterator[Row]:
    """A run with measurements: its compiles, and itself once all is compiled."""
    layers = f"{options.layers}-layer step"
    f, args = programs.gpt_step(layers=options.layers)
    closed, leaves = jax.jit(fresh(f)).trace(*args).jaxpr, jax.tree.leaves(args)
    probe = Statistics(0)
    kept = CompiledPieces()

    def measured(compiled: CompiledPieces) -> None:
        execute(closed, probe, leaves, compiled=compiled)

    ours, again, bare = in_turns(
        options.rounds,
        lambda: measured(CompiledPieces()),
        lambda: measured(kept),
        lambda: bare_compile(f, args),
    )
    compile_only = Seconds(ours.wall - again.wall, ours.cpu - again.cpu)
    yield Row(
        f"compiles of `%%check --values` of the {layers} / its compile",
        compile_only.wall / bare.wall,
        "x",
        1.3,
        both(compile_only, bare),
    )
    what = "a run with the measurements of `%%check --values`, compiled, of the"
    ours, bare = measured_runs(f, args, options.rounds * 5)
    yield Row(f"{what} {layers} / a run", ours.wall / bare.wall, "x", 2, both(ours, bare))
    # Of one that computes more than it moves, as steps do that somebody waits for.
    f, args = programs.gpt_step(layers=options.layers, width=512, length=256)
    ours, bare = measured_runs(f, args, options.rounds)
    wide = f"{layers} with width 512 / a run"
    yield Row(f"{what} {wide}", ours.wall / bare.wall, "x", 2, both(ours, bare))


def measured_runs(f: Any, args: Any, times: int) -> tuple[Seconds, Seconds]:
    """A run with measurements and one without; both are compiled."""
    closed, leaves = jax.jit(fresh(f)).trace(*args).jaxpr, jax.tree.leaves(args)
    program = jax.jit(fresh(f)).trace(*args).lower().compile()
    probe, kept = Statistics(0), CompiledPieces()
    ours, bare = in_turns(
        times,
        lambda: execute(closed, probe, leaves, compiled=kept),
        lambda: jax.block_until_ready(program(*args)),
    )
    return ours, bare


def timeline(options: argparse.Namespace) -> Iterator[Row]:
    """A training loop that waits for its loss, while it is recorded; reading comes after it."""
    f, args = programs.gpt_step(layers=options.layers)
    step = jax.jit(fresh(f))
    *state, tokens = args

    def train() -> None:
        given = state
        for _ in range(20):
            *given, loss = step(*given, tokens)
            float(loss)

    times: dict[str, list[Seconds]] = {"recorded": [], "bare": []}
    train()
    for turn in range(options.rounds * 5):
        for side in rotated(list(times), turn):
            with TimelineRecording() if side == "recorded" else nullcontext() as recording:
                times[side].append(seconds(train))
            assert recording is None or len(recording.timeline.waits) >= 20
    ours, bare = medians(times).values()
    yield Row(
        f"what `%%timeline` adds to 20 turns of the {options.layers}-layer step with `float(loss)`",
        100 * (ours.wall / bare.wall - 1),
        "%",
        5,
        both(ours, bare),
    )


PARTS = (
    extension,
    small_jaxpr,
    scanned_jaxpr,
    compiles,
    lenses,
    large,
    saved,
    without,
    values,
    timeline,
)

# Runs where a peer is, on the same function. Both sides trace.
_THEIRS = """
import gc, json, statistics, sys, time
import jax
from tests.support import programs
f, args = programs.gpt_step(**{program!r})
def fresh():
    return lambda *given: f(*given)
def bare():
    str(jax.jit(fresh()).trace(*args).jaxpr)
def jaxviz_page():
    import jaxviz
    jaxviz.trace_model(fresh(), *args, return_html=True)
def converted():
    import tempfile, pathlib
    import ai_edge_model_explorer_adapter as adapter
    text = jax.jit(fresh()).trace(*args).lower().as_text()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "step.mlir"
        path.write_text(text)
        adapter.ConvertMlirToJson(adapter.VisualizeConfig(), str(path))
tasks = dict([("bare", bare), ("jaxviz", jaxviz_page), ("Model Explorer's converter", converted)])
figures, faults = {{}}, {{}}
for name, task in tasks.items():
    times = []
    try:
        for turn in range({rounds} + 1):
            gc.collect(); start = time.perf_counter(); task()
            times.append(time.perf_counter() - start)
        figures[name] = statistics.median(times[1:])
    except Exception as error:
        faults[name] = (type(error).__name__ + ": " + str(error))[:120]
print(json.dumps([figures, faults]))
"""


@cache
def outside(python: str, _: str) -> dict[str, float]:
    """Seconds of the peers that another Python has; those that it lacks are named once."""
    code = _THEIRS.format(program=SCANNED, rounds=2)
    run = subprocess.run([python, "-c", code], capture_output=True, text=True, env=environment())
    if not run.stdout:
        skipped("jaxviz and Model Explorer", f"{(run.stderr.strip().splitlines() or ['?'])[-1]}")
        return {}
    figures, faults = json.loads(run.stdout.strip().splitlines()[-1])
    for name, fault in faults.items():
        skipped(name, fault)
    return dict(figures)


SKIPPED: dict[str, str] = {}


def skipped(name: str, why: str) -> None:
    """Says once that a peer is not measured."""
    if name not in SKIPPED:
        SKIPPED[name] = why
        print(f"{name}: not measured: {why}", flush=True)


def number(row: Row, value: float) -> str:
    digits = 2 if row.unit in ("s", "x") else 1 if value < 10 else 0
    return f"{value:,.{digits}f}{' ' if row.unit != 'x' else ''}{row.unit}"


def markdown(rows: list[Row], head: str) -> str:
    """The table as the site shows it."""
    lines = [
        head,
        "",
        "| figure | measured | goal | reached | peers, same run |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        peers = ", ".join(f"{name} {number(row, value)}" for name, value in row.peers.items())
        reached = "yes" if row.now <= row.goal else "no"
        now = number(row, row.now) + (f" ({row.more})" if row.more else "")
        lines.append(f"| {row.what} | {now} | {number(row, row.goal)} | {reached} | {peers} |")
    notes = [f"{name}: not measured, {why}." for name, why in SKIPPED.items()]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes), ""]).replace("\n\n\n", "\n\n")


def write(folder: Path, rows: list[Row], rounds: int, note: str) -> None:
    """Writes the table as it is so far, so that a run that breaks off leaves what it measured."""
    python = ".".join(map(str, sys.version_info[:3]))
    head = (
        f"Measured with jax {jax.__version__} on {jax.default_backend()}, Python {python}, by\n"
        f"`python -m tests.bench.bench_table --rounds {rounds}`: wall clock, medians; a ratio's\n"
        f"two sides take turns in one process. CPU: seconds of all threads. {note}".rstrip()
    )
    data = {
        "jax": jax.__version__,
        "python": python,
        "rows": [asdict(row) for row in rows],
        "skipped": SKIPPED,
    }
    (folder / "bench.json").write_text(json.dumps(data, indent=1) + "\n", "utf-8")
    (folder / "bench.md").write_text(markdown(rows, head), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--only", default="", help=", ".join(part.__name__ for part in PARTS))
    parser.add_argument("--peers", default=sys.executable, help="a Python that has the peers")
    parser.add_argument("--write", default="", help="a folder for bench.json and bench.md")
    parser.add_argument("--note", default="", help="a sentence above the table: which machine")
    options = parser.parse_args()
    rows: list[Row] = []
    for part in PARTS:
        if options.only not in part.__name__:
            continue
        for row in part(options):
            rows.append(row)
            peers = "; ".join(f"{name} {number(row, v)}" for name, v in row.peers.items())
            goal = f"goal {number(row, row.goal)}"
            print(
                f"{row.what:<75}{number(row, row.now):>10}  {goal:<14} {row.more} {peers}",
                flush=True,
            )
        if options.write:
            write(Path(options.write), rows, options.rounds, options.note)


if __name__ == "__main__":
    main()
