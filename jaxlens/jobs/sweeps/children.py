"""The executor of a sweep by default: child processes that each compile one program after another.

Unlike with `ProcessPoolExecutor`, a child that XLA or the system ends takes only its own point
along, the message says how it ended, and no child imports the user's script again.
"""

import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from jaxlens.stages.child.child import Child, child_environment

_COMMAND = (sys.executable, "-m", "jaxlens.jobs.sweeps.worker")


class ChildProcesses(ThreadPoolExecutor):
    """Threads that each start a child process when there is work; `shutdown` ends them.

    Args:
        workers: The most children at a time.
    """

    def __init__(self, workers: int) -> None:
        super().__init__(workers, "jaxlens sweep")
        self._children: dict[int, Child] = {}  # by the thread

    def submit(  # type: ignore[override]
        self, fn: Callable[..., Any], /, request: Mapping[str, Any]
    ) -> Future[Any]:
        """Has a child answer a request; `fn` is `worker.measured`, which the child calls."""
        return super().submit(self._answered, request)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the children; with `cancel_futures` at once, in the middle of a compile."""
        super().shutdown(wait=not cancel_futures, cancel_futures=cancel_futures)
        for child in tuple(self._children.values()):
            child.kill()
        super().shutdown(wait=wait)
        for child in self._children.values():
            child.end()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shutdown(cancel_futures=kind is not None)

    def _answered(self, request: Mapping[str, Any]) -> dict[str, Any]:
        absent = bool(request["target"])
        environment = child_environment("" if absent else request["platform"], absent)
        child = self._children.get(threading.get_ident())
        if child is None or child.code is not None or child.key[1] != environment:
            if child is not None:
                child.end()
            child = self._children[threading.get_ident()] = Child(_COMMAND, environment)
        try:
            return child.ask(request)
        except ChildProcessError as ending:
            return {"figures": {}, "error": f"the process that compiled it ended {ending}"}
