"""Kernels whose texts are made when somebody looks.

Disassembling a large program takes longer than compiling a small one, and a table of kernels
needs none of it. Whoever reads a `Kernel` sees plain strings.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from jaxlens.ir.facts import Kernel

Text = Literal["llvm_before", "llvm_after", "asm"]
Kind = Literal["kernel", "library call", "thunk"]


class LazyKernel(Kernel):
    """A Kernel that asks for its texts when they are first read.

    Its properties hide the fields of the same names. Two are equal if all their texts are.
    """

    __slots__ = ("_made", "_makers")
    _makers: Mapping[Text, Callable[[], str]]
    _made: dict[Text, str]

    def __init__(
        self,
        name: str,
        instruction: str,
        kind: Kind,
        note: str = "",
        makers: Mapping[Text, Callable[[], str]] | None = None,
        launch: str = "",
    ) -> None:
        """As `Kernel`, but with a function for each text that there is."""
        fields: dict[str, Any] = {
            "name": name,
            "instruction": instruction,
            "kind": kind,
            "note": note,
            "launch": launch,
            "_makers": makers or {},
            "_made": {},
        }
        for key, value in fields.items():
            object.__setattr__(self, key, value)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name} of {self.instruction or 'no instruction'}>"

    @property
    def llvm_before(self) -> str:
        return self._text("llvm_before")

    @property
    def llvm_after(self) -> str:
        return self._text("llvm_after")

    @property
    def asm(self) -> str:
        return self._text("asm")

    def _text(self, key: Text) -> str:
        if key not in self._made:
            make = self._makers.get(key)
            self._made[key] = make() if make else ""
        return self._made[key]
