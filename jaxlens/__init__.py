"""jaxlens: every step from a Python function to machine code, visible and linked.

`%load_ext jaxlens` gives a notebook the magics. In Python a verb takes a function and arguments,
`jaxlens.explore(f, x)`, or a capture, and gives a View: text, HTML, tables, and facts to assert on,
`jaxlens.memory(f, x).peak`. Nothing is imported before it is used.

Look at a program:
    jaxpr hlo compile explore   the program at a stage, or at all of them
    capture load Capture        one program, its stages made when they are read; one from a file
    side_by_side                programs, or devices, in columns
    glossary                    what a word of a program means

Ask about it:
    memory fits                 which line owns the peak; whether it fits a device
    cost fusion sharding        flops and bytes; what was fused; what travels between devices
    captured times              arrays that are compiled in; where compile time goes
    copies                      why a value is copied, and what removes the copy
    dispatch                    what a call costs before the device works
    tape bytecode ladder tree   how it was traced; what each transform made; what waits for what
    first_nan numerics          where a NaN comes from; where digits are lost
    silent values               what JAX does without a word; what the values hold
    check                       these four at once, a sentence each
    disagree                    whether jit is wrong, where, and a small program to report
    explain                     why a function cannot be traced
    Explorer                    the viewer as a widget, which asks and answers in place

Change it:
    edit without                its text; without a pass or a flag
    reproducer                  a file that needs jax alone

Watch what runs:
    recompiles key              why a call compiled again
    arrays timeline             what lives on each device; who waits for whom

Test and record:
    assert_compiles             a limit of compiles, else a RecompileError
    receipt compare             what changed since then
    record runs sweep           the compiles of a job; of a grid of arguments

`jaxlens.core` is a small JAX to read, `jaxlens.course` the course. What goes wrong is a LensError.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxlens import course
    from jaxlens.api import check, compile, explore, glossary, hlo, jaxpr
    from jaxlens.captures import Capture, load
    from jaxlens.capturing import capture
    from jaxlens.errors import LensError, RecompileError
    from jaxlens.jobs.record.record import record
    from jaxlens.jobs.record.runs import runs
    from jaxlens.jobs.sweeps.sweep import sweep
    from jaxlens.notebook.widgets.explorer import Explorer
    from jaxlens.viewer.side_by_side import side_by_side
    from jaxlens.views.view import View

# verbs of rows
if TYPE_CHECKING:
    from jaxlens.questions.arrays.verbs import arrays
    from jaxlens.questions.compare.verbs import compare, receipt, without
    from jaxlens.questions.constants.facts import Captured
    from jaxlens.questions.copies.facts import Copies
    from jaxlens.questions.cost.roofline import CostFacts
    from jaxlens.questions.disagree.disagreement import Disagreement
    from jaxlens.questions.dispatch.call_cost import CallCost
    from jaxlens.questions.failure.verbs import explain
    from jaxlens.questions.fusion.facts import Fusions
    from jaxlens.questions.memory.facts import MemoryFacts
    from jaxlens.questions.memory.verbs import fits
    from jaxlens.questions.nan.facts import FirstNan
    from jaxlens.questions.numerics.facts import Numerics
    from jaxlens.questions.recompiles.verbs import assert_compiles, key, recompiles
    from jaxlens.questions.sharding.facts import Sharding
    from jaxlens.questions.silent.facts import Silent
    from jaxlens.questions.timeline.verbs import timeline
    from jaxlens.questions.times.facts import Times
    from jaxlens.questions.trace.bytecode.facts import Bytecode
    from jaxlens.questions.trace.ladder.facts import Ladder
    from jaxlens.questions.trace.tape.facts import Tracing
    from jaxlens.questions.trace.tree.facts import Depth
    from jaxlens.questions.values.facts import Values
    from jaxlens.questions.variants.verbs import edit, reproducer

    bytecode: Callable[..., View[Bytecode]]
    captured: Callable[..., View[Captured]]
    copies: Callable[..., View[Copies]]
    cost: Callable[..., View[CostFacts]]
    disagree: Callable[..., View[Disagreement]]
    dispatch: Callable[..., View[CallCost]]
    first_nan: Callable[..., View[FirstNan]]
    fusion: Callable[..., View[Fusions]]
    ladder: Callable[..., View[Ladder]]
    memory: Callable[..., View[MemoryFacts]]
    numerics: Callable[..., View[Numerics]]
    sharding: Callable[..., View[Sharding]]
    silent: Callable[..., View[Silent]]
    tape: Callable[..., View[Tracing]]
    times: Callable[..., View[Times]]
    tree: Callable[..., View[Depth]]
    values: Callable[..., View[Values]]

_VERBS = {
    "arrays": ("arrays",),
    "compare": ("compare", "receipt", "without"),
    "failure": ("explain",),
    "memory": ("fits",),
    "recompiles": ("assert_compiles", "key", "recompiles"),
    "timeline": ("timeline",),
    "variants": ("edit", "reproducer"),
}

# end

__version__ = "0.1.0"

__all__ = [
    "Capture",
    "Explorer",
    "LensError",
    "RecompileError",
    "View",
    "__version__",
    "arrays",
    "assert_compiles",
    "bytecode",
    "capture",
    "captured",
    "check",
    "compare",
    "compile",
    "copies",
    "cost",
    "course",
    "disagree",
    "dispatch",
    "edit",
    "explain",
    "explore",
    "first_nan",
    "fits",
    "fusion",
    "glossary",
    "hlo",
    "jaxpr",
    "key",
    "ladder",
    "load",
    "memory",
    "numerics",
    "receipt",
    "recompiles",
    "record",
    "reproducer",
    "runs",
    "sharding",
    "side_by_side",
    "silent",
    "sweep",
    "tape",
    "timeline",
    "times",
    "tree",
    "values",
    "without",
]

_API = ("check", "compile", "explore", "glossary", "hlo", "jaxpr")
_HOMES = (
    {
        "Capture": "jaxlens.captures",
        "capture": "jaxlens.capturing",
        "Explorer": "jaxlens.notebook.widgets.explorer",
        "LensError": "jaxlens.errors",
        "RecompileError": "jaxlens.errors",
        "View": "jaxlens.views.view",
        "record": "jaxlens.jobs.record.record",
        "runs": "jaxlens.jobs.record.runs",
        "load": "jaxlens.captures",
        "side_by_side": "jaxlens.viewer.side_by_side",
        "sweep": "jaxlens.jobs.sweeps.sweep",
    }
    | dict.fromkeys(_API, "jaxlens.api")
    | {name: f"jaxlens.questions.{home}.verbs" for home, names in _VERBS.items() for name in names}
)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "course":
        return import_module("jaxlens.course")
    home = _HOMES.get(name, "jaxlens.ask")
    try:
        return getattr(import_module(home), name)
    except ImportError as error:
        if not home.startswith("jaxlens.notebook"):  # widgets need packages of Jupyter's
            raise
        from jaxlens.errors import missing_package

        raise missing_package(f"jaxlens.{name}", error) from None


def __dir__() -> list[str]:
    hidden = {name for name in globals() if name.startswith("__")}
    return sorted({*hidden, *__all__, "core"})


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext jaxlens`: adds the magics."""
    from jaxlens.notebook.extension import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext jaxlens`: leaves the shell as it was before."""
    from jaxlens.notebook.extension import unload

    unload(shell)
