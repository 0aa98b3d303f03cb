"""Programs as bytes: written in one process, called in another, perhaps years later.

StableHLO has a versioned form that later compilers read. With it go the types and the trees of the
arguments and results, so that the program can be called like the function that it was made of.
Python and the jaxpr stay behind: it has no derivative.

After "StableHLO compatibility" (openxla.org/stablehlo/compatibility) and "Exporting and
serializing staged-out computations" (docs.jax.dev, export).
"""

from ast import literal_eval
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as hlo
from jaxlib.mlir.passmanager import PassManager

from jaxlens.core.aot.programs import Jitted
from jaxlens.core.interop.guests import emitted
from jaxlens.core.kernel.interpreter import Primitive
from jaxlens.core.kernel.run import lower_jaxpr
from jaxlens.core.kernel.types import ShapedArray
from jaxlens.core.transforms.signatures import fitting
from jaxlens.core.transforms.trees import TreeDef, tree_flatten

_FORMAT = 2


@dataclass(frozen=True, eq=False)
class Exported:
    """A function at certain types, as a serializable StableHLO program.

    Attributes:
        fun_name: Its name.
        arg_names: How each leaf of its arguments would be written: `params['w']`.
        in_tree: The tree of `(args, kwargs)`.
        in_avals: The types of their leaves.
        out_tree: The tree of the results.
        out_avals: The types of their leaves.
        program: StableHLO's portable form.
    """

    fun_name: str
    arg_names: Sequence[str]
    in_tree: TreeDef
    in_avals: Sequence[ShapedArray]
    out_tree: TreeDef
    out_avals: Sequence[ShapedArray]
    program: bytes

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the program.

        Raises:
            TypeError: The arguments are not of the types that it was written for.
        """
        leaves = fitting(self, "exported", args, kwargs)
        return self.out_tree.unflatten(self._primitive.bind(*leaves))

    @cached_property
    def _primitive(self) -> Primitive:
        """The program as a primitive, so that a jitted function can call it."""

        def lower(ctx: Any, *operands: ir.Value) -> list[ir.Value]:
            module = hlo.deserialize_portable_artifact(ir.Context.current, self.program)
            return emitted(ctx, module.operation.get_asm(enable_debug_info=True), operands)

        own = Primitive(self.fun_name, multiple_results=True, lower=lower)
        own.abstract = lambda *_: self.out_avals
        return own

    def serialize(self) -> bytes:
        """Returns bytes for `deserialize`: a line of Python literals, then the program.

        The line has the program's digest, as XLA's reader ends the process on a damaged program.

        Raises:
            ValueError: It has containers that are not written as literals.
        """
        ins, outs = _written(self.in_tree, self.in_avals), _written(self.out_tree, self.out_avals)
        head = repr((_FORMAT, _digest(self.program), self.fun_name, self.arg_names, ins, outs))
        try:
            literal_eval(head)
        except (SyntaxError, ValueError):
            raise ValueError(
                f"export: expected tuples, lists, dicts and None around arrays, got {self.in_tree} "
                f"and {self.out_tree}."
            ) from None
        return head.encode() + b"\n" + self.program


def export(f: Jitted) -> Callable[..., Exported]:
    """Returns a function of the arguments of a jitted function that exports it at their types."""
    if not isinstance(f, Jitted):
        raise ValueError(f"export: expected a function that core.jit gave, got {f!r:.60}.")

    def exported(*args: Any, **kwargs: Any) -> Exported:
        traced = f.trace(*args, **kwargs)
        closed = traced.jaxpr
        module = lower_jaxpr(closed, traced.fun_name)
        with module.context:  # chlo's ops have no versions
            hlo.register_stablehlo_passes()
            passes = "builtin.module(func.func(chlo-legalize-to-stablehlo))"
            PassManager.parse(passes).run(module.operation)
            week_12 = hlo.StablehloCompatibilityRequirement.WEEK_12
            version = hlo.get_version_from_compatibility_requirement(week_12)
            program = hlo.serialize_portable_artifact(module, version)
        ins, outs = (traced.in_tree, closed.in_avals), (traced.out_tree, closed.out_avals)
        return Exported(traced.fun_name, traced.arg_names, *ins, *outs, program)

    return exported


def deserialize(data: bytes) -> Exported:
    """Reads the bytes that `Exported.serialize` returned.

    Raises:
        ValueError: The bytes are none of it.
    """
    head, _, program = data.partition(b"\n")
    try:
        number, digest, name, arg_names, ins, outs = literal_eval(head.decode())
        if (number, digest) != (_FORMAT, _digest(program)):
            raise ValueError(number)
        return Exported(name, arg_names, *_read(ins), *_read(outs), program)
    except (SyntaxError, TypeError, ValueError):
        raise ValueError(
            f"deserialize: expected bytes of Exported.serialize (format {_FORMAT}), "
            f"got {data[:20]!r}..."
        ) from None


def _digest(program: bytes) -> str:
    return sha256(program).hexdigest()


def _written(tree: TreeDef, avals: Sequence[ShapedArray]) -> Any:
    """Returns the tree with types as leaves: Python literals, which can be read back safely."""
    types = [repr((aval.shape, aval.dtype.name, aval.weak_type)) for aval in avals]
    return tree.unflatten(types)


def _read(written: Any) -> tuple[TreeDef, list[ShapedArray]]:
    types, tree = tree_flatten(written)
    return tree, [ShapedArray(*literal_eval(of_leaf)) for of_leaf in types]
