"""What differs between two programs that should be one: their keys, devices, constants, lines."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

from jaxlens.errors import LensError
from jaxlens.ir.compile_log import KeyPart
from jaxlens.ir.facts import Stage
from jaxlens.ir.graph import Node, Span
from jaxlens.ir.record import RecordedCompile
from jaxlens.program.sentences import listed
from jaxlens.render.graph.text_width import shorten

StageOf = Callable[[str, str], Stage | None]
"""Gives the stage of a program, by the program's name and the stage's; None if it is not there."""

_FEW = 3  # differences of one kind that are named
_LONG = 240  # characters of a line of a program that is shown
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_DONATED = re.compile(r"\b(?:tf\.aliasing_output|jax\.buffer_donor) = ")
_VALUE = re.compile(r"\bv\d+\b|%[\w#]+")  # the name of a value, in a jaxpr and in StableHLO


def differences(
    first: RecordedCompile | None,
    second: RecordedCompile | None,
    names: tuple[str, str],
    stage_of: StageOf,
) -> Iterator[str]:
    """Yields what differs between two programs; nothing where one is None."""
    if first is None or second is None:
        return
    a, b = first.call, second.call
    if a.function != b.function:
        yield f"{names[0]} compiled {a.function}, {names[1]} {b.function}"
        return
    causes = [*parts_differ(a.parts, b.parts, names)]
    causes += other_devices(first, second, names)
    causes += other_constants(first, second, names)
    yield from causes
    if causes:
        return
    for name in ("jaxpr", "stablehlo"):
        stages = [stage_of(c.program, name) if c.program else None for c in (first, second)]
        if stages[0] and stages[1] and stages[0].text != stages[1].text:
            yield _donation(stages[0], stages[1], names) or _line(stages[0], stages[1], names)
            return
    if not (first.program and second.program):
        yield "their lines cannot be compared: one of the programs was not written"


def parts_differ(
    a: Sequence[KeyPart], b: Sequence[KeyPart], names: tuple[str, str]
) -> Iterator[str]:
    """Yields what differs between two keys: the type of an argument, a static value, an option."""
    left, right = ({(p.kind, p.name): p.text for p in parts} for parts in (a, b))
    both = [key for key in left if key in right and left[key] != right[key]]
    texts = [f"{n} is {left[k, n]} in {names[0]}, {right[k, n]} in {names[1]}" for k, n in both]
    if texts:
        yield listed(texts, _FEW)
    for here, there, name in ((left, right, names[0]), (right, left, names[1])):
        alone = [part for kind, part in here if (kind, part) not in there]
        if alone:
            yield f"only {name} has {listed(alone, _FEW)}"


def other_constants(
    first: RecordedCompile, second: RecordedCompile, names: tuple[str, str]
) -> list[str]:
    """Returns how constants differ, of those whose types or values both records have."""
    pairs = list(enumerate(zip(first.constants, second.constants, strict=False)))
    of_values = [
        f"constant {n} ({a.type})"
        for n, (a, b) in pairs
        if a.type == b.type and a.digest and b.digest and a.digest != b.digest
    ]
    of_types = [
        f"constant {n} is {a.type} in {names[0]}, {b.type} in {names[1]}"
        for n, (a, b) in pairs
        if a.type != b.type
    ]
    closed = "an array that it closes over, "
    causes = [f"{closed}{listed(of_types, _FEW)}"] if of_types else []
    if of_values:
        values = "have other values" if len(of_values) > 1 else "has other values"
        causes.append(f"{closed}{listed(of_values, _FEW)}, {values}")
    return causes


def other_devices(
    first: RecordedCompile, second: RecordedCompile, names: tuple[str, str]
) -> list[str]:
    """Returns how the devices differ, in the order of the program's partitions."""
    a, b = first.devices, second.devices
    if not a or not b or a == b:
        return []
    n, (x, y) = next((n, pair) for n, pair in enumerate(zip_longest(a, b)) if pair[0] != pair[1])
    return [f"its devices are in another order: number {n} is {x} in {names[0]}, {y} in {names[1]}"]


def _donation(left: Stage, right: Stage, names: tuple[str, str]) -> str:
    """Returns how many inputs each donates, where a library decides that and no option of jit."""
    here, there = (len(_DONATED.findall(stage.text)) for stage in (left, right))
    if here == there:
        return ""
    return f"inputs donated: {here or 'none'} in {names[0]}, {there or 'none'} in {names[1]}"


def _line(left: Stage, right: Stage, names: tuple[str, str]) -> str:
    """Returns the first line that differs, and the user's lines that made it."""
    pairs = enumerate(zip_longest(left.text.split("\n"), right.text.split("\n"), fillvalue=""), 1)
    number, (a, b) = next((n, pair) for n, pair in pairs if pair[0] != pair[1])
    a, b = (shorten(line.strip(), _LONG) for line in (a, b))
    here, there = (f" ({owner})" if owner else "" for owner in _owners(left, right))
    name, hint = left.info.title, _hint(left.text, right.text)
    line, second = f"line {number} of the {name}", f"in {names[1]}{hint}"
    if here == there:
        return f"{line}{here} is `{a}` in {names[0]}, `{b}` {second}"
    return f"{line} is `{a}`{here} in {names[0]}, `{b}`{there} {second}"


def _hint(left: str, right: str) -> str:
    """Returns what makes such texts differ from process to process; "" for anything else."""
    if len({_ADDRESS.sub("", text) for text in (left, right)}) == 1:
        return ": an address, which is another in each process"
    lines = [sorted(_VALUE.sub("", text).split("\n")) for text in (left, right)]
    same = ": the same lines in another order, as a set has, which PYTHONHASHSEED decides"
    return same if lines[0] == lines[1] else ""


def _owners(left: Stage, right: Stage) -> list[Span | None]:
    """Returns the user's line of each side's first node that differs; None where it is unknown."""
    try:
        pairs = zip_longest(left.module.nodes(), right.module.nodes())
        pair = next((p for p in pairs if _content(p[0]) != _content(p[1])), ())
    except LensError:
        pair = ()
    return [node.owner if node else None for node in pair or (None, None)]


def _content(node: Node | None) -> tuple[object, ...]:
    if node is None:
        return ()
    return node.opcode, node.operands, [value.type for value in node.results], dict(node.attrs)
