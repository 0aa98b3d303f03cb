"""Peak rates of a device: flops per second by element type, bytes per second of its memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Limits:
    """The roof of a roofline.

    Attributes:
        name: The device.
        products: Flops per second of matrix products, by element type as HLO writes it.
        vector: Flops per second of everything else; None where no figure is published.
        bandwidth: Bytes per second of its main memory.
        source: Where the figures come from.
        measured: Whether they were measured on this machine.
    """

    name: str
    products: Mapping[str, float] = field(default_factory=dict)
    vector: float | None = None
    bandwidth: float = 0.0
    source: str = ""
    measured: bool = False

    def flops(self, dtype: str, product: bool) -> float:
        """The peak rate of a kernel in flops per second.

        A type that is not listed has the rate of the nearest wider one, else the highest rate.
        """
        if not product and self.vector is not None:
            return self.vector
        for candidate in (dtype, *_WIDER.get(dtype, ())):
            if candidate in self.products:
                return self.products[candidate]
        return max(self.products.values())


_WIDER: Mapping[str, tuple[str, ...]] = {
    "f16": ("bf16", "f32"),
    "bf16": ("f16", "f32"),
    "f32": ("bf16",),
    "f64": ("f32",),
    "s8": ("bf16",),
    "u8": ("s8", "bf16"),
    "f8e4m3fn": ("bf16",),
    "f8e5m2": ("f8e4m3fn", "bf16"),
    "c64": ("f32",),
    "c128": ("f64", "f32"),
}
