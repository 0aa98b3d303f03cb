"""Peak flops, memory bandwidth and memory of devices, as their vendors publish them.

The figures are for one device and dense products (no 2:4 sparsity): a document that lists rates
with sparsity alone has twice the rate, as each source says. Documents of different years differ;
these are the newest known. Limits measured on this machine come from
`stages/measure/measured_limits.py`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from jaxlens.errors import OptionError, nearest
from jaxlens.ir.facts import Limits
from jaxlens.report import amount, read_amount


def _gpu(
    name: str,
    tera: Mapping[str, float],
    vector: float,
    gigabytes: float,
    memory: float,
    source: str,
    reported: str = "",
) -> Limits:
    products = {dtype: rate * 1e12 for dtype, rate in tera.items()}
    rates = vector * 1e12, gigabytes * 1e9
    return Limits(name, products, *rates, source, memory=memory * 1e9, memory_source=reported)


def _tpu(
    name: str, bf16: float, int8: float, gigabytes: float, memory: float, also: str = ""
) -> Limits:
    # By default a TPU multiplies f32 in bf16; the rate of the vector unit is not published.
    products = {"bf16": bf16 * 1e12, "f32": bf16 * 1e12, "s8": int8 * 1e12}
    page = name.removeprefix("TPU ")
    source = f"Google Cloud TPU documentation, TPU {page} page{also}"
    return Limits(name, products, None, gigabytes * 1e9, source, memory=memory * 1e9)


_A100 = "NVIDIA A100 Tensor Core GPU datasheet; of products the figures without sparsity"
_REPORTED = "what the device reports, which is sold as of {} GB"


def _halved(document: str, bf16: int, rest: str = ", that of f64 as it is") -> str:
    figures = f"figures with sparsity (for bf16 {bf16:,} Tflop/s)"
    return f"{document}; of products half of its {figures}{rest}"


_HOPPER = {"bf16": 989.5, "f16": 989.5, "f32": 494.5, "f64": 67, "s8": 1979, "f8e4m3fn": 1979}

# f32 has the rate of TF32, in which XLA multiplies f32 on these GPUs by default.
PUBLISHED: Mapping[str, Limits] = {
    "a100": _gpu(
        "A100 80GB SXM",
        {"bf16": 312, "f16": 312, "f32": 156, "f64": 19.5, "s8": 624},
        19.5,
        2039,
        80,
        _A100,
    ),
    "a100-40gb": _gpu(
        "A100 40GB SXM",
        {"bf16": 312, "f16": 312, "f32": 156, "f64": 19.5, "s8": 624},
        19.5,
        1555,
        40,
        _A100,
    ),
    "h100": _gpu(
        "H100 SXM",
        _HOPPER,
        67,
        3350,
        85.017,
        _halved("NVIDIA H100 Tensor Core GPU datasheet", 1979),
        _REPORTED.format(80),
    ),
    "h200": _gpu(
        "H200 SXM",
        _HOPPER,
        67,
        4800,
        150.11,
        _halved("NVIDIA H200 Tensor Core GPU datasheet", 1979),
        _REPORTED.format(141),
    ),
    "l4": _gpu(
        "L4",
        {"bf16": 121, "f16": 121, "f32": 60, "s8": 242.5, "f8e4m3fn": 242.5},
        30.3,
        300,
        24,
        _halved("NVIDIA L4 Tensor Core GPU datasheet", 242, ""),
    ),
    "b200": _gpu(
        "B200",
        {"bf16": 2250, "f16": 2250, "f32": 1100, "f64": 37, "s8": 4500, "f8e4m3fn": 4500},
        75,
        7700,
        180,
        _halved("NVIDIA Blackwell datasheet, a GPU of the HGX B200", 4500),
    ),
    "v4": _tpu("TPU v4", 275, 275, 1200, 32),
    "v5e": _tpu("TPU v5e", 197, 393, 819, 16),
    # The page has no figure for int8.
    "v5p": _tpu("TPU v5p", 459, 918, 2765, 95, "; int8: Google Cloud's announcement of it"),
    "v6e": _tpu("TPU v6e", 918, 1836, 1638, 32),
}

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
