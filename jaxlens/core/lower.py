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
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, func, sdy
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core import sources
from jaxlens.core.avals import ShapedArray, bfloat16, float0, short_name
from jaxlens.core.jaxprs import Atom, ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jaxlens.core.parallel.meshes import Layout, Mesh, P, sharding_text
from jaxlens.core.primitives.shapes import i64s
from jaxlens.core.sources import NameStack

Types = Sequence[ShapedArray]
_ELEMENTS = {"bool": "i1", "float0": "i1", "c64": "complex<f32>", "c128": "complex<f64>"}


def ir_type(aval: ShapedArray) -> ir.Type:
    """The MLIR type of an array."""
    return ir.RankedTensorType.get(aval.shape, _element(aval.dtype))


def _element(dtype: np.dtype) -> ir.Type:
    """That of an element; float0 has no numbers, and something must stand for it."""
    name = short_name(dtype)
    return ir.Type.parse(_ELEMENTS.get(name, name.replace("u", "ui")))


def constant(value: Any, aval: ShapedArray) -> ir.Value:
    """An array that stands in the program."""
    array = np.zeros(aval.shape, bool) if aval.dtype == float0 else np.asarray(value, aval.dtype)
    array = np.ascontiguousarray(array.view(np.uint16) if aval.dtype == bfloat16 else array)
    element = _element(aval.dtype)
    return hlo.constant(ir.DenseElementsAttr.get(array, type=element, shape=aval.shape))


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
        out: The type of the one result.
    """

    program: Program
    avals_in: Types
    avals_out: Types
    scopes: tuple[str, ...] = ()

    out = property(lambda self: self.avals_out[0])
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
            kind = {"u": "UNSIGNED", "i": "SIGNED"}.get(old.dtype.kind, "FLOAT")
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
        ins, outs = layout[1:] if layout else ((), ())
        main.arg_attrs = _attributes(closed.in_avals, aliases, program.mesh, ins)
        main.attributes["res_attrs"] = _attributes(closed.out_avals, infos, program.mesh, outs)
        module.operation.verify()
        return module


def _attributes(
    avals: Types, given: Sequence[dict[str, ir.Attribute]], mesh: Any, specs: Sequence[P]
) -> ir.ArrayAttr:
    """The attributes of each parameter or result, and how it lies on the mesh, if it does."""
    found = [dict(own) for own in given] or [{} for _ in avals]
    for own, spec, aval in zip(found, specs, avals, strict=False):
        text = "#sdy.sharding" + sharding_text(mesh, spec, aval.ndim)
        own["sdy.sharding"] = ir.Attribute.parse(text)
    return ir.ArrayAttr.get(list(map(ir.DictAttr.get, found)))


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


@contextmanager
def _mlir() -> Iterator[None]:
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    for dialect in (hlo, chlo, sdy):
        dialect.register_dialect(context)
    _ = context.dialects["func"]  # loads it; to load all that there are takes milliseconds
    with context:
        yield


def _function(
    program: Program, name: str, closed: ClosedJaxpr, scope: str = "", arg_names: Sequence[str] = ()
) -> func.FuncOp:
    """A function of the module; `main`, which others call, has a scope."""
    types = list(map(ir_type, closed.in_avals)), list(map(ir_type, closed.out_avals))
    function = func.FuncOp(name, types)
    function.attributes["sym_visibility"] = ir.StringAttr.get("public" if scope else "private")
    block = function.add_entry_block(list(map(_named, arg_names or [""] * len(types[0]))))
    with ir.InsertionPoint(block), _named(scope):
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
        if call not in program.places:
            program.places[call] = _place(sources.frame(call))
        own = program.places[call]
        place = own if place is None else ir.Location.callsite(own, [place])
    name = eqn.primitive.name
    if name == "jit":
        name = f"jit({eqn.params['name']})"
    return _named(str(NameStack((*around, name))), place)


def _place(frame: sources.Frame) -> ir.Location:
    known = frame.end_line is not None and frame.start_column is not None
    end = (frame.start_column, frame.end_line, frame.end_column) if known else (0,)
    file = ir.Location.file(frame.file_name, frame.start_line, *end)
    return _named(frame.function_name, file)


def _named(name: str, place: ir.Location | None = None) -> ir.Location:
    return ir.Location.name(name, place) if name else ir.Location.unknown()
