"""From a traced function to a running program: three steps, each an object to look at.

A function at certain types is first *traced* (a jaxpr), then *lowered* (a StableHLO module), then
*compiled* (a program of XLA's on a device). `jit` takes the three steps at once; who wants to see
what is between them takes them one by one: `jit(f).trace(x).lower().compile()`. Each prints itself.

After "Ahead-of-time lowering and compilation" (docs.jax.dev, aot.html), whose names these are.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jaxlens.core.aot.device import Array, Donated, Executable
from jaxlens.core.aot.lower import MeshLayout, layout, lower_program
from jaxlens.core.kernel.interpreter import Tracer, observer
from jaxlens.core.kernel.jaxpr import ClosedJaxpr, Jaxpr, Var, hoisted
from jaxlens.core.kernel.tree import TreeDef
from jaxlens.core.transforms.jaxprs import used
from jaxlens.core.transforms.signatures import fitting
from jaxlens.core.transforms.trees import paths


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
        inner = self.jaxpr.jaxpr
        eqns = used(inner.eqns, {atom for atom in inner.outvars if isinstance(atom, Var)})
        jaxpr = Jaxpr(inner.constvars, inner.invars, inner.outvars, eqns)
        closed, aliases = ClosedJaxpr(jaxpr, self.jaxpr.consts), self._aliases()
        place = layout(closed)
        module = lower_program(
            closed,
            self.fun_name,
            aliases=aliases,
            arg_names=self.arg_names,
            result_names=["result" + "".join(path) for path in paths(self.out_tree)],
            layout=place,
        )
        if observer.listeners:
            observer.emit("lower", self.fun_name, module=module)
        return Lowered(self, module, aliases, place)

    def _aliases(self) -> list[int | None]:
        """Returns for each argument the result that reuses its donated buffer, of the same type."""
        free = {n: aval.strong for n, aval in enumerate(self.jaxpr.out_avals)}
        aliases: list[int | None] = []
        unused = []
        triples = zip(self.in_avals, self.arg_names, self.donated, strict=True)
        for aval, name, donated in triples:
            match = next((n for n, out in free.items() if donated and out == aval.strong), None)
            aliases.append(match)
            if match is not None:
                del free[match]
            elif donated:
                unused.append(name)
        if unused:
            warnings.warn(
                f"Some donated buffers were not usable: {', '.join(unused)} of {self.fun_name}: "
                f"no result has the same shape and dtype.",
                stacklevel=2,
            )
        return aliases

    @cached_property
    def compiled(self) -> "Compiled":
        """The program with XLA's default options, compiled once."""
        return self.lower().compile()


@dataclass(frozen=True, eq=False)
class Lowered:
    """A function at certain types, as a StableHLO module.

    Attributes:
        traced: Where it came from.
        module: MLIR's.
        aliases: For each parameter, the result that uses its memory.
        layout: How its parameters and results lie on several devices; None for one.
    """

    traced: Traced
    module: Any
    aliases: Sequence[int | None]
    layout: MeshLayout | None = None

    def as_text(self, *, debug_info: bool = False) -> str:
        """Returns the module as text; with `debug_info`, with the location of each op."""
        text: str = self.module.operation.get_asm(enable_debug_info=debug_info)
        return text

    def compile(self, compiler_options: dict[str, Any] | None = None) -> "Compiled":
        """Compiles the module with XLA.

        Args:
            compiler_options: XLA's, by name, such as `{"xla_cpu_enable_fast_math": True}`.
        """
        traced, types = self.traced, (self.traced.in_avals, self.traced.jaxpr.out_avals)
        executable = Executable(self.module, *types, traced.device, compiler_options, self.layout)
        if observer.listeners:
            observer.emit("compile", traced.fun_name, executable=executable)
        return Compiled(self, executable)


class Compiled:
    """A function at certain types, as a program on a device.

    Attributes:
        traced: Where it came from.
        executable: The program.
    """

    def __init__(self, lowered: Lowered, executable: Executable) -> None:
        self.traced = lowered.traced
        self.executable = executable
        self._donated = [n for n, alias in enumerate(lowered.aliases) if alias is not None]

    def run(self, leaves: Sequence[Any]) -> Any:
        """Runs the program on leaves of its types; returns the tree of its results."""
        results = self.executable(leaves)
        for n in self._donated:
            if type(leaves[n]) is Array:
                to = f"{self.traced.fun_name} as argument {self.traced.arg_names[n]}"
                leaves[n].buffer = Donated(to)
        return self.traced.out_tree.unflatten(results)

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

    def as_text(self) -> str:
        """Returns the optimised HLO."""
        modules = self.executable.loaded.hlo_modules()
        return "\n\n".join(module.to_string() for module in modules)

    def cost_analysis(self) -> dict[str, float]:
        """Returns XLA's estimates of operations and bytes; the body of a loop counts once."""
        return dict(self.executable.loaded.cost_analysis())

    def memory_analysis(self) -> Any:
        """Returns XLA's sizes of arguments, results and temporary buffers, in bytes."""
        return self.executable.loaded.get_compiled_memory_stats()
