"""Turns one function of an object file into assembly text.

Offsets count from the function's start, in hexadecimal, and jumps name such offsets; bytes are
not shown. A place that the linker fills in shows the symbol or section that it refers to, so the
text is the same in every process. Reads ELF objects for x86-64 and 64-bit Arm.
"""

import bisect
import re
from collections.abc import Iterator
from typing import Any

from jaxlens.errors import UnavailableError
from jaxlens.stages import elf

_RIP = re.compile(r"\brip(?: [+-] (?:0x)?[0-9a-f]+)?")
_RELATIVE = frozenset({2, 4, 9, 41, 42})  # x86-64 relocations that count from the next instruction
_OFFSET = re.compile(r"(?:#|0x)[0-9a-fx]+$|\d+$")


def readable(data: bytes) -> bool:
    """Whether `disassemble` knows the kind of object file, told by its first bytes."""
    return data[:4] == b"\x7fELF" and data[18:20] in (b"\x3e\x00", b"\xb7\x00")


def symbols(data: bytes) -> list[str]:
    """Names of the functions that an object file defines for others; empty if it is not ELF."""
    found = elf.read(data)
    return [function.name for function in found.functions] if found else []


def disassemble(data: bytes, symbol: str) -> str:
    """The assembly of one function: its name, then a line per instruction.

    Raises:
        UnavailableError: The object is not ELF, is for another machine, or lacks the function.
    """
    found = elf.read(data)
    if found is None:
        raise UnavailableError("assembly is read from ELF objects only; this system uses others")
    function = next((f for f in found.functions if f.name == symbol), None)
    if function is None:
        raise UnavailableError(f"the object file has no function {symbol!r}")
    lines = list(_lines(found, function))
    width = max((len(offset) for offset, _ in lines), default=1)
    return "\n".join([f"{symbol}:", *(f"  {o:>{width}}: {text}" for o, text in lines), ""])


def _lines(found: elf.Object, function: elf.Function) -> Iterator[tuple[str, str]]:
    """Offset and text of each instruction; bytes that are none stand as `.byte`."""
    code = found.code(function)
    places = {each.offset: each for each in found.references(function)}
    offsets = sorted(places)
    at = 0
    for address, size, name, operands in _decoder(found.machine).disasm_lite(code, 0):
        index = bisect.bisect_left(offsets, address)
        if index < len(offsets) and offsets[index] < address + size:
            place = places[offsets[index]]
            relative = found.machine == elf.X86_64 and place.kind in _RELATIVE
            behind = address + size - place.offset
            operands = _resolved(operands, place.name, place.addend, relative, behind)
        yield f"{address:x}", f"{name} {operands}".rstrip()
        at = address + size
    if code[at:]:
        yield f"{at:x}", ".byte " + " ".join(f"{byte:02x}" for byte in code[at : at + 16])


def _decoder(machine: int) -> Any:
    import capstone

    arm = getattr(capstone, "CS_ARCH_AARCH64", None) or getattr(capstone, "CS_ARCH_ARM64", None)
    if machine == elf.X86_64:
        decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    elif machine == elf.AARCH64 and arm is not None:
        decoder = capstone.Cs(arm, capstone.CS_MODE_LITTLE_ENDIAN)
    else:
        raise UnavailableError(f"no disassembler here for objects of machine {machine}")
    return decoder


def _resolved(operands: str, name: str, addend: int, relative: bool, behind: int) -> str:
    """Operands with the name in the place that is filled in.

    Args:
        operands: What the disassembler printed.
        name: Symbol or section.
        addend: What is added to its address.
        relative: Whether the distance is counted from the end of the instruction (x86-64).
        behind: Bytes from the place to the end of the instruction.
    """
    offset = addend + behind if relative else addend
    word = name if offset == 0 else f"{name}{'+' if offset > 0 else '-'}{abs(offset):#x}"
    if "rip" in operands:
        return _RIP.sub(lambda _: f"rip + {word}", operands, count=1)
    if _OFFSET.fullmatch(operands):
        return word
    if operands.endswith(", 0"):
        return f"{operands[:-1]}{word}"
    return f"{operands}  ; {word}"
