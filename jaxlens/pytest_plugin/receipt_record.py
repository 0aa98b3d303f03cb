"""Records a receipt as plain data, for a file beside a test, and finds what differs later.

A record has the figures, the arguments and results, and the equations of each source line, in a
form that a person reads in a diff: lines by their text, so that one that moves is the same line.
Figures and the fingerprint say whether a program is the same; the others, which have names, say
what differs. Traced figures are the same on every machine with one version of JAX. Compiled ones
depend on the device, and may depend on jaxlib and on a CPU's instruction set and cores: where one
of these is another, a difference is reported and is no failure.
"""

import hashlib
import os
import platform
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxlens.ir.facts import Target
from jaxlens.ir.graph import Node
from jaxlens.links.match.across_edits import edited_lines, printed_kind
from jaxlens.program.figures import figure_text
from jaxlens.program.sentences import device, line_text, lines_of, listed
from jaxlens.program.subject import Given
from jaxlens.questions.compare.verbs import Receipt
from jaxlens.report import count, tally

_MOST = 12  # lines of a message that is not whole
_NO_LINE = "(no line of yours)"
_ALIKE = "the same operations with other shapes, parameters, literals or operands"
_ENTRY = re.compile(r"(\S.*?)(?: x (\d+))?(?:, |\Z)")  # of the text of a line's operations
_ALL_ALIKE = (
    "  each line has the same operations: their order or that of arguments, a constant, a setting "
    "or jit's options differ"
)
_NO_FIGURES = {"lines", "arguments", "results", "made_by", "fused"}  # the last of older records
_ISAS = ("avx512f", "avx2", "avx")  # of x86, the widest first
_VERSION = 4  # of a record: changed with what its figures count, or its fingerprint is made of

Record = Mapping[str, Any]
"""JSON-able: the keys "version", "jax", "traced" and "compiled"; that has a section per device."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs between a record and a program.

    Attributes:
        lines: Lines of a message: figures, source lines. () if nothing that was compared
            differs.
        left_out: What was not compared, or differs as another machine may explain, and why.
    """

    lines: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def record(receipt: Receipt, earlier: Record | None = None, *, compiled: bool = True) -> Record:
    """Records a receipt.

    Args:
        receipt: The receipt of the program.
        earlier: What was recorded before. Its figures of other devices stay if the program is
            still the same; else they are of a program that is gone.
        compiled: Whether to compile, for the figures of that.
    """
    traced, target = _traced(receipt), receipt.capture.program.target
    sections = {device(target): _compiled(receipt)} if compiled else {}
    if earlier is not None and not _written_by_another(earlier, target):
        was = earlier["traced"]
        prints = {**was["fingerprint"], **traced["fingerprint"]}
        if was == {**traced, "fingerprint": {k: prints[k] for k in was["fingerprint"]}}:
            traced["fingerprint"] = prints
            sections = {**earlier["compiled"], **sections}
    return {"version": _VERSION, "jax": target.jax, "traced": traced, "compiled": sections}


def changes(
    earlier: Record, receipt: Receipt, *, compiled: bool = True, whole: bool = False
) -> Changes:
    """Finds what differs between a record and a program; compiles it if that can be compared.

    Args:
        earlier: What was recorded.
        receipt: The receipt of the program now.
        compiled: Whether to compare the figures of a compile.
        whole: Whether to give every line; else many are cut.
    """
    most, target = sys.maxsize if whole else _MOST, receipt.capture.program.target
    if writer := _written_by_another(earlier, target):
        return Changes((), (f"it was written with {writer}: not compared",))
    was, now = earlier["traced"], _traced(receipt)
    left_out = []
    if target.platform not in was["fingerprint"]:
        left_out.append(f"it has no fingerprint for {target.platform}: not compared")
    figures = [*_figures(_single(was, target.platform), _single(now, target.platform))]
    lines = list[str]()
    for kind in ("arguments", "results"):
        lines += _section(kind, was.get(kind, {}), now[kind], most)
    lines += _by_line(was["lines"], now["lines"], receipt, most)
    lines = lines or [_ALL_ALIKE]
    place = device(target)
    section = earlier["compiled"].get(place)
    if compiled and section is None:
        left_out.append(f"it has no compiled figures for {place}: not compared")
    elif compiled:
        here = _compiled(receipt)
        own = [*_figures(section, here)]
        if section["made_by"] == here["made_by"]:
            figures += own
        elif own:  # which another machine explains, so it is no failure
            both = f"its compiled figures are of {section['made_by']}, this is {here['made_by']}"
            left_out.append(f"{both}: {'; '.join(text.strip() for text in own)}")
    return Changes((*figures, *lines) if figures else (), tuple(left_out))


def is_whole(record: Any) -> bool:
    """Whether a record has its keys, which one that a merge left may lack."""
    try:
        traced, sections = record["traced"], record["compiled"].values()
        parts = [(record, {"jax"}), (traced, {"fingerprint", "lines"})]
        parts += [(section, {"made_by"}) for section in sections]
        return all(keys <= part.keys() for part, keys in parts)
    except (AttributeError, KeyError, TypeError):
        return False


def _written_by_another(earlier: Record, target: Target) -> str:
    """Returns the version of JAX or jaxlens that makes the figures of a record no comparison."""
    if earlier["jax"] != target.jax:
        return f"jax {earlier['jax']}, this is {target.jax}"
    return "" if earlier.get("version") == _VERSION else "another version of jaxlens"


def _traced(receipt: Receipt) -> dict[str, Any]:
    return {
        **_plain(receipt.figures(compiled=False)),
        "fingerprint": {receipt.capture.program.target.platform: receipt.fingerprint},
        "lines": {text: _operations(nodes) for text, nodes in _lines(receipt).items()},
        "arguments": _arguments(receipt),
        "results": _results(receipt),
    }


def _arguments(receipt: Receipt) -> dict[str, str]:
    """Returns "f32[8]" or "f32[8], donated" of each array of the arguments."""
    leaves = receipt.capture.program.inputs
    words = (
        (leaf.name, str(leaf.type), "donated" * leaf.donated, leaf.sharding) for leaf in leaves
    )
    return {name: ", ".join(filter(None, rest)) for name, *rest in words}


def _results(receipt: Receipt) -> dict[str, str]:
    """Returns "f32[8], sin" of each result: its type, and the operation or argument that it is."""
    capture = receipt.capture
    body, inputs = capture.jaxpr.module.body(), capture.program.inputs
    makers = {value.name: node.opcode for node in body.nodes for value in node.results}
    # Arrays that the program closes over are parameters too, before the arguments.
    names = zip(reversed(body.parameters), reversed(inputs), strict=False)
    makers |= {value.name: leaf.name for value, leaf in names}
    outputs = Given(lambda: capture.outputs).or_else(())
    return {
        leaf.name: f"{leaf.type}, {makers.get(value, value)}"
        for leaf, value in zip(outputs, body.results, strict=False)
    }


def _compiled(receipt: Receipt) -> dict[str, Any]:
    traced = receipt.figures(compiled=False)
    figures = {k: v for k, v in receipt.figures().items() if k not in traced}
    return {**_plain(figures), "made_by": _made_by(receipt)}


def _plain(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the figures that this backend gives; primitives are in the lines."""
    return {k: v for k, v in figures.items() if v is not None and k != "primitives"}


def _single(traced: Record, platform: str) -> Record:
    """Returns traced figures with one platform's fingerprint."""
    return {**traced, "fingerprint": traced["fingerprint"].get(platform)}


def _made_by(receipt: Receipt) -> str:
    """Returns what compiled figures depend on besides the device: jaxlib, and a CPU's make."""
    target = receipt.capture.program.target
    if target.platform != "cpu":
        return f"jaxlib {target.jaxlib}"
    try:
        flags = set(Path("/proc/cpuinfo").read_text().partition("flags")[2].split("\n")[0].split())
    except OSError:  # not Linux
        flags = set()
    isa = next((f" with {isa}" for isa in _ISAS if isa in flags), "")
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    machine = f"{platform.machine()}{isa}, {count(cores, 'core')}"
    return f"jaxlib {target.jaxlib} on {machine}"


def _lines(receipt: Receipt) -> dict[str, list[Node]]:
    """Returns the equations by the text of their line, in program order."""
    text_of, lines = line_text(receipt.capture), dict[str, list[Node]]()
    for node in receipt.capture.jaxpr.module.nodes():
        lines.setdefault(text_of(node) or _NO_LINE, []).append(node)
    return lines


def _operations(nodes: list[Node]) -> str:
    """Returns `add f32 x 2, tanh f32 #3fa2`; the digits are of shapes, parameters and literals."""
    digest = hashlib.sha256()
    for node in nodes:
        digest.update(repr(printed_kind(node)).encode(errors="surrogatepass"))
    counts = Counter(f"{n.opcode} {n.type.dtype}" if n.results else n.opcode for n in nodes)
    return f"{', '.join(tally(dict(sorted(counts.items()))))} #{digest.hexdigest()[:4]}"


def _figures(was: Record, now: Record) -> Iterator[str]:
    for name in sorted({*was, *now} - _NO_FIGURES):
        before, after = was.get(name), now.get(name)
        if before != after and not (name == "fingerprint" and before is None):
            yield f"  {name}: {figure_text(after)}, was {figure_text(before)}"


def _section(title: str, was: Record, now: Record, most: int) -> Iterator[str]:
    """Yields what is new, other or gone of texts by name: of many, some."""
    rows = [
        f"  {name}: {now.get(name, 'gone')}, {f'was {was[name]}' if name in was else 'new'}"
        for name in dict.fromkeys([*now, *was])
        if was.get(name) != now.get(name)
    ]
    yield from _cut(rows, most, title)


def _by_line(was: Record, now: Record, receipt: Receipt, most: int) -> Iterator[str]:
    """Yields lines with other operations, each with its place and what it was."""
    nodes, edited = _lines(receipt), edited_lines(was.keys(), now.keys())
    rows = []
    for text, operations in now.items():
        earlier = text if text in was else edited.get(text, "")
        if operations != was.get(earlier):
            place = listed(lines_of(nodes[text]), most // 3)
            rows.append(f"  {place}{': ' * bool(place)}{text}")
            rows += [f"      was: {earlier}"] * (earlier not in ("", text))
            rows.append(f"      {_tally_change(was.get(earlier, ''), operations)}")
    for text in sorted(was.keys() - now.keys() - set(edited.values())):
        rows += [f"  gone: {text}", f"      {_tally_change(was[text], '')}"]
    yield from _cut(rows, 3 * most, "by line")


def _tally_change(before: str, after: str) -> str:
    """Returns `new mul f32 x 2; gone tanh f32` of two texts of `_operations`."""
    old, new = map(_counts, (before, after))
    parts = [("new", new - old), ("gone", old - new)]
    texts = [f"{word} {', '.join(tally(counts))}" for word, counts in parts if counts]
    return "; ".join(texts) or _ALIKE


def _counts(text: str) -> Counter[str]:
    entries = _ENTRY.findall(text.rpartition(" #")[0])
    return Counter({name: int(number or 1) for name, number in entries})


def _cut(rows: list[str], most: int, title: str) -> Iterator[str]:
    if rows:
        yield f"{title}:"
        yield from rows[:most]
    if len(rows) > most:
        yield f"  and {len(rows) - most:,} more lines"
