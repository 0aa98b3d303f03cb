"""The verbs that answer one question each; an answer has the lens's figures as attributes.

    answer = jaxlens.cost(step, params, x)
    answer.flops                # a fact, to assert on
    print(answer)               # the sentences and tables that `%compile --cost` shows

Each takes a function with its arguments, or a `Capture`; nothing is executed unless a verb says so.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from inspect import cleandoc
from textwrap import fill
from typing import Any, TypeVar

from jaxlens.api import Function, as_capture, capture, is_program, what_if
from jaxlens.captures import Capture
from jaxlens.errors import OptionError, TargetError
from jaxlens.ir.compile_log import CallKey
from jaxlens.options import CompilePanes
from jaxlens.question import Question
from jaxlens.questions import rows
from jaxlens.questions.compare.facts import Comparison
from jaxlens.questions.compare.receipt import Receipt
from jaxlens.questions.compare.side_by_side import SideBySide
from jaxlens.questions.memory.fits import FitFacts
from jaxlens.questions.memory.row import FITS, MEMORY
from jaxlens.questions.trace.ladder import Ladder
from jaxlens.questions.trace.row import LADDER, all_rungs
from jaxlens.questions.variants.bisected import Bisected, TrialProgram
from jaxlens.report import Report
from jaxlens.viewer.answer import Answer
from jaxlens.viewer.view import View

F = TypeVar("F")


_ARGUMENTS = """

Args:
    f: A function, or a Capture.
    *args: The function's arguments: arrays, numbers or `jax.ShapeDtypeStruct`s.
    **kwargs: Its keyword arguments{options}.

"""


def _verb(question: Question[F], name: str) -> Callable[..., Answer[F]]:
    """Returns the verb of a question; its docstring is made of the row and the lens function's."""

    def verb(f: Function | Capture, /, *args: Any, **kwargs: Any) -> Answer[F]:
        from jaxlens.viewer import show

        options = {option.name: option for option in question.choices}
        keywords = kwargs if isinstance(f, Capture) and set(kwargs) <= set(options) else {}
        cap = _captured(name, f, args, {} if keywords else kwargs)
        CompilePanes(run=keywords.get("run", 0))  # raises for a negative count of runs
        values = {name: options[name].read(value) for name, value in keywords.items()}
        return show.ask(question, cap, **values)

    verb.__name__ = verb.__qualname__ = name
    sources = str(question.about).replace("\n", "\n\n", 1).splitlines()
    about = "\n".join(fill(line, 96, subsequent_indent="    ") for line in sources)
    answer = cleandoc(question.lens.__doc__ or "").partition("\n\n")[2]
    options = "; with a Capture, the options below" if question.choices else ""
    verb.__doc__ = about + _ARGUMENTS.format(options=options) + answer
    verb.__annotations__["return"] = Answer  # as help() shows it
    return verb


def __getattr__(name: str) -> Callable[..., Answer[Any]]:
    """The verbs that are made of a row alone."""
    found = [row for row in rows() if row.function == name]
    if not found:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    verb = globals()[name] = _verb(found[0], name)
    return verb


def fits(f: Function | Capture, /, *args: Any, device: str, **kwargs: Any) -> Answer[FitFacts]:
    """Will it fit a device, and if not, what would make it? Nothing is run.

        jaxlens.fits(step, params, batch, device="h100")

    It is compiled for the device where this machine can do that (`jaxlens[gpu]`, `jaxlens[tpu]`),
    else for this machine's, and the answer says so. Where it does not fit, inputs are donated and
    `jax.checkpoint` is applied, each tried by a compile.

    Args:
        f: A function, or a Capture, which is taken as it was compiled.
        *args: The function's arguments: arrays, numbers or `jax.ShapeDtypeStruct`s.
        device: "h100", "v5e" and others of published memory, or a size: "16 GB".
        **kwargs: Its keyword arguments.

    Returns:
        An answer with `.fits` (None where it is too near to say), `.takes` (bytes), `.capacity`,
        `.use` (as of `jaxlens.memory`) and `.actions`, each with `.name`, `.code`, `.takes`.

    Raises:
        OptionError: The memory of the device is not known here.
    """
    from jaxlens.questions.memory.fits import target_of
    from jaxlens.viewer import show

    cap = None
    with suppress(TargetError):  # what is not installed here, or a call without inputs
        if not isinstance(f, Capture) and (target := target_of(device)):
            cap = capture(f, *args, target=target, **kwargs)
    return show.ask(FITS, cap or _captured("fits", f, args, kwargs), fits=device)


def out_of_memory(error: BaseException) -> View | None:
    """Shows the memory of the program that ran out of it; None for any other exception.

    The program is the one that failed to compile, or that of the last call of the traceback if it
    has an allocation of the bytes that XLA could not get. It is compiled, and not run. Where a GPU
    ran out of memory in autotuning, it is compiled without it, in a process of its own.

    Args:
        error: What XLA raised.
    """
    from jaxlens.program.sentences import named_inputs
    from jaxlens.questions.failure.view import no_memory
    from jaxlens.questions.memory.fits import allocates
    from jaxlens.questions.memory.measure import out_of_memory as failed
    from jaxlens.viewer import show

    if not failed.is_out_of_memory(error):
        return None
    size, is_tuning = failed.wanted_bytes(error), failed.is_autotuning(error)
    has_compiled = not failed.failed_to_compile(error)

    program, call = None, failed.dispatched(error) or failed.named(error)
    with suppress(Exception):  # what cannot be captured, or compiled for its sizes, is not it
        made = capture(call.function, *call.args, **call.kwargs) if call else None
        if made and call and made.program.origin:
            made = replace(made, program=replace(made.program, origin=call.under, jit=""))
        if made and (not size or not has_compiled or allocates(made, size)):
            program = made
    with suppress(Exception):  # it does not compile
        if program:
            cap = without(program, "xla_gpu_autotune_level=0") if is_tuning else program
            memory = show.ask(MEMORY, cap).document
            room, own = failed.room(cap.program.target.platform), cap.memory.arguments or 0
            return View(cap, lambda: no_memory(size, memory, "", False, is_tuning, room, own))
    name = ""
    if program:
        about = program.program
        inputs = f" with {named_inputs(about.inputs)}" if has_compiled else ""
        name = f"{about.call}{inputs}"
    return View(None, lambda: no_memory(size, None, name, not has_compiled, is_tuning))


def key(f: Function, /, *args: Any, **kwargs: Any) -> Answer[CallKey]:
    """Returns the key by which JAX's caches look up a call, and whether it would hit.

    Nothing is traced, executed or compiled, and no cache entry is made.

    Args:
        f: A function; if it is not jitted, the key is that of `jax.jit(f)`.
        *args: The function's arguments: arrays, numbers or `jax.ShapeDtypeStruct`s.
        **kwargs: Its keyword arguments.

    Returns:
        An answer with `.hit` (None if it cannot be known), `.layer` (the first cache that misses:
        "trace" or "compile"), `.reasons` (differences to the nearest earlier key) and `.parts`.

    Raises:
        OptionError: `f` is a Capture or an existing program, and not a function.
    """
    from jaxlens.keys.core_keys import call_key
    from jaxlens.questions.recompiles.call_key import key_report
    from jaxlens.questions.recompiles.view import key_document

    if isinstance(f, Capture) or is_program(f):
        raise OptionError(
            "a capture has no cache key, its call has: jaxlens.key(f, x) takes the function and "
            "its arguments"
        )
    key = call_key(f, args, kwargs)
    return Answer(None, lambda: key_document(key), lambda: key_report(key), lambda: key)


def ladder(f: Function | Capture, /, *args: Any, **kwargs: Any) -> Answer[Ladder]:
    """Shows what each transform makes: `loss`, `grad(loss)`, `vmap(grad(loss))` side by side.

    Args:
        f: A transformed function such as `jax.vmap(jax.grad(loss))`, or a Capture of one; or
            several Captures, that of the function itself first, which may be saved ones.
        *args: The function's arguments, with the batch axes that the outermost `vmap` maps.
        **kwargs: Its keyword arguments.

    Returns:
        An answer with `.rungs` (each with `.title`, `.equations`, `.forward`, `.backward`),
        `.equations` of each rung, and `.rules` that JAX used.

    Raises:
        UnavailableError: The function has no transform that can be undone.
    """
    from jaxlens.viewer import show

    if isinstance(f, Capture) and all(isinstance(arg, Capture) for arg in args) and args:
        captures: tuple[Capture, ...] = (f, *args)
    else:
        captures = all_rungs(_captured("ladder", f, args, kwargs))
    return show.ask(LADDER, captures[-1], rungs=captures)


def compare(
    before: Any, after: Any, *, names: tuple[str, str] | None = None, compiled: bool = True
) -> Answer[Comparison]:
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
    from jaxlens.questions.compare.tables import times
    from jaxlens.viewer import comparison

    was, now = as_capture(before), as_capture(after)
    called = sides(was.program, now.program, names)
    facts = cache(lambda: facts_of.facts(was, now, compiled=compiled))

    def reported() -> Report:
        comparison = facts()  # which compiles: the times are known after it
        return report(comparison, called, times(was, now, called) if compiled else ())

    return Answer(now, lambda: comparison.compare(was, now, called, facts()), reported, facts)


def side_by_side(*programs: Any, explore: bool = False) -> Answer[SideBySide]:
    """Shows one function on several targets: a column of figures for each, and linked panes.

        jaxlens.side_by_side(cap, jaxlens.capture(step, params, x, target="gpu:h100"))

    Args:
        *programs: Captures, views, or paths of saved captures.
        explore: Whether the programs stand beside your lines at first, and not the kernels.

    Returns:
        An answer with `.columns`, each with `.name`, `.figures` by name, `.seconds` of each step,
        and `.missing` (why a program did not compile).

    Raises:
        OptionError: There is no program, or one of them is no capture.
        CaptureFileError: A file holds no capture.
    """
    from jaxlens.api import side_by_side as shown
    from jaxlens.program.sentences import listed
    from jaxlens.questions.compare.causes import called, device

    captures = [as_capture(program) for program in programs]
    if not captures:
        raise OptionError("side_by_side takes one capture or more: jaxlens.capture(f, x)")
    types = {(called(cap.program), *(str(x.type) for x in cap.program.inputs)) for cap in captures}
    if len(types) > 1:
        calls = [*dict.fromkeys(called(cap.program) for cap in captures)]
        raise OptionError(
            f"side_by_side shows one call on several targets, got {listed(calls, 3)}; "
            "jaxlens.compare(before, after) shows two calls"
        )
    names: dict[str, Capture] = {}
    for cap in captures:
        written = getattr(cap.driver, "target", "")  # a saved capture has the device alone
        place = written if ":" in written else device(cap.program.target)
        name = ", ".join((place, *cap.program.flags))
        count = sum(other.partition(" (")[0] == name for other in names)
        names[f"{name} ({count + 1})" if count else name] = cap
    return shown(list(names.items()), "explore" if explore else "compile")


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
    return what_if(as_capture(f), names)[0]


def bisect(
    f: Any,
    check: Callable[[TrialProgram], Any],
    /,
    *,
    run: int = 3,
) -> Bisected:
    """Which flag or pass makes it wrong, slow or large? Leaves some out, and checks.

        jaxlens.bisect(cap, lambda program: np.isfinite(program.outputs[0]).all())
        jaxlens.bisect(cap, lambda program: program.temporaries < 1e6)

    The program is compiled many times and run on the call's arguments, in another process, which
    XLA may end. First the flags of XLA_FLAGS and of `jax.jit`'s compiler options are left out,
    then the passes that changed the program.

    Args:
        f: A Capture of a program for one device of this process, or a view of it.
        check: Whether a program is as it should be: gets each program, and if it is not returns
            what is falsy (but None), or fails an assertion. A program has `.outputs` (NumPy
            arrays), `.seconds` (median), `.temporaries` (bytes), `.kernels` (their number) and
            `.hlo`.
        run: How often each is run; 0 compiles only.

    Returns:
        The result, with `.found` (flags or passes) and `.trials`.

    Raises:
        OptionError: An argument has no data.
        UnavailableError: The program is for several devices, or calls Python.
    """
    from jaxlens.questions.variants.measure.bisect import bisect

    return bisect(as_capture(f), check, run)


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
    return Receipt(_captured("receipt", f, args, kwargs))


def _captured(
    verb: str, f: Function | Capture, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Capture:
    """Returns the capture that a verb's call is about."""
    if not isinstance(f, Capture):
        return capture(f, *args, **kwargs)
    if args or kwargs:
        raise OptionError(
            f"jaxlens.{verb} takes a Capture alone, or a function with its arguments, "
            f"got a Capture and {len(args) + len(kwargs)} more"
        )
    return f
