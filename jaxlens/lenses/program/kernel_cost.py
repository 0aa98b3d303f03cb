"""Flops and bytes of each kernel of the optimised program, multiplied by loop trip counts.

A kernel is an instruction that runs by itself: a fusion, a dot, a copy. Its bytes are those that it
reads from and writes to the device's main memory without any cache: each operand once and the
result once; only the slices of an operand that is sliced, and only the update of one that is
updated in place. Values in another memory of the device (a TPU's VMEM) do not count.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from jaxlens.captures import Capture
from jaxlens.errors import LensError, UnavailableError
from jaxlens.ir.graph import Module, Node, Region, Type, Value
from jaxlens.ir.hlo.instructions import CONTROL, EXCHANGES, idle, users_of, written
from jaxlens.ir.hlo.library_products import library_product
from jaxlens.ir.hlo.memory_spaces import elsewhere, main_memory
from jaxlens.ir.trips import trips
from jaxlens.lenses.program.hlo_flops import PRODUCTS, Done, done
from jaxlens.lenses.program.kernels import fused, inside
from jaxlens.lenses.sentences import lines_of
from jaxlens.links.instruction_atoms import TRIVIAL

_SILENT = TRIVIAL | CONTROL
_SLICES = frozenset({"dynamic-slice", "slice", "gather"})
_VIEWS = frozenset({"bitcast", "copy", "reshape", "convert"})


@dataclass(frozen=True, slots=True)
class KernelCost:
    """The flops and bytes of one kernel in a run of the program.

    Attributes:
        name: The kernel's name, or its instruction's.
        instruction: The instruction in the optimised program.
        opcode: Its opcode: "fusion", "dot", "copy".
        lines: Source lines that it came from, that of its dot, convolution or root first.
        dtype: Element type of the operands of its dot or convolution, else of its result.
        product: Whether it contains a dot or a convolution, or a library computes one.
        once: Flops of one execution.
        flops: Flops of all executions.
        transcendentals: Exponentials and the like of all executions.
        read: Bytes that one execution reads; None where a size is unknown.
        written: Bytes that one execution writes; None where a size is unknown.
        runs: Number of executions; a loop of unknown trip count counts once.
        open: Whether it is in a loop of unknown trip count.
        unknown: Number of its instructions that cannot be counted (custom calls).
        travels: Whether it is a collective.
        aside: Whether it reads or writes a memory of the device other than its main memory.
    """

    name: str
    instruction: str
    opcode: str
    lines: tuple[str, ...]
    dtype: str
    product: bool
    once: int
    flops: int
    transcendentals: int
    read: int | None
    written: int | None
    runs: int
    open: bool
    unknown: int
    travels: bool = False
    aside: bool = False

    @property
    def bytes(self) -> int | None:
        """Bytes of all executions; None where a size is unknown."""
        if self.read is None or self.written is None:
            return None
        return self.runs * (self.read + self.written)

    @property
    def uncounted(self) -> bool:
        """Whether all that it computes is in custom calls that cannot be counted."""
        return self.unknown > 0 and not self.flops

    @property
    def intensity(self) -> float | None:
        """Flops per byte; None without known bytes or flops."""
        return self.flops / self.bytes if self.bytes and not self.uncounted else None


def kernel_costs(capture: Capture) -> tuple[KernelCost, ...]:
    """Returns the cost of every kernel, in program order.

    Raises:
        UnavailableError: The backend provides no optimised HLO.
    """
    costs = instruction_costs(capture.optimized.module)
    try:
        names = {kernel.instruction: kernel.name for kernel in capture.kernels}
    except UnavailableError:
        return costs
    named = (replace(cost, name=names.get(cost.name, cost.name)) for cost in costs)
    return tuple(replace(cost, lines=_linked(capture, cost)) for cost in named)


def _linked(capture: Capture, cost: KernelCost) -> tuple[str, ...]:
    """Returns the lines of a kernel; of a product that XLA rewrote without metadata by links."""
    if cost.lines or not cost.product:
        return cost.lines
    try:
        return capture.links.back(cost.instruction, "source", "optimized")
    except LensError:
        return ()


def instruction_costs(module: Module) -> tuple[KernelCost, ...]:
    """Returns the same from the optimised HLO alone, which is there while XLA generates code.

    A kernel has the name of its instruction.
    """
    costs = []
    for region, (runs, unsure) in executed(module).items():
        nodes = module.regions[region].nodes
        types = {node.id: node.type for node in nodes}
        for node in nodes:
            if node.opcode not in _SILENT and not idle(node):
                costs.append(_cost(node, types, module, runs, unsure))
    return tuple(costs)


def cost_by_instruction(module: Module) -> dict[str, KernelCost]:
    """Returns the costs by instruction; a call, which may be one kernel, has those of its body."""
    costs = {cost.instruction: cost for cost in instruction_costs(module)}
    calls = [node for node in module.nodes() if node.opcode == "call"]
    for call in calls:
        reached = [name for name in call.regions if name in module.regions]
        for name in reached:
            inner = (n for node in module.regions[name].nodes for n in node.regions)
            reached += [n for n in inner if n in module.regions and n not in reached]
        nodes = [node for name in reached for node in module.regions[name].nodes]
        parts = [costs[node.id] for node in nodes if node.opcode != "call" and node.id in costs]
        if not parts:
            continue
        moved = [part.bytes for part in parts]
        costs[call.id] = replace(
            max(parts, key=lambda part: part.flops),
            name=call.id,
            instruction=call.id,
            opcode=call.opcode,
            lines=tuple(dict.fromkeys(line for part in parts for line in part.lines)),
            once=sum(part.flops for part in parts),
            flops=sum(part.flops for part in parts),
            transcendentals=sum(part.transcendentals for part in parts),
            read=None if None in moved else sum(n or 0 for n in moved),
            written=0,
            runs=1,
            open=any(part.open for part in parts),
            unknown=sum(part.unknown for part in parts),
        )
    return costs


def executed(module: Module) -> dict[str, tuple[int, bool]]:
    """Returns the executed computations, each with its number of runs and whether that is a guess.

    Callers precede callees in `Module.regions`, so the runs of a computation are complete when it
    is reached. A while condition runs once more than its body: 3 trips test it 4 times.
    """
    runs: dict[str, tuple[int, bool]] = {module.entry: (1, False)}
    for name, region in module.regions.items():  # callers before callees
        if name not in runs:
            continue
        times, unsure = runs[name]
        for node in region.nodes:
            if node.opcode not in CONTROL:
                continue
            repeats = trips(node, region, module) if node.opcode == "while" else 1
            for index, inner in enumerate(node.regions):
                n = 1 if repeats is None else repeats
                n += node.opcode == "while" and repeats is not None and index == 0  # the condition
                before, guess = runs.get(inner, (0, False))
                runs[inner] = before + times * n, guess or unsure or repeats is None
    return runs


def _cost(
    node: Node,
    types: Mapping[str, Type],
    module: Module,
    runs: int,
    unsure: bool,
) -> KernelCost:
    instructions = inside(node, module)
    total = Done()
    product: tuple[Node, Mapping[str, Type]] | None = None
    for region in fused(node, module):
        types_inside = {inner.id: inner.type for inner in region.nodes}
        for inner in region.nodes:
            if inner.opcode != "fusion":
                total += done(inner, types_inside, module)
                if inner.opcode in PRODUCTS:
                    product = inner, types_inside
    if node.opcode != "fusion":
        total = done(node, types, module)
        computed = node.opcode in PRODUCTS or library_product(node) is not None
        product = (node, types) if computed else None
    read, wrote = _moved(node, types, module)
    main = product[0] if product else next(iter(reversed(instructions)), node)
    own = [str(main.owner)] if main.owner else []
    dtype = _dtype(product[1].get(product[0].operands[0])) if product else _dtype(node.type)
    return KernelCost(
        node.id,
        node.id,
        node.opcode,
        tuple(dict.fromkeys([*own, *lines_of(instructions)])),
        dtype,
        product is not None,
        total.flops,
        runs * total.flops,
        runs * total.transcendentals,
        read,
        wrote,
        runs,
        unsure,
        total.unknown,
        node.opcode.removesuffix("-start") in EXCHANGES,
        any(map(elsewhere, (node.type, *(types[name] for name in node.operands if name in types)))),
    )


def _dtype(type_: Type | None) -> str:
    while type_ is not None and type_.parts:
        type_ = type_.parts[0]
    return type_.dtype if type_ else ""


def _moved(node: Node, types: Mapping[str, Type], module: Module) -> tuple[int | None, int | None]:
    """Returns the bytes read and written by one execution."""
    region = module.regions.get(node.regions[0]) if node.opcode == "fusion" else None
    if region is not None:
        return _fused(node, region, types)
    operands = [name for name in dict.fromkeys(node.operands) if name in types]
    sizes = [main_memory(types[name]).bytes for name in operands]
    wrote = main_memory(written(node)).bytes
    match node.opcode:
        case opcode if opcode in _SLICES and sizes:
            sizes[0] = min(written(node).bytes or 0, sizes[0]) if sizes[0] is not None else wrote
        case "dynamic-update-slice" if len(node.operands) > 1:
            update = types.get(node.operands[1])
            wrote = _as_much(wrote, update.bytes if update else None)
            sizes[0] = 0
        case "scatter" if len(sizes) == 3:
            update = types.get(node.operands[2])
            sizes[0] = wrote = _as_much(wrote, update.bytes if update else None)
        case "iota" | "constant":
            sizes = []
    return _sum(sizes), wrote


def _as_much(whole: int | None, part: int | None) -> int | None:
    """Returns the bytes of a part; 0 where the whole is outside main memory."""
    return 0 if whole == 0 else part


def _fused(node: Node, region: Region, types: Mapping[str, Type]) -> tuple[int | None, int | None]:
    """Returns the bytes read and written by a fusion.

    An operand that the fusion only slices counts with its slices, a result that it updates in
    place with the update.
    """
    inner = {n.id: n for n in region.nodes}
    users = users_of(region)
    read: dict[str, int | None] = {}  # by operand: its first parameter counts
    for operand, parameter in zip(node.operands, region.parameters, strict=False):
        if operand not in read:
            outside = elsewhere(types.get(operand, parameter.type))
            read[operand] = 0 if outside else _needed(parameter, users)
    wrote: list[int | None] = []
    for name in region.results:
        root = inner[name]
        parts = [inner[o] for o in root.operands] if root.opcode == "tuple" else [root]
        results = node.type.parts if len(node.type.parts) == len(parts) else (node.type,)
        pairs = zip(parts, results, strict=len(results) == len(parts))
        wrote += [0 if elsewhere(result) else _updated(part, inner) for part, result in pairs]
    return _sum(read.values()), _sum(wrote)


def _needed(parameter: Value, users: Mapping[str, list[Node]]) -> int | None:
    """Returns the bytes that a fusion reads of one operand.

    Follows the parameter through views. If all of its users slice it or update it in place, the
    slices are what is read; any other user reads all of it.

        p = f32[100,8] parameter(0)
        slice(bitcast(p)) -> f32[1,8]    32 bytes; with a further add(p, ...) all 3200
    """
    whole = parameter.type.bytes
    total = 0
    pending = [parameter.name]
    for name in pending:
        for user in users.get(name, ()):
            if user.opcode in _VIEWS and user.opcode != "convert":
                pending.append(user.id)
            elif user.opcode in _SLICES and user.operands[0] == name:
                total += user.type.bytes or 0
            elif user.opcode == "dynamic-update-slice" and user.operands[0] == name:
                continue
            else:
                return whole
        if not users.get(name):
            return whole if name == parameter.name else total
    return total if whole is None else min(total, whole)


def _updated(root: Node, inner: Mapping[str, Node]) -> int | None:
    """Returns the bytes that a fusion writes of one result."""
    node = root
    while node.opcode in _VIEWS and node.operands and node.operands[0] in inner:
        node = inner[node.operands[0]]
    if node.opcode == "dynamic-update-slice":
        update = inner.get(node.operands[1])
        return update.type.bytes if update else None
    return root.type.bytes


def _sum(sizes: Collection[int | None]) -> int | None:
    return None if None in sizes else sum(size for size in sizes if size is not None)
