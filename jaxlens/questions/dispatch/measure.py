"""Calls a function in turns with a program that computes nothing, and times the parts of a call.

whole      the call as it is written; with a library's jit, its wrapper too
jit        the jitted function inside, with the arguments that the wrapper hands over
empty      a jitted function of the same arguments and as many results, which computes nothing
wrapper = whole - jit, device = jit - empty, dispatch = empty - flatten - unflatten
"""

import copy
import gc
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import jax
import numpy as np

from jaxlens import compat, progress
from jaxlens.call.call import Call
from jaxlens.call.library_jits import InnerCall
from jaxlens.call.traceable import TraceableCall, prepare
from jaxlens.compat.calls_heard import unheard
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import root_name
from jaxlens.questions.dispatch.call_cost import CallArgument, CallCost, CallPart
from jaxlens.stages.driver import LiveDriver
from jaxlens.stages.measure.execute import check, check_local

_TURNS, _WARM, _SECONDS = 30, 3, 3.0  # turns, of which some are not counted; time for all
_INSIDE = ("jax/_src/pjit.py", "jax\\_src\\pjit.py")
Way = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""A function with its positional and keyword arguments."""


def measure(live: LiveDriver) -> CallCost:
    """Measures the parts of a live call.

    Raises:
        OptionError: An argument is a shape without data.
        UnavailableError: It cannot be called here, or was compiled before.
    """
    staging = live.staging
    if staging.by_core:
        raise UnavailableError("a program of jaxlens.core is not called as JAX calls its own")
    if staging.has("lowering"):
        raise UnavailableError(
            "it was compiled for another question, and its arguments were let go: ask --dispatch "
            "in a look of its own"
        )
    opened = staging.opened
    check(jax.tree.leaves((opened.args, opened.kwargs)), live.names(), "--dispatch")
    check_local((opened.args, opened.kwargs), "--dispatch")
    if staging.place.target.absent:
        raise UnavailableError("the device is not here, so that nothing can be called on it")
    live.check_effects("--dispatch calls it some 30 times")
    live.check_refs()
    doing = progress.step(f"jaxlens calls {staging.call.name}")
    with staging.as_called(), doing, unheard():
        return _measured(live, opened)


def _measured(live: LiveDriver, opened: Call) -> CallCost:
    infos = jax.tree.leaves(live.staging.traced.args_info, is_leaf=lambda x: hasattr(x, "donated"))
    donates = any(getattr(info, "donated", False) for info in infos)
    # A new jit of the function, so that the entries of the user's own stay as they are. A wrapper
    # may write into its arguments: it gets copies.
    mine = opened
    if live.staging.call.inner is not None:
        mine = opened.with_arguments(_copied(opened.arguments))
    call = prepare(mine.function, mine.args, mine.kwargs)
    inner = call.inner
    whole: Way = mine.function, mine.args, mine.kwargs
    jit = (call.traceable, call.args, call.kwargs) if inner is None else _jitted(inner)
    results = _call(jit, donates)[2]
    parts_of = compat.jit_parts(inner.call.function if inner else call.traceable)
    static = parts_of[1].static_argnums if parts_of else ()
    ways = {"whole": whole, "jit": jit, "empty": _empty(jit, static, results)}
    if inner is None:
        del ways["whole"]
    ways["one leaf"] = jax.jit(lambda x: x), (jax.numpy.float32(0),), {}
    ways |= _others(call, mine, donates)
    medians = _turns(ways, donates)
    call_of = ways.get("whole", jit)
    seen = _profiled(call_of, donates)
    values, tree = jax.tree.flatten(results)
    flatten = _repeated(lambda: jax.tree.flatten(jit[1:]))
    unflatten = _repeated(lambda: jax.tree.unflatten(tree, values))
    empty = medians["empty"]
    parts = [
        CallPart("jit flattens the arguments", flatten),
        CallPart("jit looks the call up and hands it over", max(empty - flatten - unflatten, 0.0)),
        CallPart("jit unflattens the results", unflatten),
    ]
    jit_name = inner.jit if inner else "jax.jit"
    if inner is not None:
        wrapper = max(medians["whole"] - medians["jit"], 0.0)
        parts.insert(0, CallPart(f"the wrapper of {jit_name}", wrapper))
    device = max(medians["jit"] - empty, 0.0)
    tried = [
        CallPart(name, max(medians[name] - device, 0.0), _CODE[name])
        for name in _CODE
        if name in medians
    ]
    if inner is not None and jit_name in _SPLIT:
        tried.append(CallPart("the jax.jit inside, alone", empty, _SPLIT[jit_name]))
    return CallCost(
        call.name,
        jit_name,
        tuple(parts),
        device,
        tuple(_arguments(call, mine)),
        len(values),
        sum(seen.values()),
        not any(file.endswith(_INSIDE) for file in seen),
        tuple(tried),
        max(empty - medians["one leaf"], 0.0) / max(len(values) + len(call.inputs), 1),
        live.staging.call.unjitted,
    )


_CODE = {
    "compiled ahead of time": "compiled = f.lower(...).compile(), then compiled(...)",
    "nnx.cached_partial": "nnx.cached_partial(f, model), made once",
}
_SPLIT = {
    "nnx.jit": "graphdef, state = nnx.split(model) once, and jax.jit of the state",
    "eqx.filter_jit": "arrays, static = eqx.partition(model, eqx.is_array) once, and jax.jit of "
    "the arrays",
}


def _jitted(inner: InnerCall) -> Way:
    call = inner.call

    def within(*args: Any, **kwargs: Any) -> Any:
        with inner.within():
            return call.function(*args, **kwargs)

    return within if inner.jit == "nnx.jit" else call.function, call.args, call.kwargs


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception as error:  # of any object of the user's
        raise UnavailableError(
            f"--dispatch calls it on copies of its arguments, and one cannot be copied "
            f"({type(error).__name__})"
        ) from None


def _empty(jit: Way, static: tuple[int, ...], results: Any) -> Way:
    """Returns a call with the same arguments and as many results that computes nothing."""
    made = jax.tree.map(lambda _: np.float32(0), results)

    def empty(*_: Any, **__: Any) -> Any:
        return made

    return jax.jit(empty, keep_unused=True, static_argnums=static), *jit[1:]


def _others(call: TraceableCall, opened: Call, donates: bool) -> dict[str, Way]:
    """Returns other ways to make the call, those that can be tried."""
    ways: dict[str, Way] = {}
    if call.inner is None:
        with suppress(Exception):
            compiled = call.traceable.lower(*call.args, **call.kwargs).compile()
            ways["compiled ahead of time"] = compiled, *call.dynamic()
        return ways
    nnx: Any = sys.modules.get("flax.nnx")
    if nnx is None or call.inner.jit != "nnx.jit":
        return ways
    args = list(opened.args)
    models = []
    while args and isinstance(args[0], (nnx.Module, nnx.Optimizer)):
        models.append(args.pop(0))
    if models and not donates:
        with suppress(Exception):
            cached = nnx.cached_partial(opened.function, *models)
            _call((cached, tuple(args), opened.kwargs), donates)
            ways["nnx.cached_partial"] = cached, tuple(args), opened.kwargs
    return ways


def _call(way: Way, donates: bool) -> tuple[float, float, Any]:
    """Calls once: seconds until it returned, until the results were ready, and these."""
    function, args, kwargs = way
    if donates:
        args, kwargs = _copied((args, kwargs))
    jax.block_until_ready((args, kwargs))  # type: ignore[no-untyped-call]
    start = time.perf_counter()
    results = function(*args, **kwargs)
    returned = time.perf_counter()
    jax.block_until_ready(results)  # type: ignore[no-untyped-call]
    return returned - start, time.perf_counter() - start, results


def _turns(ways: dict[str, Way], donates: bool) -> dict[str, float]:
    """Returns the median seconds of each way until its results are ready, called in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    end = time.perf_counter() + _SECONDS
    for turn in range(_WARM + _TURNS):
        for name, way in ways.items():
            took = _call(way, donates)[1]
            if turn >= _WARM:
                seconds[name].append(took)
        if turn > 2 * _WARM and time.perf_counter() > end:
            break
    return {name: statistics.median(took) for name, took in seconds.items()}


def _repeated(function: Callable[[], object]) -> float:
    """Returns the median seconds of a function that is short."""
    took = []
    for _ in range(_TURNS):
        start = time.perf_counter()
        function()
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def _profiled(way: Way, donates: bool) -> Counter[str]:
    """Returns how many functions of Python a call runs, by file, its collector's left out."""
    args, kwargs = _copied(way[1:]) if donates else way[1:]
    seen: Counter[str] = Counter()

    def profile(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            seen[frame.f_code.co_filename] += 1

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(profile)
    try:
        way[0](*args, **kwargs)
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    del seen[__file__]
    return seen


def _arguments(call: TraceableCall, opened: Call) -> Iterable[CallArgument]:
    """Yields the arguments with leaves, most first."""
    leaves = Counter(root_name(leaf.name) for leaf in call.inputs)
    for name, count in leaves.most_common():
        value = opened.arguments.get(name)
        seconds = _repeated(lambda value=value: jax.tree.flatten(value))  # type: ignore[misc]
        yield CallArgument(name, count, seconds)
