"""Asks Shardy for its steps, and compiles a program with other shardings."""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax

from jaxlens.call.target import ResolvedTarget
from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import root_name
from jaxlens.ir.stablehlo.reader import parse
from jaxlens.ir.stablehlo.stamps import restamp
from jaxlens.ir.stamps import stamps
from jaxlens.questions.sharding.propagation import AxisCut, Propagation
from jaxlens.questions.sharding.reasons import TrafficReason, asker_name
from jaxlens.stages.child.child import Child, child_environment
from jaxlens.stages.compile.program_text import of_module
from jaxlens.stages.driver import LiveDriver
from jaxlens.stages.existing.module_text import of_text, stablehlo_capture

_AXIS = r'"{}"(?::\(\d+\)\d+)?'
_COMMAND = [sys.executable, "-m", "jaxlens.questions.sharding.propagation"]
_TIMEOUT = 300.0  # seconds
Change = Callable[[Any], None]


def steps(text: str) -> Propagation:
    """Returns the steps of Shardy's propagation on a program, from a child process.

    Args:
        text: StableHLO of several devices, as it was lowered.

    Raises:
        UnavailableError: The program has no shardings of Shardy, or its propagation cannot be
            followed with this jaxlib.
    """
    if "sdy.mesh" not in text:
        raise UnavailableError("the program has no shardings of Shardy")
    child = Child(_COMMAND, child_environment("cpu", absent=True))
    try:
        found: Propagation = child.ask({"text": text}, _TIMEOUT)["found"]
    except (ChildProcessError, TimeoutError) as error:
        raise UnavailableError(f"Shardy's propagation cannot be followed: {error}") from None
    finally:
        child.end()
    return found


def variations(
    capture: Capture, reason: TrafficReason, size: int | None
) -> Iterator[tuple[str, Capture]]:
    """Yields the program without each cut that a collective is for, and what is other, in words.

    It is compiled, and not run.

    Args:
        capture: A program that was lowered in this process.
        reason: Why the collective is there.
        size: The number of devices along the axis of its first cut; None if that is not known.
    """
    live: LiveDriver = capture.driver.live()
    axis = reason.cuts[0].axis
    cuts = {_words(c): c for c in reason.cuts if c.axis == axis and c.kind}
    changes = [(words, _without(cut, capture)) for words, cut in cuts.items()]
    for words, change in [*changes, *_cut_result(capture, reason, axis, size)]:
        try:
            module = parse(capture.stablehlo.raw)
            restamp(module, {})
            with module.context:
                change(module)
            made = _compiled(capture, live, str(module))
        except (UnavailableError, RuntimeError, ValueError):  # MLIR's and XLA's: no such program
            continue
        yield words, made


def _compiled(capture: Capture, live: LiveDriver, text: str) -> Capture:
    """Returns the program of a text, compiled for the devices of the original.

    Raises:
        UnavailableError: It is compiled for another number of devices.
    """
    target, name = live.staging.place.target, capture.program.name
    if not target.absent:
        made = stablehlo_capture(parse(text), target.platform, name, "StableHLO text")
    else:
        lowered = of_module(text, _described(live)).lowered
        made = of_text(lowered.compile().as_text(), name=name)
    here, there = (one.optimized.module.attrs.get("num_partitions") for one in (capture, made))
    if here != there:
        raise UnavailableError("it is compiled for another number of devices")
    return made


def _described(live: LiveDriver) -> ResolvedTarget:
    """Returns the place of a call, whose arguments may be all that names its absent devices."""
    place, call = live.staging.place, live.staging.call
    leaves = jax.tree.leaves((call.args, call.kwargs))
    meshes = [getattr(getattr(leaf, "sharding", None), "mesh", None) for leaf in leaves]
    grids = [tuple(mesh.devices.flat) for mesh in meshes if mesh is not None]
    return place if place.devices or not grids else replace(place, devices=max(grids, key=len))


def _words(cut: AxisCut) -> str:
    if cut.kind == "constraint":
        return f"{cut.asks} left out"
    return f"{cut.kind} {root_name(cut.source)} not cut by {cut.axis}"


def _without(cut: AxisCut, capture: Capture) -> Change:
    """Takes the axis out of what asks for a cut; a constraint then asks for nothing.

    Of an argument of several arrays it is taken out of all.
    """
    pattern = re.compile(rf"(?:, )?{_AXIS.format(re.escape(cut.axis))}")

    def smaller(attribute: Any) -> Any:
        text = pattern.sub("", str(attribute)).replace("{, ", "{")
        return type(attribute).parse(text, attribute.context)

    def change(module: Any) -> None:
        if cut.kind == "constraint":
            op = _op(module, cut.asker)
            sharding = op.attributes["sharding"]
            text = re.sub(r"{[^{}]*}", "{?}", str(sharding))
            op.attributes["sharding"] = type(sharding).parse(text, sharding.context)
            return
        main = next(view.operation for view in module.body.operations if _is_main(view.operation))
        kind = "arg_attrs" if cut.kind == "input" else "res_attrs"
        marks = list(main.attributes[kind])
        for number, mark in enumerate(marks):
            entries = {named.name: named.attr for named in mark}
            name = asker_name(capture, cut.kind, number)
            if "sdy.sharding" in entries and root_name(name) == root_name(cut.source):
                entries["sdy.sharding"] = smaller(entries["sdy.sharding"])
                marks[number] = type(mark).get(entries)
        main.attributes[kind] = type(main.attributes[kind]).get(marks)

    return change


def _is_main(op: Any) -> bool:
    return bool(op.name == "func.func" and op.attributes["sym_name"].value == "main")


def _op(module: Any, id: str) -> Any:
    """Returns the op of an id, which its location has."""
    pending = [module.operation]
    while pending:
        for region in pending.pop().regions:
            for block in region.blocks:
                for view in block.operations:
                    op = view.operation
                    if any(path[-1] == id for path in stamps(getattr(op.location, "name_str", ""))):
                        return op
                    pending.append(op)
    raise UnavailableError(f"the program has no op {id}")


def _cut_result(
    capture: Capture, reason: TrafficReason, axis: str, size: int | None
) -> Iterator[tuple[str, Change]]:
    """Yields a constraint that cuts the result by the axis, where nothing else does."""
    nodes = {node.id: node for node in capture.stablehlo.module.nodes()}
    results = nodes[reason.op].results
    if (
        size is None
        or len(results) != 1
        or any(c.axis == axis and c.value == "result" for c in reason.cuts)
    ):
        return
    shape = results[0].type.shape
    whole = (d for d, n in enumerate(shape) if isinstance(n, int) and n and n % size == 0)
    dimension = next(whole, None)
    if dimension is None:
        return

    def change(module: Any) -> None:
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import sdy

        op = _op(module, reason.op)
        mesh = next(v.operation for v in module.body.operations if v.operation.name == "sdy.mesh")
        dims = ", ".join(f'{{"{axis}"}}' if d == dimension else "{?}" for d in range(len(shape)))
        text = f"#sdy.sharding<@{mesh.attributes['sym_name'].value}, [{dims}]>"
        value = op.results[0]
        with ir.InsertionPoint.after(op), op.location:
            made = sdy.ShardingConstraintOp(value, ir.Attribute.parse(text))
        value.replace_all_uses_except(made.result, made.operation)

    line = f" at {reason.line}" if reason.line else ""
    words = f"a constraint of {axis} in dimension {dimension} on the {reason.opcode}{line}"
    yield words, change
