"""Captures of `jax.stages.Traced`, `Lowered` and `Compiled`, and of `jax.export.Exported`.

The objects are not modified: a Lowered is compiled from a copy, without JAX's caches.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property, partial
from typing import Any

import jax

from jaxlens.captures import Capture
from jaxlens.errors import OptionError
from jaxlens.ir.driver import Driver, Run
from jaxlens.ir.facts import Input, Kernel, Limits, Memory, Program, Source, Stage, Target
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.ir.stablehlo import reader as stablehlo
from jaxlens.stages import compat
from jaxlens.stages.call.target import ResolvedTarget, resolve, target_of
from jaxlens.stages.call.traceable import TraceableCall
from jaxlens.stages.compile.dump_files import Dump
from jaxlens.stages.compile.kernels import without_code
from jaxlens.stages.compile.xla import CompileOutput
from jaxlens.stages.existing.kept_driver import KeptDriver
from jaxlens.stages.existing.kept_staging import ExistingTrace, named_call
from jaxlens.stages.existing.module_text import stablehlo_capture
from jaxlens.stages.measure.execute import run
from jaxlens.stages.measure.instruction_times import run_profiled
from jaxlens.stages.measure.measured_limits import measured
from jaxlens.stages.trace import sources

KINDS = (jax.stages.Traced, jax.stages.Lowered, jax.stages.Compiled)
_INNER = ("traced", "lowered", "compiled")  # attributes of the wrappers of Equinox and Flax
CALL = "look at the call itself: jaxlens.capture(f, x)"


def stage_object(value: Any) -> Any:
    """Returns JAX's stage object, also from the wrapper of a library; None for other values."""
    exported = getattr(sys.modules.get("jax.export"), "Exported", None)
    if isinstance(value, KINDS) or (exported is not None and isinstance(value, exported)):
        return value
    if type(value).__name__ in ("Traced", "Lowered", "Compiled"):
        for name in _INNER:
            held = getattr(value, "__dict__", {}).get(name)
            if isinstance(held, KINDS):
                return held
    return None


def of_traced(traced: Any, name: str) -> Capture:
    """Returns the capture of a Traced: its jaxpr, and the stages made from it."""
    place = resolve(None, compat.argument_places(traced))
    call = named_call(name or traced.fun_name, _inputs(traced))
    staging = ExistingTrace(
        call, place, "a jax.stages.Traced", CALL, traced=traced, names=partial(_outputs, traced)
    )
    return captured(call, place.target, KeptDriver(staging), "a jax.stages.Traced")


def of_lowered(lowered: Any, name: str) -> Capture:
    """Returns the capture of a Lowered: its StableHLO, and the stages made from it."""
    devices = compat.devices_of(lowered)
    target = target_of(devices) if devices else resolve(None).target
    module = lowered.compiler_ir("stablehlo").operation
    call = named_call(name or _module_name(module), _inputs(lowered))
    staging = ExistingTrace(
        call,
        ResolvedTarget(target),
        "a jax.stages.Lowered",
        "take the step before it, jaxlens.capture(f.trace(x)), or " + CALL,
        make=lambda: compat.own_copy(lowered) or lowered,
        names=partial(_outputs, lowered),
    )
    driver = KeptDriver(staging, missing={"jaxpr": "jaxpr"})
    return captured(call, target, driver, "a jax.stages.Lowered")


def of_compiled(
    compiled: Any, args: Sequence[Any], kwargs: Mapping[str, Any], name: str
) -> Capture:
    """Returns the capture of a Compiled: its executable; nothing is compiled again."""
    devices = compat.devices_of(compiled)
    target = target_of(devices) if devices else resolve(None).target
    if args or kwargs:
        _check(compiled, tuple(args), dict(kwargs))
    driver = CompiledDriver(
        compiled, target, (tuple(args), dict(kwargs)) if args or kwargs else None
    )
    module = driver.stage("optimized").module
    call = named_call(name or module.name.removeprefix("jit_"), _inputs(compiled))
    return captured(call, target, driver, "a jax.stages.Compiled")


def of_exported(exported: Any, name: str) -> Capture:
    """Returns the capture of an Exported: StableHLO, compiled for this process if possible."""
    return stablehlo_capture(
        stablehlo.parse(exported.mlir_module()),
        exported.platforms[0] if len(exported.platforms) == 1 else "",
        name or exported.fun_name,
        "a jax.export.Exported",
    )


def captured(call: TraceableCall, target: Target, driver: Driver, origin: str) -> Capture:
    """Returns the capture of a call of an existing program."""
    program = Program(call.name, call.inputs, (), target, origin=f"read from {origin}")
    return Capture(program, driver)


def _module_name(module: Any) -> str:
    name = module.attributes["sym_name"].value if "sym_name" in module.attributes else "main"
    return str(name).removeprefix("jit_")


def _inputs(stage: Any) -> tuple[Input, ...]:
    """Returns the leaves of the arguments, named by parameter, else by position."""
    paths = jax.tree_util.tree_flatten_with_path(
        stage.args_info, is_leaf=lambda leaf: hasattr(leaf, "donated")
    )[0]
    names = compat.argument_names(stage)
    if len(names) != len(paths):
        names = tuple(_place(path) for path, _ in paths)
    return tuple(
        Input(name, type_of(aval_of(leaf)), leaf.donated)
        for name, (_, leaf) in zip(names, paths, strict=True)
    )


def _place(path: Sequence[Any]) -> str:
    """Returns the text of a leaf's path in `(args, kwargs)`, as in "args[0]['w']"."""
    positional = getattr(path[0], "idx", 0) == 0
    return ("args" if positional else "kwargs") + jax.tree_util.keystr(tuple(path[1:]))


def aval_of(leaf: Any) -> Any:
    """Returns the aval of a leaf of `args_info` or `out_info`."""
    return getattr(leaf, "_aval", leaf)


def _outputs(stage: Any) -> tuple[Input, ...]:
    paths = jax.tree_util.tree_flatten_with_path(stage.out_info)[0]
    return tuple(
        Input("result" + jax.tree_util.keystr(path), type_of(aval_of(leaf))) for path, leaf in paths
    )


def _check(compiled: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises OptionError if the arguments do not match the avals of the executable."""
    leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
    wanted = jax.tree_util.tree_leaves(
        compiled.args_info, is_leaf=lambda leaf: hasattr(leaf, "donated")
    )
    if tree != compiled.in_tree:
        raise OptionError(
            f"the compiled program takes {len(wanted)} arrays in {compiled.in_tree}, got "
            f"{len(leaves)} in {tree}: call it with the arguments that it was lowered for"
        )
    names = [leaf.name for leaf in _inputs(compiled)]
    for name, value, leaf in zip(names, leaves, wanted, strict=True):
        expected, got = type_of(aval_of(leaf)), type_of(jax.typeof(value))
        if (expected.dtype, expected.shape) != (got.dtype, got.shape):
            raise OptionError(
                f"the compiled program was lowered for {name} {expected}, got {got}: lower the "
                "function for that, or pass an array of that shape"
            )


class CompiledDriver(Driver):
    """Reads text, kernel names, cost and memory from a `jax.stages.Compiled`."""

    holder = "a jax.stages.Compiled"
    cure = "take the step before it, jaxlens.capture(f.lower(x)), or " + CALL

    def __init__(
        self,
        compiled: Any,
        target: Target,
        given: tuple[tuple[Any, ...], dict[str, Any]] | None,
    ) -> None:
        self._made = CompileOutput("the program", target.platform, compiled, Dump())
        self._target = target
        self._given = given

    def stage(self, name: str) -> Stage:
        if name == "optimized":
            return self._made.optimized
        return super().stage(name)

    def kernels(self) -> tuple[Kernel, ...]:
        return without_code(self._made.kernels, f"{self.holder} does not hold its code")

    def memory(self) -> Memory:
        return self._made.memory

    def cost(self) -> Mapping[str, float]:
        return self._made.cost

    def outputs(self) -> tuple[Input, ...]:
        return _outputs(self._made.executable)

    def sources(self) -> Mapping[str, Source]:
        return self._sources

    @cached_property
    def _sources(self) -> Mapping[str, Source]:
        return sources.sources(self._made.optimized.module)

    def run(self, n: int) -> Run:
        if self._given is None:
            self.lacks("arguments to run it with")
        return self._run(n)

    def run_watched(self, n: int) -> Run:
        if self._given is None:
            self.lacks("arguments to run it with")
        module = self._made.optimized.module.name
        return run_profiled(partial(self._run, n), module, self._target.devices)

    def _run(self, n: int, during: AbstractContextManager[Any] | None = None) -> Run:
        assert self._given is not None  # checked by the callers
        args, kwargs = self._given
        names = [leaf.name for leaf in _inputs(self._made.executable)]
        return run(self._made.executable, args, n, kwargs, names, during)

    def limits(self, dtypes: Iterable[str]) -> Limits:
        return measured(self._target.platform, dtypes)
