"""Flops, bytes, seconds and memory by module and layer, forward and backward.

A kernel that fuses several modules counts for that of its result.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.hlo.live_ranges import live
from jaxlens.links.name_stack import EquationModules, module_path, module_text, nested_path
from jaxlens.program.counted import EquationSums, known_trips
from jaxlens.program.kernel_cost import KernelCost
from jaxlens.program.lines import shared_frames
from jaxlens.program.sentences import listed
from jaxlens.report import Finding, NumberColumn, Table, amount, duration, percent, share, table

Path = tuple[str, ...]
_NONE = "(in no module)"  # such as the loss and the optimiser
_NEARLY_ALL = 0.9  # share of one module above which those within it are named


@dataclass(frozen=True, slots=True)
class ModuleCost:
    """The cost of one module, of those within it too.

    Attributes:
        path: Its name, that of the module that it is in first.
        forward: Flops of the forward pass.
        backward: Flops of the backward pass, and of what it computes again.
        bytes: Bytes that its kernels read and write; 0 where no program was compiled.
        seconds: Measured seconds of its kernels; None where nothing was run.
        at_peak: Bytes that it made and that are in use at the memory peak.
    """

    path: Path
    forward: int = 0
    backward: int = 0
    bytes: int = 0
    seconds: float | None = None
    at_peak: int = 0

    @property
    def flops(self) -> int:
        """Flops of both passes."""
        return self.forward + self.backward


def module_costs(
    capture: Capture, kernels: Sequence[KernelCost], seconds: Mapping[str, float] | None
) -> tuple[ModuleCost, ...]:
    """Returns all modules, each followed by those within it; () where there are none.

    What is of none is the last, as a module named "(in no module)".

    Args:
        capture: The program.
        kernels: Its kernels.
        seconds: Measured seconds by instruction, or None.
    """
    sums: defaultdict[Path, Counter[str]] = defaultdict(Counter)

    def add(path: Path, name: str, amount: float) -> None:
        path = path or (_NONE,)
        for n in range(1, len(path) + 1):  # what is in a module is of all that it is in
            sums[path[:n]][name] += amount  # type: ignore[assignment]  # seconds

    with suppress(UnavailableError):  # a program opened from a later stage has no jaxpr
        for (path, backward), flops in _flops(capture).items():
            add(path, "backward" if backward else "forward", flops)
    if kernels:
        paths = _paths(capture)
        for kernel in kernels:
            path = paths.get(kernel.instruction, ())
            add(path, "bytes", kernel.bytes or 0)
            if seconds is not None:
                add(path, "seconds", seconds.get(kernel.instruction, 0.0))
        for instruction, size in _at_peak(capture):
            add(paths.get(instruction, ()), "at_peak", size)
    if sums.keys() == {(_NONE,)}:
        return ()
    # A loop's constants have the name of a module within, but not that of the one around it.
    in_order = sorted(
        (path for path in sums if any(sums[path].values())),
        key=lambda path: (path == (_NONE,), path),
    )
    return tuple(ModuleCost(path, **sums[path]) for path in in_order)


def _paths(capture: Capture) -> dict[str, Path]:
    """Returns the modules of instructions: those of their equations where modules were called.

    What slices and stacks the arrays of a loop is of the module that the whole body is of.
    """
    paths = _of_equations(capture)
    loops: defaultdict[str, list[str]] = defaultdict(list)
    for node in capture.optimized.module.nodes():
        scope = _of_hlo(node.scope)
        if node.id not in paths:
            paths[node.id], _ = module_path(scope, node.spans)
        loop, body, _ = scope.rpartition("/while/body")
        if body:
            loops[loop].append(node.id)
    for loop, inside in loops.items():
        around, _ = module_path(loop, ())
        deeper = [paths[id] for id in inside if len(paths[id]) > len(around)]
        whole = deeper[0][: shared_frames(deeper)] if deeper else around
        paths.update((id, whole) for id in inside if paths[id] == around)
    return paths


def _of_equations(capture: Capture) -> dict[str, Path]:
    """Returns the modules of the instructions whose equations are known, if any were called."""
    if not capture.links.gives("jaxpr"):
        return {}
    modules = EquationModules(capture.jaxpr.module)
    if not modules.named:
        return {}
    linked = capture.links.linked("jaxpr", "stablehlo", "optimized")
    equations = linked.atoms.equations
    paths: dict[str, Path] = {}
    for instruction, atoms in linked.reached("optimized").own.items():
        for path in (path for atom in atoms for path in equations[atom]):
            paths[instruction], _ = modules.within(path)
            break
    return paths


def _at_peak(capture: Capture) -> Iterable[tuple[str, int]]:
    """Returns the instructions whose values are in use at the peak, with their bytes."""
    ranges = live(capture.assignment) if capture.assignment else None
    values = ranges.at_peak if ranges else ()
    kept = (value.buffer for value in values if value.kind != "parameter")
    return [(buffer.instruction, buffer.size) for buffer in kept]


def _of_hlo(scope: str) -> str:
    """Returns the scope of an instruction without its operation.

    XLA puts the whole scope of a loop before those of its body again when it rewrites the loop.
    """
    scope = scope.partition(";")[0].rpartition("/")[0]
    start = "/".join(scope.split("/", 2)[:2]) + "/"
    return scope[max(scope.rfind(f"/{start}") + 1, 0) :]


def _flops(capture: Capture) -> Counter[tuple[Path, bool]]:
    """Returns the flops of a jaxpr by module and pass, callees before callers."""
    module = capture.jaxpr.module
    sums, modules = EquationSums(module, known_trips(capture)), EquationModules(module)
    found: dict[str, Counter[tuple[Path, bool]]] = {}
    for region in reversed(tuple(module.regions.values())):
        tree = found[region.name] = Counter()
        for node in region.nodes:
            own, bodies = sums.own[node.id], tuple(sums.bodies(node)) if node.regions else ()
            if not own and not bodies:
                continue
            path, backward = modules.own(node)
            tree[path, backward] += own
            for name, times in bodies:
                for (inner, back), flops in found[name].items():
                    tree[nested_path(path, inner), backward or back] += times * flops
    return found[module.entry]


def shares(modules: Sequence[ModuleCost]) -> Iterator[Finding]:
    """Yields the shares of the flops of the first modules that have not nearly all of them."""
    inner = [m for m in modules if len(m.path) == 1]
    whole = sum(m.flops for m in inner)
    while inner and whole:
        inner.sort(key=lambda m: -m.flops)
        most = inner[0]
        if most.flops <= _NEARLY_ALL * whole:
            parts = [f"{module_text(m.path)} {share(m.flops, whole)}" for m in inner if m.flops]
            yield Finding(f"Flops by module: {listed(parts)}.")
            return
        inner, whole = [m for m in modules if m.path[:-1] == most.path], most.flops


def module_table(modules: Sequence[ModuleCost], within: Path = ()) -> Table:
    """Returns a table of the modules directly within one; of the outermost ones by default."""
    depth = len(within) + 1
    rows = [m for m in modules if len(m.path) == depth and m.path[:-1] == within]
    rows.sort(key=lambda m: (-m.flops, -m.bytes))
    whole = sum(m.flops for m in modules if len(m.path) == 1)
    timed = any(m.seconds is not None for m in modules)
    shown = (
        (m.path[-1], m.forward, m.backward, m.flops / (whole or 1), m.bytes, m.at_peak, m.seconds)
        for m in rows
    )
    columns = (
        "module",
        NumberColumn("forward", partial(amount, unit="flop"), "flops"),
        NumberColumn("backward", partial(amount, unit="flop"), "flops"),
        NumberColumn("of all flops", percent),
        NumberColumn("bytes moved", amount, "bytes"),
        NumberColumn("at the peak", amount, "peak"),
        NumberColumn("measured", duration, none="0 s", rare=True),
    )
    by_line = any(" (" in m.path[-1] for m in rows if m.path != (_NONE,))
    note = "All calls on one line are one row, such as the layers of a list: jax.named_scope round "
    note = f"{note}each gives it a row." if by_line else ""
    return table(module_text(within) or "By module", columns, shown, note, volatile=timed)
