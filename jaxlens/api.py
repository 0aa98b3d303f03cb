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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import FunctionType, MethodType
from typing import Any

from jaxlens.captures import Capture
from jaxlens.capturing import Function, as_capture, capture
from jaxlens.errors import CellError, OptionError
from jaxlens.ir.driver import when_it_fails
from jaxlens.ir.spans import describe
from jaxlens.options import read_options
from jaxlens.questions import of_verb, when_a_trace_fails
from jaxlens.viewer.panes import OPTIONS
from jaxlens.views.view import View

when_it_fails.append(when_a_trace_fails)
_BY_JAX = "JAX compiles the call as it is written; --core shows what jaxlens.core makes of it."


def jaxpr(f: Function | Capture, /, *args: Any, **kwargs: Any) -> View[Any]:
    """Shows the jaxpr beside your lines, and as a graph whose nested jaxprs open in place.

    Args:
        f: A function, or a Capture.
        *args: The function's arguments: arrays, numbers or `jax.ShapeDtypeStruct`s.
        **kwargs: Its keyword arguments; with a Capture, options: `text`, `graph`, `depth`,
            `ladder`, `tape`, `captured`, `against`, `full` (see `%jaxpr -hh`).

    Returns:
        A view, computed when it is displayed or read (`str(view)`, `view.html()`, `view.svg()`).

    Raises:
        OptionError: There is no such option.
    """
    return _view("jaxpr", f, args, kwargs)


def hlo(f: Function | Capture, /, *args: Any, **kwargs: Any) -> View[Any]:
    """Shows XLA's program: before and after fusion, at any stage, after any pass.

    Args:
        f: A function, or a Capture.
        *args: The function's arguments: arrays, numbers or `jax.ShapeDtypeStruct`s.
        **kwargs: Its keyword arguments; with a Capture, options: `stage`, `diff`, `passes`,
            `pass_name`, `fusion`, `without`, `full` (see `%hlo -hh`).

    Returns:
        A view, computed when it is displayed or read (`str(view)`, `view.html()`).

    Raises:
        OptionError: There is no such option, stage or pass.
        UnavailableError: This backend does not give the stage.
    """
    return _view("hlo", f, args, kwargs)


def compile(f: Function | Capture, /, *args: Any, **kwargs: Any) -> View[Any]:
    """Shows what compiling did: cache verdict, kernels, cost, memory, times, LLVM IR, assembly.

    Args:
        f: A function, or a Capture.
        *args: The function's arguments: arrays, numbers or `jax.ShapeDtypeStruct`s.
        **kwargs: Its keyword arguments; with a Capture, options: `run`, `why`, `cost`, `roofline`,
            `memory`, `checkpoint`, `kernel`, `asm`, `sharding`, `captured`, `times`, `scan`,
            `without`, `against`, `full` (see `%compile -hh`). Only `run=n` executes the program.

    Returns:
        A view, computed when it is displayed or read (`str(view)`, `view.html()`).

    Raises:
        OptionError: There is no such option or kernel.
    """
    return _view("compile", f, args, kwargs)


def explore(f: Function | Capture, /, *args: Any, **kwargs: Any) -> View[Any]:
    """Shows your lines and every stage below them, linked: point at one, and see what it became.

    The panes are your code, the jaxpr and its graph, StableHLO, HLO before, between and after the
    passes, what fusion changed, the kernels, their LLVM IR and machine code, cost, memory and
    times. Nothing is executed.

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


def check(f: Function | Capture, /, *args: Any, **kwargs: Any) -> View[Any]:
    """Runs the call, and says whether its results can be trusted: a sentence for each check.

    It looks for the first NaN, for lost digits, for what JAX does without a word, and at what the
    values hold. The program is run op by op and compiled, a few times.

    Args:
        f: A function, or a Capture.
        *args: The function's arguments: arrays or numbers.
        **kwargs: Its keyword arguments; with a Capture, options: `nan`, `numerics`, `silent`,
            `values`, `at`, `miscompile`, `write`, `full` (see `%check -hh`).

    Returns:
        A view, computed when it is displayed or read (`str(view)`, `view.html()`).

    Raises:
        OptionError: There is no such option, or an argument has a shape alone.
    """
    return _view("check", f, args, kwargs)


def glossary(word: str) -> View[Any]:
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
    from jaxlens.ir.glossary import meanings
    from jaxlens.views.glossary import document

    return View(None, lambda: document(word), know=lambda: meanings(word.strip())).compute()


def _view(verb: str, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> View[Any]:
    """Returns the view of a verb's call."""
    from jaxlens.viewer import show

    cap, options = _capture_and_options(verb, f, args, kwargs)
    for row in of_verb(verb):  # what changes: another document than the verb's
        if row.several is not None and getattr(options, row.name, None):
            return row.several(verb, cap, options)
    return show.verb(verb, cap, options)


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


def take(
    f: Function,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    name: str = "",
    target: str = "",
    shapes: str = "",
    variables: Mapping[str, Any] | None = None,
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
        variables: What may stand among the shapes by its name.
        transforms: Transforms of `f`, outermost first: `(("vmap", "0"), ("grad", ""))`.
        core: Whether `jaxlens.core` transforms, lowers and runs what JAX traces.
    """
    from jaxlens.call.arguments.written_shapes import arguments
    from jaxlens.call.call import Call
    from jaxlens.call.traceable import prepare
    from jaxlens.call.traceable import transforms as made_by
    from jaxlens.call.transforms import under
    from jaxlens.stages.driver import prepared
    from jaxlens.stages.existing.opening import is_program, opened

    if is_program(f):
        _check_program(shapes, transforms, core)
        return opened(f, args, kwargs, target=target or None)
    if shapes:
        args, kwargs = arguments(shapes, variables)
    named = dict(kwargs)
    if shapes or transforms:  # else the call itself says so
        _check_fit(f, args, named, name)
    as_called = f
    if core:
        from jaxlens.call.core_program import on_core

        f = on_core(f)
    differs = core and f is not as_called and not transforms  # else no such call runs
    if any(made_by(f)):
        name = ""  # `g = jax.grad(loss)` is shown as grad(loss), not as grad(g)
    call = prepare(f, args, named, name or None)
    if transforms:
        call = under(call, Call(f, tuple(args), named, None), transforms)
    # The wrappers of JAX's transforms show in the function's name, but jvp's does not.
    names = [kind for kind, _ in transforms if kind != "jit"] if "jvp" in dict(transforms) else ()
    taken = Capture(*prepared(call, target or None, names))
    if not differs:
        return taken
    deviations = (*taken.program.deviations, _BY_JAX)
    return Capture(replace(taken.program, deviations=deviations), taken.driver)


def transformed(capture: Capture, name: str, value: str = "") -> Capture:
    """Captures the call of a capture under one more transform; traces nothing yet.

    Args:
        capture: A call that was captured here.
        name: "jit", "grad", "vmap", "jvp" or "checkpoint"; a `vmap` maps over 8 examples.
        value: The argnums of a `grad`, the in_axes of a `vmap`: what `--grad` and `--vmap` take.

    Raises:
        UnavailableError: The program has no Python function here that a transform could take.
        OptionError: There is no such transform, or its value does not fit.
    """
    live = capture.driver.live("Python function that a transform could take", traces=True)
    from jaxlens.call.transforms import under
    from jaxlens.stages.driver import prepared

    call = live.staging.call
    with live.staging.as_called():
        made = under(call, live.staging.opened, [(name, value)], pressed=True)
        names = (name, *capture.program.transforms)
        return Capture(*prepared(made, live.target or None, names))


def _check_program(shapes: str, transforms: Sequence[tuple[str, str]], core: bool) -> None:
    """Raises OptionError if options that need a function are given with an existing program."""
    flags = [f"--{name}" for name, _ in transforms]
    flags += ["--in"] * bool(shapes) + ["--core"] * core
    if flags:
        raise OptionError(
            f"{flags[0]} is for a function, which is traced anew, got a program that is there "
            "already: name the function that it was made of"
        )


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
