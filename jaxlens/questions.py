"""The verbs that answer one question each, a lens's figures as attributes of what they return.

    answer = jaxlens.cost(step, params, x)
    answer.flops                # a fact, to assert on
    print(answer)               # the sentences and tables that `%compile --cost` shows

Each takes a function with its arguments, or a `Capture`; nothing is executed unless a verb says so.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from jaxlens.api import Function, as_capture, capture, is_program, rungs, what_if
from jaxlens.captures import Capture
from jaxlens.errors import OptionError
from jaxlens.ir.compile_log import KeySlot
from jaxlens.lenses.compare.receipt import Receipt
from jaxlens.options import CompileOptions
from jaxlens.report import Report
from jaxlens.views.answer import Answer

Lens = Callable[[Capture], Report]


def cost(f: Function | Capture, /, *args: Any, **kwargs: Any) -> Answer:
    """Where flops and bytes go, by line and kernel; loops counted, XLA's own figure beside them.

    Args:
        f: A function, or a Capture.
        *args: The function's arguments.
        **kwargs: Its keyword arguments; with a Capture, the options `roofline` ("here" to measure
            this device, or a name such as "h100") and `run` (execute it so often, and measure
            each kernel).

    Returns:
        An answer with `.flops`, `.bytes` (arguments and results once each), `.transcendentals`,
        `.by_line` and `.by_node` (flops), `.loops`; `.kernels` (each with `.flops`, `.bytes`,
        `.intensity`, `.lines`), `.limits`, `.points` (each with `.bound`, `.seconds` at best) and
        `.seconds` (measured, by instruction).

    Raises:
        OptionError: No limits of that device are known.
    """
    from jaxlens.api import watched
    from jaxlens.lenses.cost.report import cost as equations
    from jaxlens.lenses.cost.roofline import facts, limits_of, roofline
    from jaxlens.views.verbs.compile import document

    options = CompileOptions(cost=True)
    if isinstance(f, Capture) and kwargs and set(kwargs) <= {"roofline", "run"}:
        options, kwargs = CompileOptions(cost=True, **kwargs), {}
    cap = _captured("cost", f, args, kwargs)
    run = cache(lambda: watched(cap, options.run))

    @cache
    def known() -> Any:
        limits = limits_of(cap, options.roofline) if options.roofline else None
        return facts(cap, limits, run().instructions if options.run else None)

    def report() -> Report:
        counted, more = equations(cap), roofline(known(), cap)
        first, *rest = counted.findings
        return Report(
            "Cost",
            (first, *more.findings, *rest),
            (*counted.tables, *more.tables),
            (*counted.overlays, *more.overlays),
        )

    return Answer(cap, lambda: document(cap, options, run()), report, known)


def memory(f: Function | Capture, /, *args: Any, **kwargs: Any) -> Answer:
    """Which line owns the memory peak, what autodiff saves for the backward pass, and donation.

    Nothing is run. All sizes are bytes on one device.

    Args:
        f: A function, or a Capture.
        *args: The function's arguments.
        **kwargs: Its keyword arguments; with a Capture, the option `checkpoint`: whether to try
            what `jax.checkpoint` would change, by compiling up to five programs more.

    Returns:
        An answer with `.peak` (in use at the worst moment of XLA's order: arguments and constants,
        results once they are written, temporaries while they are needed; None where XLA gives no
        live ranges), `.reserved` (taken from start to end), `.arguments`, `.outputs`,
        `.temporaries`, `.at_peak` (each buffer with `.line`, `.bytes`, `.saved`), `.by_line`,
        `.residuals`, `.donations` and `.tried`; all of the device's main memory, but for
        `.spaces`, its others (a TPU's VMEM: `.name`, `.peak`, `.reserved`, `.at_peak`).

    Raises:
        UnavailableError: The backend gives no sizes, or `checkpoint` cannot be tried.
    """
    from jaxlens.lenses.memory.checkpoint import trials
    from jaxlens.lenses.memory.report import facts
    from jaxlens.lenses.memory.report import memory as report

    options = CompileOptions(memory=True)
    if isinstance(f, Capture) and set(kwargs) == {"checkpoint"}:
        options = CompileOptions(memory=True, checkpoint=bool(kwargs.pop("checkpoint")))
    cap = _captured("memory", f, args, kwargs)
    tried = cache(lambda: trials(cap) if options.checkpoint else ())
    return _compiled(
        cap, options, lambda cap: report(cap, tried()), lambda cap: facts(cap, tried())
    )


def times(f: Function | Capture, /, *args: Any, **kwargs: Any) -> Answer:
    """Where compile time goes: by stage, pass and kernel, and the lines that made the work.

    It compiles, under XLA's profiler: once more, if the capture's compile had none.

    Args:
        f: A function, or a Capture.
        *args: The function's arguments.
        **kwargs: Its keyword arguments; with a Capture, the options `scan` (try `lax.scan` in the
            place of unrolled loops, by compiling two programs more) and `run` (with that: run
            both on random inputs, and compare).

    Returns:
        An answer with `.stages` (seconds), `.compile` (`.groups`, `.passes`, `.kernels` in
        seconds; None without a profile), `.equations` (`.total`, `.flame`), `.by_line`, `.loops`
        (each with `.line`, `.count`, `.block`, `.equations`, `.rolled`) and `.trial`.
    """
    from jaxlens.lenses.times.facts import of
    from jaxlens.lenses.times.report import times as report
    from jaxlens.render.document import Document
    from jaxlens.views.header import taken
    from jaxlens.views.questions.times import shown

    asked = kwargs if isinstance(f, Capture) and set(kwargs) <= {"scan", "run"} else {}
    cap = _captured("times", f, args, {} if asked else kwargs)
    known = cache(lambda: of(cap, **{name: bool(value) for name, value in asked.items()}))
    return Answer(
        cap,
        lambda: Document("compile", taken(cap.program), tuple(shown(cap, known())), timed=True),
        lambda: report(cap, known()),
        known,
    )


def key(f: Function, /, *args: Any, **kwargs: Any) -> Answer:
    """The key that a call would be looked up by in JAX's caches, and whether it would hit.

    Nothing is traced, run or compiled, and no entry is made.

    Args:
        f: A function; of one that is not jitted, the key that its jit would have.
        *args: The function's arguments, arrays or `jax.ShapeDtypeStruct`s.
        **kwargs: Its keyword arguments.

    Returns:
        An answer with `.hit` (None where it cannot be known), `.layer` (the first cache that
        misses), `.reasons` (what differs from the nearest earlier key) and `.parts`.
    """
    from jaxlens.lenses.recompile.call_key import key as report
    from jaxlens.stages.keys.look_up import call_key
    from jaxlens.views.questions.call_key import document

    if isinstance(f, Capture) or is_program(f):
        raise OptionError(
            "a key is that of a call: jaxlens.key(f, x) takes the jitted function and its arguments"
        )
    found = call_key(f, args, kwargs)
    return Answer(None, lambda: document(found), lambda: report(found), lambda: found)


def captured(f: Function | Capture, /, *args: Any, **kwargs: Any) -> Answer:
    """What is baked in: arrays that the function closes over, and constants that XLA folded.

    It compiles, with dumps of all passes; `%jaxpr --captured` needs no compile.

    Args:
        f: A function, or a Capture.
        *args: The function's arguments.
        **kwargs: Its keyword arguments.

    Returns:
        An answer with `.constants` (each with `.name`, `.bytes`, `.held`, `.holder`, `.span`,
        `.reads`), `.bytes`, `.stages` (number and bytes by stage), `.folded` and `.folding`
        (seconds, where the compile was profiled).
    """
    from jaxlens.lenses.constants.facts import captured as report
    from jaxlens.lenses.constants.facts import of
    from jaxlens.render.document import Document
    from jaxlens.views.header import taken
    from jaxlens.views.report_blocks import report_blocks

    cap = _captured("captured", f, args, kwargs)
    known = cache(lambda: of(cap))
    return Answer(
        cap,
        lambda: Document(
            "compile", taken(cap.program), tuple(report_blocks(report(cap, found=known())))
        ),
        lambda: report(cap, found=known()),
        known,
    )


def key_slots(f: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[KeySlot]:
    """What `varied_key` can change in a call."""
    from jaxlens.stages.keys.look_up import slots

    return slots(f, args, kwargs)


def varied_key(
    f: Function, args: Sequence[Any], kwargs: Mapping[str, Any], changed: Sequence[KeySlot]
) -> Answer:
    """`key` of a call with some arguments written anew.

    Raises:
        OptionError: What is written for one of them is no type or literal.
    """
    from jaxlens.lenses.recompile.call_key import key as report
    from jaxlens.stages.keys.look_up import varied
    from jaxlens.views.questions.call_key import document

    found = varied(f, args, kwargs, changed)
    return Answer(None, lambda: document(found), lambda: report(found), lambda: found)


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
    from jaxlens.lenses.tracing.ladder import climb
    from jaxlens.lenses.tracing.ladder import ladder as report
    from jaxlens.views.questions.ladder import document

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
    from jaxlens.lenses.compare import facts as compared
    from jaxlens.lenses.compare import report as lens
    from jaxlens.lenses.compare.causes import sides
    from jaxlens.lenses.compare.tables import times
    from jaxlens.views.questions.compare import document

    was, now = as_capture(before), as_capture(after)
    called = names or sides(was.program, now.program)
    found = cache(lambda: compared.of(was, now, compiled=compiled))

    def report() -> Report:
        facts = found()  # which compiles: the times are known after it
        return lens.report(facts, called, times(was, now, called) if compiled else ())

    return Answer(now, lambda: document(was, now, called, found=found()), report, found)


def fusion(f: Function | Capture, /, *args: Any, **kwargs: Any) -> Answer:
    """What was fused, the bytes that each fusion saved, and why the rest was not fused.

    Args:
        f: A function, or a Capture.
        *args: The function's arguments.
        **kwargs: Its keyword arguments.

    Returns:
        An answer with `.saved` (bytes neither written nor read again in one run), `.fusions` (each
        with `.id`, `.operations`, `.saved`, `.lines`, `.estimate`), `.boundaries` (values that
        still travel, each with `.why`), `.left`, `.refused` (XLA's reasons, on GPUs) and `.change`.

    Raises:
        UnavailableError: There is no optimised HLO.
    """
    from jaxlens.lenses.fusion.facts import of
    from jaxlens.lenses.fusion.report import report
    from jaxlens.views.questions.fusion import document

    cap = _captured("fusion", f, args, kwargs)
    found = cache(lambda: of(cap))
    return Answer(cap, lambda: document(cap, found()), lambda: report(found()), found)


def without(f: Any, names: str | Sequence[str], /) -> Capture:
    """The same program compiled with a pass left out, or a flag of XLA's set, as a Capture.

        jaxlens.compare(cap, jaxlens.without(cap, "fusion"))

    It is compiled in a process of its own, which XLA may end without harm to this one.

    Args:
        f: A Capture of a program for one device of this process, or what `-o NAME` stored.
        names: A pass by its name ("fusion": every pass that fuses), or "xla_flag=value"; several
            with commas between.

    Raises:
        OptionError: There is no such pass or flag.
        UnavailableError: The program cannot be compiled again, or XLA did not live through it.
    """
    return what_if(as_capture(f), names)[0]


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


def tape(f: Function | Capture, /, *args: Any, **kwargs: Any) -> Answer:
    """What the function's lines did while JAX traced them: variables, equations, loops, branches.

    Args:
        f: A function, or a Capture; one that was loaded must have been saved with its tape.
        *args: The function's arguments.
        **kwargs: Its keyword arguments.

    Returns:
        An answer with `.steps`, `.loops` (each with `.line`, `.times`, `.equations`),
        `.branches` (`.line`, `.taken`), `.printed` and `.wrote`.

    Raises:
        UnavailableError: The capture was loaded from a file that holds no tape.
    """
    from jaxlens.lenses.tracing.line_trace import replay
    from jaxlens.lenses.tracing.line_trace import tape as report
    from jaxlens.views.questions.line_trace import document

    cap = _captured("tape", f, args, kwargs)
    return Answer(cap, lambda: document(cap), lambda: report(cap), lambda: replay(cap))


def sharding(f: Function | Capture, /, *args: Any, **kwargs: Any) -> Answer:
    """Which device holds which piece of each array, and what the collectives move.

    Args:
        f: A function, or a Capture.
        *args: The function's arguments, laid out as the call would lay them out.
        **kwargs: Its keyword arguments.

    Returns:
        An answer with `.devices`, `.axes` of the mesh, `.inputs`, `.outputs` and `.values` (each
        with `.tiling`, `.spec` and `.piece`), `.collectives` (each with `.opcode`, `.bytes`,
        `.groups`, `.over`, `.trips`, `.lines`), and `.sent` (bytes a device sends in a run: an
        estimate).
    """
    from jaxlens.lenses.sharding.facts import spread
    from jaxlens.lenses.sharding.report import sharding as report

    cap = _captured("sharding", f, args, kwargs)
    return _compiled(cap, CompileOptions(sharding=True), report, spread)


def _compiled(
    cap: Capture, options: CompileOptions, report: Lens, facts: Callable[[Capture], Any]
) -> Answer:
    """What one option of `%%compile` shows, with its facts."""
    from jaxlens.views.verbs.compile import document

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
