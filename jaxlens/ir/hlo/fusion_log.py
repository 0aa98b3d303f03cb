"""Reads the log of XLA's priority fusion on GPU: what it refused to fuse, with the reason.

It is a protobuf in text form (`priority_fusion_dump.txt`), one `fusion_steps` for each decision, in
order:

    fusion_steps { update_priority { producer_name: "a" consumer_names: "b" us_fused: 1.0 ... } }
    fusion_steps { producer_ineligible { producer_name: "a" reason: "..." } }
    fusion_steps { fusion { fusion_name: "fusion.5" producer_name: "a" consumer_name: "b" } }

Names are those of the program before the pass, and of fusions that it created. The microseconds
are estimates of its cost model, of which it uses only the order; they are not read.
"""

import re

_BLOCK = re.compile(r"\s*+(\w++)(?:\s*+:)?+\s*+\{\s*")
_FIELD = re.compile(r'\s*(producer_name|reason):\s*"((?:[^"\\]|\\.)*)"\s*')
_STEP = "fusion_steps"


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


def refusals(text: str) -> dict[str, str]:
    """Returns the last reason against each producer that was not fused after it."""
    reasons: dict[str, str] = {}
    names: list[str] = []
    fields: dict[str, str] = {}
    for line in text.splitlines():
        block, field = _BLOCK.fullmatch(line), _FIELD.fullmatch(line)
        if block is not None:
            names.append(block[1])
            if len(names) == 2:
                fields = {}
        elif field is not None:
            fields.setdefault(field[1], field[2])
        elif line.strip() == "}" and names:
            closed, producer = names.pop(), fields.get("producer_name", "")
            if names == [_STEP] and closed == "producer_ineligible":
                reasons[producer] = fields.get("reason", "")
            elif names == [_STEP] and closed == "fusion":
                reasons.pop(producer, None)
    return reasons
