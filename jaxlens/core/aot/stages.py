"""From a traced function to a running program: three steps, each an object to look at.

A function at certain types is first *traced* (a jaxpr), then *lowered* (a StableHLO module), then
*compiled* (a program of XLA's on a device). `jit` takes the three steps at once; who wants to see
what is between them takes them one by one: `jit(f).trace(x).lower().compile()`. Each prints itself.

After "Ahead-of-time lowering and compilation" (docs.jax.dev, aot.html), whose names these are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jaxlens.core.aot.device import Executable, lowered
from jaxlens.core.kernel.interpreter import Tracer, observer
from jaxlens.core.kernel.jaxpr import ClosedJaxpr, hoisted
from jaxlens.core.transforms.jaxprs import without_unused
from jaxlens.core.transforms.signatures import fitting
from jaxlens.core.transforms.trees import TreeDef


@dataclass(eq=False)
class Traced:
    """A function at certain types, as a jaxpr.

    Attributes:
        fun_name: Its name.
        jaxpr: Its jaxpr, a function of the leaves of the arguments.
        in_tree: The tree of `(args, kwargs)`, without what is static.
        out_tree: The tree of its results.
        arg_names: How each leaf of the arguments would be written: `params['w']`.
        donated: Which of these leaves' memory may be used for results.
        device: Where it is to run; None for the default device.
        in_avals: The types of these leaves.
    """

    fun_name: str
    jaxpr: ClosedJaxpr
    in_tree: TreeDef
    out_tree: TreeDef
    arg_names: Sequence[str]
    donated: Sequence[bool]
    device: Any = None
    in_avals = property(lambda self: self.jaxpr.in_avals)

    @cached_property
    def hoisted(self) -> tuple[ClosedJaxpr, list[Any]]:
        """The jaxpr with its constants as first parameters, and their values."""
        return hoisted(self.jaxpr)

    def lower(self) -> "Lowered":
        """Lowers the jaxpr to a StableHLO module."""
        closed = without_unused(self.jaxpr)
        donated = [n for n, may in enumerate(self.donated) if may]
        program = lowered(closed, self.fun_name, self.device, donated)
        if observer.listeners:
            observer.emit("lower", self.fun_name, module=program.compiler_ir())
        return Lowered(self, closed, program)

    @cached_property
    def compiled(self) -> "Compiled":
        """The program with XLA's default options, compiled once."""
        return self.lower().compile()


@dataclass(frozen=True, eq=False)
class Lowered:
    """A function at certain types, as a StableHLO module; `as_text` is that of JAX's.

    Attributes:
        traced: Where it came from.
        closed: The jaxpr, without what no result needs.
        of_jax: JAX's.
    """

    traced: Traced
    closed: ClosedJaxpr
    of_jax: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.of_jax, name)

    def compile(self, compiler_options: dict[str, Any] | None = None) -> "Compiled":
        """Compiles the module with XLA.

        Args:
            compiler_options: XLA's, by name, such as `{"xla_cpu_enable_fast_math": True}`.
        """
        compiled = self.of_jax.compile(compiler_options)
        executable = Executable(self.closed, compiled, self.traced.device)
        if observer.listeners:
            observer.emit("compile", self.traced.fun_name, executable=executable)
        return Compiled(self.traced, executable)


@dataclass(frozen=True, eq=False)
class Compiled:
    """A function at certain types, as a program on a device.

    The optimised HLO (`as_text`), `cost_analysis`, `memory_analysis` are of JAX's `Compiled`.

    Attributes:
        traced: Where it came from.
        executable: The program.
    """

    traced: Traced
    executable: Executable

    def __getattr__(self, name: str) -> Any:
        return getattr(self.executable.compiled, name)

    def run(self, leaves: Sequence[Any]) -> Any:
        """Runs the program on leaves of its types; returns the tree of its results."""
        return self.traced.out_tree.unflatten(self.executable(leaves))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        traced, name = self.traced, self.traced.fun_name
        leaves = fitting(traced, "compiled", args, kwargs)
        for x, argument in zip(leaves, traced.arg_names, strict=True):
            if isinstance(x, Tracer):
                raise TypeError(
                    f"{name} is compiled and cannot be transformed: argument {argument} is traced. "
                    f"Call the jitted function."
                )
        return self.run(leaves)
