"""The executor of a sweep by default: child processes that each compile one program after another.

Unlike with `ProcessPoolExecutor`, a child that XLA or the system ends takes only its own point
along, the message says how it ended, and no child imports the user's script again.
"""

import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from jaxlens.stages.child.child import Child, child_environment

_COMMAND = (sys.executable, "-m", "jaxlens.jobs.sweeps.worker")


class ChildProcesses(Executor):
    """Starts child processes when there is work, and ends them with `shutdown`.

    Args:
        workers: The most children at a time.
    """

    def __init__(self, workers: int) -> None:
        self._threads = ThreadPoolExecutor(workers, "jaxlens sweep")
        self._lock = threading.Lock()
        self._children: set[Child] = set()
        self._idle: list[Child] = []
        self._ended = False

    def submit(  # type: ignore[override]
        self, fn: Callable[..., Any], /, request: Mapping[str, Any]
    ) -> Future[Any]:
        """Has a child answer a request; `fn` is `worker.measured`, which the child calls."""
        return self._threads.submit(self._answered, request)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the children; with `cancel_futures` at once, in the middle of a compile."""
        if not cancel_futures:
            self._threads.shutdown(wait=wait)
        with self._lock:
            self._ended = True
            children, self._children = self._children, set()
        for child in children:
            child.kill()
        self._threads.shutdown(wait=wait, cancel_futures=True)
        for child in children:
            child.end()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shutdown(cancel_futures=kind is not None)

    def _answered(self, request: Mapping[str, Any]) -> dict[str, Any]:
        absent = bool(request["target"])
        child = self._child(child_environment("" if absent else request["platform"], absent))
        try:
            answer = child.ask(request)
        except ChildProcessError as ending:
            with self._lock:
                self._children.discard(child)
            child.end()
            return {"figures": {}, "error": f"the process that compiled it ended {ending}"}
        with self._lock:
            self._idle.append(child)
        return answer

    def _child(self, environment: dict[str, str]) -> Child:
        """Returns an idle child of this environment, else a new one; ends one that has another."""
        with self._lock:
            if self._ended:
                raise RuntimeError("the sweep has ended")
            for child in self._idle:
                if child.key[1] == environment and child.code is None:
                    self._idle.remove(child)
                    return child
            if self._idle:
                other = self._idle.pop()
                self._children.discard(other)
                other.end()
            child = Child(_COMMAND, environment)
            self._children.add(child)
            return child
