"""A widget that edits the avals and static values of a call, and shows cache hit or miss."""

from collections.abc import Callable
from dataclasses import replace
from html import escape
from typing import Any

import ipywidgets as widgets

from jaxlens import ask
from jaxlens.errors import LensError, OptionError, nearest
from jaxlens.ir.compile_log import CallKey, KeySlot
from jaxlens.lenses.recompile.call_key import sentence
from jaxlens.notebook.widgets.saved_answer import Kept
from jaxlens.views.answer import Answer

_MOST = 40  # arguments with a row of their own
_MARKS = {True: "hit", False: "miss", None: "unknown"}


class KeyPlayer(Kept, widgets.VBox):
    """A widget that edits the types and static values of a call, and shows cache hit or miss.

        jaxlens.KeyPlayer(step, params, x)

    Each argument has a row with its dtype and shape, whether its type is weak, or its static value.
    The edited call is looked up in JAX's caches; nothing is traced, compiled or executed.

    Args:
        f: A jitted function.
        *args: Its arguments, arrays or `jax.ShapeDtypeStruct`s.
        **kwargs: Its keyword arguments.

    Attributes:
        answer: The key, as `jaxlens.key` returns it; None if an edited value cannot be read.
    """

    def __init__(self, f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
        self._call = f, args, kwargs
        self._slots = ask.key_slots(f, args, kwargs)
        self._rows = [_Row(slot, self._show) for slot in self._slots[:_MOST]]
        self._verdict = widgets.HTML()
        back = widgets.Button(description="as given", tooltip="put every argument back")
        back.on_click(lambda _: self.reset())
        left = len(self._slots) - len(self._rows)
        more = [widgets.Label(f"{left:,} more arguments have no row")] if left > 0 else []
        super().__init__([*(row.box for row in self._rows), *more, back, self._verdict])
        self.answer: Answer[CallKey] | None = None
        self._show()

    def write(self, name: str, text: str, weak: bool | None = None) -> None:
        """Edits one argument: `write("x", "f32[64,784]")`, `write("n", "4")`.

        Args:
            name: The argument's name in its row.
            text: Its new dtype and shape, or the literal of its static value.
            weak: Whether its type is weak; None leaves that as it is.

        Raises:
            OptionError: There is no row of that name.
        """
        rows = {row.slot.name: row for row in reversed(self._rows)}
        if name not in rows:
            raise OptionError(f"no argument {name!r}; {nearest(name, list(rows)[::-1])}")
        rows[name].write(text, weak)

    def reset(self) -> None:
        """Restores every argument as it was passed."""
        for row in self._rows:
            row.write(row.slot.text, row.slot.weak)

    @property
    def changed(self) -> list[KeySlot]:
        """The arguments that were edited."""
        return [row.now for row in self._rows if row.now != row.slot]

    def _show(self, _: Any = None) -> None:
        f, args, kwargs = self._call
        try:
            self.answer = ask.varied_key(f, args, kwargs, self.changed)
        except LensError as why:
            self.answer = None
            self._verdict.value = f'<span role="alert">{escape(str(why))}</span>'
            return
        verdict = self.answer.verdict
        lines = [f"<b>{_MARKS[verdict.hit]}</b>: {escape(sentence(verdict))}"]
        reasons = verdict.reasons if verdict.hit is False and verdict.earlier else ()
        lines += [f"<code>{escape(reason)}</code>" for reason in reasons]
        self._verdict.value = f'<div role="status">{"<br>".join(lines)}</div>'
        self.keep()

    def kept(self) -> Answer[CallKey] | None:
        """Returns the key that was looked up last."""
        return self.answer

    def close(self) -> None:
        """Closes the widget and all in it."""
        for row in self._rows:
            row.close()
        super().close()


class _Row:
    """The row of one argument."""

    def __init__(self, slot: KeySlot, changed: Callable[[Any], None]) -> None:
        self.slot = slot
        hint = "f32[8,128]" if slot.kind == "array" else "a Python literal"
        self._text = widgets.Text(
            slot.text, placeholder=hint, continuous_update=False, disabled=not slot.editable
        )
        self._text.layout.width = "18em"
        self._weak = widgets.Checkbox(slot.weak, description="weak", indent=False)
        self._weak.layout.width = "5em"
        name = widgets.Label(slot.name)
        name.layout.width = "16em"
        parts = [self._text, self._weak] if slot.kind == "array" else [self._text]
        for part in parts:
            part.observe(changed, "value")
        kind = [] if slot.kind == "array" else [widgets.Label("static value")]
        self.box = widgets.HBox([name, *parts, *kind])

    @property
    def now(self) -> KeySlot:
        """The argument as it is written in the row."""
        return replace(self.slot, text=self._text.value.strip(), weak=self._weak.value)

    def write(self, text: str, weak: bool | None) -> None:
        self._text.value = text
        if weak is not None:
            self._weak.value = weak

    def close(self) -> None:
        """Closes its widgets."""
        for part in (*self.box.children, self.box):
            part.close()
