"""Reads upper bounds of a program's figures: `peak=2GB, flops=1e9, kernels=12`."""

from collections.abc import Mapping

from jaxlens.errors import OptionError, nearest
from jaxlens.program.figures import FIGURES, Unit
from jaxlens.report import read_amount

_EXAMPLES: Mapping[Unit, str] = {"": "12", "flop": "1e9 or 2Gflop", "B": "1e6 or 2GB"}


def split_bounds(text: str) -> dict[str, float]:
    """Returns bounds by figure of a text such as "peak=2GB, flops=1e9".

    Raises:
        OptionError: There is no part, one is no `name=number`, a figure is none or there twice.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if wrong := [part for part in parts or [text] if "=" not in part]:
        raise OptionError(f"a budget is written peak=2GB,flops=1e9,kernels=12, got {wrong[0]!r}")
    bounds = {k.strip(): v for k, _, v in (part.partition("=") for part in parts)}
    if len(bounds) < len(parts):
        raise OptionError(f"one bound for each figure, got {text!r}")
    return read_bounds(bounds)


def read_bounds(bounds: Mapping[str, float | str]) -> dict[str, float]:
    """Returns bounds as numbers; kB is 1,000 bytes and KiB 1,024.

    Raises:
        OptionError: There is no such figure, or a bound is no number or has another unit.
    """
    numbers = {}
    for name, bound in bounds.items():
        if name not in FIGURES:
            raise OptionError(f"no figure {name!r} to bound; {nearest(name, FIGURES)}")
        number, unit = read_amount(str(bound)), FIGURES[name].unit
        end = str(bound).strip().lower().removesuffix("s")
        if number is None or any(end.endswith(u.lower()) for u in {"flop", "B"} - {unit}):
            text = f"the bound of {name} is a number such as {_EXAMPLES[unit]}, got {bound!r}"
            raise OptionError(text)
        numbers[name] = number
    return numbers
