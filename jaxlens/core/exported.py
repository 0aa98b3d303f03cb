"""Programs as bytes: written in one process, called in another, perhaps years later.

StableHLO has a versioned form that later compilers read. With it go the types and the trees of the
arguments and results, and the program can be called like the function that it was made of: by
itself, or in another function that is traced, where it is one equation whose lowering copies its
functions into the module. Python and the jaxpr stay behind, so it has no derivative.

After "StableHLO compatibility" (openxla.org/stablehlo/compatibility) and "Exporting and
serializing staged-out computations" (docs.jax.dev, export).
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func
from jaxlib.mlir.dialects import stablehlo as hlo
from jaxlib.mlir.passmanager import PassManager

from jaxlens.core.avals import ShapedArray, bfloat16
from jaxlens.core.lower import lower_jaxpr
from jaxlens.core.programs import Jitted
from jaxlens.core.staging import aval_of
from jaxlens.core.tracers import Primitive
from jaxlens.core.trees import TreeDef, tree_flatten, tree_structure

_FORMAT = 1
_KINDS: dict[str, type] = {kind.__name__: kind for kind in (tuple, list, dict, type(None))}


@dataclass(frozen=True, eq=False)
class Exported:
    """A function at certain types, as a program that can be kept.

    Attributes:
        fun_name: Its name.
        in_tree: The tree of `(args, kwargs)`.
        in_avals: The types of their leaves.
        out_tree: The tree of the results.
        out_avals: The types of their leaves.
        program: StableHLO's portable form.
    """

    fun_name: str
    in_tree: TreeDef
    in_avals: tuple[ShapedArray, ...]
    out_tree: TreeDef
    out_avals: tuple[ShapedArray, ...]
    program: bytes

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Runs it.

        Raises:
            TypeError: The arguments are not of the types that it was written for.
        """
        leaves, in_tree = tree_flatten((args, kwargs))
        got = tuple(aval.update(weak_type=False) for aval in map(aval_of, leaves))
        expected = tuple(aval.update(weak_type=False) for aval in self.in_avals)
        if in_tree is not self.in_tree or got != expected:
            raise TypeError(
                f"{self.fun_name} was exported for (args, kwargs) = "
                f"{_typed(self.in_tree, expected)}, got {_typed(in_tree, got)}."
            )
        return self.out_tree.unflatten(call_exported_p.bind(*leaves, exported=self))

    __call__ = call

    def serialize(self) -> bytes:
        """All of it, for `deserialize`."""
        head = {
            "format": _FORMAT,
            "name": self.fun_name,
            "in_tree": _written(self.in_tree),
            "in_avals": list(map(_aval_written, self.in_avals)),
            "out_tree": _written(self.out_tree),
            "out_avals": list(map(_aval_written, self.out_avals)),
        }
        return json.dumps(head).encode() + b"\n" + self.program


def export(f: Jitted) -> Callable[..., Exported]:
    """The function of the same arguments that gives the program of a jitted function."""
    if not isinstance(f, Jitted):
        raise ValueError(f"export: expected a function that core.jit gave, got {f!r:.60}.")

    def exported(*args: Any, **kwargs: Any) -> Exported:
        traced = f.trace(*args, **kwargs)
        closed = traced.jaxpr
        module = lower_jaxpr(closed, traced.fun_name)
        with module.context:
            _passes().run(module.operation)
            week_12 = hlo.StablehloCompatibilityRequirement.WEEK_12
            version = hlo.get_version_from_compatibility_requirement(week_12)
            program = hlo.serialize_portable_artifact(module, version)
        return Exported(
            traced.fun_name, traced.in_tree, tuple(closed.in_avals), traced.out_tree,
            tuple(closed.out_avals), program,
        )  # fmt: skip

    return exported


def _passes() -> PassManager:
    """What brings the ops that have no versions (chlo's) to those that have."""
    hlo.register_stablehlo_passes()
    return PassManager.parse("builtin.module(func.func(chlo-legalize-to-stablehlo))")


def deserialize(data: bytes) -> Exported:
    """What `serialize` wrote.

    Raises:
        ValueError: The bytes are none of it.
    """
    head, _, program = data.partition(b"\n")
    try:
        said = json.loads(head)
        assert said["format"] == _FORMAT
    except (AssertionError, KeyError, TypeError, ValueError):
        raise ValueError(
            f"deserialize: expected bytes of Exported.serialize (format {_FORMAT}), "
            f"got {data[:20]!r}..."
        ) from None
    return Exported(
        said["name"], _read(said["in_tree"]), tuple(map(_aval_read, said["in_avals"])),
        _read(said["out_tree"]), tuple(map(_aval_read, said["out_avals"])), program,
    )  # fmt: skip


def _typed(tree: TreeDef, avals: Sequence[ShapedArray]) -> str:
    return str(tree.unflatten([aval.str_short() for aval in avals])).replace("'", "")


def _written(tree: TreeDef) -> Any:
    """A tree as JSON."""
    if tree.kind is None:
        return None
    keys = list(tree.data) if isinstance(tree.data, tuple) else []
    if tree.kind not in _KINDS.values() or not all(type(key) in (str, int) for key in keys):
        raise ValueError(
            f"export: expected tuples, lists, dicts with names or numbers as keys, and None "
            f"around arrays, got {tree}."
        )
    return [tree.kind.__name__, keys, list(map(_written, tree.children))]


def _read(written: Any) -> TreeDef:
    if written is None:
        return tree_structure(0)
    kind, keys, children = written
    data = tuple(keys) if kind == "dict" else None
    return TreeDef(_KINDS[kind], data, tuple(map(_read, children)))


def _aval_written(aval: ShapedArray) -> list[Any]:
    return [list(aval.shape), aval.dtype.name, aval.weak_type]


def _aval_read(written: list[Any]) -> ShapedArray:
    shape, name, weak = written
    return ShapedArray(tuple(shape), bfloat16 if name == "bfloat16" else np.dtype(name), weak)


# ---- a call of it -------------------------------------------------------------------------------

call_exported_p = Primitive("call_exported", multiple_results=True)


@call_exported_p.rule("abstract")
def _(*avals: ShapedArray, exported: Exported) -> list[ShapedArray]:
    return list(exported.out_avals)


@call_exported_p.rule("lower")
def _(ctx: Any, *operands: Any, exported: Exported) -> list[Any]:
    module = hlo.deserialize_portable_artifact(ir.Context.current, exported.program)
    table = ir.SymbolTable
    main = ""
    for function in list(module.body):
        old = table.get_symbol_name(function.operation).value
        new = ctx.program.free_name(exported.fun_name if old == "main" else old)
        main = new if old == "main" else main
        table.replace_all_symbol_uses(old, new, module.operation)
        table.set_symbol_name(function.operation, new)
        table.set_visibility(function.operation, "private")
    for function in list(module.body):
        ctx.program.module.body.append(function)
    types = list(map(ctx.type, exported.out_avals))
    return list(func.CallOp(types, ir.FlatSymbolRefAttr.get(main), list(operands)).results)


@call_exported_p.rule("jvp")
def _(*_: Any, exported: Exported) -> Any:
    raise NotImplementedError(
        f"{exported.fun_name} is an exported program, whose jaxpr is gone: differentiate the "
        f"function, then export that."
    )


@call_exported_p.rule("batch")
def _(*_: Any, exported: Exported) -> Any:
    raise NotImplementedError(
        f"{exported.fun_name} is an exported program for one shape: vmap the function, then "
        f"export that."
    )
