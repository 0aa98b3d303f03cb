"""The stages from Python text to machine code, in order; THE TABLE is `stages.tsv`.

The chain of stages, `--stage` choices, hover help and the diagram in the documentation are made
from it.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class StageInfo:
    """One row.

    Attributes:
        name: What options and attributes call it.
        title: What a heading says.
        short: What the chain of stages says.
        meaning: What it is, in one sentence.
        step: What the next step does to it.
    """

    name: str
    title: str
    short: str
    meaning: str
    step: str


_TABLE = Path(__file__).with_name("stages.tsv").read_text("utf-8").splitlines()
STAGES = tuple(StageInfo(*row.split("\t")) for row in _TABLE[1:])
BY_NAME = {stage.name: stage for stage in STAGES}
