"""What a verb's arguments are: a function with its arguments, an existing program, or a capture."""

import os
from collections.abc import Callable
from typing import Any

from jaxlens.captures import Capture, load
from jaxlens.errors import OptionError
from jaxlens.views.view import View

Function = Callable[..., Any]
Program = Any  # one of JAX's stage objects, text, or a folder: see `capture`


def capture(
    f: Function | Program, /, *args: Any, target: str | None = None, **kwargs: Any
) -> Capture:
    """Captures a call without making it; each stage is computed on first access.

    `f` may also be an existing program: `g.trace(x)`, `g.lower(x)`, `g.lower(x).compile()`,
    `jax.export.export(g)(x)`, the text or bytes of an HLO or StableHLO module, the path of a file
    that holds such ("m.hlo", "m.mlir", a serialised Exported, a saved capture) or of a
    folder of XLA's dumps. Later stages are then computed from it, without adding to JAX's caches; a
    compiled program is not compiled again. Stages that it does not have raise `UnavailableError`.
    Text and bytes are tried in another process first, as XLA ends its process on some.

    Args:
        f: A function, jitted or not, a bound method, a partial, a callable object such as an
            Equinox or Flax NNX model; or an existing program.
        *args: Its arguments. Arrays, numbers and `jax.ShapeDtypeStruct`s become inputs; all other
            values are static. Nothing is executed and no buffer is donated. Of the existing
            programs only a compiled one takes arguments, to be executed with.
        target: "cpu", "gpu", "tpu", or a device that this machine does not have ("tpu:v5e:2x2",
            "gpu:h100"); by default the device on which JAX would run the call.
        **kwargs: Its keyword arguments. If `f` has a parameter called `target`, bind it first:
            `functools.partial(f, target=...)`. For a folder of dumps, `module` is the name of
            the module to open.

    Returns:
        The capture; see `jaxlens.Capture` for its stages.

    Raises:
        OptionError: `f` cannot be traced, or is an existing program and got arguments.
        TargetError: There is no such device.
        ReadError: The text is not a module, or is incomplete.
    """
    from jaxlens.stages.driver import capture as staged
    from jaxlens.stages.existing.opening import is_program, opened

    if is_program(f):
        return opened(f, args, kwargs, target=target)
    return staged(f, args, kwargs, target=target)


def as_capture(value: Any) -> Capture:
    """Returns a Capture itself, the capture of a view, or the capture saved under a path.

    Raises:
        OptionError: The value is none of these.
        CaptureFileError: The file holds no capture.
    """
    cap = value.capture if isinstance(value, View) else value
    if isinstance(cap, str | os.PathLike):
        return load(cap)
    if not isinstance(cap, Capture):
        raise OptionError(
            f"expected a Capture, what -o stored, or the path of a saved capture, got "
            f"{type(value).__name__}; jaxlens.capture(f, x) makes one"
        )
    return cap


def captured(
    verb: str, f: Function | Capture, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Capture:
    """Returns the capture that a verb's call is about."""
    if not isinstance(f, Capture):
        return capture(f, *args, **kwargs)
    if args or kwargs:
        raise OptionError(
            f"jaxlens.{verb} takes a Capture alone, or a function with its arguments, "
            f"got a Capture and {len(args) + len(kwargs)} more"
        )
    return f
