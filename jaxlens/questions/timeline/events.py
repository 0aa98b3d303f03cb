"""What happened while a piece of Python ran: dispatches, waits, and what the devices executed.

All times are seconds after the start of the run, by one clock.
"""

from dataclasses import dataclass


class _Timed:
    """What has a start and takes time."""

    __slots__ = ()
    start: float
    seconds: float

    @property
    def end(self) -> float:
        """When it ended."""
        return self.start + self.seconds


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of the user's code.

    Attributes:
        place: "cell 3:7", "train.py:12".
        text: The line, without indentation; "" where it is unknown.
        in_loop: Whether it stands in a loop.
    """

    place: str
    text: str
    in_loop: bool = False


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A call that gave a program to the devices, in the thread that ran the code.

    Attributes:
        program: Name of the program: "step".
        start: When the call began.
        seconds: How long the call took until it returned.
        line: The user's line that was running; None if unknown.
        compiling: Seconds within it in which XLA compiled.
        at_once: Whether the program was executed within the call, in Python's own thread, as small
            programs are on a CPU.
    """

    program: str
    start: float
    seconds: float
    line: CodeLine | None
    compiling: float = 0.0
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Wait(_Timed):
    """A time in which Python stood still until an array was computed.

    Attributes:
        start: When it began.
        seconds: How long it took.
        line: The user's line that was running; None if unknown.
        program: The program at whose end it ended; "" if unknown.
    """

    start: float
    seconds: float
    line: CodeLine | None
    program: str = ""


@dataclass(frozen=True, slots=True)
class Execution(_Timed):
    """One execution of a program on one device.

    Attributes:
        device: "CPU 0".
        program: Name of the program.
        start: When its first instruction began.
        seconds: The time until its last instruction ended.
        line: The user's line that dispatched it; None if unknown.
    """

    device: str
    program: str
    start: float
    seconds: float
    line: CodeLine | None = None


FLATTENS = "Python flattens"
"""Lane of what JAX does with the arguments of a call: it flattens pytrees and looks them up."""
TO_DEVICE, FROM_DEVICE = "to the device", "from the device"
"""Lanes of copies."""


@dataclass(frozen=True, slots=True)
class Activity(_Timed):
    """Something else that the profiler recorded.

    Attributes:
        lane: `FLATTENS`, `TO_DEVICE` or `FROM_DEVICE`.
        name: As the profiler names it: "DevicePut".
        start: When it began.
        seconds: How long it took.
        line: The user's line that was running; None if unknown.
    """

    lane: str
    name: str
    start: float
    seconds: float
    line: CodeLine | None = None


@dataclass(frozen=True, slots=True)
class RunTimeline:
    """One run of a cell or a call.

    Attributes:
        seconds: How long Python took; the devices may have gone on after it.
        dispatches: In order of their start, as are the others.
        waits: Where Python stood still.
        executions: What the devices did, until all that was dispatched was done.
        unknown: Why there are no figures, or which are incomplete; "" if all is known.
        activities: What else is known: arguments and copies.
    """

    seconds: float
    dispatches: tuple[Dispatch, ...] = ()
    waits: tuple[Wait, ...] = ()
    executions: tuple[Execution, ...] = ()
    unknown: str = ""
    activities: tuple[Activity, ...] = ()
