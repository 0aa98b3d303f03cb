"""Builds the links of one output, between the nodes of the stages that it shows.

Only the requested stages are read, so that nothing is lowered or compiled just for links; other
stages are not linked.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

from jaxlens.lenses.subject import Subject
from jaxlens.lenses.times.facts import instructions
from jaxlens.links.call_stacks import owner
from jaxlens.links.linked import Linked
from jaxlens.links.links import Links
from jaxlens.links.match.link import HOWS
from jaxlens.links.name_stack import equation_transforms
from jaxlens.render.link_data import Web
from jaxlens.views import traced_links

_SMALL = 4_000  # instructions
_MODULES = ("jaxpr", "stablehlo", "hlo", "optimized")


def weave(links: Links, stages: Iterable[str], *, fates: bool = True) -> Web | None:
    """Links the stages of an output, in time linear in the size of their programs.

    Args:
        links: Links of the capture whose stages are shown.
        stages: Names of the stages that are shown, as in `ir/stage.py`, and "kernels". The jaxpr
            is always added, and for any later stage StableHLO too, which links the others.
            "kernels", "llvm", "asm" and "optimized" compile the program; a stage that the
            backend does not give is left out.
        fates: Whether to include the fate of each equation, which takes most of the time.

    Returns:
        The links; None where neither a jaxpr nor StableHLO is available, as for HLO text.
    """
    wanted = set(stages) | {"jaxpr"}
    machine = bool(wanted & {"kernels", "llvm", "asm"})
    if machine:
        wanted.add("optimized")
    if wanted & {"hlo", "optimized"}:
        wanted.add("stablehlo")
    shown = [name for name in _MODULES if name in wanted and links.gives(name)]
    if "stablehlo" not in shown:  # the other stages are linked through it
        shown = shown[:1] if "jaxpr" in shown else []
    if not shown:
        return None
    if shown == ["jaxpr"] and (alike := links.traced()):
        return traced_links.web(alike)
    linked = links.linked(*shown)
    atoms = {stage: linked.atoms_of(stage) for stage in shown}
    if machine and "optimized" in atoms:
        of = atoms["optimized"]  # the name of a kernel is its function's in LLVM IR and assembly
        kernels = links.kernels()
        atoms["kernels"] = {k.name: of[k.instruction] for k in kernels if k.instruction in of}
    lines, calls = _lines(linked)
    distinct, stack = _stacks(linked)
    ended = links.known_fates() if fates and "optimized" in atoms else {}
    return Web(
        atoms=atoms,
        lines=lines,
        calls=calls,
        fates={id: fate.sentence for id, fate in ended.items()},
        ends={id: fate.index for id, fate in ended.items() if fate.index is not None},
        how={stage: how for stage in shown if (how := _how(linked, stage))},
        stacks=distinct,
        stack=stack,
        made=equation_transforms(linked.modules["jaxpr"]),
    )


def weave_small(links: Links, program: Subject, stages: Iterable[str]) -> Web | None:
    """Returns `weave` of a small program; None for a large one, where it takes long."""
    size = instructions(program)
    return weave(links, stages) if size is not None and size <= _SMALL else None


def _lines(linked: Linked) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """Returns the atoms that each Python line owns, and those made in calls from it."""
    own: defaultdict[str, list[int]] = defaultdict(list)
    calls: defaultdict[str, list[int]] = defaultdict(list)
    # By id, as equal stacks are mostly one object.
    memo: dict[int, tuple[frozenset[str], frozenset[str]]] = {}
    for number, every in enumerate(linked.stacks.atoms):
        if id(every) not in memo:
            owners = frozenset(str(span) for stack in every if (span := owner(stack)))
            passed = frozenset(str(s) for stack in every for s in stack if not s.library)
            memo[id(every)] = owners, passed - owners
        for found, names in zip((own, calls), memo[id(every)], strict=True):
            for name in names:
                found[name].append(number)
    return {n: tuple(own[n]) for n in sorted(own)}, {n: tuple(calls[n]) for n in sorted(calls)}


def _how(linked: Linked, stage: str) -> dict[str, str]:
    """Returns how a stage's links are known: the most common value under "", others by id."""
    if stage == "jaxpr":
        return {}
    others = linked.how(stage)
    ways = Counter[str](others.get(id, "stamped") for id in linked.atoms_of(stage))
    usual = max(HOWS, key=lambda how: ways[how])
    every = ((id, str(others.get(id, "stamped"))) for id in linked.atoms_of(stage))
    return {"": usual, **{id: how for id, how in every if how != usual}}


def _stacks(linked: Linked) -> tuple[tuple[tuple[str, ...], ...], dict[str, int]]:
    """Returns the distinct call stacks, from the owner outward, and their index by equation id."""
    numbers: dict[tuple[str, ...], int] = {}
    memo: dict[int, int] = {}
    found = {}
    for ident, stack in linked.stacks.equations.items():
        if stack and id(stack) not in memo:
            start = stack.index(span) if (span := owner(stack)) else 0
            words = tuple(f"{s} in {s.function}" if s.function else str(s) for s in stack[start:])
            memo[id(stack)] = numbers.setdefault(words, len(numbers))
        if stack:
            found[ident] = memo[id(stack)]
    return tuple(numbers), found
