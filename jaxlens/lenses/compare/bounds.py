"""Reads upper bounds of a program's figures: `peak=2GB, flops=1e9, kernels=12`."""

from collections.abc import Mapping

from jaxlens.errors import OptionError, nearest
from jaxlens.lenses.compare.figures import FIGURES
from jaxlens.report import read_amount


def split_bounds(text: str) -> dict[str, float]:
    """Returns bounds by figure of a text such as "peak=2GB, flops=1e9".

    Raises:
        OptionError: A part is no `name=number`, or there is no such figure.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if wrong := [part for part in parts if "=" not in part]:
        raise OptionError(f"a budget is written peak=2GB,flops=1e9,kernels=12, got {wrong[0]!r}")
    return read_bounds({k.strip(): v for k, _, v in (part.partition("=") for part in parts)})


def read_bounds(bounds: Mapping[str, float | str]) -> dict[str, float]:
    """Returns bounds as numbers; kB is 1,000 bytes and KiB 1,024.

    Raises:
        OptionError: There is no such figure, or a bound is no number.
    """
    numbers = {}
    for name, bound in bounds.items():
        if name not in FIGURES:
            raise OptionError(f"no figure {name!r} to bound; {nearest(name, FIGURES)}")
        number = read_amount(str(bound))
        if number is None:
            text = f"the bound of {name} is a number such as 12, 1e9 or 2GB, got {bound!r}"
            raise OptionError(text)
        numbers[name] = number
    return numbers
