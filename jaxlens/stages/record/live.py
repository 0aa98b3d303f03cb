"""Compares the programs of a job's processes while it runs, through JAX's coordinator.

Processes that compile different programs wait for each other for ever, and say nothing. So each
publishes a fingerprint of each program that several processes compile together, and compares it
with that of process 0; what differs is said on stderr of both. None waits for another: values are
read if they are there, in a thread of their own, so that neither a process that looks alone nor one
that has stopped holds up the others or the record.
"""

import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

import jax

from jaxlens.stages.compat import coordinator

_EVERY = 0.5  # seconds between two looks at the store
_MOST = 1000  # programs that are compared
_recordings: Counter[str] = Counter()  # of this process, by name


class LiveComparison:
    """Compares the programs of this process with those of process 0.

    Args:
        root: The folder of the record, whose name is the same in all processes.
    """

    def __init__(self, root: Path) -> None:
        _recordings[root.name] += 1
        self._root = root
        self._key = f"jaxlens/{root.name}/{_recordings[root.name]}"
        self._programs: list[tuple[str, str]] = []  # names and fingerprints, in order
        self._published = self._compared = 0  # how many of them
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begins(self, function: str, fingerprint: str) -> None:
        """Hears that a program of all processes begins to compile; waits for nothing."""
        if self._thread is None and coordinator.has_store():
            self._thread = threading.Thread(target=self._work, name="jaxlens compare", daemon=True)
            self._thread.start()
        if len(self._programs) < _MOST:
            self._programs.append((function, fingerprint))

    def stop(self) -> None:
        """Ends the comparison after a last look, for which it hardly waits."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(_EVERY)

    def _work(self) -> None:
        index, is_over = jax.process_index(), False
        while not is_over:
            is_over = self._over.wait(_EVERY)
            for number in range(self._published, len(self._programs)):
                coordinator.publish(f"{self._key}/{number}/{index}", _text(self._programs[number]))
                self._published = number + 1
            if said := self._difference(index):
                with suppress(OSError, ValueError, AttributeError):  # no stderr
                    print(f"jaxlens: {said}", file=sys.stderr, flush=True)
                return

    def _difference(self, index: int) -> str:
        """Returns the first difference from process 0, or what another process found; else ""."""
        if index == 0:
            return coordinator.published(f"{self._key}/differs") or ""
        for number in range(self._compared, self._published):
            own = self._programs[number]
            first = coordinator.published(f"{self._key}/{number}/0")
            if first is None:
                return ""
            if first != _text(own):
                said = self._sentence(number + 1, first.rpartition(" ")[0], own[0], index)
                coordinator.publish(f"{self._key}/differs", said)
                return said
            self._compared = number + 1
        return ""

    def _sentence(self, number: int, first: str, own: str, index: int) -> str:
        what = f", {own}, differs between process 0 and process {index}"
        if first != own:
            what = f" is {first} in process 0 and {own} in process {index}"
        return (
            f"it is not the same program on every host: program {number} that all compile{what}; "
            f"`jaxlens show {self._root}` says in what"
        )


def _text(program: tuple[str, str]) -> str:
    return " ".join(program)
