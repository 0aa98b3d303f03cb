"""The rules of a legal graph, one function each. Every reader's tests end with `check`.

A module that breaks a rule came from broken text or from a reader's mistake; lenses and
renderers may count on all of them.
"""

from collections import Counter
from collections.abc import Iterator

from jaxlens.ir.graph import Module, Region

_HLO = ("hlo", "passes", "optimized")
_UNORDERED = ("llvm", "asm")  # a phi reads values of blocks further down; jumps go anywhere


def check(module: Module) -> list[str]:
    """Checks a module against every rule.

    Returns:
        A sentence for each violation, with its place; empty for a legal module.
    """
    return [broken for rule in _RULES for broken in rule(module)]


def check_calls(module: Module) -> None:
    """Checks the two rules that following calls relies on: callees exist, and none is recursive.

    Raises:
        ValueError: A node calls a region that does not exist, or calls form a cycle.
    """
    for broken in (*_calls(module), *_order(module)):
        raise ValueError(broken)


def _entry(module: Module) -> Iterator[str]:
    """The program starts in a region that exists and that stands first."""
    if next(iter(module.regions), None) != module.entry:
        yield f"entry {module.entry!r} is not the first region"


def _region_names(module: Module) -> Iterator[str]:
    """The key of a region in `Module.regions` is its name."""
    for name, region in module.regions.items():
        if name != region.name:
            yield f"region {region.name!r} is held as {name!r}"


def _ids(module: Module) -> Iterator[str]:
    """Ids are unique within the module."""
    for node_id, n in Counter(node.id for node in module.nodes()).items():
        if n > 1:
            yield f"id {node_id!r} stands for {n} nodes"


def _values(module: Module) -> Iterator[str]:
    """Names of values are unique within their region."""
    for region in module.regions.values():
        names = Counter(value.name for node in region.nodes for value in node.results)
        if any(node.opcode == "parameter" for node in region.nodes):
            lost = {value.name for value in region.parameters} - names.keys()
            yield from (f"parameter {n!r} of {region.name!r} is no instruction" for n in lost)
        else:
            names.update(value.name for value in region.parameters)
        for name, n in names.items():
            if n > 1 and name != "_":  # "_" is JAX's name for an unused result
                yield f"{n} values of {region.name!r} are called {name!r}"


def _calls(module: Module) -> Iterator[str]:
    """A region that a node calls exists."""
    for node in module.nodes():
        for name in node.regions:
            if name not in module.regions:
                yield f"{node.id!r} calls {name!r}, which does not exist"


def _order(module: Module) -> Iterator[str]:
    """A region stands after every region that calls it."""
    seen: set[str] = set()
    for region in module.regions.values():
        seen.add(region.name)
        for node in region.nodes:
            for name in node.regions:
                if name in seen:
                    yield f"{name!r} stands before {region.name!r}, which calls it"


def _operands(module: Module) -> Iterator[str]:
    """An operand is defined earlier in its region, or in a region around it, or is a literal.

    A literal has a name that no value has. HLO has no literals and its computations are closed.
    """
    names = {region.name: _defined(region) for region in module.regions.values()}
    every = set().union(*names.values())
    around = _callers(module)
    for region in module.regions.values():
        seen = {value.name for value in region.parameters}
        for node in region.nodes:
            for operand in node.operands:
                if operand in seen or (operand not in every and module.stage not in _HLO):
                    continue
                if operand in names[region.name]:
                    if module.stage not in _UNORDERED:
                        yield f"{node.id!r} reads {operand!r} before it is made"
                elif module.stage in _HLO or not _is_around(operand, region.name, names, around):
                    yield f"{node.id!r} reads {operand!r}, which nothing makes"
            seen.update(value.name for value in node.results)


def _results(module: Module) -> Iterator[str]:
    """What goes out of a region is a value of it, of a region around it, or a literal."""
    names = {region.name: _defined(region) for region in module.regions.values()}
    every = set().union(*names.values())
    around = _callers(module)
    for region in module.regions.values():
        for result in region.results:
            if result in names[region.name] or (result not in every and module.stage not in _HLO):
                continue
            if module.stage in _HLO or not _is_around(result, region.name, names, around):
                yield f"result {result!r} of {region.name!r} does not exist"


def _hlo_shape(module: Module) -> Iterator[str]:
    """An HLO instruction makes one value, of its own name; a computation has one root."""
    if module.stage not in _HLO:
        return
    for region in module.regions.values():
        if len(region.results) != 1:
            yield f"{region.name!r} has {len(region.results)} roots"
        for node in region.nodes:
            if [value.name for value in node.results] != [node.id]:
                yield f"{node.id!r} does not make one value of its own name"


_RULES = (_entry, _region_names, _ids, _values, _calls, _order, _operands, _results, _hlo_shape)


def _defined(region: Region) -> set[str]:
    names = {value.name for value in region.parameters}
    for node in region.nodes:
        names.update(value.name for value in node.results)
    return names


def _callers(module: Module) -> dict[str, set[str]]:
    callers: dict[str, set[str]] = {name: set() for name in module.regions}
    for region in module.regions.values():
        for node in region.nodes:
            for name in node.regions:
                callers.setdefault(name, set()).add(region.name)
    return callers


def _is_around(
    name: str, region: str, names: dict[str, set[str]], around: dict[str, set[str]]
) -> bool:
    """Whether a direct or indirect caller of this region defines the value."""
    seen, pending = {region}, [region]
    while pending:
        for caller in around[pending.pop()] - seen:
            if name in names[caller]:
                return True
            seen.add(caller)
            pending.append(caller)
    return False
