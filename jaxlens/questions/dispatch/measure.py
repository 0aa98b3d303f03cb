"""Times the parts of a call, in turns with a program that computes nothing.

empty      a jitted function of the same arguments and as many results, which computes nothing
hollow     the library's wrapper with the empty one in place of its jit; it gets ready results
jit        the jitted function inside, with the arguments that the wrapper hands over
wrapper = hollow - empty, device = jit - empty, dispatch = empty - flatten - unflatten. Beside
executions that were timed no function is called: device = run - empty, compiled ahead of time.
"""

import copy
import gc
import itertools
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import jax
import numpy as np

from jaxlens import compat, progress
from jaxlens.call.traceable import TraceableCall, prepare
from jaxlens.compat.calls_heard import unheard
from jaxlens.errors import UnavailableError
from jaxlens.ir.driver import Run
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
    call, staging = call_of(live), live.staging
    opened = call.unwrapped
    check(list(call.leaves), live.names(), "--dispatch")
    check_local((opened.args, opened.kwargs), "--dispatch")
    if staging.place.target.absent:
        raise UnavailableError("the device is not here, so that nothing can be called on it")
    live.check_effects("--dispatch calls it some 30 times")
    live.check_refs()
    infos = jax.tree.leaves(staging.traced.args_info, is_leaf=lambda x: hasattr(x, "donated"))
    donates = any(getattr(info, "donated", False) for info in infos)
    doing = progress.step(f"jaxlens calls {call.name}")
    # What JAX warns of, such as arrays donated in vain, it says in the user's own call.
    with staging.as_called(), doing, unheard(), warnings.catch_warnings(action="ignore"):
        # A new jit of the function, so that the entries of the user's own stay as they are.
        again = prepare(opened.function, opened.args, opened.kwargs, call.name)
        return _measured(again, donates)


def call_of(live: LiveDriver) -> TraceableCall:
    """Returns the call with its arguments, which a compile lets go.

    Raises:
        UnavailableError: It is not called as JAX calls, or was compiled before.
    """
    staging = live.staging
    if staging.by_core:
        raise UnavailableError("a program of jaxlens.core is not called as JAX calls its own")
    if staging.has("lowering"):
        raise UnavailableError(
            "it was compiled for another question, and its arguments were let go: ask --dispatch "
            "in a look of its own"
        )
    _ = staging.opened
    return staging.call


def beside(live: LiveDriver, call: TraceableCall, run: Run) -> CallCost:
    """Measures what a call takes beside executions that were timed; it is not called again.

    Args:
        live: The program.
        call: Its call, from before the compile.
        run: The executions.

    Raises:
        UnavailableError: Its wrapper cannot be timed without its program.
    """
    with live.staging.as_called(), unheard():
        return _measured(call, False, run)


def _measured(call: TraceableCall, donates: bool, run: Run | None = None) -> CallCost:
    inner = call.inner
    jit = _jitted(call)
    results = run.outputs if run else _call(jit, donates)[2]
    parts_of = compat.jit_parts(inner.call.function if inner else call.traceable)
    empty = _empty(jit, parts_of[1].static_argnums if parts_of else (), results)
    nothing: Any = empty[0]
    ahead: Way = (nothing.lower(*jit[1], **jit[2]).compile(), *call.dynamic())
    one: Way = (jax.jit(lambda x: x), (jax.numpy.float32(0),), {})
    ways = {"empty": empty, _AHEAD: ahead, "one leaf": one}
    hollow = _hollow(call, nothing, results) if inner is not None else None
    if hollow is not None:
        ways |= {"hollow": hollow} | _cached(call, hollow)
    if run is None:
        ways["jit"] = jit
    whole = jit
    if inner is not None and hollow is None:
        if run is not None:
            raise UnavailableError("its wrapper cannot be called without its program")
        whole = ways["whole"] = _with_copies(call, call.unwrapped.function)
    took = _turns(ways, donates)
    values, tree = jax.tree.flatten(results)
    flatten = _repeated(lambda: jax.tree.flatten(jit[1:]))
    unflatten = _repeated(lambda: jax.tree.unflatten(tree, values))
    through_jit = took["empty"]
    look_up = max(through_jit - flatten - unflatten, 0.0)
    parts = [
        CallPart("jit flattens the arguments", flatten),
        CallPart("jit looks the call up and hands it over", look_up),
        CallPart("jit unflattens the results", unflatten),
    ]
    if inner is None:
        jit_name, tried = "jax.jit", [CallPart(_AHEAD, took[_AHEAD], _CODE[_AHEAD])]
    else:
        jit_name, tried = inner.jit, []
        over = took["hollow"] - through_jit if hollow else took["whole"] - took["jit"]
        parts.insert(0, CallPart(f"the wrapper of {jit_name}", max(over, 0.0)))
        if _CACHED in took:
            tried.append(CallPart(_CACHED, took[_CACHED], _CODE[_CACHED]))
        if jit_name in _SPLIT:
            tried.append(CallPart("the jax.jit inside, alone", through_jit, _SPLIT[jit_name]))
    device = took["jit"] - through_jit if run is None else min(run.seconds) - took[_AHEAD]
    seen = _profiled(whole, donates) if run is None else Counter[str]()
    is_fast = not any(file.endswith(_INSIDE) for file in seen)
    if hollow is not None and run is None:
        seen = _profiled(hollow) if is_fast else seen + _profiled(hollow) - _profiled(empty)
    leaves = len(values) + len(call.inputs)
    return CallCost(
        call.name,
        jit_name,
        tuple(parts),
        max(device, 0.0),
        tuple(_arguments(call)),
        len(values),
        seen.total(),
        is_fast,
        tuple(tried),
        max(through_jit - took["one leaf"], 0.0) / max(leaves, 1),
        took["one leaf"],
        call.unjitted,
    )


_AHEAD, _CACHED = "compiled ahead of time", "nnx.cached_partial"


_CODE = {
    _AHEAD: "compiled = f.lower(...).compile(), then compiled(...)",
    _CACHED: "nnx.cached_partial(f, model), made once",
}
_SPLIT = {
    "nnx.jit": "graphdef, state = nnx.split(model) once, and jax.jit of the state",
    "eqx.filter_jit": "arrays, static = eqx.partition(model, eqx.is_array) once, and jax.jit of "
    "the arrays",
}


def _jitted(call: TraceableCall) -> Way:
    """Returns a call of the new jit; that of a library is traced within its wrapper's context."""

    def within(*args: Any, **kwargs: Any) -> Any:
        assert call.inner is not None
        with call.inner.within():
            return call.traceable(*args, **kwargs)

    is_nnx = call.inner is not None and call.inner.jit == "nnx.jit"
    return within if is_nnx else call.traceable, call.args, call.kwargs


def _with_copies(call: TraceableCall, function: Callable[..., Any]) -> Way:
    """Returns a call of a function with copies of all that it may write; arrays are shared."""
    opened = call.unwrapped
    args, kwargs = _copied((opened.args, opened.kwargs), call.leaves)
    return function, args, kwargs


def _copied(value: Any, shared: Iterable[Any] = ()) -> Any:
    same = [x for x in shared if isinstance(x, jax.Array)]
    # Equinox passes trees without arrays, whose nodes know sentinels by their identity.
    same += [x for x in jax.tree.leaves(value) if isinstance(x, jax.tree_util.PyTreeDef)]
    try:
        return copy.deepcopy(value, {id(x): x for x in same})
    except Exception as error:  # of any object of the user's
        raise UnavailableError(
            f"--dispatch calls it on copies of its arguments, and one cannot be copied "
            f"({type(error).__name__})"
        ) from None


def _hollow(call: TraceableCall, empty: Callable[..., Any], results: Any) -> Way | None:
    """Returns a call of the wrapper with `empty` in place of its jit, which gets `results`.

    None for a wrapper that makes its jit anew in each call.
    """
    assert call.inner is not None
    wrapper = call.unwrapped.function
    own = getattr(wrapper, "__dict__", {}).items()
    names = [name for name, value in own if value is call.inner.call.function]
    if not names:
        return None

    def ready(*args: Any, **kwargs: Any) -> Any:
        empty(*args, **kwargs)
        return results

    hollow = copy.copy(wrapper)
    for name in names:
        object.__setattr__(hollow, name, ready)
    return _with_copies(call, hollow)


def _cached(call: TraceableCall, hollow: Way) -> dict[str, Way]:
    """Returns the wrapper's call by `nnx.cached_partial`, where it can be tried."""
    function, args, kwargs = hollow
    nnx: Any = sys.modules.get("flax.nnx")
    if nnx is None or call.inner is None or call.inner.jit != "nnx.jit":
        return {}
    args = _with_copies(call, function)[1]
    models = [*itertools.takewhile(lambda x: isinstance(x, (nnx.Module, nnx.Optimizer)), args)]
    if not models:
        return {}
    with suppress(Exception):
        way = nnx.cached_partial(function, *models), args[len(models) :], kwargs
        _call(way, donates=False)
        return {_CACHED: way}
    return {}


def _empty(jit: Way, static: tuple[int, ...], results: Any) -> Way:
    """Returns a call with the same arguments and as many results that computes nothing."""
    made = jax.tree.map(lambda _: np.float32(0), results)

    def empty(*_: Any, **__: Any) -> Any:
        return made

    return jax.jit(empty, keep_unused=True, static_argnums=static), *jit[1:]


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
    """Returns the least seconds of each way until its results are ready, called in turns.

    The least, as other work on the machine delays most calls.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    end = time.perf_counter() + _SECONDS
    for turn in range(_WARM + _TURNS):
        for name, way in ways.items():
            took = _call(way, donates and name in ("jit", "whole"))[1]
            if turn >= _WARM:
                seconds[name].append(took)
        if turn > 2 * _WARM and time.perf_counter() > end:
            break
    return {name: min(times) for name, times in seconds.items()}


def _repeated(function: Callable[[], object]) -> float:
    """Returns the least seconds of a function that is short."""
    took = []
    for _ in range(_TURNS):
        start = time.perf_counter()
        function()
        took.append(time.perf_counter() - start)
    return min(took)


def _profiled(way: Way, donates: bool = False) -> Counter[str]:
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


def _arguments(call: TraceableCall) -> Iterable[CallArgument]:
    """Yields the arguments with leaves, most first."""
    leaves = Counter(root_name(leaf.name) for leaf in call.inputs)
    for name, count in leaves.most_common():
        value = call.unwrapped.arguments.get(name)
        seconds = _repeated(lambda value=value: jax.tree.flatten(value))  # type: ignore[misc]
        yield CallArgument(name, count, seconds)
