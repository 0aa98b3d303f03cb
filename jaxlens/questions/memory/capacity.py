"""How many bytes a program may take: a number, or what a device has of main memory."""

import re
from dataclasses import dataclass

from jaxlens.errors import OptionError
from jaxlens.program.published_limits import published
from jaxlens.report import amount, read_amount

_NAMED = re.compile(r"(?:Used |\()([\d.]+)([KMGT])\b")  # in XLA's messages, of 1024
POOL = 0.75  # share of a GPU's memory that JAX takes by default


@dataclass(frozen=True, slots=True)
class Capacity:
    """A limit on the memory of a program.

    Attributes:
        name: The device; "" for a number of bytes.
        bytes: The main memory of the device, or the number.
        usable: Bytes that JAX uses of it by default.
        source: Where the figure comes from; "" for a number.
    """

    name: str
    bytes: float
    usable: float
    source: str = ""

    @property
    def words(self) -> str:
        """The limit in words: "16 GB", or "the 60 GB that JAX takes by default of H100's 80 GB"."""
        if not self.name:
            return amount(self.bytes)
        whole = f"the {amount(self.bytes)} of {self.name}"
        if self.usable == self.bytes:
            return whole
        return f"the {amount(self.usable)} that JAX takes by default of {whole}"

    def is_of(self, kind: str) -> bool:
        """Whether it is a number, or that of a kind of device."""
        try:
            return not self.name or capacity(kind).name == self.name
        except OptionError:
            return False


def capacity(limit: float | str) -> Capacity:
    """Reads a limit.

    Args:
        limit: Bytes, a text such as "16 GB" or "15.75 GiB", or the name of a device ("h100").

    Raises:
        OptionError: It is none of these, or the memory of the device is not known here.
    """
    text = str(limit).strip()
    if size := read_amount(text):
        return Capacity("", size, size)
    try:
        found = published(text)
    except OptionError as why:
        raise OptionError(
            f'{why}; a limit is a device, bytes or a size such as "16 GB", got {text!r}'
        ) from None
    assert found.memory is not None  # all of the table have one
    is_gpu = not found.name.startswith("TPU")
    usable = found.memory * (POOL if is_gpu else 1)
    source = found.memory_source or found.source.partition(";")[0]
    return Capacity(found.name, found.memory, usable, source)


@dataclass(frozen=True, slots=True)
class Refusal:
    """XLA's refusal to compile a program for a device that has too little memory, as on TPUs.

    Attributes:
        text: XLA's sentence.
        least: Bytes that the sentence names: the program takes them at least; None without any.
    """

    text: str
    least: int | None


def refusal(error: BaseException) -> Refusal | None:
    """Returns what XLA says of the memory of a program that it does not compile; None else."""
    text = " ".join(str(error).split())
    if "RESOURCE_EXHAUSTED" not in text:
        return None
    size = _NAMED.search(text)
    least = round(read_amount(f"{size[1]}{size[2]}iB") or 0) if size else None
    return Refusal(text.partition("RESOURCE_EXHAUSTED: ")[2].partition(". ")[0].rstrip("."), least)
