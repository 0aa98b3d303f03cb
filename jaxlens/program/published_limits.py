"""Peak flops, memory bandwidth and memory of devices, as their vendors publish them.

THE TABLE is `published_limits.tsv`, a device a line. The figures are for one device and dense
products (no 2:4 sparsity): a document that lists rates with sparsity alone has twice the rate, as
each source says. Documents of different years differ; these are the newest known. f32 of a GPU has
the rate of TF32, in which XLA multiplies f32 by default; a TPU multiplies it in bf16, and the rate
of its vector unit is not published. The rate of links is of one direction,
half of what is published for both. Limits measured on this machine come from
`stages/measure/measured_limits.py`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from jaxlens.errors import OptionError, nearest
from jaxlens.ir.facts import Limits
from jaxlens.reading import table_rows
from jaxlens.report import amount, read_amount


def _limits(row: list[str]) -> tuple[str, Limits]:
    """Returns key and limits of a row: Tflop/s by type and of the vector unit, GB/s twice, GB."""
    key, name, *figures, source, memory_source = row
    *rates, vector, bandwidth, links, memory = (float(text) if text else None for text in figures)
    products = {d: rate * 1e12 for d, rate in zip(_DTYPES, rates, strict=True) if rate}
    limits = Limits(
        name,
        products,
        vector and vector * 1e12,
        (bandwidth or 0.0) * 1e9,
        source,
        memory=memory and memory * 1e9,
        memory_source=memory_source,
        links=links and links * 1e9,
    )
    return key, limits


_COLUMNS, *_ROWS = table_rows("jaxlens.program", "published_limits.tsv")
_DTYPES = _COLUMNS[2:-6]
PUBLISHED: Mapping[str, Limits] = dict(map(_limits, _ROWS))

# Keys of `PUBLISHED` by JAX's `device_kind` of TPUs; that of a GPU contains the key.
_KINDS = {"tpu v5 lite": "v5e", "tpu v5p": "v5p", "tpu v5": "v5p", "tpu v6 lite": "v6e"}


# Words in names of cards whose memory or rates are not those of the SXM card of their family.
_OTHER_CARDS = {"pcie", "nvl", "40gb", "64gb", "94gb", "96gb"}


def published(name: str) -> Limits:
    """Returns the published limits of a device.

    Args:
        name: "h100", or JAX's `device_kind`, such as "TPU v5 lite" or "NVIDIA H100 80GB HBM3".

    Raises:
        OptionError: No limits of the device are known here.
    """
    device = name.strip().lower()
    tpu = device.removeprefix("tpu").strip(": ").split(":")[0]
    words = device.replace(":", " ").replace("-", " ").split()
    if "a100" in words and "40gb" in words and "pcie" not in words:
        return PUBLISHED["a100-40gb"]
    if _OTHER_CARDS & set(words):
        raise OptionError(f"no published limits of {name!r} here; those of the SXM card differ")
    for key in (_KINDS.get(device, ""), device, tpu, *(key for key in PUBLISHED if key in words)):
        if key in PUBLISHED:
            return PUBLISHED[key]
    raise OptionError(f"no published limits of {name!r} here; {nearest(device, PUBLISHED)}")


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


def target_of(device: str) -> str:
    """Returns the target that compiles for a device; "" for a size, or where none is described.

    Args:
        device: A limit, as `capacity` reads it.
    """
    name = capacity(device).name if device else ""
    if name.startswith("TPU"):
        key = name.removeprefix("TPU ")
        return f"tpu:{key}:2x2" if key in ("v5e", "v6e") else f"tpu:{key}:2x2x1"
    return f"gpu:{name.partition(' ')[0].lower()}" if name else ""
