"""A call while JAX traces, lowers and compiles it: what the recording keeps for the writer."""

from dataclasses import dataclass, field
from typing import Any

from jaxlens.ir.compile_log import KeyPart


@dataclass(slots=True)
class LoweredProgram:
    """What is known of a call and its program, beside the executable.

    Attributes:
        start: When its first step began, by the process's clock that never jumps.
        begun: When each of its running steps began.
        seconds: How long its steps took, by kind: a call has one of each.
        jaxpr: The closed jaxpr; None while it is unknown.
        donated: Whether each input of the jaxpr is donated.
        number: Order of its compile in the process; 0 until it compiles.
        key: All parts of the key of the call.
        devices: The devices that it is for.
        text: Its StableHLO with locations, large constants elided; "" where it is not recorded.
        note: Why it is not.
    """

    start: float
    begun: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    jaxpr: Any = None
    donated: tuple[bool, ...] = ()
    number: int = 0
    key: tuple[KeyPart, ...] = ()
    devices: tuple[Any, ...] = ()
    text: str = ""
    note: str = ""
