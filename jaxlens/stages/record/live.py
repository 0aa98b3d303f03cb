"""Compares the programs of a job's processes while it runs, through JAX's coordinator.

Processes that run different programs wait for each other for ever, and say nothing. So each
publishes a fingerprint of each program that all processes compile, and compares it with that of
process 0, which compares all, as another may have ended by then; the first difference is written to
stderr by all that still run. Programs are compared by function and number of its compile, as
threads may compile in another order. None waits for another process: values are read if they are
there, in a thread of their own, so that neither a process that looks alone nor one that has stopped
holds up the others or the record.

With each fingerprint is when it was sent. A message is read after it was sent, so those of both
directions bound by how much one record started before the other, whatever the hosts' clocks say.
"""

import sys
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import jax

from jaxlens.stages.compat import coordinator

_EVERY = 0.5  # seconds between two looks at the store
_READS = 20  # values that are read in a look
_MOST = 1000  # programs that are compared
_DRIFT = 1e-4  # seconds by which two clocks can differ after a second
_recordings: Counter[str] = Counter()  # of this process, by the folder's name


class LiveComparison:
    """Compares the programs of this process with those of process 0.

    Args:
        root: The folder of the record, whose name is the same in all processes.

    Attributes:
        zero: The moment of `time.perf_counter` from which times count.
        delays: The least seconds from the time that another process sent to that of reading it
            here, by its index, with what clocks can drift.
    """

    def __init__(self, root: Path) -> None:
        self.zero = time.perf_counter()
        self.delays: dict[str, float] = {}
        _recordings[root.name] += 1
        self._root = root
        self._number = _recordings[root.name]
        self._key = f"jaxlens/live/{root.name}/{self._number}"
        self._compiles: Counter[str] = Counter()  # by function
        self._new: deque[tuple[str, str]] = deque()  # programs to publish, with fingerprints
        self._waiting: deque[tuple[str, str]] = deque()  # programs that are not compared yet
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> str:
        """Returns the identity of this recording in all processes of the job; "" without a store.

        The first process that asks publishes it. It does not contain the folder's name, which may
        differ between hosts that share no disk.
        """
        if not coordinator.has_store():
            return ""
        coordinator.publish("jaxlens/job", uuid.uuid4().hex[:12])
        job = coordinator.published("jaxlens/job")
        return f"{job}-{self._number}" if job else ""

    def begins(self, function: str, fingerprint: str) -> None:
        """Hears that a program of all processes begins to compile; waits for nothing."""
        if self._thread is None and coordinator.has_store():
            self._thread = threading.Thread(target=self._work, name="jaxlens compare", daemon=True)
            self._thread.start()
        if self._compiles.total() < _MOST:
            self._compiles[function] += 1
            self._new.append((f"{function}, compile {self._compiles[function]},", fingerprint))

    def stop(self) -> None:
        """Ends the comparison after a last look, for which it hardly waits."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(_EVERY)

    def _work(self) -> None:
        index, is_over = jax.process_index(), False
        while not is_over:
            is_over = self._over.wait(_EVERY)
            while self._new:
                program, fingerprint = self._new.popleft()
                sent = f"{fingerprint} {time.perf_counter() - self.zero:.6f}"
                coordinator.publish(f"{self._key}/{program}/{index}", sent)
                self._waiting.append((program, fingerprint))
            if said := self._difference(index):
                with suppress(OSError, ValueError, AttributeError):  # no stderr
                    print(f"jaxlens: {said}", file=sys.stderr, flush=True)
                return

    def _difference(self, index: int) -> str:
        """Returns the first difference from process 0, by whichever process found it; else ""."""
        said = ""
        for _ in range(min(len(self._waiting), _READS)):
            program, own = self._waiting.popleft()
            others = self._others(program, index)
            other = next((n for n, fingerprint in others.items() if fingerprint != own), None)
            if other is not None:
                where = f"process 0 and process {max(index, other)}"
                said = (
                    f"it is not the same program on every host: {program} differs between {where}; "
                    f"`jaxlens show {self._root}` says in what"
                )
                coordinator.publish(f"{self._key}/differs", said)
                break
            if len(others) < (1 if index else jax.process_count()):
                self._waiting.append((program, own))
        # Last: what others say of the programs also tells when they said it.
        return coordinator.published(f"{self._key}/differs") or said

    def _others(self, program: str, index: int) -> dict[int, str]:
        """Returns the fingerprints to compare with: of process 0, or in that process of all."""
        place = f"{self._key}/{program}"
        if index:
            first = coordinator.published(f"{place}/0")
            rows: Sequence[tuple[str, str]] = [("0", first)] if first is not None else []
        else:
            rows = coordinator.published_in(place)
        now, others = time.perf_counter() - self.zero, {}
        for key, value in rows:
            other, (fingerprint, _, sent) = key.rpartition("/")[2], value.rpartition(" ")
            delay = now - float(sent) + _DRIFT * now
            self.delays[other] = min(delay, self.delays.get(other, delay))
            others[int(other)] = fingerprint
        return others
