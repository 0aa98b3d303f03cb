"""Stamps a traced program's equations while it is lowered, so that each op names its equation.

The name stack of every equation is extended in place and put back afterwards, whatever happens.
Equations may be shared: with jaxprs that the user holds, and between looks in several threads.
So one lowering is stamped at a time, and a stamp is a number of its process, which means nothing
to any other lowering: JAX may keep what it derived from a stamped equation.
"""

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jaxlens.ir.jaxpr_bodies import Body, bodies, opened
from jaxlens.ir.stablehlo_stamps import Paths, restamp
from jaxlens.ir.stamps import alike, stamp
from jaxlens.stages import compat

# Their bodies are compiled to code that holds locations and scopes as data.
_KERNELS = frozenset({"pallas_call", "core_map", "mpmd_map"})

_serial = itertools.count(1)
_one_at_a_time = threading.RLock()
# JAX hands out one module where it has lowered the very jaxpr before; its stamps are then there.
_modules: weakref.WeakKeyDictionary[Any, tuple[Paths, ...]] = weakref.WeakKeyDictionary()
Saved = list[tuple[Any, Any]]


def lowered(
    traced: Any, lower: Callable[[Any], Any], meant: Any = None
) -> tuple[Any, tuple[Paths, ...]]:
    """Lowers with stamps; the module that comes out carries those of its own ops.

    Args:
        traced: JAX's own traced object.
        lower: Lowers `traced`.
        meant: The jaxpr whose ids are wanted, where `traced` is another trace of the same call.
            If its equations are others, no op names one.

    Returns:
        JAX's own lowered object, and for each op by number the equations that made it; see
        `ir.stablehlo_stamps.restamp`.
    """
    with _one_at_a_time:
        with stamped(traced.jaxpr, meant) as ids:
            done = lower(traced)
        module = done.compiler_ir("stablehlo")
        if module not in _modules:
            _modules[module] = restamp(module, ids)
        return done, _modules[module]


@contextmanager
def none() -> Iterator[None]:
    """Within it, no equation is stamped, also not by a lowering in another thread."""
    with _one_at_a_time:
        yield


@contextmanager
def stamped(jaxpr: Any, meant: Any = None) -> Iterator[dict[str, str]]:
    """Within it, every equation of a jaxpr is stamped; gives which stamp stands for which id.

    Ids are those of `ir.jaxpr.read`. Nothing is stamped where a scope or function of the user's
    could be taken for a stamp, where JAX's name stacks are not as we know them, or in kernels.
    """
    saved: Saved = []
    ids: dict[str, str] = {}
    with _one_at_a_time:
        try:
            found = bodies(opened(jaxpr))
            if meant is None or _equal(found, bodies(opened(meant))):
                _stamp(found, ids, saved)
            yield ids
        finally:
            _restore(saved)


def _stamp(found: dict[int, Body], ids: dict[str, str], saved: Saved) -> None:
    end_with = compat.name_stack_end()
    if end_with is None or _looks_stamped(found):
        return
    kernels = _in_kernels(found)
    for key, body in found.items():
        if key in kernels:
            continue
        for eqn, ident in zip(body.jaxpr.eqns, body.ids, strict=True):
            source = eqn.source_info
            serial = f"e{next(_serial)}"
            stack = end_with(source.name_stack, stamp(serial))
            saved.append((eqn, source))
            eqn.source_info = source.replace(name_stack=stack)
            ids[serial] = ident


def _restore(saved: Saved) -> None:
    """Puts all back, also where an interrupt comes in between."""
    interrupt = None
    while saved:
        try:
            eqn, source = saved[-1]
            eqn.source_info = source
            saved.pop()
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt


def _looks_stamped(found: dict[int, Body]) -> bool:
    """Whether a scope, or a function whose name becomes one, could be taken for a stamp."""
    stacks: dict[int, Any] = {}
    for body in found.values():
        for eqn in body.jaxpr.eqns:
            stack = eqn.source_info.name_stack
            stacks[id(stack)] = stack
            name = eqn.params.get("name")
            if isinstance(name, str) and alike(name):
                return True
    return any(alike(str(stack)) for stack in stacks.values())


def _in_kernels(found: dict[int, Body]) -> set[int]:
    """The bodies that some kernel uses, itself or through what it calls; callers come first."""
    inside: set[int] = set()
    for key, body in found.items():
        for index, held in body.inner.items():
            if key in inside or body.jaxpr.eqns[index].primitive.name in _KERNELS:
                inside.update(map(id, held))
    return inside


def _equal(found: dict[int, Body], others: dict[int, Body]) -> bool:
    """Whether the programs have equations of the same ids, one to one."""
    return len(found) == len(others) and all(
        one.name == other.name
        and list(one.ids) == list(other.ids)
        and [e.primitive for e in one.jaxpr.eqns] == [e.primitive for e in other.jaxpr.eqns]
        for one, other in zip(found.values(), others.values(), strict=True)
    )
