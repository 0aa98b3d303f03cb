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
from dataclasses import replace
from typing import Any

from jaxlens.ir.jaxpr.bodies import JaxprBody, bodies, opened
from jaxlens.ir.stablehlo.stamps import Paths, assign, restamp
from jaxlens.ir.stamps import alike, stamp
from jaxlens.stages import compat

# Their bodies are compiled to code that holds locations and scopes as data.
_KERNELS = frozenset({"pallas_call", "core_map", "mpmd_map"})

_serial = itertools.count(1)
_one_at_a_time = threading.RLock()
# JAX hands out one module where it has lowered the very jaxpr before; its stamps are then there.
_modules: weakref.WeakKeyDictionary[Any, tuple[Paths, ...]] = weakref.WeakKeyDictionary()
Saved = list[tuple[Any, Any]]
Ids = dict[str, str]


def lowered(
    traced: Any, lower: Callable[[Any], Any], meant: Any = None, program: Any = None
) -> tuple[Any, Ids]:
    """Lowers with stamps in the equations.

    Args:
        traced: JAX's own traced object.
        lower: Lowers `traced`.
        program: The core's jaxpr, where `traced` is only its wrapping.
        meant: The jaxpr whose ids are wanted, where `traced` is another trace of the same call.
            If its equations are others, none is stamped.

    Returns:
        JAX's own lowered object, and which equation each stamp stands for; both are for `ops`.
    """
    with stamped(traced.jaxpr if program is None else program, meant) as ids:
        return lower(traced), ids


def ops(done: Any, ids: Ids) -> tuple[Paths, ...]:
    """Has the lowered program's ops stamped instead; to be called before anything else reads it.

    Returns:
        For each op, by its number, the equations that made it (`ir.stablehlo.stamps.restamp`).
    """
    with _one_at_a_time:
        module = done.compiler_ir("stablehlo")
        if module not in _modules:
            _modules[module] = restamp(module, ids)
        return _modules[module]


@contextmanager
def none() -> Iterator[None]:
    """Within it, no equation is stamped, also not by a lowering in another thread."""
    with _one_at_a_time:
        yield


@contextmanager
def stamped(jaxpr: Any, meant: Any = None) -> Iterator[Ids]:
    """Within it, every equation of a jaxpr is stamped; gives which stamp stands for which id.

    Ids are those of `ir.jaxpr.read`. Nothing is stamped where a scope or function of the user's
    could be taken for a stamp, where JAX's name stacks are not as we know them, or in kernels.
    """
    saved: Saved = []
    ids: Ids = {}
    with _one_at_a_time:
        try:
            found = bodies(opened(jaxpr))
            if meant is None or _equal(found, bodies(opened(meant))):
                _stamp(found, ids, saved)
            yield ids
        finally:
            assign("source_info", saved[::-1])


def _stamp(found: dict[int, JaxprBody], ids: Ids, saved: Saved) -> None:
    named = compat.named_last()
    if named is None or not compat.has_location_parts():
        return
    kernels = _in_kernels(found)
    names: set[Any] = set()
    functions: set[Any] = set()
    for key, body in found.items():
        if key in kernels:
            continue
        for eqn, ident in zip(body.jaxpr.eqns, body.ids, strict=True):
            source, serial = eqn.source_info, f"e{next(_serial)}"
            core = isinstance(source.name_stack, tuple)  # jaxlens.core's: names alone
            names.update(source.name_stack if core else compat.scope_names(source))
            if "name" in eqn.params:
                functions.add(str(eqn.params["name"]))
            saved.append((eqn, source))
            if core:
                words = (*source.name_stack, stamp(serial))
                eqn.source_info = replace(source, name_stack=words)
            else:
                eqn.source_info = named(source, stamp(serial))
            ids[serial] = ident
    if any(map(alike, functions)) or any(alike(getattr(part, "name", part)) for part in names):
        assign("source_info", saved[::-1])
        ids.clear()


def _in_kernels(found: dict[int, JaxprBody]) -> set[int]:
    """The bodies that some kernel uses, itself or through what it calls; callers come first."""
    inside: set[int] = set()
    for key, body in found.items():
        for index, held in body.inner.items():
            if key in inside or body.jaxpr.eqns[index].primitive.name in _KERNELS:
                inside.update(map(id, held))
    return inside


def _equal(found: dict[int, JaxprBody], others: dict[int, JaxprBody]) -> bool:
    """Whether the programs have equations of the same ids, one to one."""
    return len(found) == len(others) and all(
        one.name == other.name
        and list(one.ids) == list(other.ids)
        and [e.primitive for e in one.jaxpr.eqns] == [e.primitive for e in other.jaxpr.eqns]
        for one, other in zip(found.values(), others.values(), strict=True)
    )
