"""Counts over the lines of HLO text, independent of the reader of jaxlens."""

import re

_COMPUTATION = re.compile(r"^(?:ENTRY )?%([\w.-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^  (?:ROOT )?%[\w.-]+ = (?:\(.*?\)|\S+) ([a-z-]+)\((.*)$")
_NOTHING = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast"}


def computations(text):
    """Opcode and rest of each line, by computation."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in text.splitlines():
        head, inner = _COMPUTATION.match(line), _INSTRUCTION.match(line)
        if head:
            found[head[1]] = []
        elif inner and found:
            found[next(reversed(found))].append((inner[1], inner[2]))
    return found


def _called(rest):
    match = re.search(r"calls=%([\w.-]+)", rest)
    assert match is not None
    return match[1]


def joining_fusions(text):
    """Fusions outside of fusions that hold two operations or more."""
    bodies = computations(text)

    def size(name):
        return sum(
            size(_called(rest)) if opcode == "fusion" else opcode not in _NOTHING
            for opcode, rest in bodies[name]
        )

    fused = [_called(rest) for body in bodies.values() for op, rest in body if op == "fusion"]
    outer = [
        _called(rest)
        for name, body in bodies.items()
        if name not in fused
        for opcode, rest in body
        if opcode == "fusion"
    ]
    return sum(size(name) > 1 for name in outer)
