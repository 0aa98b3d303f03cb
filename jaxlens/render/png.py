"""Turns a drawing into a PNG, with the wheel `resvg-py`, which needs no program of the system."""

from functools import cache

from jaxlens.errors import UnavailableError, missing_package

_BOX = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20">%s</svg>'


def png(svg: str) -> bytes:
    """Rasterises an SVG document, with two pixels for each CSS pixel.

    Args:
        svg: The document.

    Raises:
        PackageError: `resvg-py` is not installed.
        UnavailableError: The machine has no font, so the words would be missing.
    """
    try:
        from resvg_py import svg_to_bytes
    except ImportError as error:
        raise missing_package(".png()", error) from None
    if not _has_fonts():
        raise UnavailableError("no font on this machine to draw the words with; .svg() needs none")
    return bytes(svg_to_bytes(svg_string=svg, zoom=2))


@cache
def _has_fonts() -> bool:
    from resvg_py import svg_to_bytes

    word = '<text y="16" font-family="monospace">x</text>'
    return bytes(svg_to_bytes(svg_string=_BOX % word)) != bytes(svg_to_bytes(svg_string=_BOX % ""))
