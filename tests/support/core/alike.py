"""One function in two libraries: everything that the transforms make of it must be equal."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

from jaxlens import core
from tests.support.core.models import CORE, JAX

FORWARD = ("value", "jvp", "vmap", "vmap of jvp")
MOST = ("value", "jvp", "grad", "grad of grad", "vmap of grad")
EVERY = (*FORWARD, *MOST[2:], "grad of vmap", "jvp of grad")
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def alike(make: Any, x: Any, what: tuple[str, ...] = MOST) -> None:
    """Compares what the transforms make of `make(library)`, a function of one array.

    Everything is one program for each library, so that little is compiled.
    """
    ours, theirs = (outcomes(lib, make(lib), what) for lib in (CORE, JAX))
    core.check_jaxpr(core.make_jaxpr(ours)(x))
    found, expected = both(lambda lib: ours if lib is CORE else theirs, x)
    for name in what:
        same(found[name], expected[name], name)


def outcomes(lib: Any, f: Any, what: tuple[str, ...]) -> Any:
    """The function of one array that gives the result of each transform of `f`, by name."""
    total = lambda x: _sum(lib, f(x))  # noqa: E731

    def every(x: Any) -> dict[str, Any]:
        two = lib.np.stack([x, x * 0.5])
        made = {
            "value": lambda: f(x),
            "jvp": lambda: lib.jvp(f, (x,), (x * 2,)),
            "vmap": lambda: lib.vmap(f)(two),
            "vmap of jvp": lambda: lib.vmap(lambda t: lib.jvp(f, (x,), (t,))[1])(two),
            "grad": lambda: lib.grad(total)(x),
            "grad of grad": lambda: lib.grad(lambda y: _sum(lib, lib.grad(total)(y)))(x),
            "vmap of grad": lambda: lib.vmap(lib.grad(total))(two),
            "grad of vmap": lambda: lib.grad(lambda y: _sum(lib, lib.vmap(f)(y)))(two),
            "jvp of grad": lambda: lib.jvp(lib.grad(total), (x,), (x * 2,)),
        }
        return {name: made[name]() for name in what}

    return every


def _sum(lib: Any, tree: Any) -> Any:
    return sum(lib.np.sin(leaf).sum() for leaf in jax.tree.leaves(tree))


def both(make: Any, *args: Any) -> list[Any]:
    """What one function gives in both libraries, compiled with little optimisation."""
    return [lib.jit(make(lib)).lower(*args).compile(QUICK)(*args) for lib in (CORE, JAX)]


def close(found: Any, expected: Any, tolerance: float) -> None:
    """Two trees of one structure and dtypes, whose elements may have few bits."""
    for x, y in zip(core.tree_leaves(found), jax.tree.leaves(expected), strict=True):
        assert x.dtype == y.dtype
        wide = np.result_type(y.dtype, np.float32) if y.dtype.kind in "fc" else np.float32
        pair = np.asarray(x).astype(wide), np.asarray(y).astype(wide)
        np.testing.assert_allclose(*pair, rtol=tolerance, atol=tolerance)


def same(found: Any, expected: Any, name: str = "") -> None:
    """Two trees hold equal arrays."""
    ours, theirs = core.tree_leaves(found), jax.tree.leaves(expected)
    assert len(ours) == len(theirs), name
    for x, y in zip(map(np.asarray, ours), map(np.asarray, theirs), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype), name
        if x.dtype != jax.dtypes.float0:
            np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-6, err_msg=name)


def as_weak(make: Any, x: Any) -> None:
    """The results of `make(library)` are equal, and of weak types where JAX's are."""
    same(make(CORE)(x), make(JAX)(x))
    ours, theirs = (lib.make_jaxpr(make(lib))(x).jaxpr.outvars for lib in (CORE, JAX))
    assert [v.aval.weak_type for v in ours] == [v.aval.weak_type for v in theirs]


def same_program(ours: Any, theirs: Any, *args: Any, tolerance: float = 1e-6) -> None:
    """Values, dtypes and the equations of two functions, one of core and one of JAX."""
    written = core.make_jaxpr(ours)(*args)
    core.check_jaxpr(written)
    assert primitives(written) == primitives(jax.make_jaxpr(theirs)(*args))
    found, expected = both(lambda lib: ours if lib is CORE else theirs, *args)
    found, expected = core.tree_leaves(found), jax.tree.leaves(expected)
    assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in expected]
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=tolerance)


def primitives(jaxpr: Any) -> list[tuple[str, list[Any]]]:
    """The equations of a jaxpr with their types; those in calls of jit stand where the call is."""
    found = []
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "jit":
            found += primitives(eqn.params["jaxpr"])
        else:
            types = [(v.aval.shape, str(v.aval.dtype)) for v in eqn.outvars]
            found.append((eqn.primitive.name, types))
    return found


def refused(kind: type[Exception], use: Any) -> str:
    """What ours says of a use that both libraries refuse with an error of this kind."""
    with pytest.raises(kind):
        use(JAX)
    with pytest.raises(kind) as caught:
        use(CORE)
    return str(caught.value)


def compiled_before(run: Any) -> None:
    """The second time nothing that runs is compiled."""
    run()
    seen = []
    with core.listen(lambda event: seen.append(event.kind)):
        run()
    assert "bind" in seen
    assert "compile" not in seen


def equations(jaxpr: Any) -> Iterator[tuple[str, int]]:
    """Name and number of nested equations of each equation, nested ones in place."""
    for eqn in jaxpr.eqns:
        inner = [list(equations(sub)) for sub in nested(eqn)]
        yield eqn.primitive.name, len(inner)
        for each in inner:
            yield from each


def nested(eqn: Any) -> list[Any]:
    """The jaxprs in an equation's parameters."""
    values = [v for _, v in sorted(eqn.params.items())]
    items = [x for v in values for x in (v if isinstance(v, list | tuple) else (v,))]
    found = [getattr(x, "jaxpr", x) for x in items]  # JAX has some with constants, some without
    return [x for x in found if hasattr(x, "eqns")]


def names(lib: Any, f: Any, *args: Any) -> list[str]:
    """The primitives of a function, nested ones in place."""
    return [name for name, _ in equations(lib.make_jaxpr(f)(*args).jaxpr)]
