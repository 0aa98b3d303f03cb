"""Layouts: how a program lies on several devices.

How a program lies on several devices is said by an equation in it (`parallel/mapping.py`), whose
parameters are a mesh and how each operand and result is cut: a partition spec names, for each axis
of the array, the axes of the mesh that it is cut along. Both are JAX's. In the language of the
Shardy dialect (openxla.org/shardy): `<mesh<["i"=4]>, [{"i"}, {}]>`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jaxlens.core.kernel.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, subjaxprs


class MeshLayout(NamedTuple):
    """How the arguments and results of a program are cut over a mesh of devices.

    Attributes:
        mesh: The mesh.
        in_specs: For each argument.
        out_specs: For each result.
    """

    mesh: Any
    in_specs: Sequence[Any]
    out_specs: Sequence[Any]


def layout(closed: ClosedJaxpr) -> MeshLayout | None:
    """Returns the layout of a program that has an equation over a mesh; None if there is none.

    Operands and results of the equation have its specs; everything else is replicated.

    Raises:
        ValueError: There are two meshes.
    """
    meshes = {eqn.params["mesh"] for eqn in _over_a_mesh(closed.jaxpr)}
    if len(meshes) > 1:
        raise ValueError(f"one program can use one mesh, got {' and '.join(map(str, meshes))}.")
    if not meshes:
        return None
    specs: dict[Any, Any] = {}
    for eqn in closed.eqns:
        if "mesh" in eqn.params:
            specs.update(zip(eqn.outvars, eqn.params["out_specs"], strict=True))
            for atom, spec in zip(eqn.invars, eqn.params["in_specs"], strict=True):
                specs.setdefault(atom, spec)
    inner = closed.jaxpr
    pick = [tuple(specs.get(x, ()) for x in xs) for xs in (inner.invars, inner.outvars)]
    return MeshLayout(meshes.pop(), *pick)


def _over_a_mesh(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    for eqn in jaxpr.eqns:
        if "mesh" in eqn.params:
            yield eqn
        for inner in subjaxprs(eqn.params):
            yield from _over_a_mesh(inner)


def names_of(names: str | Sequence[str]) -> tuple[str, ...]:
    """Returns one name or several as a tuple."""
    return (names,) if isinstance(names, str) else tuple(names)


def names_per_axis(spec: Any, ndim: int) -> list[tuple[str, ...]]:
    """Returns the mesh axes that each of `ndim` axes is cut along."""
    return [names_of(part or ()) for part in (*spec, *[None] * (ndim - len(spec)))]


def sharding_text(mesh: Any, spec: Any, ndim: int) -> str:
    """Formats a sharding for the Shardy dialect."""
    axes = ", ".join(f'"{name}"={n}' for name, n in mesh.shape.items())
    cuts = names_per_axis(spec, ndim)
    cut = ("{" + ", ".join(f'"{name}"' for name in names) + "}" for names in cuts)
    return f"<mesh<[{axes}]>, [{', '.join(cut)}]>"
