"""How far the clocks of a job's hosts are apart, as far as messages between processes bound it.

A message is read after it was sent. So from those of both directions, by clocks that start with
each record and never jump, the start of one record follows that of the other by at least -a and at
most b seconds, where a and b are the least delays. The hosts' clocks say when the records started
too: where that is outside of the bounds, the clocks differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxlens.ir.record import ProcessRecord

_APART = 0.05  # seconds between the readings of two clocks at the start of a record, at most


@dataclass(frozen=True, slots=True)
class ProcessClock:
    """A process's clock beside that of process 0.

    Attributes:
        label: The process.
        ahead: Seconds by which its clock is ahead; 0 where they do not provably differ.
        within: Seconds by which that can be wrong; None where it is not known.
    """

    label: str
    ahead: float = 0.0
    within: float | None = None


def clocks(start: Sequence[ProcessRecord], labels: Mapping[str, str]) -> dict[str, ProcessClock]:
    """Returns the clocks of the processes of one start but the first of them, by their folders."""
    return {p.folder: _clock(start[0], p, labels[p.folder]) for p in start[1:]}


def _clock(first: ProcessRecord, second: ProcessRecord, label: str) -> ProcessClock:
    a, b = first.process, second.process
    back, there = b.delays.get(str(a.index)), a.delays.get(str(b.index))
    if back is None or there is None or -back > there:
        return ProcessClock(label)
    least, most = -back - _APART, there + _APART
    later = b.started - a.started
    if least <= later <= most:
        return ProcessClock(label, 0.0, max(later - least, most - later))
    return ProcessClock(label, later - (least + most) / 2, (most - least) / 2)
