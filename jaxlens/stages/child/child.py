"""Sends a program to a child process that compiles it again, and reads the answer.

The process imports JAX while this one still compiles the program itself, and waits some minutes
for another request.
"""

import atexit
import math
import os
import pickle
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jaxlens import compat
from jaxlens.captures import Capture
from jaxlens.errors import OWN, LensError, UnavailableError
from jaxlens.interrupts import temporary_folder, undoing
from jaxlens.ir.facts import Target

TIMEOUT = 600.0  # seconds
COMMAND = [sys.executable, "-m", "jaxlens.stages.child.main"]
_POLL = 0.01  # seconds between two looks for an answer
_LINE = 200  # maximum characters of a crash's message
_LOGGED = re.compile(r"^[IWEF]\d{4} [\d:.]+ +\d+ ")  # time and thread of a line of XLA's log


@dataclass(frozen=True)
class RecompileRequest:
    """The passes to disable and the flags to set in a recompile.

    Attributes:
        passes: Names of passes to disable.
        flags: XLA flags as (name, value).
    """

    passes: tuple[str, ...] = ()
    flags: tuple[tuple[str, str], ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The request in the form of `Program.flags`."""
        *most, last = self.passes or ("",)
        named = f"{', '.join(most)} and {last}" if most else last
        without = [f"without {named}"] if self.passes else []
        return (*without, *(f"{name}={value}" for name, value in self.flags))

    @property
    def options(self) -> dict[str, bool | int | str]:
        """The request as XLA compile options."""
        passes = {"xla_disable_hlo_passes": ",".join(self.passes)} if self.passes else {}
        return {name: flag_value(text) for name, text in self.flags} | passes

    @property
    def clause(self) -> str:
        """The request as the end of a sentence: "without fusion and with xla_flag=value"."""
        return " and ".join(w if w.startswith("without ") else f"with {w}" for w in self.words)


def flag_value(text: str) -> bool | int | str:
    """Returns a flag's value; XLA requires bool and int for flags of these types."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if text.lstrip("-").isdecimal() else text


def request_of(capture: Capture, recompile: RecompileRequest, run: int) -> dict[str, Any]:
    """Returns the request that is pickled for the child process.

    Raises:
        UnavailableError: The child process could not compile or run the program.
    """
    program, driver = capture.program, capture.driver
    lowered = driver.lowered
    if program.target.devices > 1 and not program.target.absent:
        raise UnavailableError(
            "programs for several devices are not compiled again; take one for a single device"
        )
    if program.target.absent and run:
        raise UnavailableError(
            f"{program.target.kind} is not here: what is compiled for it cannot be run"
        )
    target = driver.target if program.target.absent else ""
    if program.target.absent and not target:
        raise UnavailableError(f"{program.target.kind} is not here; name it with target=...")
    module = lowered.compiler_ir("stablehlo")
    if "callback" in capture.stablehlo.text:
        raise UnavailableError("the program calls back into Python, which only this process can do")
    return {
        "name": program.name,
        "module": compat.bytecode(module),
        "platform": "" if program.target.absent else program.target.platform,
        "target": target,
        "options": recompile.options,
        "own": compat.options_of(lowered) or (),
        "given": given_arrays(capture) if run else {},
        "run": run,
    }


def given_arrays(capture: Capture) -> dict[str, np.ndarray]:
    """Returns the call's arrays by name, without shapes and PRNG keys; {} if they are freed."""
    try:
        leaves = jax.tree.leaves(capture.driver.given())
    except LensError:
        return {}
    names = [leaf.name for leaf in capture.program.inputs]
    if len(names) != len(leaves):
        return {}
    return {
        name: np.asarray(leaf)
        for name, leaf in zip(names, leaves, strict=True)
        if not isinstance(leaf, jax.ShapeDtypeStruct)
        and not jax.numpy.issubdtype(getattr(leaf, "dtype", np.float32), jax.dtypes.prng_key)
    }


class Child:
    """A child process that answers requests one after another, and ends after minutes without one.

    It has a session of its own, since a front end's interrupt goes to the kernel's whole group.

    Attributes:
        key: Its command and environment.
    """

    def __init__(self, command: Sequence[str], environment: dict[str, str]) -> None:
        """Starts the process, which takes seconds to import JAX."""
        self.key = (tuple(command), environment)
        self._log = tempfile.TemporaryFile(prefix="jaxlens-")  # noqa: SIM115 -- `end` closes it
        self._process = subprocess.Popen(
            list(command),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        atexit.register(self.end)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def ask(
        self,
        request: Mapping[str, Any],
        timeout: float = math.inf,
        watch: Callable[[], object] = lambda: None,
    ) -> dict[str, Any]:
        """Returns the answer to a request.

        Args:
            request: Is pickled.
            timeout: Seconds to wait.
            watch: Called again and again while it waits; what it raises ends the wait.

        Raises:
            ChildProcessError: The process ended; says how, and the last error of its log.
            TimeoutError: It took too long.
        """
        assert self._process.stdin is not None
        self._log.seek(0, os.SEEK_END)
        begin, until = self._log.tell(), time.monotonic() + timeout
        with temporary_folder() as folder:
            (folder / "request").write_bytes(pickle.dumps(dict(request)))
            with suppress(OSError):  # it has ended
                self._process.stdin.write(f"{folder}\n".encode())
                self._process.stdin.flush()
            while not (folder / "answer").exists():
                if self.code is not None and not (folder / "answer").exists():
                    self._log.seek(begin)
                    status = f"signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
                    raise ChildProcessError(f"({status}): {_last(self._log.read())}")
                if time.monotonic() > until:
                    raise TimeoutError
                watch()
                time.sleep(_POLL)
            answer: dict[str, Any] = pickle.loads((folder / "answer").read_bytes())  # the child's
            return answer

    def kill(self) -> None:
        """Kills the process; `ask`, which another thread may be in, then raises."""
        self._process.kill()

    @undoing
    def end(self) -> None:
        """Kills the process, and closes its files."""
        assert self._process.stdin is not None
        self._process.kill()
        with suppress(OSError):
            self._process.stdin.close()
        self._process.wait()
        self._log.close()
        atexit.unregister(self.end)


_child: Child | None = None
_lock = threading.RLock()


def start(target: Target | None) -> Child:
    """Returns a child process, started unless one is ready; ends one with another environment.

    Args:
        target: Where the program is to run; None if it is only read, which any process can.
    """
    global _child
    if target is None:
        if _child is not None and _child.code is None:
            return _child
        target = Target("cpu", "")
    environment = child_environment("" if target.absent else target.platform, target.absent)
    key = tuple(COMMAND), environment
    with _lock:
        if _child is not None and (_child.key != key or _child.code is not None):
            _child.end()
            _child = None
        if _child is None:
            _child = Child(COMMAND, environment)
        return _child


def _forget() -> None:
    """Ends the child process."""
    global _child
    child, _child = _child, None
    if child is not None:
        child.end()


def compiled(
    capture: Capture, request: dict[str, Any], recompile: RecompileRequest, run: int
) -> dict[str, Any]:
    """Returns the child process's answer to a request.

    Raises:
        UnavailableError: The child process timed out or crashed.
    """
    try:
        return asked(request, capture.program.target)
    except TimeoutError:
        doing = "compile and run it" if run else "compile it"
        raise UnavailableError(
            f"XLA took more than {TIMEOUT:.0f} s to {doing} {recompile.clause}; given up"
        ) from None
    except ChildProcessError as ending:
        raise UnavailableError(
            f"XLA ended its process when it compiled {recompile.clause} {ending}"
        ) from None


def asked(request: Mapping[str, Any], target: Target | None = None) -> dict[str, Any]:
    """Returns the child process's answer to a request; the target is that of `start`.

    Raises:
        ChildProcessError: The process ended.
        TimeoutError: It took more than `TIMEOUT`.
    """
    with _lock:
        try:
            return start(target).ask(request, TIMEOUT)
        except BaseException:  # an interrupt too
            _forget()
            raise


def child_environment(platform: str, absent: bool) -> dict[str, str]:
    """Returns the environment of the child process, with jaxlens on its path and a JAX platform.

    The child does not preallocate GPU memory, which this process may use.
    """
    root = os.path.dirname(os.path.realpath(OWN))
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    names, already = {"gpu": "cuda"}, os.environ.get("JAX_PLATFORMS", "")
    beside = {"ALLOW_MULTIPLE_LIBTPU_LOAD": "1"} if absent else {}  # libtpu allows one process
    settings: Any = jax.config
    if settings.jax_num_cpu_devices > 0:
        beside["JAX_NUM_CPU_DEVICES"] = str(settings.jax_num_cpu_devices)
    # pytest changes one variable from test to test, for which no process is started anew.
    inherited = {name: v for name, v in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    return {
        **inherited,
        **beside,
        "PYTHONPATH": path,
        "JAX_PLATFORMS": "cpu" if absent else already or names.get(platform, platform),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }


def _last(stderr: bytes) -> str:
    """Returns the last line of stderr that names an error, or else the last line."""
    lines = list(filter(None, map(str.strip, stderr.decode("utf-8", "replace").splitlines())))
    errors = [line for line in lines if re.search("Check failed|Error|F0000", line)]
    return _LOGGED.sub("", (errors or lines or ["it said nothing"])[-1])[:_LINE]
