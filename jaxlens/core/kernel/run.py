"""Running: from a jaxpr to StableHLO, and from that to numbers.

StableHLO is the portable language of array programs: its ops are nearly the primitives. ModuleState
goes through the equations once and lets the `lower` rule of each primitive emit its ops.

    a:f32[] -> b:f32[] = sin a      %0 = stablehlo.sine %arg0 : tensor<f32>

The module then goes to a `Backend`. The one here is the reference interpreter of StableHLO, which
is part of jaxlib: slow, but all that the kernel needs; that of `aot/device.py` has XLA.

A primitive that no other interpreter has taken ends in `Ground`, which runs it as a program of one
equation. The primitive of `jit` makes programs of many: it holds a jaxpr. A program is compiled
once for each cache key: primitive, types and parameters. A jaxpr is a parameter, compared by
identity, so `jit` has a cache from the types of its arguments to jaxprs (`aot/programs.py`).

In JAX: jax/_src/interpreters/mlir.py and jax/_src/pjit.py. The language is specified at
openxla.org/stablehlo/spec.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, func, sdy
from jaxlib.mlir.dialects import stablehlo as hlo

from jaxlens.core.kernel.basics import i64s
from jaxlens.core.kernel.interpreter import GROUND, Primitive, aval_of, observer
from jaxlens.core.kernel.jaxpr import Atom, ClosedJaxpr, JaxprEqn, Literal, Var
from jaxlens.core.kernel.sources import NameStack, user_file
from jaxlens.core.kernel.trace import trace
from jaxlens.core.kernel.types import ShapedArray, bfloat16, float0, is_key, kind, short_name, x64

_ELEMENTS = {"bool": "i1", "float0": "i1", "c64": "complex<f32>", "c128": "complex<f64>"}

_MOST_CALLS = 10  # of one position, as in JAX

# ---- lowering -----------------------------------------------------------------------------------


def ir_type(aval: ShapedArray) -> ir.Type:
    """Returns the MLIR type of an array."""
    own = _held(aval)
    return ir.RankedTensorType.get(own.shape, _element(own.dtype))


def _held(aval: ShapedArray) -> ShapedArray:
    """Returns what a program holds for an array: two words for each key of random numbers."""
    return ShapedArray((*aval.shape, 2), np.dtype("uint32")) if is_key(aval.dtype) else aval


def _element(dtype: np.dtype) -> ir.Type:
    """Returns the MLIR type of an element; float0 has no numbers and is lowered as bool."""
    name = short_name(dtype)
    return ir.Type.parse(_ELEMENTS.get(name, name.replace("u", "ui")))


def constant(value: Any, aval: ShapedArray) -> ir.Value:
    """Emits an array of known numbers."""
    array = np.zeros(aval.shape, bool) if aval.dtype == float0 else np.asarray(value, aval.dtype)
    array = np.ascontiguousarray(array.view(np.uint16) if aval.dtype == bfloat16 else array)
    element = _element(aval.dtype)
    return hlo.constant(ir.DenseElementsAttr.get(array, type=element, shape=aval.shape))


def zeros(aval: ShapedArray) -> ir.Value:
    """Emits an array of zeros."""
    zero = constant(0, _held(aval).update(shape=()))
    return hlo.broadcast_in_dim(ir_type(aval), zero, i64s(()))


@dataclass(slots=True)
class ModuleState:
    """The module that is being written.

    Attributes:
        module: MLIR's module.
        symbols: Its functions by name; gives a number to a name that is taken.
        layout: How arrays lie on several devices: nothing that the kernel looks into.
        functions: The name of the function that a jaxpr was lowered to.
        locations: Positions as MLIR's, by traceback.
    """

    module: ir.Module
    symbols: ir.SymbolTable
    layout: Any = None
    functions: dict[Any, str] = field(default_factory=dict)
    locations: Any = field(
        default_factory=lambda: _jax_mlir_ext.TracebackToLocationCache(user_file, _MOST_CALLS)
    )


def plain(name: str) -> str:
    """Returns the name of a function in the characters that a module may have."""
    return re.sub(r"[^\w.-]", "_", name.removesuffix(">")) or "f"


@dataclass(frozen=True, slots=True)
class Context:
    """The first argument of a lowering rule, with ops that many rules use.

    Attributes:
        program: The module.
        avals_in: The types of the operands.
        avals_out: The types of the results.
        scopes: The names around the equation, outermost first.
        out: The type of the only result.
    """

    program: ModuleState
    avals_in: Sequence[ShapedArray]
    avals_out: Sequence[ShapedArray]
    scopes: tuple[str, ...] = ()

    out = property(lambda self: self.avals_out[0])
    type = staticmethod(ir_type)
    constant = staticmethod(constant)
    zeros = staticmethod(zeros)

    def compare(self, direction: str, aval: ShapedArray, x: ir.Value, y: ir.Value) -> ir.Value:
        """Emits a comparison of operands of a type, such as "LT"."""
        direction = hlo.ComparisonDirectionAttr.get(direction)
        order = {"f": "FLOAT", "c": "FLOAT", "i": "SIGNED"}.get(kind(aval.dtype), "UNSIGNED")
        return hlo.compare(x, y, direction, compare_type=hlo.ComparisonTypeAttr.get(order))

    def reduce(self, op: Any, x: ir.Value, start: Any, axes: Sequence[int]) -> ir.Value:
        """Emits a reduction over axes by `op`, beginning with the number `start`."""
        scalar = ShapedArray((), self.avals_in[0].dtype)
        reduced = hlo.ReduceOp([ir_type(self.out)], [x], [constant(start, scalar)], i64s(axes))
        return self.combining(reduced, op)

    def combining(self, op: Any, combine: Callable[..., ir.Value]) -> ir.Value:
        """Returns the result of an op whose region, emitted here, combines two numbers to one."""
        scalar = ir_type(self.out.update(shape=()))
        block = op.regions[0].blocks.append(scalar, scalar)
        with ir.InsertionPoint(block):
            hlo.return_([combine(*block.arguments)])
        return op.results[0]

    def call(self, name: str, closed: ClosedJaxpr, *operands: ir.Value) -> list[ir.Value]:
        """Emits a call of a jaxpr, which becomes one function however often it is called."""
        symbol = self.program.functions.get(closed)
        if symbol is None:
            with ir.InsertionPoint(self.program.module.body):
                symbol = _function(self.program, plain(name), closed)
            self.program.functions[closed] = symbol
        types = list(map(ir_type, closed.out_avals))
        return list(func.CallOp(types, ir.FlatSymbolRefAttr.get(symbol), list(operands)).results)

    def inline(self, closed: ClosedJaxpr, *operands: ir.Value, scope: str = "") -> list[ir.Value]:
        """Emits the ops of a jaxpr here, such as the body of a loop, under an optional scope."""
        scopes = (*self.scopes, scope) if scope else self.scopes
        return lower_body(self.program, closed, operands, scopes)


def lower_jaxpr(closed: ClosedJaxpr, name: str) -> ir.Module:
    """Returns a module whose `main` is a jaxpr, traced from a function of this name."""
    with _mlir(), ir.Location.unknown():
        module = ir.Module.create()
        module.operation.attributes["sym_name"] = ir.StringAttr.get(f"jit_{plain(name)}")
        program = ModuleState(module, ir.SymbolTable(module.operation))
        with ir.InsertionPoint(module.body):
            _function(program, "main", closed, f"jit({name})")
        module.operation.verify()
        return module


@contextmanager
def _mlir() -> Iterator[None]:
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    for dialect in (hlo, chlo, sdy):
        dialect.register_dialect(context)
    _ = context.dialects["func"]  # loads it; to load all dialects takes milliseconds
    with context:
        yield


def _function(program: ModuleState, name: str, closed: ClosedJaxpr, scope: str = "") -> str:
    """Emits a function, and returns its name; `main` is public, and has a scope."""
    types = list(map(ir_type, closed.in_avals)), list(map(ir_type, closed.out_avals))
    function = func.FuncOp(name, types)
    function.attributes["sym_visibility"] = ir.StringAttr.get("public" if scope else "private")
    symbol: str = program.symbols.insert(function).value
    block = function.add_entry_block([ir.Location.unknown()] * len(types[0]))
    with ir.InsertionPoint(block), named(scope):
        func.return_(lower_body(program, closed, block.arguments, (scope,) if scope else ()))
    return symbol


def lower_body(
    program: ModuleState, closed: ClosedJaxpr, operands: Sequence[ir.Value], scopes: tuple[str, ...]
) -> list[ir.Value]:
    """Emits the ops of a jaxpr's equations, in order: `eval_jaxpr`, with rules in place of bind."""
    jaxpr = closed.jaxpr
    env: dict[Var, ir.Value] = dict(zip(jaxpr.invars, operands, strict=True))
    for var, const in zip(jaxpr.constvars, closed.consts, strict=True):
        env[var] = constant(const, var.aval)

    def read(atom: Atom) -> ir.Value:
        return constant(atom.val, atom.aval) if isinstance(atom, Literal) else env[atom]

    for eqn in jaxpr.eqns:
        inner = (*scopes, *eqn.source_info.name_stack)
        name = f"jit({eqn.params['name']})" if eqn.primitive is jit_p else eqn.primitive.name
        calls = eqn.source_info.traceback
        place = program.locations.get(calls) if calls else None
        with named(str(NameStack((*inner, name))), place):
            avals = [atom.aval for atom in eqn.invars]
            context = Context(program, avals, [var.aval for var in eqn.outvars], inner)
            results = _lowered(eqn, context, list(map(read, eqn.invars)))
        env.update(zip(eqn.outvars, results, strict=True))
    return list(map(read, jaxpr.outvars))


def _lowered(eqn: JaxprEqn, context: Context, operands: Sequence[ir.Value]) -> list[ir.Value]:
    """Applies the lower rule of an equation; its results must have the types of the equation's."""
    rule = f"the lower rule of `{eqn.primitive.name}`"
    try:
        results = eqn.primitive.lower(context, *operands, **eqn.params)
    except ir.MLIRError as error:
        says = str(error).split(": ", 3)[-1]  # without "error", and the location
        raise TypeError(f"{rule} emits an invalid op: {says}") from None
    results = results if isinstance(results, Sequence) else [results]
    values = [x.result if isinstance(x, ir.OpView) else x for x in results]
    types = [getattr(x, "type", x) for x in values]  # what is no operand stands for itself
    expected = list(map(ir_type, context.avals_out))
    if types != expected:
        raise TypeError(
            f"{rule} gives {', '.join(map(str, types))}, where its abstract rule says "
            f"{', '.join(map(str, expected))}."
        )
    return values


def named(name: str, location: ir.Location | None = None) -> ir.Location:
    """Returns a location with a name; unknown without one."""
    return ir.Location.name(name, location) if name else ir.Location.unknown()


# ---- running ------------------------------------------------------------------------------------

jit_p = Primitive("jit", multiple_results=True)  # its other rules are those of all calls
jit_p.abstract = lambda *avals, jaxpr, name: jaxpr.out_avals
jit_p.lower = lambda ctx, *operands, jaxpr, name: ctx.call(name, jaxpr, *operands)


class Backend:
    """Makes jaxprs runnable; this one by the reference interpreter of StableHLO."""

    def run(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Applies a primitive: runs a program of one equation, compiled once."""
        avals = tuple(map(aval_of, args))
        program = _program(primitive, avals, tuple(params.items()), self.device(args), x64())
        observer.emit("run", primitive.name, executable=program)
        results = program(args)
        return results if primitive.multiple_results else results[0]

    def device(self, values: Sequence[Any]) -> Hashable:
        """Returns where a program with these arguments runs: part of its cache key."""
        return None

    def array(self, value: Any, dtype: Any = None) -> Any:
        """Returns numbers as an array."""
        return np.asarray(value, dtype)

    def compile(self, closed: ClosedJaxpr, name: str, device: Any) -> Callable[..., list[Any]]:
        """Returns the function of a list of values that runs a jaxpr."""
        module = lower_jaxpr(closed, name)

        def run(values: Sequence[Any]) -> list[Any]:
            pairs = zip(values, closed.in_avals, strict=True)
            with module.context, ir.Location.unknown():
                arrays = [np.asarray(x, aval.dtype) for x, aval in pairs]
                literals = list(map(ir.DenseElementsAttr.get, arrays))
                return [np.array(literal) for literal in hlo.eval_module(module, literals)]

        return run


@lru_cache(maxsize=4096)
def _program(primitive: Primitive, avals: Any, params: Any, device: Any, _: bool) -> Any:
    """Returns the compiled program; all arguments are its cache key."""
    own = dict(params)
    if primitive is jit_p:
        closed = own["jaxpr"]
    else:
        closed = trace(lambda *xs: primitive.as_list(primitive.bind(*xs, **own)), avals)
    return GROUND.backend.compile(closed, own.get("name", primitive.name), device)
