"""From a jaxpr to StableHLO: what XLA is given.

StableHLO is the portable language of array programs; its ops are nearly the primitives, with the
dtypes and shapes spelled out. Lowering goes through the equations once and lets each primitive's
rule emit its ops, marked with the Python line that the equation came from. A jaxpr in a jaxpr (a
`jit` inside a `jit`) becomes a function of the module, once however often it is called.

After the StableHLO specification (openxla.org/stablehlo/spec).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, func, sdy
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core import sources
from jaxlens.core.avals import ShapedArray, bfloat16, float0
from jaxlens.core.jaxprs import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jaxlens.core.parallel.meshes import Layout, Mesh, P, sharding_text
from jaxlens.core.primitives.shapes import i64s
from jaxlens.core.sources import NameStack

Types = Sequence[ShapedArray]


def ir_type(aval: ShapedArray) -> ir.Type:
    """The MLIR type of an array."""
    return ir.RankedTensorType.get(aval.shape, _element(aval.dtype))


def _element(dtype: np.dtype) -> ir.Type:
    if dtype == bfloat16:
        return ir.BF16Type.get()
    bits = dtype.itemsize * 8
    if dtype.kind == "f":
        return {16: ir.F16Type, 32: ir.F32Type, 64: ir.F64Type}[bits].get()
    if dtype.kind == "c":
        return ir.ComplexType.get({64: ir.F32Type, 128: ir.F64Type}[bits].get())
    if dtype.kind == "b" or dtype == float0:  # float0 has no numbers: something must stand for it
        return ir.IntegerType.get_signless(1)
    if dtype.kind == "u":
        return ir.IntegerType.get_unsigned(bits)
    return ir.IntegerType.get_signless(bits)


def constant(value: Any, aval: ShapedArray) -> ir.Value:
    """An array that stands in the program."""
    array = np.zeros(aval.shape, bool) if aval.dtype == float0 else np.asarray(value, aval.dtype)
    if aval.dtype == bfloat16:
        array = array.view(np.uint16)
    return hlo.constant(
        ir.DenseElementsAttr.get(
            np.ascontiguousarray(array), type=_element(aval.dtype), shape=aval.shape
        )
    )


@dataclass(slots=True)
class Program:
    """The module that is being written.

    Attributes:
        module: It.
        functions: Names of its functions, by what they write down.
        names: Names that are taken.
        mesh: The devices that it is for, if several.
        places: Locations of calls, which many equations share.
    """

    module: ir.Module
    functions: dict[Any, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    mesh: Mesh | None = None
    places: dict[sources.Call, ir.Location] = field(default_factory=dict)

    def free_name(self, name: str) -> str:
        """The name, with a number if it is taken."""
        base = plain(name)
        found, number = base, 0
        while found in self.names:
            found, number = f"{base}_{number}", number + 1
        self.names.add(found)
        return found


def plain(name: str) -> str:
    """The name of a function, of letters that a module may have."""
    return re.sub(r"[^\w.-]", "_", name.removesuffix(">")) or "f"


@dataclass(frozen=True, slots=True)
class Context:
    """What a lowering rule is told, and the ops that many rules use.

    Attributes:
        program: The module.
        avals_in: Types of the operands.
        avals_out: Types of the results.
        scopes: Names of what is around, outermost first.
    """

    program: Program
    avals_in: Types
    avals_out: Types
    scopes: tuple[str, ...] = ()

    @property
    def out(self) -> ShapedArray:
        """The type of the one result."""
        return self.avals_out[0]

    type = staticmethod(ir_type)
    constant = staticmethod(constant)

    def same_shape(self, *operands: ir.Value) -> list[ir.Value]:
        """The operands, scalars and axes of length 1 repeated to the shape of the result."""
        shape = self.out.shape
        return [
            x
            if aval.shape == shape
            else hlo.broadcast_in_dim(ir_type(aval.update(shape=shape)), x, i64s(range(aval.ndim)))
            for x, aval in zip(operands, self.avals_in, strict=True)
        ]

    def convert(self, x: ir.Value, old: ShapedArray, new: ShapedArray) -> ir.Value:
        """Elements of another dtype: truth is what is not zero; a complex loses its imaginary."""
        if old.dtype == new.dtype:
            return x
        if new.dtype == np.bool_:
            zero = constant(np.zeros(old.shape, old.dtype), old)
            kind = (
                "FLOAT"
                if old.dtype.kind in "fcV"
                else ("UNSIGNED" if old.dtype.kind == "u" else "SIGNED")
            )
            return self.compare("NE", x, zero, kind)
        if old.dtype.kind == "c" and new.dtype.kind != "c":
            x = hlo.real(x)
        return hlo.convert(ir_type(new), x)

    def compare(self, direction: str, x: ir.Value, y: ir.Value, kind: str) -> ir.Value:
        """A comparison; `kind` is FLOAT, TOTALORDER, SIGNED or UNSIGNED."""
        return hlo.compare(
            x, y, hlo.ComparisonDirectionAttr.get(direction),
            compare_type=hlo.ComparisonTypeAttr.get(kind),
        )  # fmt: skip

    def reduce(
        self, op: Callable[..., Any], x: ir.Value, start: Any, axes: Sequence[int]
    ) -> ir.Value:
        """`op` over axes, beginning with the number `start`."""
        scalar = ShapedArray((), self.avals_in[0].dtype)
        reduced = hlo.ReduceOp([ir_type(self.out)], [x], [constant(start, scalar)], i64s(axes))
        block = reduced.regions[0].blocks.append(ir_type(scalar), ir_type(scalar))
        with ir.InsertionPoint(block):
            hlo.return_([op(*block.arguments)])
        return reduced.results[0]

    def call(self, name: str, closed: ClosedJaxpr, *operands: ir.Value) -> list[ir.Value]:
        """A jaxpr as a function of the module, and a call of it."""
        known = self.program.functions.get(closed)
        if known is None:
            known = self.program.functions[closed] = self.program.free_name(name)
            with ir.InsertionPoint(self.program.module.body):
                _function(self.program, known, closed)
        types = list(map(ir_type, closed.out_avals))
        return list(func.CallOp(types, ir.FlatSymbolRefAttr.get(known), list(operands)).results)

    def inline(self, closed: ClosedJaxpr, *operands: ir.Value, scope: str = "") -> list[ir.Value]:
        """The ops of a jaxpr, here: the body of a loop or a branch, which `scope` may name."""
        scopes = (*self.scopes, scope) if scope else self.scopes
        return _body(self.program, closed, operands, scopes)


def lower_jaxpr(
    closed: ClosedJaxpr,
    name: str,
    *,
    donated: Sequence[int | None] = (),
    arg_names: Sequence[str] = (),
    result_names: Sequence[str] = (),
    layout: Layout | None = None,
) -> ir.Module:
    """A module whose `main` is a jaxpr.

    Args:
        closed: The jaxpr.
        name: The function's.
        donated: For each parameter, which result may use its memory; None for none.
        arg_names: What each parameter is called.
        result_names: What each result is called.
        layout: How it lies on several devices; None for one.
    """
    with _mlir(), ir.Location.unknown():
        module = ir.Module.create()
        module.operation.attributes["sym_name"] = ir.StringAttr.get(f"jit_{plain(name)}")
        module.operation.attributes["mhlo.num_replicas"] = _i32(1)
        module.operation.attributes["mhlo.num_partitions"] = _i32(layout.mesh.size if layout else 1)
        program = Program(module, names={"main"}, mesh=layout.mesh if layout else None)
        with ir.InsertionPoint(module.body):
            main = _function(program, "main", closed, f"jit({name})", arg_names)
        aliases = [{} if n is None else {"tf.aliasing_output": _i32(n)} for n in donated]
        infos = [{"jax.result_info": ir.StringAttr.get(found)} for found in result_names]
        if layout:
            aliases = _laid_out(layout.mesh, layout.in_specs, closed.in_avals, aliases)
            infos = _laid_out(layout.mesh, layout.out_specs, closed.out_avals, infos)
        if any(aliases):
            main.arg_attrs = ir.ArrayAttr.get(list(map(ir.DictAttr.get, aliases)))
        if infos:
            main.attributes["res_attrs"] = ir.ArrayAttr.get(list(map(ir.DictAttr.get, infos)))
        module.operation.verify()
        return module


def _laid_out(
    mesh: Mesh, specs: Sequence[P], avals: Types, attributes: Sequence[dict[str, ir.Attribute]]
) -> list[dict[str, ir.Attribute]]:
    """The attributes of parameters or results, and how each lies on the mesh."""
    found = []
    for n, (spec, aval) in enumerate(zip(specs, avals, strict=True)):
        text = "#sdy.sharding" + sharding_text(mesh, spec, aval.ndim)
        own = attributes[n] if attributes else {}
        found.append(own | {"sdy.sharding": ir.Attribute.parse(text)})
    return found


def _i32(number: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), number)


def emit(
    module: ir.Module,
    closed: ClosedJaxpr,
    operands: Sequence[ir.Value],
    layout: Layout | None = None,
) -> list[ir.Value]:
    """Writes a jaxpr's ops into a module that somebody else is writing, where they are now.

    Args:
        module: It. Its context, insertion point and location are current.
        closed: A jaxpr without constants.
        operands: Its arguments.
        layout: How it lies on several devices, which the module must be for; None for one.
    """
    taken = {op.attributes["sym_name"].value for op in module.body if "sym_name" in op.attributes}
    mesh = layout.mesh if layout else None
    return _body(Program(module, names={"main", *taken}, mesh=mesh), closed, operands, ())


@cache
def _dialects() -> ir.DialectRegistry:
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    return registry


@contextmanager
def _mlir() -> Iterator[None]:
    context = ir.Context()
    context.append_dialect_registry(_dialects())
    context.load_all_available_dialects()
    hlo.register_dialect(context)
    chlo.register_dialect(context)
    sdy.register_dialect(context)
    with context:
        yield


def _function(
    program: Program,
    name: str,
    closed: ClosedJaxpr,
    scope: str = "",
    arg_names: Sequence[str] = (),
) -> func.FuncOp:
    """A function of the module; `main`, which others call, has a scope."""
    types = list(map(ir_type, closed.in_avals)), list(map(ir_type, closed.out_avals))
    function = func.FuncOp(name, types)
    function.attributes["sym_visibility"] = ir.StringAttr.get("public" if scope else "private")
    known = [ir.Location.name(name) if name else ir.Location.unknown() for name in arg_names]
    block = function.add_entry_block(known or [ir.Location.unknown()] * len(types[0]))
    place = ir.Location.name(scope) if scope else ir.Location.unknown()
    with ir.InsertionPoint(block), place:
        func.return_(_body(program, closed, block.arguments, (scope,) if scope else ()))
    return function


def _body(
    program: Program, closed: ClosedJaxpr, operands: Sequence[ir.Value], scopes: tuple[str, ...]
) -> list[ir.Value]:
    """The ops of a jaxpr's equations, in order."""
    jaxpr: Jaxpr = closed.jaxpr
    values: dict[Var, ir.Value] = dict(zip(jaxpr.invars, operands, strict=True))
    for var, const in zip(jaxpr.constvars, closed.consts, strict=True):
        values[var] = constant(const, var.aval)

    def read(atom: Atom) -> ir.Value:
        return constant(atom.val, atom.aval) if isinstance(atom, Literal) else values[atom]

    for eqn in jaxpr.eqns:
        around = (*scopes, *eqn.source_info.name_stack)
        with _location(program, eqn, around):
            avals = [atom.aval for atom in eqn.invars]
            context = Context(program, avals, [var.aval for var in eqn.outvars], around)
            results = eqn.primitive.lower(context, *map(read, eqn.invars), **eqn.params)
        many = eqn.primitive.multiple_results
        values.update(zip(eqn.outvars, results if many else [results], strict=True))
    return list(map(read, jaxpr.outvars))


def _location(program: Program, eqn: JaxprEqn, around: tuple[str, ...]) -> ir.Location:
    """Where an equation came from, as JAX writes it: its scopes round the calls of Python."""
    place = None
    for call in reversed(eqn.source_info.calls):
        own = program.places.get(call)
        if own is None:
            frame = sources.frame(call)
            own = program.places[call] = ir.Location.name(frame.function_name, _file(frame))
        place = own if place is None else ir.Location.callsite(own, [place])
    name = eqn.primitive.name
    if name == "jit":
        name = f"jit({eqn.params['name']})"
    return ir.Location.name(str(NameStack((*around, name))), place or ir.Location.unknown())


def _file(frame: sources.Frame) -> ir.Location:
    if frame.end_line is None or frame.start_column is None or frame.end_column is None:
        return ir.Location.file(frame.file_name, frame.start_line, 0)
    return ir.Location.file(
        frame.file_name, frame.start_line, frame.start_column, frame.end_line, frame.end_column
    )
