"""Stamps the eqns of a jaxpr during lowering, so that each op's location names its eqn.

The name stack of every eqn is extended in place and restored afterwards, also after an error.
Eqns may be shared with jaxprs that the user keeps, and between captures in several threads. So
only one lowering is stamped at a time. A stamp's number is unique in the process, because JAX may
cache what it derives from a stamped eqn: a later lowering ignores numbers that are not its own.
"""

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from jaxlens import compat
from jaxlens.interrupts import uninterrupted
from jaxlens.ir.jaxpr.bodies import JaxprBody, bodies, opened
from jaxlens.ir.stablehlo.stamps import Paths, assign, restamp
from jaxlens.ir.stamps import alike, stamp

# Primitives whose bodies compile to code that contains locations and scopes as data.
_KERNELS = frozenset({"pallas_call", "core_map", "mpmd_map"})

_serial = itertools.count(1)
_one_at_a_time = threading.RLock()
# JAX returns the cached module if it has lowered the same jaxpr before, already stamped.
_modules: weakref.WeakKeyDictionary[Any, tuple[Paths, ...]] = weakref.WeakKeyDictionary()
Saved = list[tuple[Any, Any]]
Ids = dict[str, str]


def lowered(traced: Any, lower: Callable[[Any], Any], program: Any = None) -> tuple[Any, Ids]:
    """Lowers with stamps in the eqns.

    Args:
        traced: The `jax.stages.Traced`.
        lower: Lowers `traced`.
        program: The jaxpr of `jaxlens.core`, if `traced` is JAX's wrapper of it.

    Returns:
        The `jax.stages.Lowered`, and the eqn id of each stamp; both are arguments of `ops`.
    """
    with stamped(traced.jaxpr if program is None else program) as ids:
        return lower(traced), ids


def ops(done: Any, ids: Ids) -> tuple[Paths, ...]:
    """Replaces the eqn stamps in a module by op stamps; call it before the module is read.

    Returns:
        For each op, by its number, the equations that made it (`ir.stablehlo.stamps.restamp`).
    """
    with _one_at_a_time:
        module = done.compiler_ir("stablehlo")
        if module not in _modules:
            _modules[module] = restamp(module, ids)
        return _modules[module]


def none() -> AbstractContextManager[Any]:
    """Returns the stamping lock: no eqn is stamped while it is held, in any thread."""
    return _one_at_a_time


@uninterrupted
def stamped(jaxpr: Any) -> Iterator[Ids]:
    """Stamps every eqn of a jaxpr during the `with` block; yields the eqn id of each stamp.

    Ids are those of `ir.jaxpr.reader.read`. Nothing is stamped if a scope or function name of the
    user's looks like a stamp, or if this version of JAX has other name stacks; eqns in the bodies
    of Pallas kernels never are.
    """
    saved: Saved = []
    ids: Ids = {}
    with _one_at_a_time:
        try:
            _stamp(bodies(opened(jaxpr)), ids, saved)
            yield ids
        finally:
            assign("source_info", saved[::-1])


def _stamp(by_id: dict[int, JaxprBody], ids: Ids, saved: Saved) -> None:
    named = compat.named_last()
    if named is None:
        return
    kernels = _in_kernels(by_id)
    names: set[Any] = set()
    functions: set[Any] = set()
    for key, body in by_id.items():
        if key in kernels:
            continue
        for eqn, ident in zip(body.jaxpr.eqns, body.ids, strict=True):
            source, serial = eqn.source_info, f"e{next(_serial)}"
            core = isinstance(source.name_stack, tuple)  # a name stack of jaxlens.core: names alone
            names.update(source.name_stack if core else compat.scope_names(source))
            if "name" in eqn.params:
                functions.add(str(eqn.params["name"]))
            saved.append((eqn, source))
            if core:
                eqn.source_info = replace(source, name_stack=(*source.name_stack, stamp(serial)))
            else:
                eqn.source_info = named(source, stamp(serial))
            ids[serial] = ident
    if any(map(alike, functions)) or any(alike(getattr(part, "name", part)) for part in names):
        assign("source_info", saved[::-1])
        ids.clear()


def _in_kernels(by_id: dict[int, JaxprBody]) -> set[int]:
    """Returns the bodies that kernels reach; one pass suffices, as callers precede callees."""
    inside: set[int] = set()
    for key, body in by_id.items():
        for index, callees in body.inner.items():
            if key in inside or body.jaxpr.eqns[index].primitive.name in _KERNELS:
                inside.update(map(id, callees))
    return inside
