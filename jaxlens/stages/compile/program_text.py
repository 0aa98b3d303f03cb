"""Compiles the text of a program, for this process's default device or a described one.

JAX itself compiles it: a function of the same arguments and results is lowered, and the ops of its
module are replaced. Optimised HLO has no form that XLA's client takes; it replaces the module of
that function after XLA's last pass, and so is compiled as it is written.
"""

import re
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from jaxlens import compat
from jaxlens.call.arguments.written_shapes import DTYPES
from jaxlens.call.target import ResolvedTarget
from jaxlens.errors import LensError, ReadError, UnavailableError
from jaxlens.ir.graph import Type
from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.hlo.entry_inputs import entry_inputs, entry_outputs

_TENSOR = re.compile(r"tensor<((?:\d++x)*+)([\w<>]+)>")
_NAME = re.compile(r'loc\("(.*?)"')
_DONATED = ("tf.aliasing_output", "jax.buffer_donor")
_AT = re.compile(r'(?:"-":|was parsing )(\d+):(\d+): (?:error: )?([^\n]*)')
_lock = threading.Lock()


class UnsuitedError(LensError):
    """The program's arguments or results are no arrays of plain numbers."""


@dataclass(frozen=True, slots=True)
class TextProgram:
    """A program made from text, not yet compiled.

    Attributes:
        lowered: What compiles it: a `jax.stages.Lowered` or `ScheduledProgram`.
        arguments: Name ("" if the text has none) and shape of each argument.
        results: Shapes of the results.
    """

    lowered: Any = field(repr=False)
    arguments: tuple[tuple[str, Any], ...]
    results: tuple[Any, ...]


class ScheduledProgram:
    """Optimised HLO text with those methods of `jax.stages.Lowered` that compile it.

    Args:
        lowered: A lowered function of the same arguments and results.
        text: The text, whose module has the name of the function's.
        name: That name.
    """

    def __init__(self, lowered: Any, text: str, name: str) -> None:
        self._lowered = lowered
        self._text = text
        self._name = name

    def compiler_ir(self, dialect: str) -> Any:
        """Returns the module of the function that is replaced."""
        return self._lowered.compiler_ir(dialect)

    def compile(self, compiler_options: Mapping[str, Any] | None = None) -> Any:
        """Compiles the text as it is, without a pass of XLA's.

        Raises:
            UnavailableError: This jaxlib cannot do that.
        """
        options = dict(compiler_options or {})
        # JAX's cache on disk would keep it as the function that is replaced.
        off = compat.persistent_cache_off()
        with _lock, off, compat.replaced_when_scheduled(self._name, self._text) as replaced:
            compiled = self._lowered.compile(compiler_options=options)
        if not replaced:
            raise UnavailableError(
                "optimised HLO is not compiled as it is written by this jaxlib and device; edit "
                "StableHLO or HLO before optimisation"
            )
        return compiled


def of_module(
    bytecode: bytes | str, place: ResolvedTarget | None = None, options: Any = ()
) -> TextProgram:
    """Returns the program of a StableHLO module.

    Args:
        bytecode: The module as bytecode or text.
        place: The devices to compile for; None for the default one.
        options: Compiler options, as pairs of name and value.

    Raises:
        ReadError: MLIR cannot parse the text.
        UnsuitedError: An argument or result is no array.
    """
    sent = _parsed(bytecode)
    entry = next((op for op in sent.body.operations if _symbol(op) == "main"), None)
    if entry is None:
        raise ReadError('expected a function @main in the StableHLO, got none: "func.func @main"')
    block = entry.regions[0].blocks[0]
    # JAX writes the name of an argument into its location.
    names = [_NAME.match(str(value.location)) for value in block.arguments]
    shapes = [_shape(value.type) for value in block.arguments]
    ir = compat.mlir_bindings()
    kind = ir.FunctionType(entry.attributes["function_type"].value)
    results = [_shape(result) for result in kind.results]
    attributes = entry.attributes.get("arg_attrs", ())
    donated = [n for n, a in enumerate(attributes) if any(mark in a for mark in _DONATED)]
    # HLO keeps in one attribute which arguments it overwrites: all are copied before a run then.
    own = sent.operation.attributes
    if "mhlo.input_output_alias" in own and len(own["mhlo.input_output_alias"]):
        donated = list(range(len(shapes)))
    count = own["mhlo.num_partitions"].value if "mhlo.num_partitions" in own else 1
    lowered = _lowered(shapes, results, donated, place, options, count)
    _replace(lowered.compiler_ir("stablehlo"), bytecode)
    arguments = tuple((n[1] if n else "", s) for n, s in zip(names, shapes, strict=True))
    return TextProgram(lowered, arguments, tuple(results))


def of_hlo(text: str, options: Any = ()) -> TextProgram:
    """Returns the program of HLO text, before or after optimisation.

    Args:
        text: The text.
        options: Compiler options, as pairs of name and value.

    Raises:
        ReadError: XLA cannot parse the text.
        UnavailableError: This jaxlib does not compile HLO text.
        UnsuitedError: An argument or result is no array.
    """
    if not is_scheduled(text):
        return of_module(stablehlo_of(text), options=options)
    _read(text)
    module = hlo.read(text, stage="optimized")
    arguments = [(leaf.name, struct(leaf.type)) for leaf in entry_inputs(module)]
    results = [struct(leaf.type) for leaf in entry_outputs(module)]
    donated = [number for number, leaf in enumerate(entry_inputs(module)) if leaf.donated]
    lowered = _lowered([shape for _, shape in arguments], results, donated, None, options)
    name = _symbol(lowered.compiler_ir("stablehlo").operation)
    renamed = re.sub(r"^(\s*HloModule )[^,\s]+", rf"\g<1>{name}", text, count=1)
    return TextProgram(ScheduledProgram(lowered, renamed, name), tuple(arguments), tuple(results))


def stablehlo_of(text: str) -> bytes:
    """Returns HLO text before optimisation as StableHLO bytecode.

    Raises:
        ReadError: XLA cannot parse the text.
        UnavailableError: This jaxlib does not compile HLO text.
    """
    parsed = _read(text)
    try:
        bytecode = compat.to_stablehlo(parsed) if parsed is not None else None
    except ValueError as error:
        raise _at("HLO", error) from None
    if bytecode is None:
        raise UnavailableError("this jaxlib does not compile HLO text; StableHLO it does")
    return bytecode


def _read(text: str) -> Any:
    """Returns HLO text as a module of XLA; None if this jaxlib reads none."""
    try:
        return compat.from_hlo(text)
    except ValueError as error:
        raise _at("HLO", error) from None


def is_scheduled(text: str) -> bool:
    """Whether HLO text is optimised: its instructions are in the order in which they run."""
    return "is_scheduled=true" in text.lstrip().partition("\n")[0]


def struct(kind: Type) -> Any:
    """Returns the `ShapeDtypeStruct` of a type.

    Raises:
        UnsuitedError: It is no array of plain numbers.
    """
    if kind.dtype not in DTYPES or not all(isinstance(size, int) for size in kind.shape):
        raise UnsuitedError(f"it takes or gives a {kind}, which is no array of plain numbers")
    shape: Any = jax.ShapeDtypeStruct
    return shape(kind.shape, jnp.dtype(DTYPES[kind.dtype]))


def plain_array(leaf: Any) -> Any:
    """Returns an argument as the array that a module takes: a ref's content, a key's words."""
    array = jnp.asarray(compat.content(leaf))
    is_key = jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(array) if is_key else array


def _lowered(
    shapes: list[Any],
    results: list[Any],
    donated: list[int] | None = None,
    place: ResolvedTarget | None = None,
    options: Any = (),
    count: int = 1,
) -> Any:
    """Returns a lowered function of these arguments and results, which gives zeros.

    `count` devices of the place are taken; one of this process.
    """

    def jaxlens_text(*_: Any) -> list[Any]:
        return [jnp.zeros(result.shape, result.dtype) for result in results]

    jitted = jax.jit(
        jaxlens_text,
        keep_unused=True,
        donate_argnums=tuple(donated or ()),
        compiler_options=dict(options) or None,
    )
    with warnings.catch_warnings():  # of donated arrays that zeros have no use for
        warnings.simplefilter("ignore")
        if place is None:
            return jitted.lower(*shapes)
        return place.lower(place.trace(jitted, shapes, {}), count=count)


def _parsed(module: bytes | str, context: Any = None) -> Any:
    ir = compat.mlir_bindings()
    if context is None:
        probe: Any = jax.jit(lambda: jnp.zeros(())).lower().compiler_ir("stablehlo")
        context = probe.context
    with context:
        try:
            return ir.Module.parse(module)
        except Exception as error:  # MLIR's own, which no public name holds
            raise _at("StableHLO", error) from None


def _at(language: str, error: Exception) -> ReadError:
    """Returns a parser's error as one line, with the line and column of the user's text."""
    place = _AT.search(str(error))
    if place is None:
        return ReadError(f"XLA cannot read this {language}: {' '.join(str(error).split())[:200]}")
    line, column, why = place.groups()
    return ReadError(f"line {line}, column {column} of the {language}: {why[:200]}")


def _symbol(operation: Any) -> str:
    attributes = operation.attributes
    return str(attributes["sym_name"].value) if "sym_name" in attributes else ""


def _replace(module: Any, bytecode: bytes | str) -> None:
    """Replaces the ops and attributes of a module by those of the received one."""
    sent = _parsed(bytecode, module.context)
    with module.context:
        for op in list(module.body.operations):
            op.erase()
        for op in list(sent.body.operations):
            op.detach_from_parent()
            module.body.append(op)
        for name in sent.operation.attributes:
            module.operation.attributes[name] = sent.operation.attributes[name]


def _shape(type_: Any) -> Any:
    tensor = _TENSOR.fullmatch(str(type_))
    if tensor is None:
        raise UnsuitedError(f"it takes or gives a {type_}, which is no array of plain numbers")
    return struct(Type(tensor[2], tuple(int(size) for size in tensor[1].split("x") if size)))
