"""The verbs: what `import jaxlens` offers, and what the magics call.

Options are keywords where a `Capture` comes first; with a function, every keyword is the
function's own:

    cap = jaxlens.capture(f, x, target="cpu")
    jaxlens.hlo(cap, stage="optimized")
    jaxlens.hlo(f, x)

Each verb imports what it needs when it is called: a saved capture is loaded and shown
without JAX.
"""

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import FunctionType, MethodType
from typing import Any

from jaxlens.captures import Capture, load
from jaxlens.errors import CellError, LensError, OptionError
from jaxlens.ir.cell_calls import CalledProgram
from jaxlens.ir.failure import when_it_fails
from jaxlens.ir.spans import describe
from jaxlens.options import read_options
from jaxlens.questions import when_a_trace_fails
from jaxlens.questions.compare.side_by_side import SideBySide
from jaxlens.viewer.panes import OPTIONS
from jaxlens.views.answer import Answer
from jaxlens.views.view import View

Function = Callable[..., Any]
Program = Any  # one of JAX's stage objects, text, or a folder: see `capture`
when_it_fails.append(when_a_trace_fails)
_BY_JAX = "JAX compiles the call as it is written; --core shows what jaxlens.core makes of it."


def capture(
    f: Function | Program, /, *args: Any, target: str | None = None, **kwargs: Any
) -> Capture:
    """Captures a call without making it; each stage is computed on first access.

    `f` may also be an existing program: `g.trace(x)`, `g.lower(x)`, `g.lower(x).compile()`,
    `jax.export.export(g)(x)`, the text or bytes of an HLO or StableHLO module, the path of a file
    that holds such ("m.hlo", "m.mlir", "m.hlo.pb", a serialised Exported, a saved capture) or of a
    folder of XLA's dumps. Later stages are then computed from it, without adding to JAX's caches; a
    compiled program is not compiled again. Stages that it does not have raise `UnavailableError`.
    Text and bytes are tried in another process first, as XLA ends its process on some.

    Args:
        f: A function, jitted or not, a bound method, a partial, a callable object such as an
            Equinox or Flax NNX model; or an existing program.
        *args: Its arguments. Arrays, numbers and `jax.ShapeDtypeStruct`s become inputs; all other
            values are static. Nothing is executed and no buffer is donated. Of the existing
            programs only a compiled one takes arguments, to be executed with.
        target: "cpu", "gpu", "tpu", or a device that this machine does not have ("tpu:v5e:2x2",
            "gpu:h100"); by default the device on which JAX would run the call.
        **kwargs: Its keyword arguments. If `f` has a parameter called `target`, bind it first:
            `functools.partial(f, target=...)`. For a folder of dumps, `module` is the name of
            the module to open; for an Exported, `sizes={"b": 8}` gives its symbolic sizes.

    Returns:
        The capture; see `jaxlens.Capture` for its stages.

    Raises:
        OptionError: `f` cannot be traced, or is an existing program and got arguments.
        TargetError: There is no such device.
        ReadError: The text is not a module, or is incomplete.
    """
    from jaxlens.stages.driver import capture as staged
    from jaxlens.stages.existing.opening import is_program, opened

    if is_program(f):
        return opened(f, args, kwargs, target=target)
    return staged(f, args, kwargs, target=target)


def jaxpr(f: Function | Capture, /, *args: Any, **kwargs: Any) -> View:
    """Shows the jaxpr beside your lines, and as a graph whose nested jaxprs open in place.

    Args:
        f: A function, or a Capture.
        *args: The function's arguments: arrays, numbers or `jax.ShapeDtypeStruct`s.
        **kwargs: Its keyword arguments; with a Capture, options: `text`, `graph`, `depth`,
            `ladder`, `tape`, `captured`, `against`, `full` (see `%jaxpr -h`).

    Returns:
        A view, computed when it is displayed or read (`str(view)`, `view.html()`, `view.svg()`).

    Raises:
        OptionError: There is no such option.
    """
    return _view("jaxpr", f, args, kwargs)


def hlo(f: Function | Capture, /, *args: Any, **kwargs: Any) -> View:
    """Shows XLA's program: before and after fusion, at any stage, after any pass.

    Args:
        f: A function, or a Capture.
        *args: The function's arguments: arrays, numbers or `jax.ShapeDtypeStruct`s.
        **kwargs: Its keyword arguments; with a Capture, options: `stage`, `diff`, `passes`,
            `pass_name`, `fusion`, `without`, `full` (see `%hlo -h`).

    Returns:
        A view, computed when it is displayed or read (`str(view)`, `view.html()`).

    Raises:
        OptionError: There is no such option, stage or pass.
        UnavailableError: This backend does not give the stage.
    """
    return _view("hlo", f, args, kwargs)


def compile(f: Function | Capture, /, *args: Any, **kwargs: Any) -> View:
    """Shows what compiling did: cache verdict, kernels, cost, memory, times, LLVM IR, assembly.

    Args:
        f: A function, or a Capture.
        *args: The function's arguments: arrays, numbers or `jax.ShapeDtypeStruct`s.
        **kwargs: Its keyword arguments; with a Capture, options: `run`, `why`, `cost`, `roofline`,
            `memory`, `checkpoint`, `kernel`, `asm`, `sharding`, `captured`, `times`, `scan`,
            `without`, `against`, `full` (see `%compile -h`). Only `run=n` executes the program.

    Returns:
        A view, computed when it is displayed or read (`str(view)`, `view.html()`).

    Raises:
        OptionError: There is no such option or kernel.
    """
    return _view("compile", f, args, kwargs)


def explore(f: Function | Capture, /, *args: Any, **kwargs: Any) -> View:
    """Shows your lines and every stage below them, linked: point at one, and see what it became.

    The panes are your code, the jaxpr and its graph, StableHLO, HLO before, between and after the
    passes, the kernels, their LLVM IR and machine code. Nothing is executed.

    Args:
        f: A function, or a Capture.
        *args: The function's arguments: arrays, numbers or `jax.ShapeDtypeStruct`s.
        **kwargs: Its keyword arguments; with a Capture, the option `full`.

    Returns:
        A view, computed when it is displayed or read (`view.html()`).

    Raises:
        OptionError: There is no such option.
    """
    return _view("explore", f, args, kwargs)


def explain(error: BaseException | None = None, *, remedies: bool = True) -> View | None:
    """Explains why tracing failed: the line, the traced value, and what to write instead.

    An exception raised by a verb, or by a stage of a capture, already has the answer as a note
    (`error.__notes__`). Any other exception is explained from its traceback.

    Args:
        error: The exception; by default the last one that Python or IPython displayed.
        remedies: Whether to say what to write instead.

    Returns:
        A view: `str(view)` is its text, `view.html()` its HTML. None if there is no exception, or
        if it does not come from tracing.
    """
    from jaxlens.questions.failure.measure.explain import explanation
    from jaxlens.questions.failure.view import document

    error = error or getattr(sys, "last_value", None)
    cause = explanation(error) if error is not None else None
    if cause is None:
        return None
    shown = cause if remedies else replace(cause, remedies=())
    return View(None, lambda: document(shown))


def add_note(error: Exception) -> None:
    """Adds what `explain` says of an exception as a note, in a few lines."""
    from jaxlens.questions.failure.measure.explain import add_note

    add_note(error)


def glossary(word: str) -> View:
    """What a word of a program means: for a first meeting, then what an expert wants to know.

    Args:
        word: A primitive, an op, an HLO opcode, a pass, an attribute, or a word such as "thunk",
            "ROOT", "weak type" or "{1,0}", as a program's text has it.

    Returns:
        A view: each meaning of the word at two depths, with the lesson that teaches it and the
        page of JAX or XLA that says more.

    Raises:
        OptionError: The glossary has no such word; the message names near ones.
    """
    from jaxlens.views.glossary import document

    return View(None, lambda: document(word)).compute()


def what_if(cap: Capture, names: str | Sequence[str], run: int = 0) -> tuple[Capture, Any]:
    """Compiles a program without passes or with other flags; returns it and the times of both."""
    from jaxlens.questions.variants.measure.recompile import without

    return without(cap, names, run)


def what_if_begins(target: str) -> None:
    """Has the process of `what_if` import JAX meanwhile, for a target that is not here."""
    from jaxlens.stages.child.child import start_early

    start_early(target)


def _view(verb: str, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> View:
    """Returns the view of a verb's call."""
    from jaxlens.viewer import comparison, show

    cap, options = _capture_and_options(verb, f, args, kwargs)
    if getattr(options, "without", ""):  # what a pass or a flag changes
        other, measured = what_if(cap, options.without, getattr(options, "run", 0))
        return View(other, lambda: comparison.compare(cap, other, run=measured, full=options.full))
    if getattr(options, "against", None) is not None:
        return View(cap, lambda: comparison.changed(verb, options.against, cap, options))
    return View(cap, lambda: show.verb(verb, cap, options))


def _capture_and_options(
    verb: str, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Capture, Any]:
    if not isinstance(f, Capture):
        return capture(f, *args, **kwargs), OPTIONS[verb]()
    if args:
        raise OptionError(
            f"jaxlens.{verb} takes options by keyword with a Capture, got {len(args)} "
            f"positional: jaxlens.{verb}(cap, option=value)"
        )
    if kwargs.get("against") is not None:
        kwargs = {**kwargs, "against": as_capture(kwargs["against"])}
    return f, read_options(OPTIONS[verb], kwargs)


def side_by_side(
    programs: Sequence[tuple[str, Capture | LensError]], verb: str = "compile", full: bool = False
) -> Answer[SideBySide]:
    """Shows one function on several targets, with a column for each.

    Args:
        programs: The name of each target, with its program or why there is none.
        verb: "compile" or "explore".
        full: Whether nothing is left out.

    Raises:
        LensError: There is a program for none of the targets.
    """
    from jaxlens.questions.compare.side_by_side import report
    from jaxlens.viewer import side_by_side as targets

    captures = [program for _, program in programs if isinstance(program, Capture)]
    if not captures:
        raise next(why for _, why in programs if isinstance(why, LensError))
    figures = cache(lambda: targets.side_by_side(programs))
    return Answer(
        captures[0],
        lambda: targets.document(verb, programs, figures(), full),
        lambda: report(figures()),
        figures,
    )


def as_capture(value: Any) -> Capture:
    """Returns a Capture itself, the capture of a view, or the capture saved under a path.

    Raises:
        OptionError: The value is none of these.
        CaptureFileError: The file holds no capture.
    """
    cap = value.capture if isinstance(value, View) else value
    if isinstance(cap, str | os.PathLike):
        return load(cap)
    if not isinstance(cap, Capture):
        raise OptionError(
            f"expected a Capture, what -o stored, or the path of a saved capture, got "
            f"{type(value).__name__}; jaxlens.capture(f, x) makes one"
        )
    return cap


def take(
    f: Function,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    name: str = "",
    target: str = "",
    shapes: str = "",
    transforms: Sequence[tuple[str, str]] = (),
    core: bool = False,
) -> Capture:
    """Captures a call with all the options of a magic's line.

    Args:
        f: A function or a program.
        args: Its arguments.
        kwargs: Its keyword arguments.
        name: Its name in the user's text; "" for its own name.
        target: "" for where JAX would run it.
        shapes: Arguments as written shapes, instead of `args` and `kwargs`.
        transforms: Transforms of `f`, outermost first: `(("vmap", "0"), ("grad", ""))`.
        core: Whether `jaxlens.core` transforms, lowers and runs what JAX traces.
    """
    from jaxlens.stages.arguments.written_shapes import arguments
    from jaxlens.stages.call.traceable import transforms as made_by
    from jaxlens.stages.call.transforms import by_position, transformed
    from jaxlens.stages.driver import capture as staged
    from jaxlens.stages.existing.opening import is_program, opened

    if is_program(f):
        _check_program(shapes, transforms, core)
        return opened(f, args, kwargs, target=target or None)
    if shapes:
        args, kwargs = arguments(shapes)
    named = dict(kwargs)
    if shapes or transforms:  # else the call itself says so
        _check_fit(f, args, named, name)
    as_called = f
    if core:
        from jaxlens.stages.core.program import on_core

        f = on_core(f)
    differs = core and f is not as_called and not transforms  # else no such call runs
    if any(made_by(f)):
        name = ""  # `g = jax.grad(loss)` is shown as grad(loss), not as grad(g)
    if transforms:
        args, named = by_position(f, args, named)
        f, named = transformed(f, args, named, transforms)
    # The wrappers of JAX's transforms show in the function's name, but jvp's does not.
    names = [kind for kind, _ in transforms if kind != "jit"] if "jvp" in dict(transforms) else ()
    taken = staged(f, args, named, target=target or None, name=name or None, transforms=names)
    if not differs:
        return taken
    deviations = (*taken.program.deviations, _BY_JAX)
    return Capture(replace(taken.program, deviations=deviations), taken.driver)


def _check_program(shapes: str, transforms: Sequence[tuple[str, str]], core: bool) -> None:
    """Raises OptionError if options that need a function are given with an existing program."""
    flags = [f"--{name}" for name, _ in transforms]
    flags += ["--in"] * bool(shapes) + ["--core"] * core
    if flags:
        raise OptionError(
            f"{flags[0]} is for a function, which is traced anew, got a program that is there "
            "already: name the function that it was made of"
        )


def is_program(value: Any) -> bool:
    """Whether a value is an existing program, which `capture` opens as it is."""
    from jaxlens.stages.existing.opening import is_program as answer

    return answer(value)


def _check_fit(f: Function, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> None:
    """Raises CellError if arguments do not fit the signature, before JAX fails deep inside.

    A wrapper of the user's need not have the signature of what it wraps, as JAX's have.
    """
    try:
        signature = inspect.signature(inspect.unwrap(f, stop=_is_written), follow_wrapped=False)
    except (TypeError, ValueError):
        return  # no signature is known; the call itself raises
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        called = name or getattr(f, "__name__", type(f).__name__)
        raise CellError(f"the arguments do not fit {called}{signature}: {error}") from None


def _is_written(f: Any) -> bool:
    """Whether a callable is a function that the user wrote, or a method bound to an object."""
    if isinstance(f, MethodType):
        return True
    return isinstance(f, FunctionType) and not describe(f.__code__.co_filename).library


def calls() -> Any:
    """Returns a context manager that records calls of jitted functions; see `CellCalls`."""
    from jaxlens.listen.cell_calls import CellCalls

    return CellCalls()


def traced_before(program: CalledProgram) -> Capture | None:
    """Captures a called program from its trace in JAX's caches; None if there is none."""
    from jaxlens.listen.cell_calls import traced_before as answer

    return answer(program)


def abstract(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns arguments with `ShapeDtypeStruct`s for arrays, so that no buffer is kept alive."""
    from jaxlens.listen.cell_calls import abstracted

    return abstracted(args, kwargs)


def computes(f: Any) -> bool:
    """Whether a function of JAX's computes, and does nothing else."""
    from jaxlens.compat import computes as answer

    return answer(f)


def is_array(value: Any) -> bool:
    """Whether a value is one array of JAX's or NumPy's."""
    from jaxlens.stages.arguments.pytrees import is_array as answer

    return answer(value)


def holds_arrays(value: Any) -> bool:
    """Whether a value is an array, or a pytree with arrays in it."""
    from jaxlens.stages.arguments.pytrees import holds_arrays as answer

    return answer(value)


def targets() -> tuple[str, ...]:
    """Returns the targets that this process has, the default first."""
    from jaxlens.stages.call.target import names

    return names()
