"""Builds the links of one output, between the nodes of the stages that it shows.

Only the requested stages are read, so that nothing is lowered or compiled just for links; other
stages are not linked.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, chain, repeat

from jaxlens.captures import Capture
from jaxlens.ir.graph import Span, owner
from jaxlens.ir.lazy import LazyDict
from jaxlens.links.call_stacks import Stack, equation_transforms
from jaxlens.links.linked import Linked
from jaxlens.links.links import Links
from jaxlens.links.match.link import HOWS
from jaxlens.links.traced_links import TracedLinks
from jaxlens.program.subject import instructions
from jaxlens.render.link_data import Alike, Parts, Web

LINKED = ("jaxpr", "optimized", "kernels")  # beside a compiled program
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
    names = set(stages) | {"jaxpr"}
    machine = bool(names & {"kernels", "llvm", "asm"})
    if machine:
        names.add("optimized")
    if names & {"hlo", "optimized"}:
        names.add("stablehlo")
    ahead = links.read_ahead() if "optimized" in names else None
    shown = [name for name in _MODULES if name in names and links.gives(name)]
    if "stablehlo" not in shown:  # the other stages are linked through it
        shown = shown[:1] if "jaxpr" in shown else []
    if not shown:
        return None
    if shown == ["jaxpr"] and (traced := links.traced()):
        return _traced(traced)
    linked = links.linked(*shown)
    del ahead
    atoms: dict[str, Mapping[str, tuple[int, ...]]]
    atoms = {stage: linked.atoms_of(stage) for stage in shown}
    if machine and "optimized" in atoms:
        xla = atoms["optimized"]  # the name of a kernel is its function's in LLVM IR and assembly
        # On first use, since XLA generates their code after it has written the HLO.
        atoms["kernels"] = LazyDict(lambda: _kernels(links, xla))
    owned, called = _parts(linked.stacks.atoms)
    distinct, stack = _stacks(linked)
    fate_of = links.known_fates() if fates and "optimized" in atoms else {}
    return Web(
        atoms=atoms,
        lines=_whole(owned),
        calls=_whole(called),
        owned=owned,
        called=called,
        fates={id: fate.sentence for id, fate in fate_of.items()},
        ends={id: fate.index for id, fate in fate_of.items() if fate.index is not None},
        how={stage: how for stage in shown if (how := _how(linked, stage))},
        stacks=distinct,
        stack=stack,
        made=equation_transforms(linked.modules["jaxpr"]),
    )


def _kernels(links: Links, atoms: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Returns the atoms of kernels by name, from those of instructions."""
    return {k.name: atoms[k.instruction] for k in links.kernels() if k.instruction in atoms}


def weave_small(links: Links, program: Capture) -> Web | None:
    """Returns `weave` of a small compiled program; None for a large one, where it takes long."""
    size = instructions(program)
    return weave(links, LINKED) if size is not None and size <= _SMALL else None


def _parts(stacks_of: Iterable[tuple[Stack, ...]]) -> tuple[Parts, Parts]:
    """Returns, by Python line and expression, the numbers whose stacks it owns or only calls.

    Args:
        stacks_of: The call stacks of each number (an atom, or a group of equations).
    """
    own: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    calls: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    # By id, as equal stacks are mostly one object.
    memo: dict[int, tuple[set[tuple[str, str]], set[tuple[str, str]]]] = {}
    for number, stacks in enumerate(stacks_of):
        if id(stacks) not in memo:
            owners = {str(span) for stack in stacks if (span := owner(stack))}
            frames = {(str(s), _columns(s)) for stack in stacks for s in stack if not s.library}
            frames |= {(str(s), _columns(s)) for stack in stacks if (s := owner(stack))}
            mine = {frame for frame in frames if frame[0] in owners}
            memo[id(stacks)] = mine, frames - mine
        for numbers, places in zip((own, calls), memo[id(stacks)], strict=True):
            for place in places:
                numbers[place].append(number)
    return _by_line(own), _by_line(calls)


def _columns(span: Span) -> str:
    """Returns the columns of an expression, as in `Parts`."""
    if span.column < 0 or span.end_column < 0:
        return ""
    further = span.end_line - span.line
    return f"{span.column}-{span.end_column}" + (f"+{further}" if further else "")


def _by_line(numbers: Mapping[tuple[str, str], list[int]]) -> Parts:
    lines: dict[str, dict[str, tuple[int, ...]]] = {}
    for line, part in sorted(numbers):
        lines.setdefault(line, {})[part] = tuple(numbers[line, part])
    return lines


def _whole(parts: Parts) -> dict[str, tuple[int, ...]]:
    """Returns the numbers of each line."""
    return {line: tuple(sorted(set(chain(*of.values())))) for line, of in parts.items()}


def _stack_text(stack: Stack) -> tuple[str, ...]:
    """Returns the lines of a call stack, from the owner outward."""
    start = stack.index(span) if (span := owner(stack)) else 0
    return tuple(f"{s} in {s.function}" if s.function else str(s) for s in stack[start:])


def _how(linked: Linked, stage: str) -> dict[str, str]:
    """Returns how a stage's links are known: the most common value under "", others by id."""
    if stage == "jaxpr":
        return {}
    unstamped = linked.how(stage)
    hows = {id: str(unstamped.get(id, "stamped")) for id in linked.atoms_of(stage)}
    counts = Counter(hows.values())
    usual = max(HOWS, key=lambda how: counts[how])
    return {"": usual, **{id: how for id, how in hows.items() if how != usual}}


def _stacks(linked: Linked) -> tuple[tuple[tuple[str, ...], ...], dict[str, int]]:
    """Returns the distinct call stacks, from the owner outward, and their index by equation id."""
    numbers: dict[tuple[str, ...], int] = {}
    memo: dict[int, int] = {}
    by_equation = {}
    for ident, stack in linked.stacks.equations.items():
        if stack:
            if id(stack) not in memo:
                memo[id(stack)] = numbers.setdefault(_stack_text(stack), len(numbers))
            by_equation[ident] = memo[id(stack)]
    return tuple(numbers), by_equation


def _traced(traced: TracedLinks) -> Web:
    """Returns compact links of a program that was only traced: groups of equations (`Alike`).

    Nothing was lowered, so the atom of `eN` is N and need not be listed. A group has the equations
    with equal call stacks and transforms; a train step of 18,104 equations has 120 groups, and
    only those and the run-length encoding of their order are in the output. In Python, the `Web`
    has the same mappings as any other, made on first access. The time is linear in the number of
    runs.
    """
    owned, called = _parts(group.stacks for group in traced.groups)
    stacks: dict[tuple[str, ...], int] = {}
    stack: list[int] = []
    for group in traced.groups:
        text = _stack_text(group.stacks[0])
        stack.append(stacks.setdefault(text, len(stacks)) if text else -1)
    transforms = tuple(group.made for group in traced.groups)
    alike = Alike(
        traced.runs,
        _whole(owned),
        _whole(called),
        owned,
        called,
        tuple(stacks),
        tuple(stack),
        transforms,
    )
    return Web(
        atoms={"jaxpr": LazyDict(lambda: {f"e{n}": (n,) for n in range(alike.size)})},
        lines=LazyDict(lambda: _atoms(alike, alike.lines)),
        calls=LazyDict(lambda: _atoms(alike, alike.calls)),
        stacks=alike.stacks,
        stack=LazyDict(lambda: {id: n for id, g in _groups(alike) if (n := alike.stack[g]) >= 0}),
        made=LazyDict(lambda: {id: names for id, g in _groups(alike) if (names := alike.made[g])}),
        alike=alike,
    )


def _groups(alike: Alike) -> Iterator[tuple[str, int]]:
    """Yields each equation's id with the index of its group."""
    groups = chain.from_iterable(map(repeat, alike.runs[1::2], alike.runs[::2]))
    return ((f"e{n}", group) for n, group in enumerate(groups))


def _atoms(alike: Alike, lines: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Returns atoms of equations by line, from groups by line."""
    starts = [0, *accumulate(alike.runs[::2])]
    members: defaultdict[int, list[int]] = defaultdict(list)
    for start, count, group in zip(starts, alike.runs[::2], alike.runs[1::2], strict=False):
        members[group] += range(start, start + count)
    return {
        name: tuple(sorted(chain.from_iterable(map(members.__getitem__, groups))))
        for name, groups in lines.items()
    }
