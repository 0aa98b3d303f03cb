"""What each lens costs beside the compile that it asks about, on the 12-layer train step.

    python -m tests.bench.bench_lenses [--layers 12] [--rounds 3] [--lens memory] [--devices 2]

A round makes a capture that JAX has not seen, traces, lowers and compiles it with the dumps of all
passes, which some lenses read and would compile a second time for, reads its stages and links,
which all lenses share (first row), and then asks one lens after another for its sentences and
tables, in an order that rotates from round to round. Of lenses that trace by themselves (tape once,
ladder twice) so many bare traces are taken off. What tries things out by compiling again is not
here, for it is done only when asked for. Figures are medians of CPU seconds (all threads), shares
are of the CPU seconds of the bare compile, without dumps and stamps, as in `bench_verbs.py`.
"""

import argparse
import gc
import statistics
import time
from collections import defaultdict
from collections.abc import Callable

import jax

import jaxlens
from jaxlens import ask as questions
from tests.support import programs

MOST = 0.10  # of the compile: what the project allows a lens


def fresh(f):
    """The same function as a new object, so that no cache of JAX's knows it."""
    return lambda *args: f(*args)


def batched(f, args):
    """The step for two batches of tokens at once: a ladder of two rungs."""
    *rest, tokens = args
    return jax.vmap(f, (*(None for _ in rest), 0)), (*rest, jax.numpy.stack([tokens] * 2))


def lens_task(name: str) -> Callable:
    """One lens on a compiled capture, as text."""
    return lambda cap, f, args: str(getattr(questions, name)(cap))


LENSES: dict[str, tuple[Callable, str]] = {
    "tape": (lambda cap, f, args: str(questions.tape(fresh(f), *args)), "beyond one trace"),
    "ladder": (
        lambda cap, f, args: str(questions.ladder(*_flat(batched(fresh(f), args)))),
        "beyond two traces",
    ),
    "key": (lambda cap, f, args: str(questions.key(fresh(f), *args)), ""),
    "compare": (lambda cap, f, args: str(questions.compare(cap, cap)), "with itself"),
    "receipt": (lambda cap, f, args: questions.receipt(cap).stable, ""),
    **{
        name: (lens_task(name), "")
        for name in ("fusion", "memory", "cost", "sharding", "captured")
        if hasattr(questions, name)
    },
}


def _flat(call):
    return call[0], *call[1]


def cut(tokens, devices: int):
    """The batch cut over devices; the rest of the arguments lies whole on each."""
    spec = jax.sharding.PartitionSpec("data")
    mesh = jax.make_mesh((devices,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    return jax.device_put(tokens, jax.sharding.NamedSharding(mesh, spec))


TRACES = {"tape": 1, "ladder": 2}


def seconds(task: Callable) -> float:
    gc.collect()
    gc.disable()
    start = time.process_time()
    task()
    taken = time.process_time() - start
    gc.enable()
    return taken


def shared(cap) -> None:
    """What lenses share, and every output of `%%compile` needs."""
    for stage in (cap.jaxpr, cap.stablehlo, cap.hlo, cap.optimized):
        sum(1 for _ in stage.module.nodes())
    cap.links.coverage()


def once(f, args, times: dict[str, list[float]], turn: int, only: str) -> None:
    bare = jax.jit(fresh(f))
    times["trace"].append(seconds(lambda: jax.jit(fresh(f)).trace(*args)))
    times["bare"].append(seconds(lambda: bare.trace(*args).lower().compile()))
    cap = jaxlens.capture(fresh(f), *args)
    times["ours"].append(seconds(lambda: cap.passes))  # a compile with the dumps of all passes
    times["shared"].append(seconds(lambda: shared(cap)))
    names = [name for name in LENSES if only in name]
    for n in range(len(names)):
        name = names[(n + turn) % len(names)]
        task = LENSES[name][0]
        taken = seconds(lambda task=task: task(cap, f, args))
        times[name].append(taken - TRACES.get(name, 0) * times["trace"][-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lens", default="", help="measure only lenses with this in their name")
    parser.add_argument("--devices", type=int, default=1, help="cut the batch over 2 devices")
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", options.devices)
    once(*programs.mlp_step(), defaultdict(list), 0, options.lens)  # imports and first calls
    times: dict[str, list[float]] = defaultdict(list)
    f, args = programs.gpt_step(layers=options.layers)
    if options.devices > 1:
        args = (*args[:-1], cut(args[-1], options.devices))
    for turn in range(options.rounds):
        once(f, args, times, turn * 3, options.lens)
    median = {name: statistics.median(taken) for name, taken in times.items()}
    print(
        f"jax {jax.__version__}, {jax.default_backend()}, GPT of {options.layers} layers, medians"
    )
    print(
        f"trace, lower and compile: bare {median['bare']:.2f} s, ours {median['ours']:.2f} s of CPU"
    )
    print(f"{'lens':<12}{'CPU':>12}{'of the compile':>17}")
    for name in ("shared", *(name for name in LENSES if name in median)):
        share = median[name] / median["bare"]
        over = "" if share <= MOST or name == "shared" else "   over"
        note = "stages and links read" if name == "shared" else LENSES[name][1]
        print(f"{name:<12}{median[name] * 1e3:>9,.0f} ms{share:>16.1%}   {note}{over}", flush=True)


if __name__ == "__main__":
    main()
