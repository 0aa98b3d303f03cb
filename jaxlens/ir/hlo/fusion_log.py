"""Reads the log of XLA's priority fusion on GPU: fusions made and refused, with the reason.

It is a protobuf in text form (`priority_fusion_dump.txt`), one `fusion_steps` for each decision, in
order:

    fusion_steps { update_priority { producer_name: "a" consumer_names: "b" us_fused: 1.0 ... } }
    fusion_steps { producer_ineligible { producer_name: "a" reason: "..." } }
    fusion_steps { fusion { fusion_name: "fusion.5" producer_name: "a" consumer_name: "b" } }

Names are those of the program before the pass, and of fusions that it created. The microseconds
are estimates of its cost model, of which it uses only the order.
"""

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["priority", "refused", "fused"]
_KINDS: dict[str, Kind] = {
    "update_priority": "priority",
    "producer_ineligible": "refused",
    "fusion": "fused",
}
_BLOCK = re.compile(r"\s*+(\w++)(?:\s*+:)?+\s*+\{\s*")
_FIELD = re.compile(r'\s*(\w+):\s*(?:"((?:[^"\\]|\\.)*)"|(\S+))\s*')
_STEP = "fusion_steps"


@dataclass(frozen=True, slots=True)
class FusionDecision:
    """One decision, or one estimate.

    Attributes:
        kind: "priority" (an estimate), "refused" or "fused".
        producer: The instruction to fuse into its consumers.
        consumers: Instructions that read it.
        reason: XLA's reason for a refusal; "" otherwise.
        fusion: The resulting fusion; "" for none.
        fused: Estimated microseconds with it fused; None where the log has none.
        unfused: Estimated microseconds without.
    """

    kind: Kind
    producer: str
    consumers: tuple[str, ...] = ()
    reason: str = ""
    fusion: str = ""
    fused: float | None = None
    unfused: float | None = None


def steps_text(text: str) -> str:
    """The steps without the program after them, which the passes' dumps have too."""
    steps: list[str] = []
    depth, is_step = 0, False
    for line in text.splitlines(keepends=True):
        if depth == 0:
            is_step = line.startswith(_STEP)
        if is_step:
            steps.append(line)
        if '"' not in line:
            depth += line.count("{") - line.count("}")
    return "".join(steps)


def read(text: str) -> tuple[FusionDecision, ...]:
    """Reads the steps; unknown fields and kinds are ignored."""
    decisions: list[FusionDecision] = []
    names: list[str] = []
    fields: dict[str, list[str]] = {}
    for line in text.splitlines():
        block, field = _BLOCK.fullmatch(line), _FIELD.fullmatch(line)
        if block is not None:
            names.append(block[1])
            if len(names) == 2:
                fields = {}
        elif field is not None:
            fields.setdefault(field[1], []).append(field[3] if field[2] is None else field[2])
        elif line.strip() == "}" and names:
            closed = names.pop()
            if names == [_STEP] and closed in _KINDS:
                decisions.append(_decision(_KINDS[closed], fields))
    return tuple(decisions)


def _decision(kind: Kind, fields: dict[str, list[str]]) -> FusionDecision:
    def first(name: str) -> str:
        return fields.get(name, [""])[0]

    consumers = (*fields.get("consumer_names", ()), *fields.get("consumer_name", ()))
    producer, reason, fusion = first("producer_name"), first("reason"), first("fusion_name")
    fused, unfused = _number(first("us_fused")), _number(first("us_unfused"))
    return FusionDecision(kind, producer, consumers, reason, fusion, fused, unfused)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
