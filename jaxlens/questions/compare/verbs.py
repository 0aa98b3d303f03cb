"""The verbs that compare programs, and the receipt of one."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from jaxlens.captures import Capture
from jaxlens.capturing import Function, as_capture, captured
from jaxlens.questions.compare.facts import Comparison
from jaxlens.questions.compare.receipt import Receipt as Receipt
from jaxlens.views.view import View

__all__ = ["compare", "receipt", "without"]


def compare(
    before: Any, after: Any, *, names: tuple[str, str] | None = None, compiled: bool = True
) -> View[Comparison]:
    """Compares two programs: across an edit, another JAX version, another device or flag.

        before = jaxlens.capture(step, params, x)
        ...
        jaxlens.compare(before, jaxlens.capture(step, params, x))

    Args:
        before: A Capture, a view (what `-o NAME` stored), or the path of a saved capture.
        after: The other program, likewise.
        names: Names of both in headings; by default made from what differs between them.
        compiled: Whether the compiled programs are compared too, which compiles both; else only
            the equations are.

    Returns:
        An answer with `.causes`, `.figures` (both sides of each, by name), `.new`, `.gone` and
        `.changed` equations, `.lines`, and `.same` (whether both run the same program).

    Raises:
        OptionError: One of them is no capture.
        CaptureFileError: A file holds no capture.
    """
    from jaxlens.questions.compare import facts as facts_of
    from jaxlens.questions.compare.causes import sides
    from jaxlens.questions.compare.report import report
    from jaxlens.questions.compare.view import compare as document

    was, now = as_capture(before), as_capture(after)
    called = sides(was.program, now.program, names)
    facts = cache(lambda: facts_of.facts(was, now, compiled=compiled))

    return View(
        now,
        lambda: document(was, now, called, facts()),
        know=facts,
        tell=lambda: report(facts(), called),
    )


def without(f: Any, names: str | Sequence[str], /) -> Capture:
    """Compiles the same program with a pass left out, or with an XLA flag set.

        jaxlens.compare(cap, jaxlens.without(cap, "fusion"))

    It is compiled in a separate process, so that a crash of XLA does not end this one.

    Args:
        f: A Capture of a program for one device of this process, or a view of it.
        names: The name of a pass ("fusion" for all passes that fuse) or "xla_flag=value"; several
            separated by commas, or a list.

    Returns:
        The Capture of the program compiled so.

    Raises:
        OptionError: There is no such pass or flag.
        UnavailableError: The program cannot be compiled again, or XLA crashed.
    """
    from jaxlens.stages.child.recompile import without as recompiled

    return recompiled(as_capture(f), names)[0]


def receipt(f: Function | Capture, /, *args: Any, **kwargs: Any) -> Receipt:
    """Returns facts of a program to assert in a test; each is computed on first access.

        assert jaxlens.receipt(step, params, x).fusions == 2

    Args:
        f: A function, or a Capture.
        *args: The function's arguments: arrays, numbers or `jax.ShapeDtypeStruct`s.
        **kwargs: Its keyword arguments.

    Returns:
        A receipt. Without a compile it has `.equations`, `.primitives` (equations by primitive),
        `.flops`, `.bytes` (of arguments and results), `.stable` (text to keep beside a test) and
        `.fingerprint`; after one compile `.fusions`, `.kernels`, and in bytes `.temporaries` and
        `.peak`. `.expect(**facts)` asserts several.

    Raises:
        OptionError: A Capture was given with further arguments.
    """
    return Receipt(captured("receipt", f, args, kwargs))
