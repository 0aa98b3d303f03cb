"""The verbs that answer one question each, a lens's figures as attributes of what they return.

    answer = jaxlens.cost(step, params, x)
    answer.flops                # a fact, to assert on
    print(answer)               # the sentences and tables that `%compile --cost` shows

Each takes a function with its arguments, or a `Capture`; nothing is executed unless a verb says so.
"""

from collections.abc import Callable
from typing import Any

from jaxlens.api import Function, as_capture, capture, rungs
from jaxlens.captures import Capture
from jaxlens.errors import OptionError
from jaxlens.lenses.receipt import Receipt
from jaxlens.lenses.report import Report
from jaxlens.render.answer import Answer
from jaxlens.render.options import CompileOptions

Lens = Callable[[Capture], Report]


def cost(f: Function | Capture, /, *args: Any, **kwargs: Any) -> Answer:
    """Where flops and bytes go, loops counted by their trips, XLA's own figure beside them.

    Args:
        f: A function, or a Capture.
        *args: The function's arguments.
        **kwargs: Its keyword arguments.

    Returns:
        An answer with `.flops`, `.bytes` (arguments and results once each), `.transcendentals`,
        `.by_line` and `.by_node` (flops), and `.loops`.
    """
    from jaxlens.lenses.cost import cost as report
    from jaxlens.lenses.cost import of

    cap = _captured("cost", f, args, kwargs)
    return _compiled(cap, CompileOptions(cost=True), report, of)


def ladder(f: Function | Capture, /, *args: Any, **kwargs: Any) -> Answer:
    """What each transform made: `loss`, `grad(loss)`, `vmap(grad(loss))` side by side.

    Args:
        f: A transformed function such as `jax.vmap(jax.grad(loss))`, or a Capture of one; or
            several Captures, the function itself first, which may have been saved.
        *args: The function's arguments, batched as the outermost `vmap` wants them.
        **kwargs: Its keyword arguments.

    Returns:
        An answer with `.rungs` (each with `.title`, `.equations`, `.forward`, `.backward`),
        `.equations` of each rung, and `.rules` that were used.

    Raises:
        UnavailableError: The function has no transform that can be taken off.
    """
    from jaxlens.lenses.ladder import climb
    from jaxlens.lenses.ladder import ladder as report
    from jaxlens.render.ladder_view import document

    if isinstance(f, Capture) and all(isinstance(arg, Capture) for arg in args) and args:
        steps: tuple[Capture, ...] = (f, *args)
    else:
        steps = rungs(_captured("ladder", f, args, kwargs))
    return Answer(steps[-1], lambda: document(steps), lambda: report(steps), lambda: climb(steps))


def compare(
    before: Any, after: Any, *, names: tuple[str, str] | None = None, compiled: bool = True
) -> Answer:
    """What changed between two programs: an edit, another JAX version, another device or flag.

        before = jaxlens.capture(step, params, x)
        ...
        jaxlens.compare(before, jaxlens.capture(step, params, x))

    Args:
        before: A Capture, what `-o NAME` stored, or the path of a saved capture.
        after: The other.
        names: What they are called in headings; by default after what tells them apart.
        compiled: Compare what they compile to; else the equations alone, without a compile.

    Returns:
        An answer with `.causes`, `.figures` (both sides of each, by name), `.new`, `.gone` and
        `.changed` equations, `.lines`, and `.same` (whether the same program runs).

    Raises:
        OptionError: One of them is no capture.
    """
    from jaxlens.lenses import compare as lens
    from jaxlens.lenses.causes import sides
    from jaxlens.render.comparison import document

    was, now = as_capture(before), as_capture(after)
    called = names or sides(was.program, now.program)
    return Answer(
        now,
        lambda: document(was, now, called, compiled=compiled),
        lambda: lens.compare(was, now, called, compiled=compiled),
        lambda: lens.of(was, now, compiled=compiled),
    )


def receipt(f: Function | Capture, /, *args: Any, **kwargs: Any) -> Receipt:
    """The facts of a program that a test or a notebook asserts; each is found when asked for.

        assert jaxlens.receipt(step, params, x).fusions == 2

    Args:
        f: A function, or a Capture.
        *args: The function's arguments.
        **kwargs: Its keyword arguments.

    Returns:
        A receipt with `.fingerprint`, `.equations`, `.primitives`, `.flops`, `.bytes`, `.stable`
        (text), and after one compile `.fusions`, `.kernels`, `.temporaries`, `.peak`; see there.
    """
    return Receipt(_captured("receipt", f, args, kwargs))


def _compiled(
    cap: Capture, options: CompileOptions, report: Lens, facts: Callable[[Capture], Any]
) -> Answer:
    """What one option of `%%compile` shows, with its facts."""
    from jaxlens.render.compile_view import document

    return Answer(cap, lambda: document(cap, options), lambda: report(cap), lambda: facts(cap))


def _captured(
    verb: str, f: Function | Capture, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Capture:
    """The capture that is asked about."""
    if not isinstance(f, Capture):
        return capture(f, *args, **kwargs)
    if args or kwargs:
        raise OptionError(
            f"jaxlens.{verb} takes a Capture alone, or a function with its arguments, "
            f"got a Capture and {len(args) + len(kwargs)} more"
        )
    return f
