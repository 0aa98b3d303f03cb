"""Formats nodes and lists of words for the sentences of all lenses."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from jaxlens.ir.graph import Node

_CONFIG_KIND = re.compile(r'"kind":\s*"([^"]*)"')


def listed(texts: Sequence[str], most: int = 4) -> str:
    """Returns `a, b and c`; a list longer than `most` is cut and ends in the number left out."""
    if len(texts) > most:
        return f"{', '.join(texts[:most])} and {len(texts) - most} more"
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1]))) if texts else ""


def opcodes(nodes: Iterable[Node]) -> str:
    """Returns `broadcast x 2, add, maximum`, in order of first appearance, without constants."""
    tally = Counter(node.opcode for node in nodes if node.opcode not in ("parameter", "constant"))
    return ", ".join(f"{name} x {n}" if n > 1 else name for name, n in tally.items())


def lines_of(nodes: Iterable[Node]) -> list[str]:
    """Returns the source lines that own the nodes, each once, ordered by file and line."""
    owners = {(s.file, s.line) for node in nodes if (s := node.owner)}
    return [f"{file}:{line}" for file, line in sorted(owners)]


def fusion_kind(node: Node) -> str:
    """Returns a fusion's kind as HLO names it: "loop", "input", "custom: __ynn_fusion"."""
    kind = node.attrs.get("kind", "").removeprefix("k").lower()
    named = _CONFIG_KIND.search(node.attrs.get("backend_config", ""))
    return f"{kind}: {named[1]}" if kind == "custom" and named else kind
