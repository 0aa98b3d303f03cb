"""Rewrites concrete numbers, shapes, indices and masks as operations on traced values."""

import ast
from collections.abc import Iterator

from jaxlens.stages.failure.rewrite import LOOP, FailingCode, Rewrite, bound_by
from jaxlens.stages.failure.rewrites_of_functions import of_numpy

_ARRAY = "Keep it an array: arithmetic works on it as on a number"


def of_number(line: FailingCode) -> Iterator[Rewrite]:
    node = line.expression
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("item", "tolist"):
        value = ast.unparse(node.func.value)
        yield line.with_(node, value, _ARRAY)
    elif isinstance(node.func, ast.Name) and len(node.args) == 1:
        cast = ast.Attribute(node.args[0], "astype", ast.Load())
        code = f"{ast.unparse(cast)}({node.func.id})"
        if node.func.id in ("int", "float", "complex", "bool"):
            yield line.with_(node, code, "Convert the dtype, and keep it an array")
            return
        yield from of_numpy(line)
    if not isinstance(node.func, ast.Attribute):
        yield Rewrite(_ARRAY)


def of_shape(line: FailingCode) -> Iterator[Rewrite]:
    node = line.expression
    if isinstance(node, ast.Call):
        loop = next((n for n in line.at.around if isinstance(n, ast.For)), None)
        if loop is not None and node is loop.iter and ast.unparse(node.func) == "range":
            yield from _range(line, loop, node)
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield from _subscript(line, node)


def of_size(line: FailingCode) -> Iterator[Rewrite]:
    """Adds `size=` to `jnp.nonzero`, `jnp.unique` and other calls with a data-dependent shape."""
    node = line.expression
    if isinstance(node, ast.Call) and node.args and not node.keywords:
        size = ast.unparse(ast.Attribute(node.args[0], "size", ast.Load()))
        args = ", ".join(map(ast.unparse, node.args))
        code = f"{ast.unparse(node.func)}({args}, size={size})"
        yield line.with_(node, code, "Say how many there are at most; the rest is filled")


def _range(line: FailingCode, loop: ast.For, range_: ast.Call) -> Iterator[Rewrite]:
    bound = bound_by(loop.body[0]) if len(loop.body) == 1 else None
    limits = [ast.unparse(arg) for arg in range_.args]
    if len(limits) == 1:
        limits.insert(0, "0")
    call = f"{line.jax}.lax.fori_loop"
    if bound is None or len(limits) != 2 or not isinstance(loop.target, ast.Name):
        yield Rewrite(LOOP, f"{call}(lower, upper, body_fun, init_val)")
        return
    name, value = bound
    body = f"lambda {loop.target.id}, {name}: {ast.unparse(value)}"
    code = f"{call}({', '.join(limits)}, {body}, {name})"
    yield Rewrite(LOOP, f"{name} = {code}", code)


def _subscript(line: FailingCode, node: ast.Subscript) -> Iterator[Rewrite]:
    base, index = ast.unparse(node.value), node.slice
    value = line.at.variables.get(base)
    if type(value) in (list, tuple):
        code = f"{line.jnp}.array({base})[{ast.unparse(index)}]"
        yield line.with_(node, code, "Make the list an array, which a traced value can index")
    if not isinstance(index, ast.Slice) or index.step is not None:
        return
    lower, upper = index.lower, index.upper
    if isinstance(upper, ast.BinOp) and isinstance(upper.op, ast.Add) and lower is not None:
        if ast.unparse(upper.left) == ast.unparse(lower):
            args = f"{base}, {ast.unparse(lower)}, {ast.unparse(upper.right)}"
            code = f"{line.jax}.lax.dynamic_slice_in_dim({args})"
            text = "Take a slice of fixed length from a traced start (moved back at the end)"
            yield line.with_(node, code, text)
    elif upper is not None and lower is None and getattr(value, "ndim", 0) == 1:
        code = f"{line.jnp}.where({line.jnp}.arange({base}.size) < {ast.unparse(upper)}, {base}, 0)"
        yield line.with_(node, code, "Keep the shape, with 0 from there on")


_MASKED = {
    **dict.fromkeys(("sum", "mean", "prod", "std", "var", "any", "all"), ""),
    "max": ", initial=-{jnp}.inf",
    "min": ", initial={jnp}.inf",
}


def of_mask(line: FailingCode) -> Iterator[Rewrite]:
    node = line.expression
    if not isinstance(node, ast.Subscript):
        return
    base, mask = ast.unparse(node.value), ast.unparse(node.slice)
    attribute, call = (*reversed(line.at.around), None, None)[:2]
    if isinstance(attribute, ast.Attribute) and isinstance(call, ast.Call) and not call.args:
        more = _MASKED.get(attribute.attr)
        if more is not None and call.func is attribute and not call.keywords:
            whole = ast.unparse(ast.Attribute(node.value, attribute.attr, ast.Load()))
            code = f"{whole}(where={mask}{more.format(jnp=line.jnp)})"
            yield line.with_(call, code, "Leave the others out of it")
    where = f"{line.jnp}.where({mask}, {base}, 0)"
    yield line.with_(node, where, "Keep the shape, with 0 where the mask is False")
