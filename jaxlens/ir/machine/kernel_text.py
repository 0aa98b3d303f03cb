"""Kernels whose texts are made on first use.

Disassembling a large program takes longer than compiling a small one, and a table of kernels
does not need it. To the user of a `Kernel` its texts are plain strings.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from jaxlens.ir.facts import Kernel
from jaxlens.ir.lazy import lazy

Text = Literal["llvm_before", "llvm_after", "asm"]
Kind = Literal["kernel", "library call", "thunk"]


_TEXTS: tuple[Text, ...] = ("llvm_before", "llvm_after", "asm")


class LazyKernel(Kernel):
    """A Kernel whose `repr` does not make its texts."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name} of {self.instruction or 'no instruction'}>"


def lazy_kernel(
    name: str,
    instruction: str,
    kind: Kind,
    note: str = "",
    texts: Mapping[Text, Callable[[], str]] | None = None,
    launch: str = "",
) -> Kernel:
    """As `Kernel`, but with a function for each text."""
    makers: dict[str, Callable[[Kernel], str]] = {
        text: _maker((texts or {}).get(text, str)) for text in _TEXTS
    }
    return lazy(
        LazyKernel,
        makers,
        name=name,
        instruction=instruction,
        kind=kind,
        note=note,
        launch=launch,
    )


def _maker(make: Callable[[], str]) -> Callable[[Kernel], str]:
    return lambda _: make()
