"""What disassembly needs of an ELF object file: its functions, their bytes and references.

For 64-bit little-endian objects, which is what LLVM writes for x86-64 and 64-bit Arm. The layout
is that of elf(5). A program has hundreds of objects, each small: general readers of the format
take longer to set themselves up than these take to be read.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

X86_64, AARCH64 = 62, 183
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_REFERENCE = struct.Struct("<QQq")
_IDENT = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_SYMTAB, _RELA, _NOBITS = 2, 4, 8
_FUNCTION = 2
_RESERVED = 0xFF00  # section numbers from here on, and 0, are no section's


@dataclass(frozen=True, slots=True)
class Section:
    """A row of the table of sections."""

    name: str
    kind: int
    offset: int
    size: int
    link: int
    info: int


@dataclass(frozen=True, slots=True)
class Function:
    """Where a function's bytes are.

    Attributes:
        name: Its symbol.
        section: Index of its section.
        start: Offset in the section.
        end: Offset behind it.
    """

    name: str
    section: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Reference:
    """A place that the linker fills in.

    Attributes:
        offset: Where, in the function.
        name: Of the symbol or section.
        addend: What is added to its address.
        kind: The relocation's number, which the machine defines.
    """

    offset: int
    name: str
    addend: int
    kind: int


@dataclass(frozen=True)
class Object:
    """An object file.

    Attributes:
        data: Its bytes.
        machine: What it is for: `X86_64`, `AARCH64` or another number of the format's.
        sections: In the order of their numbers.
    """

    data: bytes
    machine: int
    sections: tuple[Section, ...]

    @cached_property
    def functions(self) -> list[Function]:
        """Functions by place; one without a size ends where the next one starts."""
        found = sorted(
            (section, value, size, name)
            for name, info, section, value, size in self._symbols()
            if info & 15 == _FUNCTION and 0 < section < _RESERVED
        )
        ends = [
            other[1] if other and other[0] == one[0] else self.sections[one[0]].size
            for one, other in zip(found, [*found[1:], None], strict=False)
        ]
        return [
            Function(name, section, start, start + size if size else end)
            for (section, start, size, name), end in zip(found, ends, strict=True)
        ]

    def code(self, function: Function) -> bytes:
        """The function's bytes."""
        section = self.sections[function.section]
        return self._bytes(section)[function.start : function.end]

    def references(self, function: Function) -> Iterator[Reference]:
        """What the linker fills in."""
        tables = (s for s in self.sections if s.kind == _RELA and s.info == function.section)
        for table in tables:
            symbols = self.sections[table.link]
            rows = self._bytes(symbols)
            for offset, info, addend in _REFERENCE.iter_unpack(self._bytes(table)):
                if function.start <= offset < function.end:
                    row = _SYMBOL.unpack_from(rows, (info >> 32) * _SYMBOL.size)
                    name = self._word(symbols.link, row[0]) or self._section_name(row[3])
                    yield Reference(offset - function.start, name, addend, info & 0xFFFFFFFF)

    def _symbols(self) -> Iterator[tuple[str, int, int, int, int]]:
        """Name, info, section, value and size of every symbol."""
        table = next((s for s in self.sections if s.kind == _SYMTAB), None)
        rows = _SYMBOL.iter_unpack(self._bytes(table)) if table else ()
        for name, info, _, section, value, size in rows:
            yield self._word(table.link if table else 0, name), info, section, value, size

    def _section_name(self, index: int) -> str:
        return self.sections[index].name if 0 < index < _RESERVED else "?"

    def _bytes(self, section: Section) -> bytes:
        if section.kind == _NOBITS:
            return bytes(section.size)
        return self.data[section.offset : section.offset + section.size]

    def _word(self, strings: int, start: int) -> str:
        return _word(self.data, self.sections[strings].offset + start)


def read(data: bytes) -> Object | None:
    """Reads an object file; None where it is of another format, or broken."""
    try:
        head = _HEADER.unpack_from(data)
        if not head[0].startswith(_IDENT):
            return None
        machine, start, size, number, names = head[2], head[6], *head[11:14]
        rows = [_SECTION.unpack_from(data, start + size * n) for n in range(number)]
        strings = rows[names][4] if rows else 0
        sections = tuple(
            Section(_word(data, strings + name), kind, offset, length, link, info)
            for name, kind, _, _, offset, length, link, info, _, _ in rows
        )
        found = Object(data, machine, sections)
        _ = found.functions  # a table that breaks off is found now
    except (struct.error, IndexError, OverflowError):
        return None
    return found


def _word(data: bytes, start: int) -> str:
    return data[start : data.find(b"\0", start)].decode("utf-8", "replace")
