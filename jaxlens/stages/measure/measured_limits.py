"""Measures peak rates of a device: flop/s of a matrix product and bytes/s of a copy.

Both are compiled by XLA like the user's program and run on one device, once per process. The best
of several runs counts, as a roofline is an upper bound.
"""

import time
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import Limits

_TYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
_SIDES = {"cpu": (256, 512, 1024)}  # sides of the square matrices; on other platforms _OTHERS
_OTHERS = (4096, 8192)
_BYTES = {"cpu": 2**28}  # size of the copied array, larger than caches; otherwise 1 GiB
_SECONDS = 0.25  # minimum duration of a measurement after its warm-up
_RUNS = 3


def measured(platform: str, dtypes: Iterable[str] = ("f32",)) -> Limits:
    """Measures the limits of the first device of a platform.

    Args:
        platform: "cpu", "gpu" or "tpu".
        dtypes: Element types of the matrix products in the program.

    Raises:
        UnavailableError: This process has no such device.
    """
    try:
        device = jax.devices(platform)[0]
    except RuntimeError:
        raise UnavailableError(
            f"no {platform} in this process whose limits could be measured: name a device, as in "
            "--roofline h100"
        ) from None
    timed = {dtype for dtype in dtypes if dtype in _TYPES} or {"f32"}
    if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        timed = {"f32" if dtype == "f64" else dtype for dtype in timed}
    rates = {dtype: _product(device, dtype) for dtype in sorted(timed)}
    *smaller, largest = (f"{side:,}" for side in _SIDES.get(device.platform, _OTHERS))
    sides = f"{', '.join(smaller)} and {largest}"
    size = _BYTES.get(device.platform, 2**30)
    return Limits(
        f"this {device.device_kind}",
        rates,
        None,
        _copy(device),
        f"measured here once: products of square matrices of {sides} rows, and a pass over "
        f"{size // 2**20:,} MiB that reads and writes all of it, each the best of several runs",
        True,
    )


@cache
def _product(device: Any, dtype: str) -> float:
    """Returns the flops per second of the fastest matrix size."""
    multiply = jax.jit(jnp.matmul)
    rates = []
    for side in _SIDES.get(device.platform, _OTHERS):
        x = jax.device_put(jnp.ones((side, side), _TYPES[dtype]), device)
        rates.append(2.0 * side**3 / _best(partial(multiply, x, x)))
    return max(rates)


@cache
def _copy(device: Any) -> float:
    """Returns the bytes per second, reads plus writes."""
    size = _BYTES.get(device.platform, 2**30)
    array = jax.device_put(jnp.ones(size // 4, jnp.float32), device)
    # Donated, so the output reuses the buffer: the system would zero fresh pages first.
    add = jax.jit(lambda x: x + 1, donate_argnums=0)

    def step() -> Any:
        nonlocal array
        array = add(array)
        return array

    return 2.0 * size / _best(step)


def _best(run: Callable[[], Any]) -> float:
    """Returns the seconds of the fastest run."""
    jax.block_until_ready(run())  # type: ignore[no-untyped-call]
    best, end = float("inf"), time.perf_counter() + _SECONDS
    done = 0
    while done < _RUNS or time.perf_counter() < end:
        start = time.perf_counter()
        jax.block_until_ready(run())  # type: ignore[no-untyped-call]
        best = min(best, time.perf_counter() - start)
        done += 1
    return best
