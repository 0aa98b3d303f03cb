"""Remedies for a failing line; a remedy that can be traced is checked by tracing it."""

import ast
import builtins
import inspect
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import FrameType, FunctionType, ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlens import compat
from jaxlens.call import isolate
from jaxlens.call.arguments.inputs import leaves
from jaxlens.call.arguments.written_shapes import abstract
from jaxlens.call.target import ResolvedTarget
from jaxlens.call.traceable import TraceableCall, prepare
from jaxlens.interrupts import uninterrupted
from jaxlens.ir.jaxpr.types import notation, type_of
from jaxlens.lines.user_frames import may_be_users
from jaxlens.questions.failure.facts import Remedy, TracedValue
from jaxlens.questions.failure.measure.causes import MessageCause
from jaxlens.questions.failure.measure.failing_line import FailingLine
from jaxlens.questions.failure.measure.failing_value import is_core_tracer, is_tracer
from jaxlens.questions.failure.measure.rewrites import REWRITES, FailingCode, Rewrite
from jaxlens.stages.trace.trace import trace

_MOST = 4  # results whose types are listed
_SECONDS = 2.0  # time limit of one trial trace
_STATIC = ("condition", "number", "shape")
_PURE: tuple[Any, ...] = (abs, all, any, bool, complex, float, int, len, max, min, pow, round, sum)
_PURE += (jax.debug.print, range)  # the first prints when the program runs
_TYPES_OF = ("builtins", "functools", "jax", "jaxlib", "jaxlens", "numpy")
_TRACED = object()  # stands for each array, and for what JAX makes of one
_FOREIGN = lambda: None  # noqa: E731 - stands for what may run code when it is read
_NUMBERS = bool | int | float | complex | np.generic


def remedies(
    line: FailingLine,
    cause: MessageCause,
    value: TracedValue | None,
    call: TraceableCall | None = None,
    place: ResolvedTarget | None = None,
    message: str = "",
) -> Iterator[Remedy]:
    """Yields remedies for a failing line, those that change the whole call first.

    Args:
        line: The failing line.
        cause: What the message names.
        value: The traced value.
        call: The call that was traced; without it no static argument can be tried.
        place: The target device.
        message: Message of the exception.
    """
    if call is not None and place is not None and cause.mistake in _STATIC:
        yield from _static(call, place, value)
    rewrites = REWRITES.get(cause.mistake)
    found: list[Remedy] = []
    if rewrites is not None and (line.expression is not None or cause.mistake == "in place"):
        node = line.expression or ast.Constant(None)
        by_core = any(is_core_tracer(bound) for bound in line.variables.values())
        written = FailingCode(line, node, **aliases(line), message=message, by_core=by_core)
        found = [remedy for rewrite in rewrites(written) if (remedy := _tried(rewrite, line))]
    yield from found or cause.remedies


def aliases(line: FailingLine | None) -> dict[str, str]:
    """Returns what the user's code calls the library that traces, and its NumPy."""
    modules = {"jax": "jax", "jnp": "jax.numpy"}
    names = {"jax": "jax", "jnp": "jnp"}
    variables = line.variables if line is not None else {}
    if any(map(is_core_tracer, variables.values())):
        modules = {"jax": "jaxlens.core", "jnp": "jaxlens.core.numpy"}
        names = {"jax": "core", "jnp": "cnp"}
    for name, value in reversed(variables.items()):
        for usual, module in modules.items():
            if type(value) is ModuleType and value.__name__ == module and name[:1] != "_":
                names[usual] = name
    return names


# ---- rewrites of the line ------------------------------------------------------------------------


def _tried(rewrite: Rewrite, line: FailingLine) -> Remedy | None:
    """Returns a rewrite as a remedy, with the types of its results; None if it does not trace.

    It is not tried where that would run code that the program has not run: a `where` computes both
    branches, and either may append to a list or remove a file.
    """
    untried = Remedy(rewrite.text, rewrite.code)
    derived = any(hasattr(x, "tangent") for x in line.variables.values() if is_tracer(x))
    if derived and ".lax.while_loop(" in rewrite.code:
        return None  # it has no reverse-mode derivative
    if not rewrite.tried or not calls_jax_alone(rewrite.tried, _names(line)):
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

    avals = {name: value.aval for name, value in traced.items()}
    with isolate.untouched(isolate.context()):
        if any(map(is_core_tracer, traced.values())):
            core: Any = sys.modules["jaxlens.core"]
            return core.eval_shape(evaluated, avals)
        structs = {
            name: abstract(a.shape, a.dtype, weak_type=bool(getattr(a, "weak_type", False)))
            for name, a in avals.items()
        }
        return jax.eval_shape(evaluated, structs)


# ---- whether an expression calls nothing but JAX; no code runs for the answer --------------------


def calls_jax_alone(code: str, variables: Mapping[str, Any]) -> bool:
    """Whether each function that an expression calls, or hands on, is JAX's own.

    Methods of traced values are. What counts is the object that a name stands for, and not its
    spelling. An object of the user's, or of a library's, may have operators and properties.

    Args:
        code: The expression.
        variables: The values of its names.
    """
    nodes = list(ast.walk(ast.parse(code, mode="eval")))
    values = {**vars(builtins), **variables}
    names = [node for node in nodes if isinstance(node, ast.Name)]
    values |= {name.id: None for name in names if isinstance(name.ctx, ast.Store)}
    values |= {n.arg: _TRACED for n in nodes if isinstance(n, ast.arg)}  # of a lambda: JAX calls it
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    owners = [node.value for node in attributes]
    handed = [_value(node, values) for node in (*names, *attributes) if node not in owners]
    functions = [_value(node, values) for node in called]
    return all(function is not None for function in functions) and not any(
        map(_is_foreign, (*functions, *handed))
    )


def _is_foreign(value: Any) -> bool:
    """Whether a value is not JAX's or Python's own; `__getattr__` of objects is not asked."""
    if type(value).__module__.partition(".")[0] not in _TYPES_OF:
        return True
    if isinstance(value, FunctionType) and may_be_users(value.__code__):
        return True  # also one that has the name of JAX's, by functools.wraps
    own = any(value is other for other in _PURE)
    return callable(value) and not own and not compat.computes(value)


def _value(node: ast.AST, values: Mapping[str, Any]) -> Any:
    """Returns the value of an expression as far as it is known without running code, else None."""
    value: Any = None
    match node:
        case ast.Name():
            value = values.get(node.id)
        case ast.Attribute(value=part, attr=name):
            owner = _value(part, values)
            if owner is _TRACED:
                value = None if name == "delete" else _TRACED
            elif type(owner) is ModuleType:  # `__getattr__` of a user's module is not asked
                is_own = owner.__name__.startswith(("jax.", "jaxlens."))
                value = getattr(owner, name, None) if is_own else vars(owner).get(name)
            else:
                value = inspect.getattr_static(owner, name, _FOREIGN)
                value = _FOREIGN if hasattr(type(value), "__get__") else value
        case ast.Call():
            value = _TRACED
        case ast.BinOp() | ast.UnaryOp() | ast.Subscript():
            parts = (_value(child, values) for child in ast.iter_child_nodes(node))
            value = _TRACED if any(part is _TRACED for part in parts) else None
    return _TRACED if is_tracer(value) or issubclass(type(value), jax.Array) else value


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
    """Traces the call with some arguments static; returns the outcome, "" if it fails."""
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
            trial = prepare(again, opened.args, opened.kwargs)
            trace(replace(trial, tracings=call.tracings), place)
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
