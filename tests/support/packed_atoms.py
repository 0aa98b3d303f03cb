"""Reads sets of atoms as an output holds them."""

from collections.abc import Sequence


def unrolled(written: int | Sequence[int]) -> list[int]:
    """Inverse of `payload.runs`, as `viewer/link_data.js` has it."""
    atoms: list[int] = []
    for number in [written] if isinstance(written, int) else written:
        atoms += range(atoms[-1] + 1, atoms[-1] + 1 - number) if number < 0 else [number]
    return atoms
