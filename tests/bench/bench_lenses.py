"""What each lens costs beside the compile that it asks about, on the 12-layer train step.

    python -m tests.bench.bench_lenses [--layers 12] [--rounds 3] [--lens memory] [--devices 2]

A round makes a capture that JAX has not seen, traces, lowers and compiles it under the profiler
with the dumps of all passes, which some lenses read and would compile a second time for, reads its
stages and links, which all lenses share, and then asks one lens after another for its sentences
and tables, in an order that rotates. Of lenses that trace by themselves (tape once, ladder twice)
so many bare traces are taken off. What tries things out by compiling again is not here, for it is
done only when asked for. Shares are of the bare compile, without dumps and stamps.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable
from functools import partial

import jax

import jaxlens
from jaxlens.ir.needs import Needs
from tests.bench.turns import fresh, options, rotated, seconds
from tests.support import programs

MOST = 0.10  # of the compile: what the project allows a lens


def ladder(f, args):
    """Of the step for two batches of tokens at once: two rungs."""
    *rest, tokens = args
    mapped = jax.vmap(fresh(f), (*(None for _ in rest), 0))
    return str(jaxlens.ladder(mapped, *rest, jax.numpy.stack([tokens] * 2)))


LENSES: dict[str, Callable] = {
    "tape": lambda cap, f, args: str(jaxlens.tape(fresh(f), *args)),
    "ladder": lambda cap, f, args: ladder(f, args),
    "key": lambda cap, f, args: str(jaxlens.key(fresh(f), *args)),
    "compare": lambda cap, f, args: str(jaxlens.compare(cap, cap)),
    "receipt": lambda cap, f, args: jaxlens.receipt(cap).stable,
    **{
        name: lambda cap, f, args, name=name: str(getattr(jaxlens, name)(cap))
        for name in ("fusion", "memory", "cost", "sharding", "captured", "times")
    },
}
TRACES = {"tape": 1, "ladder": 2}


def cut(tokens, devices):
    """The batch cut over devices; the rest of the arguments lies whole on each."""
    spec = jax.sharding.PartitionSpec("data")
    mesh = jax.make_mesh((devices,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    return jax.device_put(tokens, jax.sharding.NamedSharding(mesh, spec))


def read(cap):
    """What lenses share, and every output of `%%compile` needs."""
    for stage in (cap.jaxpr, cap.stablehlo, cap.hlo, cap.optimized):
        sum(1 for _ in stage.module.nodes())


def once(f, args, times, turn, only):
    bare = jax.jit(fresh(f))
    cap = jaxlens.capture(fresh(f), *args)
    steps = {
        "trace": lambda: jax.jit(fresh(f)).trace(*args),
        "bare compile": lambda: bare.trace(*args).lower().compile(),
        "our compile": lambda: cap.gather(Needs(compiled=True, passes="all", profile=True)),
        "stages": lambda: read(cap),
        "fates": lambda: cap.links.fates(),
        "links": lambda: cap.links.coverage(),
    }
    names = [name for name in LENSES if only in name]
    lenses = {name: partial(LENSES[name], cap, f, args) for name in rotated(names, turn)}
    for name, task in (steps | lenses).items():
        traces = TRACES.get(name, 0)
        times[name].append(seconds(task).cpu - (traces and traces * times["trace"][-1]))


def main():
    given = options(__doc__, layers=12, rounds=3, lens="", devices=1)
    jax.config.update("jax_num_cpu_devices", given.devices)
    once(*programs.mlp_step(), defaultdict(list), 0, given.lens)  # imports and first calls
    times: dict[str, list[float]] = defaultdict(list)
    f, args = programs.gpt_step(layers=given.layers)
    if given.devices > 1:
        args = (*args[:-1], cut(args[-1], given.devices))
    for turn in range(given.rounds):
        once(f, args, times, turn * 3, given.lens)
    compile_only = statistics.median(times["bare compile"])
    print(f"{'GPT, layers: ' + str(given.layers):<16}{'CPU':>12}{'of the compile':>17}")
    for name, every in times.items():
        taken = statistics.median(every)
        over = "   over" if name in LENSES and taken > MOST * compile_only else ""
        print(f"{name:<16}{taken * 1e3:>9,.0f} ms{taken / compile_only:>16.1%}{over}", flush=True)


if __name__ == "__main__":
    main()
