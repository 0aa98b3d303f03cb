"""Has the child process read and compile a program first that a user wrote, opened or was sent.

XLA's and MLIR's parsers and compilers end their process on some programs (a failed check, a stack
that overflows), which may be the child's and never the kernel's. What the child has survived, this
process does again by itself, and finds the errors that are the user's. A text that is known to come
from this process's own compiler is spared the child, which takes seconds to start.
"""

import hashlib
from typing import Any

import jax

from jaxlens import progress
from jaxlens.errors import ReadError, UnavailableError
from jaxlens.ir.facts import Target
from jaxlens.stages.child import child as other_process

_own: set[bytes] = set()  # digests of texts
# By digests of programs and what they were compiled for: "", or how XLA ended the child.
_endings: dict[bytes, str] = {}


def vouch(text: str) -> str:
    """Notes that a text is from this process's own compiler, and returns it."""
    _own.add(_digest(text))
    return text


def tried(
    program: str | bytes,
    target: Target | None = None,
    *,
    options: Any = (),
    devices: int = 1,
    partitions: int = 1,
) -> None:
    """Has the child read a program, and compile it if a target is given, unless it is known.

    Args:
        program: HLO or StableHLO text, or StableHLO bytecode.
        target: A platform of this process to compile for.
        options: Compiler options, as pairs of name and value.
        devices: The number of devices.
        partitions: The number of partitions.

    Raises:
        ReadError: XLA ends the process on it.
        UnavailableError: It takes too long, or no process could be started.
    """
    compile: dict[str, Any] | None = None
    if target is not None and target.platform != "tpu":  # which only one process can have
        # Not where it dumps to, which is another folder each time.
        plain = [(name, v) for name, v in dict(options).items() if not name.startswith("xla_dump")]
        compile = {"options": sorted(plain), "platform": target.platform}
        compile |= {"devices": devices, "partitions": partitions}
    key = _digest(program, compile)
    if _digest(program) in _own:
        return
    if key not in _endings:
        try:
            _asked(program, compile, target if compile is not None else None)
        except ReadError as error:
            _endings[key] = str(error)
            raise
        _endings[key] = ""
    if _endings[key]:
        raise ReadError(_endings[key])


def _asked(program: str | bytes, compile: Any, target: Target | None) -> None:
    tried = {"program": program, "compile": compile}
    settings: Any = jax.config
    request = {"tried": tried, "x64": bool(settings.jax_enable_x64)}
    noun = "text" if isinstance(program, str) else "program"
    try:
        with progress.step(f"another process tries whether XLA survives this {noun}"):
            other_process.asked(request, target)
    except TimeoutError:
        raise UnavailableError(
            f"XLA took more than {other_process.TIMEOUT:.0f} s for this {noun}; given up"
        ) from None
    except ChildProcessError as ending:
        if not str(ending).startswith("(signal"):
            raise UnavailableError(
                f"no process could be started that tries this {noun} {ending}"
            ) from None
        raise ReadError(
            f"XLA ends its process on this {noun}, so it is kept from the kernel; mend it: {ending}"
        ) from None


def _digest(program: str | bytes, compile: Any = None) -> bytes:
    data = program.strip().encode() if isinstance(program, str) else program
    return hashlib.sha256(data + repr(compile).encode()).digest()
