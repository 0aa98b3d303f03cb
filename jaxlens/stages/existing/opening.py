"""Recognises existing programs, and makes a capture of each kind."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from jaxlens.captures import Capture
from jaxlens.errors import OptionError
from jaxlens.stages.existing import stage_objects
from jaxlens.stages.existing.dump_folder import is_folder, is_path, of_folder
from jaxlens.stages.existing.exported import of_exported
from jaxlens.stages.existing.module_text import is_program_text, of_text
from jaxlens.stages.existing.program_file import is_program_bytes, of_bytes, of_file


def is_program(value: Any) -> bool:
    """Whether a value is an existing program, which is read and not traced.

    True for a `jax.stages.Traced`, `Lowered` or `Compiled`, for Equinox's or Flax's wrapper of one,
    for a `jax.export.Exported`, the text or bytes of an HLO or StableHLO module, a file, and a
    folder.
    """
    if isinstance(value, str | os.PathLike):
        return is_program_text(value) or (is_path(value) and os.path.exists(value))
    if isinstance(value, bytes | bytearray):
        return is_program_bytes(value)
    return stage_objects.stage_object(value) is not None


def opened(
    value: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    target: str | None = None,
    name: str = "",
) -> Capture:
    """Returns the capture of an existing program; nothing is traced or run.

    Args:
        value: A value for which `is_program` is True.
        args: Arguments to run it with, for a `jax.stages.Compiled` only.
        kwargs: Keyword arguments to run it with; `module` for a folder with several modules.
        target: A platform of this process to compile text for.
        name: Name of the program in the user's code.

    Raises:
        OptionError: The arguments or the target do not fit, or the folder has no dumps.
        ReadError: The text cannot be read.
    """
    keywords = dict(kwargs or {})
    if is_path(value) and is_folder(value):
        module = keywords.pop("module", "")
        _check(args, keywords, target)
        return of_folder(Path(value), str(module))
    if isinstance(value, str) and is_program_text(value):
        _check(args, keywords, None)
        return of_text(value, target, name)
    if isinstance(value, str | os.PathLike | bytes | bytearray):
        _check(args, keywords, None)
        if isinstance(value, bytes | bytearray):
            return of_bytes(bytes(value), target, name)
        return of_file(Path(value), target, name)
    stage = stage_objects.stage_object(value)
    noun = f"a {type(stage).__name__} object"
    if isinstance(stage, jax.stages.Compiled):
        _check((), {}, target, noun)
        return stage_objects.of_compiled(stage, args, keywords, name)
    _check(args, keywords, target, noun)
    if isinstance(stage, jax.stages.Traced):
        return stage_objects.of_traced(stage, name)
    if isinstance(stage, jax.stages.Lowered):
        return stage_objects.of_lowered(stage, name)
    return of_exported(stage, name)


def _check(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    target: str | None,
    noun: str = "text, a file or a folder",
) -> None:
    if args or kwargs:
        arguments = ", ".join([*("..." for _ in args), *(f"{key}=..." for key in kwargs)])
        raise OptionError(
            f"{noun} is a program already and takes no arguments, got ({arguments}): "
            "look at it alone, and give a verb's options with jaxlens.capture(...) first"
        )
    if target:
        raise OptionError(
            f"{noun} is for its device already, got target={target!r}: "
            "look at the call itself with that target"
        )
