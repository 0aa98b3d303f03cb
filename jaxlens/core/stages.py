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

from jaxlens.core import sources
from jaxlens.core.avals import ShapedArray
from jaxlens.core.device import Array, Donated, Executable, array, compile_module, hlo_text
from jaxlens.core.jaxprs import ClosedJaxpr, Jaxpr, Var, used
from jaxlens.core.lower import lower_jaxpr
from jaxlens.core.parallel.meshes import Layout, layout
from jaxlens.core.staging import aval_of
from jaxlens.core.tracers import Tracer
from jaxlens.core.trees import TreeDef, tree_flatten

_INLINE = 1024  # elements of a constant that stands in the program; larger ones are arguments


@dataclass(eq=False)
class Traced:
    """A function at certain types, as a jaxpr.

    Attributes:
        fun_name: Its name.
        jaxpr: It, of the leaves of its arguments.
        in_tree: The tree of `(args, kwargs)`, without what is static.
        out_tree: The tree of its results.
        arg_names: How each leaf of the arguments would be written: `params['w']`.
        donated: Which of these leaves' memory may be used for results.
        device: Where it is to run; None for the default device.
    """

    fun_name: str
    jaxpr: ClosedJaxpr
    in_tree: TreeDef
    out_tree: TreeDef
    arg_names: Sequence[str]
    donated: Sequence[bool]
    device: Any = None

    def lower(self) -> "Lowered":
        """Writes it as a StableHLO module."""
        inner = self.jaxpr.jaxpr
        pairs = list(zip(inner.constvars, self.jaxpr.consts, strict=True))
        small = [pair for pair in pairs if pair[0].aval.size <= _INLINE]
        large = [pair for pair in pairs if pair[0].aval.size > _INLINE]
        params = [*(var for var, _ in large), *inner.invars]
        eqns = used(inner.eqns, {atom for atom in inner.outvars if isinstance(atom, Var)})
        jaxpr = Jaxpr([var for var, _ in small], params, inner.outvars, eqns)
        closed = ClosedJaxpr(jaxpr, [const for _, const in small])
        aliases = [None] * len(large) + self._aliases()
        names = [""] * len(large) + list(self.arg_names)
        results = ["result" + "".join(path) for path in self.out_tree.paths()]
        place = layout(closed)
        module = lower_jaxpr(
            closed, self.fun_name, donated=aliases, arg_names=names, result_names=results,
            layout=place,
        )  # fmt: skip
        if sources.listeners:
            sources.emit("lower", self.fun_name, module=module)
        return Lowered(self, module, [const for _, const in large], aliases[len(large) :], place)

    def _aliases(self) -> list[int | None]:
        """For each argument, the result that gets its memory: a donated one of the same type."""
        free = {n: aval.update(weak_type=False) for n, aval in enumerate(self.jaxpr.out_avals)}
        found: list[int | None] = []
        for aval, given in zip(self.jaxpr.in_avals, self.donated, strict=True):
            plain = aval.update(weak_type=False)
            match = next((n for n, out in free.items() if given and out is plain), None)
            free.pop(match, None)  # type: ignore[arg-type]
            found.append(match)
        pairs = zip(self.arg_names, found, self.donated, strict=True)
        unused = [name for name, match, given in pairs if given and match is None]
        if unused:
            warnings.warn(
                f"Some donated buffers were not usable: {', '.join(unused)} of {self.fun_name}: "
                f"no result has the same shape and dtype.",
                stacklevel=2,
            )
        return found

    @cached_property
    def compiled(self) -> "Compiled":
        """The program of the default options, compiled when first asked for."""
        return self.lower().compile()


@dataclass(frozen=True, eq=False)
class Lowered:
    """A function at certain types, as a StableHLO module.

    Attributes:
        traced: Where it came from.
        module: MLIR's.
        consts: Values of the module's first parameters: large arrays from outside.
        aliases: For each other parameter, the result that uses its memory.
        layout: How its parameters and results lie on several devices; None for one.
    """

    traced: Traced
    module: Any
    consts: Sequence[Any]
    aliases: Sequence[int | None]
    layout: Layout | None = None

    def as_text(self, dialect: str = "stablehlo", *, debug_info: bool = False) -> str:
        """The module as text; with `debug_info`, where each op came from.

        Args:
            dialect: "stablehlo", or "hlo" for XLA's own before it optimises.
            debug_info: Whether locations are printed.
        """
        if dialect == "hlo":
            return hlo_text(self.module)
        text: str = self.module.operation.get_asm(enable_debug_info=debug_info)
        return text

    def compiler_ir(self, dialect: str = "stablehlo") -> Any:
        """The module as MLIR has it."""
        if dialect != "stablehlo":
            raise ValueError(f'compiler_ir: expected the dialect "stablehlo", got {dialect!r}.')
        return self.module

    def compile(self, compiler_options: dict[str, Any] | None = None) -> "Compiled":
        """Lets XLA make a program of it.

        Args:
            compiler_options: XLA's, by name, such as `{"xla_cpu_enable_fast_math": True}`.
        """
        traced = self.traced
        jaxpr = traced.jaxpr
        executable = compile_module(
            self.module, [*map(aval_of, self.consts), *jaxpr.in_avals], jaxpr.out_avals,
            device=traced.device, options=compiler_options, layout=self.layout,
        )  # fmt: skip
        if sources.listeners:
            sources.emit("compile", traced.fun_name, executable=executable)
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
        self._consts = [array(x, device=lowered.traced.device) for x in lowered.consts]
        self._given = [n for n, alias in enumerate(lowered.aliases) if alias is not None]

    def run(self, leaves: Sequence[Any]) -> Any:
        """Starts it on arguments of its types; gives the tree of its results."""
        if self._given:
            self._check_once(leaves)
        results = self.executable([*self._consts, *leaves] if self._consts else leaves)
        for n in self._given:
            if type(leaves[n]) is Array:
                to = f"{self.traced.fun_name} as argument {self.traced.arg_names[n]}"
                leaves[n].buffer = Donated(to)
        return self.traced.out_tree.unflatten(results)

    def _check_once(self, leaves: Sequence[Any]) -> None:
        """Checks that no array comes twice where memory is given away."""
        first: dict[int, int] = {}
        for n, x in enumerate(leaves):
            if type(x) is Array and first.setdefault(id(x.buffer), n) != n:
                names = self.traced.arg_names
                raise RuntimeError(
                    f"{self.traced.fun_name} was given one array as arguments "
                    f"{names[first[id(x.buffer)]]} and {names[n]}, and may use the memory of "
                    f"donated ones: give a copy."
                )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = tree_flatten((args, kwargs))
        traced = self.traced
        if in_tree is not traced.in_tree:
            raise TypeError(
                f"{traced.fun_name} was compiled for arguments (args, kwargs) in the containers "
                f"{traced.in_tree}, got {in_tree}."
            )
        for x, expected, name in zip(leaves, self.in_avals, traced.arg_names, strict=True):
            if isinstance(x, Tracer):
                raise TypeError(
                    f"{traced.fun_name} is compiled and cannot be transformed: argument {name} "
                    f"is traced. Call the jitted function."
                )
            got = aval_of(x)
            if (got.shape, got.dtype) != (expected.shape, expected.dtype):
                raise TypeError(
                    f"{traced.fun_name} was compiled for {expected.str_short()} as argument "
                    f"{name}, got {got.str_short()}."
                )
        return self.run(leaves)

    def as_text(self) -> str:
        """The optimised HLO."""
        return self.executable.as_text()

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimates of operations and bytes; a loop's body counts once."""
        return self.executable.cost_analysis()

    def memory_analysis(self) -> Any:
        """XLA's sizes of arguments, results and temporary buffers, in bytes."""
        return self.executable.memory_analysis()

    def runtime_executable(self) -> Any:
        """XLA's own object."""
        return self.executable.loaded

    @property
    def in_avals(self) -> list[ShapedArray]:
        """The types of the leaves of its arguments."""
        return self.traced.jaxpr.in_avals
