"""ModuleState for XLA: the kernel's module, with donated arguments and layouts on several devices.

func @main(%arg0: tensor<8xf32> {sdy.sharding = ..., tf.aliasing_output = 0 : i32}) -> ...
"""

from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir

from jaxlens.core.kernel.jaxpr import ClosedJaxpr
from jaxlens.core.kernel.run import ModuleState, lower_body, lower_jaxpr
from jaxlens.core.kernel.types import ShapedArray
from jaxlens.core.parallel.meshes import MeshLayout, P, sharding_text


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
    avals: Sequence[ShapedArray], extra: Sequence[dict[str, Any]], layout: Any, specs: Sequence[P]
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
