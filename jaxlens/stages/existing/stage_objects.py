"""Captures of `jax.stages.Traced`, `Lowered` and `Compiled`.

The objects are not modified: a Lowered is compiled from a copy, without JAX's caches.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from operator import add
from typing import Any

import jax

from jaxlens import compat
from jaxlens.call.target import resolve, target_of
from jaxlens.captures import Capture
from jaxlens.errors import OptionError
from jaxlens.ir.driver import Run
from jaxlens.ir.facts import Input, Limits, Target
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.stages.compile.dump_files import Dump
from jaxlens.stages.compile.xla import CompileOutput
from jaxlens.stages.existing.module_text import CURE, OptimizedDriver, captured, read_capture
from jaxlens.stages.measure.execute import run
from jaxlens.stages.measure.instruction_times import run_profiled
from jaxlens.stages.measure.measured_limits import measured
from jaxlens.stages.session.existing_trace import ExistingTrace

KINDS = (jax.stages.Traced, jax.stages.Lowered, jax.stages.Compiled)
_INNER = ("traced", "lowered", "compiled")  # attributes of the wrappers of Equinox and Flax


def stage_object(value: Any) -> Any:
    """Returns JAX's stage object, also from the wrapper of a library; None for other values."""
    exported = getattr(sys.modules.get("jax.export"), "Exported", None)
    if isinstance(value, KINDS) or (exported is not None and isinstance(value, exported)):
        return value
    if type(value).__name__ in ("Traced", "Lowered", "Compiled"):
        for name in _INNER:
            inner = getattr(value, "__dict__", {}).get(name)
            if isinstance(inner, KINDS):
                return inner
    return None


def of_traced(traced: Any, name: str) -> Capture:
    """Returns the capture of a Traced: its jaxpr, and the stages made from it."""
    staging = ExistingTrace(
        name or traced.fun_name,
        _inputs(traced),
        resolve(None, compat.argument_places(traced)).target,
        "a jax.stages.Traced",
        CURE,
        outputs=partial(_outputs, traced),
        traced=traced,
    )
    return captured(staging)


def of_lowered(lowered: Any, name: str) -> Capture:
    """Returns the capture of a Lowered: its StableHLO, and the stages made from it."""
    attributes = lowered.compiler_ir("stablehlo").operation.attributes
    module = attributes["sym_name"].value if "sym_name" in attributes else "main"
    staging = ExistingTrace(
        name or str(module).removeprefix("jit_"),
        _inputs(lowered),
        _target(lowered),
        "a jax.stages.Lowered",
        "take the step before it, jaxlens.capture(f.trace(x)), or " + CURE,
        outputs=partial(_outputs, lowered),
        make=lambda: compat.own_copy(lowered) or lowered,
    )
    return captured(staging, missing={"jaxpr": "jaxpr"})


def of_compiled(
    compiled: Any, args: Sequence[Any], kwargs: Mapping[str, Any], name: str
) -> Capture:
    """Returns the capture of a Compiled: its executable; nothing is compiled again."""
    target = _target(compiled)
    arguments = (tuple(args), dict(kwargs)) if args or kwargs else None
    if arguments is not None:
        _check(compiled, *arguments)
    driver = CompiledDriver(compiled, target, arguments)
    name = name or driver.stage("optimized").module.name.removeprefix("jit_")
    return read_capture(driver, name, _inputs(compiled), target)


def _target(stage: Any) -> Target:
    devices = compat.devices_of(stage)
    return target_of(devices) if devices else resolve(None).target


def _inputs(stage: Any) -> tuple[Input, ...]:
    """Returns the leaves of the arguments, named by parameter, else by position."""
    paths = jax.tree_util.tree_flatten_with_path(
        stage.args_info, is_leaf=lambda leaf: hasattr(leaf, "donated")
    )[0]
    names = compat.argument_names(stage)
    if len(names) != len(paths):
        # Paths in `(args, kwargs)`, as in "args[0]['w']".
        roots = ["args" if getattr(path[0], "idx", 0) == 0 else "kwargs" for path, _ in paths]
        steps = [jax.tree_util.keystr(tuple(path[1:])) for path, _ in paths]
        names = tuple(map(add, roots, steps))
    return tuple(
        Input(name, type_of(_aval(leaf)), leaf.donated)
        for name, (_, leaf) in zip(names, paths, strict=True)
    )


def _aval(leaf: Any) -> Any:
    """Returns the aval of a leaf of `args_info` or `out_info`."""
    return getattr(leaf, "_aval", leaf)


def _outputs(stage: Any) -> tuple[Input, ...]:
    paths = jax.tree_util.tree_flatten_with_path(stage.out_info)[0]
    return tuple(
        Input("result" + jax.tree_util.keystr(path), type_of(_aval(leaf))) for path, leaf in paths
    )


def _check(compiled: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises OptionError if the arguments do not match the avals of the executable."""
    leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
    inputs = _inputs(compiled)
    if tree != compiled.in_tree:
        raise OptionError(
            f"the compiled program takes {len(inputs)} arrays in {compiled.in_tree}, got "
            f"{len(leaves)} in {tree}: call it with the arguments that it was lowered for"
        )
    for expected, value in zip(inputs, leaves, strict=True):
        value_type = type_of(jax.typeof(value))
        if (expected.type.dtype, expected.type.shape) != (value_type.dtype, value_type.shape):
            raise OptionError(
                f"the compiled program was lowered for {expected.name} {expected.type}, got "
                f"{value_type}: lower the function for that, or pass an array of that shape"
            )


class CompiledDriver(OptimizedDriver):
    """Reads text, kernel names, cost and memory from a `jax.stages.Compiled`."""

    holder = "a jax.stages.Compiled"
    cure = "take the step before it, jaxlens.capture(f.lower(x)), or " + CURE

    def __init__(
        self,
        compiled: Any,
        target: Target,
        arguments: tuple[tuple[Any, ...], dict[str, Any]] | None,
    ) -> None:
        super().__init__(CompileOutput("the program", target.platform, compiled, Dump()))
        self._target = target
        self._arguments = arguments

    def outputs(self) -> tuple[Input, ...]:
        return _outputs(self._output.executable)

    def run_watched(self, n: int) -> Run:
        module = self._output.optimized.module.name
        return run_profiled(partial(self.run, n), module, self._target.devices)

    def run(self, n: int, during: AbstractContextManager[Any] | None = None) -> Run:
        if self._arguments is None:
            self.lacks("arguments to run it with")
        args, kwargs = self._arguments
        names = [leaf.name for leaf in _inputs(self._output.executable)]
        return run(self._output.executable, args, n, kwargs, names, during)

    def limits(self, dtypes: Iterable[str]) -> Limits:
        return measured(self._target.platform, dtypes)
