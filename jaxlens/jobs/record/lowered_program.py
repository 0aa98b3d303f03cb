"""A program as JAX lowered it: what the thread that compiles it keeps for the one that writes."""

from dataclasses import dataclass
from typing import Any

from jaxlens.ir.compile_log import KeyPart


@dataclass(frozen=True, slots=True)
class LoweredProgram:
    """What is known of a program beside its executable.

    Attributes:
        key: All parts of the key of the call that compiles it.
        devices: The devices that it is for.
        text: Its StableHLO with locations, large constants elided.
        jaxpr: The closed jaxpr; None if it is unknown.
        donated: Whether each input of the jaxpr is donated.
    """

    key: tuple[KeyPart, ...]
    devices: tuple[Any, ...]
    text: str
    jaxpr: Any
    donated: tuple[bool, ...]
