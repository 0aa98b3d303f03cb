"""Sends a program to a child process that compiles it again, and reads the answer."""

import os
import pickle
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxlens.captures import Capture
from jaxlens.errors import LensError, UnavailableError
from jaxlens.ir.driver import Driver
from jaxlens.stages import compat

TIMEOUT = 600.0  # seconds
_CHILD = "jaxlens.stages.experiments.other_process_main"
_LINE = 200  # maximum characters of a crash's message


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
        without = [f"without {' and '.join(self.passes)}"] if self.passes else []
        return (*without, *(f"{name}={value}" for name, value in self.flags))

    @property
    def options(self) -> dict[str, bool | int | str]:
        """The request as XLA compile options."""
        passes = {"xla_disable_hlo_passes": ",".join(self.passes)} if self.passes else {}
        return {name: _value(text) for name, text in self.flags} | passes

    @property
    def clause(self) -> str:
        """The request as the end of a sentence: "without fusion and with xla_flag=value"."""
        return " and ".join(w if w.startswith("without ") else f"with {w}" for w in self.words)


def _value(text: str) -> bool | int | str:
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
    if program.target.devices > 1:
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
        "donated": [leaf.name for leaf in program.inputs if leaf.donated],
        "given": _given(driver, capture) if run else {},
        "run": run,
    }


def _given(driver: Driver, capture: Capture) -> dict[str, np.ndarray]:
    """Returns the call's arrays by name, without shapes and PRNG keys; {} if they are freed."""
    try:
        leaves = jax.tree.leaves(driver.given())
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


def compiled(request: dict[str, Any], recompile: RecompileRequest, run: int) -> dict[str, Any]:
    """Runs the child process and returns its answer.

    Raises:
        UnavailableError: The child process timed out or crashed.
    """
    with tempfile.TemporaryDirectory(prefix="jaxlens-") as folder:
        path = Path(folder)
        (path / "request").write_bytes(pickle.dumps(request))
        try:
            done = subprocess.run(
                [sys.executable, "-m", _CHILD, folder],
                env=_environment(request["platform"], bool(request["target"])),
                capture_output=True,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            doing = "compile and run it" if run else "compile it"
            raise UnavailableError(
                f"XLA took more than {TIMEOUT:.0f} s to {doing} {recompile.clause}; given up"
            ) from None
        code, file = done.returncode, path / "answer"
        if code == 0 and file.exists():
            answer: dict[str, Any] = pickle.loads(file.read_bytes())  # written by the child
            return answer
        status = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise UnavailableError(
            f"XLA ended its process when it compiled {recompile.clause} "
            f"({status}): {_last(done.stderr)}"
        )


def _environment(platform: str, absent: bool) -> dict[str, str]:
    """Returns the environment of the child process, with jaxlens on its path and a JAX platform.

    The child does not preallocate GPU memory, which this process may use.
    """
    root = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    names, already = {"gpu": "cuda"}, os.environ.get("JAX_PLATFORMS", "")
    beside = {"ALLOW_MULTIPLE_LIBTPU_LOAD": "1"} if absent else {}  # libtpu allows one process
    return {
        **os.environ,
        **beside,
        "PYTHONPATH": path,
        "JAX_PLATFORMS": "cpu" if absent else already or names.get(platform, platform),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }


def _last(stderr: bytes) -> str:
    """Returns the last line of stderr that names an error, or else the last line."""
    lines = list(filter(None, map(str.strip, stderr.decode("utf-8", "replace").splitlines())))
    errors = [line for line in lines if re.search("Check failed|Error|F0000", line)]
    return (errors or lines or ["it said nothing"])[-1][:_LINE]
