"""What each verb costs beside the bare JAX calls that it needs, as ratios in one run.

    python -m tests.bench.bench_verbs [--layers 12] [--rounds 5] [--verb compile]

Both sides do the same work on a function object that JAX has not seen: the bare side traces
and prints, or traces and lowers, or traces, lowers and compiles with no dumps; ours makes the
verb's text and HTML on top.
"""

from collections.abc import Callable
from itertools import count

import jax

import jaxlens
from tests.bench.turns import fresh, options, ratio
from tests.support import programs

_UNSEEN = count(1_000)


def bare_jaxpr(f, args):
    str(jax.jit(fresh(f)).trace(*args).jaxpr)


def bare_lower(f, args):
    jax.jit(fresh(f)).trace(*args).lower().as_text()


def bare_compile(f, args):
    # An option that differs each time keeps XLA's in-process cache out, as a fresh dump
    # folder does on our side; it dumps nothing.
    unseen = {"xla_dump_max_hlo_modules": next(_UNSEEN)}
    jax.jit(fresh(f)).trace(*args).lower().compile(compiler_options=unseen)


def shown(view):
    view._repr_mimebundle_()


PAIRS: dict[str, tuple[Callable, Callable]] = {
    "%%jaxpr": (lambda f, args: jaxlens.jaxpr(fresh(f), *args), bare_jaxpr),
    "%%jaxpr --text": (
        lambda f, args: jaxlens.jaxpr(jaxlens.capture(fresh(f), *args), text=True),
        bare_jaxpr,
    ),
    "%%hlo --stage stablehlo": (
        lambda f, args: jaxlens.hlo(jaxlens.capture(fresh(f), *args), stage="stablehlo"),
        bare_lower,
    ),
    "%%compile": (lambda f, args: jaxlens.compile(fresh(f), *args), bare_compile),
    "%%hlo": (lambda f, args: jaxlens.hlo(fresh(f), *args), bare_compile),
}


def main():
    given = options(__doc__, layers=12, rounds=5, verb="")
    made = {
        "MLP step": programs.mlp_step(),
        f"GPT, {given.layers} layers": programs.gpt_step(layers=given.layers),
    }
    for name, (f, args) in made.items():
        for verb, (ours, bare) in PAIRS.items():
            if given.verb in verb:
                ratio(
                    f"{name}: {verb}",
                    lambda ours=ours, f=f, args=args: shown(ours(f, args)),
                    lambda bare=bare, f=f, args=args: bare(f, args),
                    given.rounds,
                    note=bare.__name__.replace("_", " "),
                )


if __name__ == "__main__":
    main()
