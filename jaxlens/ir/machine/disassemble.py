"""Disassembles one function of an object file.

Offsets, also those of jump targets, count from the function's start, in hexadecimal; bytes are
not shown. A relocated operand shows the symbol or section that it refers to, so the text is the
same in every process. Reads ELF objects for x86-64 and AArch64.
"""

import bisect
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

from jaxlens.errors import UnavailableError, missing_package

_RIP = re.compile(r"\brip(?: [+-] (?:0x)?[0-9a-f]+)?")
_OFFSET = re.compile(r"(?:#|0x)[0-9a-fx]+$|\d+$")


@dataclass(frozen=True, slots=True)
class _Function:
    """The location of a function's bytes in an object file.

    Attributes:
        name: Its symbol.
        section: Index of its section.
        start: Offset of its first byte in the section.
        end: Offset after its last byte.
    """

    name: str
    section: int
    start: int
    end: int


@cache
def missing() -> str:
    """Returns a sentence about a package that disassembly lacks; "" if it lacks none."""
    for module in ("capstone", "elftools.elf.elffile"):
        try:
            import_module(module)
        except ImportError as error:  # not installed, or its shared library does not load
            error.name = module
            return str(missing_package("assembly", error))
    return ""


@cache
def _installed() -> bool:
    """Whether the packages are installed; importing them takes longer than a kernel table."""
    try:
        return all(find_spec(name) is not None for name in ("capstone", "elftools"))
    except ImportError:
        return False


def readable(data: bytes) -> bool:
    """Whether `disassemble` supports the object file; reads its ELF header only."""
    return _installed() and data[:4] == b"\x7fELF" and data[18:20] in (b"\x3e\x00", b"\xb7\x00")


def symbols(data: bytes) -> list[str]:
    """Returns the names of an object file's functions; empty if it is not ELF."""
    return [] if missing() else [f.name for f in _opened(data)[1]]


def disassemble(data: bytes, symbol: str) -> str:
    """Returns the assembly of one function: its name, then a line per instruction.

    Raises:
        UnavailableError: The object is not ELF, is for another machine, or lacks the function;
            or the packages that read it are not installed.
    """
    if missing():
        raise UnavailableError(missing())
    elf, functions = _opened(data)
    if elf is None:
        raise UnavailableError("assembly is read from ELF objects only; this system uses others")
    function = next((f for f in functions if f.name == symbol), None)
    if function is None:
        raise UnavailableError(f"the object file has no function {symbol!r}")
    lines = list(_lines(elf, function))
    width = max((len(offset) for offset, _ in lines), default=1)
    return "\n".join([f"{symbol}:", *(f"  {o:>{width}}: {text}" for o, text in lines), ""])


@lru_cache(maxsize=1)  # `symbols`, then `disassemble`, read the same object
def _opened(data: bytes) -> tuple[Any, list[_Function]]:
    """Returns the ELF file and its functions; (None, []) if it is not valid ELF."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(io.BytesIO(data))
        return elf, _functions(elf)
    except ELFError:
        return None, []


def _functions(elf: Any) -> list[_Function]:
    """Returns the functions by section and offset; one without a size ends at the next one."""
    table = elf.get_section_by_name(".symtab")
    rows: list[Any] = []
    for entry in table.iter_symbols() if table is not None else ():
        if entry["st_info"]["type"] == "STT_FUNC" and isinstance(entry["st_shndx"], int):
            start, size = entry["st_value"], entry["st_size"]
            rows.append((entry["st_shndx"], start, size, entry.name))
    functions = []
    for (section, start, size, name), after in pairwise([*sorted(rows), (None, 0)]):
        if size:
            end = start + size
        else:
            end = after[1] if after[0] == section else elf.get_section(section)["sh_size"]
        functions.append(_Function(name, section, start, end))
    return functions


def _lines(elf: Any, function: _Function) -> Iterator[tuple[str, str]]:
    """Yields offset and text of each instruction; bytes that do not decode become `.byte`."""
    code = elf.get_section(function.section).data()[function.start : function.end]
    places = _references(elf, function)
    offsets = sorted(places)
    at = 0
    for address, size, name, operands in _decoder(elf).disasm_lite(code, 0):
        index = bisect.bisect_left(offsets, address)
        if index < len(offsets) and offsets[index] < address + size:
            place = offsets[index]
            operands = _resolved(operands, *places[place], address + size - place)
        yield f"{address:x}", f"{name} {operands}".rstrip()
        at = address + size
    if code[at:]:
        yield f"{at:x}", ".byte " + " ".join(f"{byte:02x}" for byte in code[at : at + 16])


def _decoder(elf: Any) -> Any:
    import capstone

    machine = elf["e_machine"]
    arm = getattr(capstone, "CS_ARCH_AARCH64", None) or getattr(capstone, "CS_ARCH_ARM64", None)
    if machine == "EM_X86_64":
        decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    elif machine == "EM_AARCH64" and arm is not None:
        decoder = capstone.Cs(arm, capstone.CS_MODE_LITTLE_ENDIAN)
    else:
        raise UnavailableError(f"no disassembler here for objects of machine {machine}")
    return decoder


def _references(elf: Any, function: _Function) -> dict[int, tuple[str, int, bool]]:
    """Returns relocations by offset in the function: (name, addend, whether PC-relative)."""
    section = elf.get_section(function.section)
    table = elf.get_section_by_name(f".rela{section.name}")
    if table is None:
        return {}
    names = elf.get_section(table["sh_link"])
    relocations = {}
    for entry in table.iter_relocations():
        if function.start <= entry["r_offset"] < function.end:
            symbol = names.get_symbol(entry["r_info_sym"])
            index = symbol["st_shndx"]
            name = symbol.name or (elf.get_section(index).name if isinstance(index, int) else "?")
            relative = elf["e_machine"] == "EM_X86_64" and entry["r_info_type"] in (2, 4, 9, 41, 42)
            relocations[entry["r_offset"] - function.start] = (name, entry["r_addend"], relative)
    return relocations


def _resolved(operands: str, name: str, addend: int, relative: bool, behind: int) -> str:
    """Returns the operands with the relocated value replaced by its symbol.

    For example, `call 0x15` with a PC-relative relocation (`exp`, addend -4), 4 bytes before the
    instruction's end, is `call exp`: the addend is -4 because the CPU counts from that end.

    Args:
        operands: The operands as the disassembler prints them.
        name: Symbol or section.
        addend: The relocation's addend.
        relative: Whether the CPU counts from the end of the instruction (x86-64).
        behind: Bytes from the relocated field to the end of the instruction.
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
