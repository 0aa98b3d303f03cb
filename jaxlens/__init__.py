"""jaxlens: every step from a Python function to machine code, visible and linked.

    %load_ext jaxlens

gives a notebook `%%jaxpr`, `%%hlo`, `%%compile` and `%%explore`; the same in Python is
`jaxlens.jaxpr(f, *args)`, `jaxlens.hlo(f, *args)`, `jaxlens.compile(f, *args)` and
`jaxlens.explore(f, *args)`.
Names are loaded when first used, so importing jaxlens costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxlens import course
    from jaxlens.api import compile, explore, glossary, hlo, jaxpr
    from jaxlens.captures import Capture, load
    from jaxlens.capturing import capture
    from jaxlens.errors import LensError, RecompileError
    from jaxlens.jobs.sweeps.sweep import sweep
    from jaxlens.notebook.widgets.explorer import Explorer
    from jaxlens.recorded import runs
    from jaxlens.recording import record
    from jaxlens.viewer.side_by_side import side_by_side
    from jaxlens.views.answer import Answer
    from jaxlens.views.view import View

# verbs of rows
if TYPE_CHECKING:
    from jaxlens.questions.arrays.verbs import arrays
    from jaxlens.questions.compare.verbs import compare, receipt
    from jaxlens.questions.constants.facts import Captured
    from jaxlens.questions.cost.roofline import CostFacts
    from jaxlens.questions.failure.verbs import explain
    from jaxlens.questions.fusion.facts import Fusions
    from jaxlens.questions.memory.report import MemoryFacts
    from jaxlens.questions.memory.verbs import fits
    from jaxlens.questions.nan.facts import FirstNan
    from jaxlens.questions.numerics.facts import Numerics
    from jaxlens.questions.recompiles.verbs import (
        RecompileLog,
        assert_compiles,
        key,
        recompiles,
        watch,
    )
    from jaxlens.questions.sharding.facts import Sharding
    from jaxlens.questions.silent.facts import Silent
    from jaxlens.questions.timeline.verbs import timeline
    from jaxlens.questions.times.facts import Times
    from jaxlens.questions.trace.bytecode import Bytecode
    from jaxlens.questions.trace.tape import Tracing
    from jaxlens.questions.trace.tree.facts import Depth
    from jaxlens.questions.trace.verbs import ladder
    from jaxlens.questions.values.facts import Values
    from jaxlens.questions.variants.verbs import bisect, edit, extract, reproducer, without

    bytecode: Callable[..., Answer[Bytecode]]
    captured: Callable[..., Answer[Captured]]
    cost: Callable[..., Answer[CostFacts]]
    first_nan: Callable[..., Answer[FirstNan]]
    fusion: Callable[..., Answer[Fusions]]
    memory: Callable[..., Answer[MemoryFacts]]
    numerics: Callable[..., Answer[Numerics]]
    sharding: Callable[..., Answer[Sharding]]
    silent: Callable[..., Answer[Silent]]
    tape: Callable[..., Answer[Tracing]]
    times: Callable[..., Answer[Times]]
    tree: Callable[..., Answer[Depth]]
    values: Callable[..., Answer[Values]]

_VERBS = {
    "arrays": ("arrays",),
    "compare": ("compare", "receipt"),
    "failure": ("explain",),
    "memory": ("fits",),
    "recompiles": ("RecompileLog", "assert_compiles", "key", "recompiles", "watch"),
    "timeline": ("timeline",),
    "trace": ("ladder",),
    "variants": ("bisect", "edit", "extract", "reproducer", "without"),
}

# end

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Capture",
    "Explorer",
    "LensError",
    "RecompileError",
    "RecompileLog",
    "View",
    "__version__",
    "arrays",
    "assert_compiles",
    "bisect",
    "bytecode",
    "capture",
    "captured",
    "compare",
    "compile",
    "cost",
    "course",
    "edit",
    "explain",
    "explore",
    "extract",
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
    "watch",
    "without",
]

_API = ("compile", "explore", "glossary", "hlo", "jaxpr")
_HOMES = (
    {
        "Answer": "jaxlens.views.answer",
        "Capture": "jaxlens.captures",
        "capture": "jaxlens.capturing",
        "Explorer": "jaxlens.notebook.widgets.explorer",
        "LensError": "jaxlens.errors",
        "RecompileError": "jaxlens.errors",
        "View": "jaxlens.views.view",
        "record": "jaxlens.recording",
        "runs": "jaxlens.recorded",
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
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext jaxlens`: adds the magics."""
    from jaxlens.notebook.extension import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext jaxlens`: leaves the shell as it was before."""
    from jaxlens.notebook.extension import unload

    unload(shell)
