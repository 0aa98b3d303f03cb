"""Rewrites calls that do not accept a traced value."""

import ast
import re
from collections.abc import Iterator, Mapping

from jaxlens.stages.failure.failing_value import is_tracer
from jaxlens.stages.failure.rewrite import FailingCode, Rewrite, replaced


def of_numpy(line: FailingCode) -> Iterator[Rewrite]:
    """Rewrites a call of `numpy` or `math`, and a NumPy array with a traced index."""
    node = line.expression
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        code = f"{line.jnp}.asarray({node.value.id})[{ast.unparse(node.slice)}]"
        yield line.with_(node, code, "Make it an array of JAX's, which a traced value can index")
    if not isinstance(node, ast.Call):
        return
    function = ast.unparse(node.func)
    root, _, rest = function.partition(".")
    module = getattr(line.at.variables.get(root), "__name__", "")
    if module in ("numpy", "math") and rest:
        rest = {"fabs": "abs"}.get(rest, rest)
        new = ast.parse(f"{line.jnp}.{rest}", mode="eval").body
        code = ast.unparse(ast.Call(new, node.args, node.keywords))
        yield line.with_(node, code, f"Use {line.jnp} in the place of {root}")
    if root in line.at.variables and not line.by_core:  # not a builtin function
        yield Rewrite(f"jax.pure_callback calls {function} with numbers when the program runs")


_AT: Mapping[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
}


def of_in_place(line: FailingCode) -> Iterator[Rewrite]:
    statement = next((n for n in reversed(line.at.around) if isinstance(n, ast.stmt)), None)
    target: ast.expr | None = None
    method, value = "set", ""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], ast.unparse(statement.value)
    elif isinstance(statement, ast.AugAssign):
        target, value = statement.target, ast.unparse(statement.value)
        method = _AT.get(type(statement.op), "")
        if isinstance(statement.op, ast.Sub):
            method, value = "add", ast.unparse(ast.UnaryOp(ast.USub(), statement.value))
    if isinstance(target, ast.Subscript) and method:
        base = ast.unparse(target.value)
        if method == "set" and is_mask(line, target.slice):
            code = f"{line.jnp}.where({ast.unparse(target.slice)}, {value}, {base})"
            yield Rewrite("Make a changed copy, and bind the name to it", f"{base} = {code}", code)
        code = f"{base}.at[{ast.unparse(target.slice)}].{method}({value})"
        yield Rewrite("Make a changed copy, and bind the name to it", f"{base} = {code}", code)


def is_mask(line: FailingCode, index: ast.expr) -> bool:
    """Whether an index is a boolean array: a comparison, or a variable of dtype bool."""
    if isinstance(index, ast.Name):
        dtype = getattr(getattr(line.at.variables.get(index.id), "aval", None), "dtype", None)
        return str(dtype) == "bool"
    return isinstance(index, ast.Compare)


def of_hash(line: FailingCode) -> Iterator[Rewrite]:
    yield Rewrite("Use a key that Python knows, such as a name or an index, or keep them in a list")


def of_format(line: FailingCode) -> Iterator[Rewrite]:
    names = (part.id for part in ast.walk(line.expression) if isinstance(part, ast.Name))
    variables = line.at.variables
    name = line.traced or next((n for n in names if is_tracer(variables.get(n))), "")
    if name:
        code = f"{line.jax}.debug.print('{{}}', {name})"
        yield Rewrite("Print it when the program runs", code, code)


def of_key_as_data(line: FailingCode) -> Iterator[Rewrite]:
    if line.traced:
        code = f"{line.jax}.random.uniform({line.traced})"
        yield Rewrite("Draw numbers with the key, here one", code, code)


def of_data_as_key(line: FailingCode) -> Iterator[Rewrite]:
    node = line.expression
    if isinstance(node, ast.Call) and node.args:
        key = ast.parse(f"{line.jax}.random.key(0)", mode="eval").body
        code = ast.unparse(ast.Call(node.func, [key, *node.args[1:]], node.keywords))
        yield line.with_(node, code, "Make a key of a seed, here 0")


_TYPES = re.compile(
    r"has type (\w{1,20})\[.{0,99}?\] but the corresponding output\b.{0,99}? has type (\w{1,20})\["
)
_COMPONENT = re.compile(r"carry component \w+((?:\[\d+\])+)")
_INIT = {"scan": (1, 0), "while_loop": (2, 0), "fori_loop": (3, 1)}
"""Position of the initial carry in a loop's call, and its depth in JAX's own carry."""


def _changed_types(line: FailingCode) -> re.Match[str] | None:
    """Returns a match with the dtypes before and after, if the message has two different ones."""
    match = _TYPES.search(line.message)
    return match if match and match[1] != match[2] else None


def of_carry(line: FailingCode) -> Iterator[Rewrite]:
    """Casts the initial carry of a loop to the dtype that its body returns."""
    node, types = line.expression, _changed_types(line)
    if isinstance(node, ast.Call) and types is not None:
        init = _init(node, line.message)
        if init is not None:
            code = f"{line.jnp}.asarray({ast.unparse(init)}, {line.jnp}.{types[2]})"
            text = "Begin with the dtype that a step gives"
            yield line.with_(node, ast.unparse(replaced(node, init, code)), text)
    yield Rewrite(
        "A step gives what it was given: convert in it with .astype; make what grows in full size "
        "before, and write into it with .at[i].set"
    )


def _init(call: ast.Call, message: str) -> ast.expr | None:
    """Returns the component of the initial carry whose type changes."""
    place, deep = _INIT.get(ast.unparse(call.func).rpartition(".")[2], (0, 0))
    named = (word.value for word in call.keywords if word.arg in ("init", "init_val"))
    init = call.args[place] if 0 < place < len(call.args) else next(named, None)
    component = _COMPONENT.search(message)
    for index in map(int, re.findall(r"\d+", component[1])[deep:]) if component else ():
        if not isinstance(init, ast.Tuple | ast.List) or index >= len(init.elts):
            return None
        init = init.elts[index]
    return init


def of_branches(line: FailingCode) -> Iterator[Rewrite]:
    """Casts the result of the second branch to the dtype of the first."""
    node, types = line.expression, _changed_types(line)
    if isinstance(node, ast.Call) and types is not None:
        other = node.args[2] if len(node.args) > 2 else None
        if isinstance(other, ast.Lambda):
            cast = ast.Attribute(other.body, "astype", ast.Load())
            body = f"{ast.unparse(cast)}({line.jnp}.{types[1]})"
            code = ast.unparse(replaced(node, other.body, body))
            yield line.with_(node, code, "Convert the result of one branch to the other's dtype")
            return
    yield Rewrite(
        "Let both give the same: convert with .astype, or fill up with .reshape and zeros"
    )
