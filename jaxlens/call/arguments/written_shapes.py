"""Makes arguments from their written shapes: `f32[8,128], params={'w': f32[128,4]}, train=True`.

Nothing is allocated: an array becomes a `jax.ShapeDtypeStruct`. The text is parsed as the
arguments of a call and never executed; besides `dtype[dims]` it may hold dicts, lists,
tuples and Python literals, which are passed as they are.
"""

import ast
import re
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlens.errors import OptionError, nearest

_BITS = (2, 4, 8, 16, 32, 64)
_FLOATS8 = ("E4M3FN", "E5M2", "E4M3FNUZ", "E5M2FNUZ")
DTYPES = {
    **dict.fromkeys(("i1", "pred", "bool"), "bool"),
    **{f"{letter}{bits}": f"int{bits}" for bits in _BITS for letter in "is"},
    **{f"{prefix}{bits}": f"uint{bits}" for bits in _BITS for prefix in ("ui", "u")},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"f8{form}": f"float8_{x.lower()}" for x in _FLOATS8 for form in (x, x.lower())},
    "bf16": "bfloat16",
    **dict.fromkeys(("complex<f32>", "c64"), "complex64"),
    **dict.fromkeys(("complex<f64>", "c128"), "complex128"),
}
"""JAX's names of dtypes, by those of jaxprs, MLIR and HLO."""
_LONG = sorted({*DTYPES.values()})
_SCALAR = re.compile(r"\b([A-Za-z]\w*)\s*\[\s*\]")


def arguments(
    text: str, names: Mapping[str, Any] | None = None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the positional and keyword arguments, in the order written.

    Args:
        text: Comma-separated `shape` or `name=shape`. A dtype is short as jaxprs and HLO
            print it (`f32`, `s32`, `pred`) or long as NumPy calls it (`float32`).
        names: Variables that may stand in the place of a shape.

    Raises:
        OptionError: The text is not a list of shapes, or JAX does not have a dtype.
    """
    try:
        call = ast.parse("_(" + _SCALAR.sub(r"\1[()]", text) + "\n)", mode="eval").body
    except SyntaxError as error:
        why = "a shape is dtype[sizes]" if "literal" in error.msg else error.msg
        raise _expected(text, why) from None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise _expected(text, "unbalanced parentheses")
    if any(k.arg is None for k in call.keywords):
        raise _expected(text, "** is not a shape")
    known = names or {}
    args = tuple(_value(node, known) for node in call.args)
    return args, {k.arg: _value(k.value, known) for k in call.keywords if k.arg}


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Returns one argument; the nesting is limited by Python's parser."""
    match node:
        case ast.Subscript(value=ast.Name(id=dtype), slice=dims):
            return abstract(_dims(dims), _dtype(dtype))
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return {
                ast.literal_eval(k): _value(v, names)
                for k, v in zip(keys, values, strict=True)
                if k
            }
        case ast.List(elts=parts):
            return [_value(part, names) for part in parts]
        case ast.Tuple(elts=parts):
            return tuple(_value(part, names) for part in parts)
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Name(id=dtype) if dtype in DTYPES or dtype in _LONG:
            raise _expected(dtype, f"a scalar is {dtype}[]")
        case ast.Name(id=name) if names:
            raise _expected(name, f"no variable of the file; {nearest(name, names)}")
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise _expected(ast.unparse(node), "neither a shape nor a literal") from None


def abstract(
    shape: tuple[int, ...], dtype: Any, sharding: Any = None, weak_type: bool = False
) -> jax.ShapeDtypeStruct:
    """Returns an array's shape and type without the array."""
    struct: Any = jax.ShapeDtypeStruct  # it has no types
    result: jax.ShapeDtypeStruct = struct(shape, dtype, sharding=sharding, weak_type=weak_type)
    return result


def _dims(node: ast.expr) -> tuple[int, ...]:
    dims = node.elts if isinstance(node, ast.Tuple) else [node]
    sizes = [d.value for d in dims if isinstance(d, ast.Constant) and type(d.value) is int]
    if len(sizes) != len(dims):
        raise _expected(f"[{ast.unparse(node)}]", "a dimension is a whole number")
    return tuple(sizes)


def _dtype(name: str) -> np.dtype[Any]:
    """Returns the dtype, in 32 bits if x64 is off, as JAX does for arrays."""
    if name not in DTYPES and name not in _LONG:
        raise OptionError(f"no dtype {name!r} in --in; {nearest(name, [*DTYPES, *_LONG])}")
    return jax.dtypes.canonicalize_dtype(jnp.dtype(DTYPES.get(name, name)))


def _expected(text: str, why: str) -> OptionError:
    takes = '--in takes shapes such as "f32[8,128], params=f32[128,4]"'
    return OptionError(f"{takes}, got {text!r} ({why})")
