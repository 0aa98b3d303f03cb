"""The parts of a call: what Python does before the device works, and what the device takes."""

from dataclasses import dataclass

PYTHON, DEVICE, BOTH = "Python", "device", "both"
_MORE = 2.0  # times the other's seconds from which one of the two is the limit


@dataclass(frozen=True, slots=True)
class CallPart:
    """A part of a call, or another way to make it.

    Attributes:
        name: What it is, in words.
        seconds: Least of the turns.
        code: The way in Python; "" for a part.
    """

    name: str
    seconds: float
    code: str = ""


@dataclass(frozen=True, slots=True)
class CallArgument:
    """An argument of a call.

    Attributes:
        name: Its name.
        leaves: Number of its array leaves.
        seconds: To flatten it alone.
    """

    name: str
    leaves: int
    seconds: float


@dataclass(frozen=True, slots=True)
class CallCost:
    """What a call costs.

    Attributes:
        name: The function's name.
        jit: What jits it: "jax.jit", "nnx.jit", "eqx.filter_jit".
        parts: What is done before the device works: wrapper, flatten, dispatch, unflatten.
        device: Seconds of the call beyond those of a program that computes nothing.
        arguments: The arguments with leaves.
        results: Number of leaves of the results.
        python_calls: Functions of Python that a call runs.
        is_fast: Whether it stays in jit's C++ once it was compiled.
        tried: Other ways to call it, with what each takes before the device works.
        each: Seconds for each leaf of arguments and results, beyond a call with one of both.
        least: Seconds of a jitted call of one leaf that computes nothing.
        unjitted: Whether the function is not jitted, so that what was measured is its jit.
    """

    name: str
    jit: str
    parts: tuple[CallPart, ...]
    device: float
    arguments: tuple[CallArgument, ...]
    results: int
    python_calls: int
    is_fast: bool
    tried: tuple[CallPart, ...] = ()
    each: float = 0.0
    least: float = 0.0
    unjitted: bool = False

    @property
    def before(self) -> float:
        """Seconds of a call before the device works, and after it is done."""
        return sum(part.seconds for part in self.parts)

    @property
    def leaves(self) -> int:
        """Number of array leaves of all arguments."""
        return sum(argument.leaves for argument in self.arguments)

    @property
    def limit(self) -> str:
        """Which takes at least twice as long as the other: `PYTHON` or `DEVICE`, else `BOTH`."""
        if self.before >= _MORE * self.device:
            return PYTHON
        return DEVICE if self.device >= _MORE * self.before else BOTH
