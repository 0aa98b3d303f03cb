"""Remedies for a failing line; a remedy that can be traced is checked by tracing it."""

import ast
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, reduce
from types import FrameType, ModuleType, NoneType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlens import compat
from jaxlens.interrupts import uninterrupted
from jaxlens.ir.failure import Mistake, Remedy, TracedValue
from jaxlens.ir.jaxpr.types import notation, type_of
from jaxlens.lines.user_frames import may_be_users
from jaxlens.questions.failure.measure.failing_line import FailingLine
from jaxlens.questions.failure.measure.failing_value import is_core_tracer, is_tracer
from jaxlens.questions.failure.measure.rewrites import AT, REWRITES, FailingCode, Rewrite
from jaxlens.stages.arguments.inputs import leaves
from jaxlens.stages.call import isolate
from jaxlens.stages.call.target import ResolvedTarget
from jaxlens.stages.call.traceable import TraceableCall, prepare
from jaxlens.stages.trace.trace import trace

LEAKED = Remedy(
    "Return the value from the function that computes it, and hand it on as an argument: no list, "
    "global or attribute may keep it"
)
_MOST = 4  # results whose types are listed
_SECONDS = 2.0  # time limit of one trial trace
_STATIC: tuple[Mistake, ...] = ("condition", "number", "shape")
_NUMBERS = bool | int | float | complex | np.generic
_PURE: tuple[Any, ...] = (abs, all, any, bool, complex, float, int, len, max, min, pow, round, sum)
_PURE += (jax.debug.print, range)  # the first prints when the program runs
_IN_PLACE = ("delete", "sort")  # attributes of arrays, or of lists, that change them
_MODULES = (jax, jax.numpy, jax.lax, jax.nn)  # whose functions are known without their module
_MISSING = object()
_DEEP = 8  # nested containers that are looked into


def remedies(
    line: FailingLine,
    mistake: Mistake,
    value: TracedValue | None,
    call: TraceableCall | None = None,
    place: ResolvedTarget | None = None,
    message: str = "",
) -> Iterator[Remedy]:
    """Yields remedies for a failing line, those that change the whole call first.

    Args:
        line: The failing line.
        mistake: The kind of mistake.
        value: The traced value.
        call: The call that was traced; without it no static argument can be tried.
        place: The target device.
        message: Message of the exception.
    """
    if call is not None and place is not None and mistake in _STATIC:
        yield from _static(call, place, value)
    if line.expression is None and mistake not in ("in place", "carry", "branches"):
        return
    node = line.expression or ast.Constant(None)
    by_core = any(is_core_tracer(bound) for bound in line.variables.values())
    names = ("jaxlens.core", "core"), ("jaxlens.core.numpy", "cnp")
    own, numpy = names if by_core else (("jax", "jax"), ("jax.numpy", "jnp"))
    aliases = _alias(line, *numpy), _alias(line, *own)
    written = FailingCode(line, node, *aliases, message, by_core)
    rewrites = REWRITES[mistake](written) if mistake in REWRITES else ()
    traceable = [remedy for rewrite in rewrites if (remedy := _tried(rewrite, line))]
    yield from traceable
    if mistake == "condition" and not traceable:
        yield Remedy(
            f"{written.jnp}.where chooses between values, {written.jax}.lax.cond between functions"
        )


# ---- rewrites of the line ------------------------------------------------------------------------


def _tried(rewrite: Rewrite, line: FailingLine) -> Remedy | None:
    """Returns a rewrite as a remedy, with the types of its results; None if it does not trace.

    It is not tried where that would run code that the program has not run: a `where` computes both
    branches, and either may append to a list or remove a file.
    """
    untried = Remedy(rewrite.text, rewrite.code)
    if not rewrite.tried or not _runs_jax_alone(rewrite.tried, _names(line)):
        return untried
    try:
        with _within(_SECONDS):
            results = _abstract(rewrite.tried, line)
    except (Exception, _LateError):  # the rewrite does not fit this line
        return None
    shown = [notation(type_of(result)) for result in jax.tree_util.tree_leaves(results)]
    more = f" and {len(shown) - _MOST} more" if len(shown) > _MOST else ""
    types = f" and gives {', '.join(shown[:_MOST])}{more}" if shown else ""
    return Remedy(rewrite.text, rewrite.code, f"it traces{types}")


def _runs_jax_alone(code: str, variables: dict[str, Any]) -> bool:
    """Whether an expression is made of arrays, numbers, containers of these, and JAX's functions.

    Evaluating it then runs no code of the user's, not even a property or an operator.
    """
    nodes = list(ast.walk(ast.parse(code, mode="eval")))
    bound = {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    values = {function.__name__: function for function in _PURE} | variables
    of_modules: set[ast.AST] = set()
    for node in nodes:  # outer nodes come first
        if node in of_modules:
            continue
        if isinstance(node, ast.Attribute):
            root, names = _dotted(node)
            if isinstance(root, ast.Name) and type(values.get(root.id)) is ModuleType:
                of_modules.update(ast.walk(node))
                if not _is_jaxs(reduce(_member, names, values[root.id])):
                    return False
            elif node.attr in _IN_PLACE or not (hasattr(jax.Array, node.attr) or node.attr in AT):
                return False
        elif isinstance(node, ast.Name) and (node.id in values or node.id not in bound):
            value = values.get(node.id, _MISSING)
            is_known = any(value is function for function in _PURE) or (
                any(value is getattr(module, node.id, _MISSING) for module in _MODULES)
                and _is_jaxs(value)
            )
            if not is_known and not _is_plain(value):
                return False
    return True


def _dotted(node: ast.expr) -> tuple[ast.expr, list[str]]:
    """Returns what a chain of attributes begins with, and their names."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return node, names[::-1]


def _member(module: Any, name: str) -> Any:
    """Returns a member of a module; `__getattr__` is asked of JAX's modules alone."""
    if type(module) is not ModuleType:
        return _MISSING
    is_jaxs = module.__name__.startswith(("jax", "jaxlens"))
    return getattr(module, name, _MISSING) if is_jaxs else vars(module).get(name, _MISSING)


def _is_jaxs(value: Any) -> bool:
    """Whether a module's member is a number, or a function that computes with JAX."""
    return type(value) is float or value is jax.debug.print or compat.computes(value)


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a value is an array, a number, a string, or a container of these."""
    if type(value) in (dict, list, tuple):
        parts = value.values() if type(value) is dict else value
        return depth < _DEEP and all(_is_plain(part, depth + 1) for part in parts)
    is_array = is_tracer(value) or issubclass(type(value), jax.Array)
    is_number = type(value) in (bool, int, float, complex, str, NoneType, np.ndarray, slice)
    return is_array or is_number or isinstance(value, np.generic)


def _names(line: FailingLine) -> dict[str, Any]:
    """Returns the values of the names that a rewrite may have."""
    core: Any = sys.modules.get("jaxlens.core")
    modules = {"jax": jax, "jnp": jnp}
    modules |= {"core": core, "cnp": core.numpy} if core is not None else {}
    return modules | line.variables


def _abstract(code: str, line: FailingLine) -> Any:
    """Evaluates an expression abstractly on the avals of the tracers that it names."""
    variables = _names(line)
    named = {part.id for part in ast.walk(ast.parse(code)) if isinstance(part, ast.Name)}
    traced = {name: variables[name] for name in named if is_tracer(variables.get(name))}
    compiled = compile(code, "<jaxlens>", "eval")

    def evaluated(values: dict[str, Any]) -> Any:
        return eval(compiled, {**variables, **values})

    struct: Any = jax.ShapeDtypeStruct
    avals = {name: value.aval for name, value in traced.items()}
    structs = {
        name: struct(a.shape, a.dtype, weak_type=bool(getattr(a, "weak_type", False)))
        for name, a in avals.items()
    }
    with isolate.untouched(isolate.context()):
        if any(map(is_core_tracer, traced.values())):
            core: Any = sys.modules["jaxlens.core"]
            return core.eval_shape(evaluated, avals)
        if any(hasattr(value, "tangent") for value in traced.values()):
            jax.eval_shape(partial(_backwards, evaluated), structs)
        return jax.eval_shape(evaluated, structs)


def _backwards(function: Callable[[dict[str, Any]], Any], values: dict[str, Any]) -> Any:
    """Applies the function's vjp: a `while_loop` traces, but has no reverse-mode derivative."""
    real = {k: value for k, value in values.items() if jnp.issubdtype(value.dtype, jnp.inexact)}

    def numbers(parts: dict[str, Any]) -> list[Any]:
        results = map(jnp.asarray, jax.tree_util.tree_leaves(function({**values, **parts})))
        return [result for result in results if jnp.issubdtype(result.dtype, jnp.inexact)]

    results, back = jax.vjp(numbers, real)
    return back([jnp.ones_like(result) for result in results])


def _alias(line: FailingLine, module: str, usual: str) -> str:
    """Returns the name that the user's code imports a module as."""
    for name, value in line.variables.items():
        if type(value) is ModuleType and value.__name__ == module and not name.startswith("_"):
            return name
    return usual


# ---- static arguments ----------------------------------------------------------------------------


def _static(
    call: TraceableCall, place: ResolvedTarget, value: TracedValue | None
) -> Iterator[Remedy]:
    """Proposes a Python number as a static argument, if the function then traces."""
    opened = call.core or call.opened
    if opened is None:
        return
    arguments: dict[Any, Any] = {**dict(enumerate(opened.args)), **opened.kwargs}
    numbers: dict[int | str, list[str]] = {}
    for leaf in leaves(opened.args, opened.kwargs, opened.signature):
        if leaf.root not in call.static and _hashes(arguments[leaf.root]):
            numbers.setdefault(leaf.root, []).append(leaf.name)
    used = set(value.arguments) if value else set()
    first = {root: names for root, names in numbers.items() if used & set(names)}
    for root, names in (first or numbers).items():
        name = names[0].partition("[")[0].partition(".")[0]
        outcome = _with(call, place, {root: arguments[root]})
        if outcome:
            library = "jax" if call.core is None else "core"
            yield Remedy(
                f"Make {name} a static argument: the program is then made for its value, and anew "
                "for each other",
                f"{library}.jit({call.name}, static_argnames={name!r})",
                outcome,
            )


def _hashes(value: Any) -> bool:
    """Whether a value consists of Python or NumPy scalars and is hashable."""
    parts = jax.tree_util.tree_leaves(value)
    if not parts or not all(isinstance(part, _NUMBERS) for part in parts):
        return False
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _with(call: TraceableCall, place: ResolvedTarget, fixed: dict[int | str, Any]) -> str:
    """Traces the call with some arguments static; returns the outcome, "" if it still fails."""
    function = call.function

    def called(*args: Any, **kwargs: Any) -> Any:
        values = [fixed.get(n, arg) for n, arg in enumerate(args)]
        return function(*values, **{name: fixed.get(name, arg) for name, arg in kwargs.items()})

    opened = call.opened
    assert opened is not None  # checked by the caller
    called.__name__ = call.name.rpartition(".")[2]
    again = compat.rejit(called, call.settings) if call.settings is not None else called
    isolate.retire()
    try:
        with _within(_SECONDS):
            made = prepare(again, opened.args, opened.kwargs)
            trace(replace(made, tracings=call.tracings), place)
    except (Exception, _LateError):  # the user's function may raise anything
        return ""
    finally:
        isolate.retire()
    return f"{call.name} traces"


# ---- the time limit ------------------------------------------------------------------------------
#
# A trial traces the user's function with another value, which may make a loop a thousand times as
# long. A trace function, set with `sys.settrace`, checks the clock at every line of user code.


class _LateError(BaseException):
    """The time limit has passed. A BaseException, so that `except Exception` does not catch it."""


@uninterrupted
def _within(seconds: float) -> Iterator[None]:
    """Raises `_LateError` in user code of this thread once the time limit has passed."""
    end = time.monotonic() + seconds

    # _LateError is raised in user frames only. In a destructor Python would discard it, and a trace
    # function that has raised once is unset: the limit would be lost.
    def ran(frame: FrameType, event: str, value: Any) -> Any:
        if time.monotonic() > end:
            raise _LateError
        return ran

    def called(frame: FrameType, event: str, value: Any) -> Any:
        return ran if may_be_users(frame.f_code) else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(before)
