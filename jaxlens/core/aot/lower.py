"""Lowering for XLA: the kernel's module, with donated arguments and layouts on several devices.

    func @main(%arg0: tensor<8xf32> {sdy.sharding = ..., tf.aliasing_output = 0 : i32}) -> ...

How a program lies on several devices is said by an equation in it (`parallel/mapping.py`), whose
parameters are a mesh and how each operand and result is cut: a tuple that names, for each axis of
the array, the axes of the mesh that it is cut along. In the language of the Shardy dialect
(openxla.org/shardy): `<mesh<["i"=4]>, [{"i"}, {}]>`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jaxlib.mlir import ir

from jaxlens.core.kernel.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, subjaxprs
from jaxlens.core.kernel.run import ModuleState, lower_body, lower_jaxpr
from jaxlens.core.kernel.types import ShapedArray

Spec = tuple[Any, ...]  # for each axis of an array: a name of a mesh axis, several, or None


class MeshLayout(NamedTuple):
    """How the arguments and results of a program are cut over a mesh of devices.

    Attributes:
        mesh: The mesh, a `parallel.meshes.Mesh`.
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
    specs: dict[Any, Spec] = {}
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


def names_per_axis(spec: Spec, ndim: int) -> list[tuple[str, ...]]:
    """Returns the mesh axes that each of `ndim` axes is cut along."""
    return [names_of(part or ()) for part in (*spec, *[None] * (ndim - len(spec)))]


def sharding_text(mesh: Any, spec: Spec, ndim: int) -> str:
    """Formats a sharding for the Shardy dialect."""
    axes = ", ".join(f'"{name}"={n}' for name, n in mesh.shape.items())
    cuts = names_per_axis(spec, ndim)
    cut = ("{" + ", ".join(f'"{name}"' for name in names) + "}" for names in cuts)
    return f"<mesh<[{axes}]>, [{', '.join(cut)}]>"


def lower_program(
    closed: ClosedJaxpr,
    name: str,
    *,
    aliases: Sequence[int | None] = (),
    arg_names: Sequence[str] = (),
    result_names: Sequence[str] = (),
    layout: MeshLayout | None = None,
) -> ir.Module:
    """Returns a module whose `main` is a jaxpr.

    Args:
        closed: The jaxpr.
        name: The name of the function that was traced.
        aliases: For each parameter, which result may use its memory; None for none.
        arg_names: The name of each parameter.
        result_names: The name of each result.
        layout: How the program lies on several devices; None for one device.
    """
    module = lower_jaxpr(closed, name, arg_names, layout)
    with module.context, ir.Location.unknown():
        attributes, main = module.operation.attributes, module.body.operations[0]
        attributes["mhlo.num_replicas"] = _i32(1)
        attributes["mhlo.num_partitions"] = _i32(layout.mesh.size if layout else 1)
        donations = [{} if n is None else {"tf.aliasing_output": _i32(n)} for n in aliases]
        infos = [{"jax.result_info": ir.StringAttr.get(result)} for result in result_names]
        ins, outs = layout[1:] if layout else ((), ())
        main.attributes["arg_attrs"] = _attributes(closed.in_avals, donations, layout, ins)
        main.attributes["res_attrs"] = _attributes(closed.out_avals, infos, layout, outs)
        module.operation.verify()
    return module


def _attributes(
    avals: Sequence[ShapedArray],
    extra: Sequence[dict[str, Any]],
    layout: Any,
    specs: Sequence[Spec],
) -> ir.ArrayAttr:
    """Returns the attributes of each parameter or result, with its sharding."""
    attributes = [dict(own) for own in extra] or [{} for _ in avals]
    for own, spec, aval in zip(attributes, specs, avals, strict=False):
        text = "#sdy.sharding" + sharding_text(layout.mesh, spec, aval.ndim)
        own["sdy.sharding"] = ir.Attribute.parse(text)
    return ir.ArrayAttr.get(list(map(ir.DictAttr.get, attributes)))


def _i32(number: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), number)


def lower_into(
    module: ir.Module,
    closed: ClosedJaxpr,
    operands: Sequence[ir.Value],
    layout: MeshLayout | None = None,
) -> list[ir.Value]:
    """Emits the ops of a jaxpr into a module that another library is writing.

    Args:
        module: The module. Its context, insertion point and location are current.
        closed: A jaxpr without constants.
        operands: Its arguments.
        layout: How it lies on the devices that the module is for; None for one device.
    """
    symbols = {op.attributes["sym_name"].value for op in module.body if "sym_name" in op.attributes}
    return lower_body(ModuleState(module, {"main", *symbols}, layout), closed, operands, ())
