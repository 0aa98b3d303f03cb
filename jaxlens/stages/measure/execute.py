"""Executes a compiled program and times it without donating the caller's arrays.

Each run starts when the previous one is done. A run's time is from the call of the executable,
with its arguments on the device, until all results are ready: it includes JAX's dispatch (some
microseconds), and no tracing, compilation or transfer of arguments to the device.
"""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import jax

from jaxlens import compat
from jaxlens.errors import OptionError, UnavailableError
from jaxlens.ir.driver import Run

_WARM = 1


def run(
    compiled: Any,
    args: tuple[Any, ...],
    n: int,
    kwargs: dict[str, Any] | None = None,
    names: Sequence[str] = (),
    during: AbstractContextManager[Any] | None = None,
) -> Run:
    """Executes `n` times after a warm-up.

    Args:
        compiled: The `jax.stages.Compiled` (`CompileOutput.executable`).
        args: Positional arguments as the executable takes them, without static ones.
        n: Number of timed runs, at least 1.
        kwargs: Keyword arguments, likewise.
        names: Names of the leaves of both, in order; for messages.
        during: Context manager around the timed runs, such as a profiler.

    Returns:
        Seconds of each run and the last results. Donated arrays and refs are copied before each
        run, outside of the measurement, so that the caller's stay as they are.

    Raises:
        OptionError: `n` is below 1, or an argument is a shape without data.
        UnavailableError: The program was compiled for a device that this process lacks, or is for
            devices of several processes.
        Exception: Any error of the program itself.
    """
    if n < 1:
        raise OptionError(f"expected at least 1 run, got {n}; say --run 10")
    values, tree = jax.tree.flatten((args, kwargs or {}))
    check(values, names)
    infos = jax.tree.leaves(compiled.args_info, is_leaf=lambda leaf: hasattr(leaf, "donated"))
    donated = {index for index, info in enumerate(infos) if info.donated}
    placed = _placed(compiled, values)
    seconds: list[float] = []
    outputs = None
    with ExitStack() as around:
        for index in range(_WARM + n):
            if index == _WARM and during is not None:
                around.enter_context(during)
            leaves = [x.copy() if i in donated else x for i, x in enumerate(placed)]
            leaves = [*map(compat.fresh, leaves)]
            positional, named = jax.tree.unflatten(tree, _ready(leaves))
            start = time.perf_counter()
            outputs = _ready(_call(compiled, positional, named))
            if index >= _WARM:
                seconds.append(time.perf_counter() - start)
    return Run(tuple(seconds), _WARM, _how(n, bool(donated)), outputs)


def check(leaves: list[Any], names: Sequence[str], option: str = "--run") -> None:
    """Raises OptionError if an argument is a shape without data."""
    for index, leaf in enumerate(leaves):
        if isinstance(leaf, jax.ShapeDtypeStruct):
            name = names[index] if index < len(names) else f"input {index}"
            raise OptionError(
                f"{option} needs arrays, got only the shape {leaf.shape} of {name}; "
                "look at a call with real values"
            )


def check_local(arguments: Any, asked: str) -> None:
    """Raises UnavailableError if arrays lie on devices of other processes too.

    A program on them waits for all their processes, and only this one was asked: the job would
    hang, or a collective of it would meet another one of theirs.

    Args:
        arguments: The arguments, as a pytree, or their shardings.
        asked: What was asked, for the message.
    """
    if any(
        isinstance(x, jax.Array | jax.sharding.Sharding) and not x.is_fully_addressable
        for x in jax.tree.leaves(arguments)
    ):
        raise UnavailableError(
            f"{asked} runs a program on arrays of several processes, in which this one would wait "
            "for the others: look at a part of it with arrays that lie in this process"
        )


def _placed(compiled: Any, leaves: list[Any]) -> list[Any]:
    """Returns the leaves as arrays with the program's input shardings; copies only if needed."""
    shardings = jax.tree.leaves(compiled.input_shardings)
    devices = {device for sharding in shardings for device in sharding.device_set}
    present = {
        device
        for client in compat.extend("backend", "backends")().values()
        for device in client.devices()
    }
    absent = sorted({device.device_kind for device in devices - present})
    if absent:
        raise UnavailableError(
            f"the program was compiled for {' and '.join(absent)}, which is not here; it cannot "
            "run: look without --run, or with a target of this process"
        )
    check_local([*leaves, *shardings], "--run")
    if len(shardings) != len(leaves):
        return [jax.numpy.asarray(leaf) for leaf in leaves]
    return [
        x if isinstance(x, jax.Array) and x.sharding == s else jax.device_put(x, s)
        for x, s in zip(leaves, shardings, strict=True)
    ]


def _ready(tree: Any) -> Any:
    return jax.block_until_ready(tree)  # type: ignore[no-untyped-call]


def _call(compiled: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return compiled(*args, **kwargs)
    except (ValueError, RuntimeError, NotImplementedError) as error:
        if "load" in str(error).lower() and "executable" in str(error).lower():
            raise UnavailableError(
                "the program was compiled for a device that is not here; it cannot run"
            ) from None
        raise


def _how(n: int, donated: bool) -> str:
    runs = "1 run" if n == 1 else f"{n:,} runs one after another"
    copies = "; donated inputs were copied before each, outside of the time" if donated else ""
    return (
        f"wall clock of {runs} of the compiled program, each until its results were ready "
        f"(block_until_ready), after {_WARM} that is not counted{copies}"
    )
