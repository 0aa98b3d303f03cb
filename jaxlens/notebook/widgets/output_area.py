"""The output area of a widget: a message line above a view."""

from collections.abc import Callable
from html import escape
from typing import TypeVar

import ipywidgets as widgets

from jaxlens.errors import LensError
from jaxlens.notebook.widgets.explorer import Explorer
from jaxlens.views.view import View

Shown = TypeVar("Shown", bound=View)


def one_line(why: Exception) -> str:
    """Returns an error as a line; one of jaxlens is a sentence by itself."""
    if isinstance(why, LensError):
        return str(why)
    return f"{type(why).__name__}: {(str(why).splitlines() or [''])[0]}"


class OutputArea(widgets.VBox):
    """A message line above a view, which stays until another one replaces it."""

    def __init__(self) -> None:
        self._words = widgets.HTML()
        self._place = widgets.VBox(layout=widgets.Layout(min_height="24em"))
        self._shown: Explorer | None = None
        super().__init__([self._words, self._place])

    def show(self, make: Callable[[], Shown]) -> Shown | None:
        """Shows and returns the result of `make`; if it raises, shows a message, returns None.

        Errors of the user's function and of JAX are shown in one line as well, since a widget has
        no room for a traceback.
        """
        try:
            answer = make()
            shown = Explorer(answer)
        except Exception as why:
            self.say(one_line(why), "alert")
            return None
        self.say("")
        before, self._shown = self._shown, shown
        self._place.children = [shown]
        if before is not None:
            before.close()
        return answer

    def clear(self) -> None:
        """Removes and closes the view."""
        self._place.children = []
        if self._shown is not None:
            self._shown.close()
        self._shown = None

    def say(self, text: str, role: str = "status") -> None:
        """Sets the message line; "" clears it."""
        self._words.value = f'<span role="{role}">{escape(text)}</span>' if text else ""

    @property
    def words(self) -> str:
        """The message line as HTML."""
        return str(self._words.value)

    def close(self) -> None:
        """Closes the area and what it shows."""
        self.clear()
        super().close()
