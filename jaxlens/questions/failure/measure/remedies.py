"""Remedies for a failing line; a remedy that can be traced is checked by tracing it."""

import ast
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import FrameType, ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlens import compat
from jaxlens.call import isolate
from jaxlens.call.arguments.inputs import leaves, static_text
from jaxlens.call.target import ResolvedTarget
from jaxlens.call.traceable import TraceableCall, prepare
from jaxlens.interrupts import uninterrupted
from jaxlens.ir.jaxpr.types import notation, type_of
from jaxlens.lines.user_frames import is_users, may_be_users
from jaxlens.questions.failure.facts import Mistake, Remedy, TracedValue
from jaxlens.questions.failure.measure.failing_line import FailingLine
from jaxlens.questions.failure.measure.failing_value import is_core_tracer, is_tracer
from jaxlens.questions.failure.measure.jax_calls import calls_jax_alone
from jaxlens.questions.failure.measure.rewrites import REWRITES, FailingCode, Rewrite
from jaxlens.stages.trace.trace import trace

LEAKED = Remedy(
    "Return the value from the function that computes it, and hand it on as an argument: no list, "
    "global or attribute may keep it"
)
_MOST = 4  # results whose types are listed
_SECONDS = 2.0  # time limit of one trial trace
_STATIC: tuple[Mistake, ...] = ("condition", "number", "shape")
_NUMBERS = bool | int | float | complex | np.generic


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
    if not rewrite.tried or not calls_jax_alone(rewrite.tried, _names(line)):
        return untried
    try:
        with _within(_SECONDS, users=False):
            results = _abstract(rewrite.tried, line)
    except _UsersCodeError:
        return untried
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
    return _outcome(call, place, again, opened.args, opened.kwargs)


def _outcome(
    call: TraceableCall,
    place: ResolvedTarget,
    function: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> str:
    """Runs a trial trace; returns "... traces", or "" if it raises or exceeds the time limit."""
    isolate.retire()
    try:
        with _within(_SECONDS):
            trace(replace(prepare(function, args, kwargs), tracings=call.tracings), place)
    except (Exception, _LateError):  # the user's function may raise anything
        return ""
    finally:
        isolate.retire()
    return f"{call.name} traces"


def hashable(call: TraceableCall, place: ResolvedTarget) -> Iterator[Remedy]:
    """Proposes a tuple for a static argument that is a list, if the function then traces."""
    opened = call.opened
    if opened is None:
        return
    arguments = dict(enumerate(opened.args)) | opened.kwargs
    lists = {root: value for root in call.static if isinstance(value := arguments.get(root), list)}
    for root, value in lists.items():
        fixed = tuple(value)
        args = [fixed if n == root else arg for n, arg in enumerate(opened.args)]
        kwargs = {k: fixed if k == root else arg for k, arg in opened.kwargs.items()}
        if outcome := _outcome(call, place, opened.function, args, kwargs):
            yield Remedy("Pass a tuple in the place of the list", static_text(fixed), outcome)
            return
    yield Remedy("Pass something hashable: a tuple, a string, a number, a frozen dataclass")


_OPAQUE = re.compile(r"of type '?<class '(?P<type>[^']+)'>'?(?:.* at path (?P<path>\w+))?")


def opaque(message: str) -> Iterator[Remedy]:
    """Proposes what to do with an argument that is neither an array nor a pytree.

    Args:
        message: Message of JAX's exception; it names the class, and under jit the argument.
    """
    match = _OPAQUE.search(message)
    if match is None:
        return
    kind = match["type"].rpartition(".")[2]
    # A class of the user's or of a library, which can be changed.
    if "." in match["type"] and not match["type"].startswith(("jax", "numpy.")):
        yield Remedy(
            f"If it holds arrays, make {kind} a pytree: a dataclass, whose fields become inputs",
            f"@jax.tree_util.register_dataclass\n@dataclass\nclass {kind}:",
        )
    if match["path"]:
        yield Remedy(
            "If it is a setting, make it a static argument: the program is then made for its "
            "value, and anew for each other",
            f"static_argnames={match['path']!r}",
        )


# ---- the time limit ------------------------------------------------------------------------------
#
# A trial traces the user's function with another value, which may make a loop a thousand times as
# long. A trace function, set with `sys.settrace`, checks the clock at every line of user code.


class _LateError(BaseException):
    """The time limit has passed. A BaseException, so that `except Exception` does not catch it."""


class _UsersCodeError(BaseException):
    """A function of the user's was called, and has not begun."""


@uninterrupted
def _within(seconds: float, users: bool = True) -> Iterator[None]:
    """Raises `_LateError` in user code of this thread once the time limit has passed.

    Args:
        seconds: The time limit.
        users: Whether user code may run; if not, the first function of it is ended as it begins.
    """
    end = time.monotonic() + seconds

    # _LateError is raised in user frames only. In a destructor Python would discard it, and a trace
    # function that has raised once is unset: the limit would be lost.
    def ran(frame: FrameType, event: str, value: Any) -> Any:
        if time.monotonic() > end:
            raise _LateError
        return ran

    def called(frame: FrameType, event: str, value: Any) -> Any:
        if not may_be_users(frame.f_code):
            return None
        if not users and frame.f_code.co_name != "__del__" and is_users(frame):
            raise _UsersCodeError
        return ran

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(before)
