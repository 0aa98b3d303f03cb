"""Where a widget shows what was chosen in it, or says in a line why it cannot."""

from collections.abc import Callable
from html import escape
from typing import TypeVar

import ipywidgets as widgets

from jaxlens.errors import LensError
from jaxlens.notebook.widgets.explorer import Explorer
from jaxlens.views.view import View

Shown = TypeVar("Shown", bound=View | widgets.Widget)


class OutputArea(widgets.VBox):
    """A line of words over a view or a widget; what is there stays until there is something new."""

    def __init__(self) -> None:
        self._words = widgets.HTML()
        self._place = widgets.VBox(layout=widgets.Layout(min_height="24em"))
        self._shown: widgets.Widget | None = None
        super().__init__([self._words, self._place])

    def show(self, make: Callable[[], Shown]) -> Shown | None:
        """Shows what `make` gives; None, and words that say why, where it raises.

        The user's function, or JAX, may refuse: that is told as an error of ours is, since a
        widget has no place for a traceback.
        """
        try:
            made = make()
            shown = Explorer(made) if isinstance(made, View) else made
        except LensError as why:
            self.say(str(why), "alert")
            return None
        except Exception as why:
            self.say(f"{type(why).__name__}: {(str(why).splitlines() or [''])[0]}", "alert")
            return None
        self.say("")
        before, self._shown = self._shown, shown
        self._place.children = [shown]
        if before is not None:
            before.close()
        return made

    def clear(self) -> None:
        """Takes away what is shown."""
        self._place.children = []
        if self._shown is not None:
            self._shown.close()
        self._shown = None

    def say(self, text: str, role: str = "status") -> None:
        """Puts a line of words over what is shown; "" for none."""
        self._words.value = f'<span role="{role}">{escape(text)}</span>' if text else ""

    @property
    def words(self) -> str:
        """The line of words, as HTML."""
        return str(self._words.value)

    def close(self) -> None:
        """Closes all of it."""
        self.clear()
        super().close()
