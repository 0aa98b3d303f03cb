"""A widget that applies transforms to a function, in any order, and shows the jaxpr."""

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from jaxlens import api, ask
from jaxlens.notebook.widgets.output_area import OutputArea
from jaxlens.notebook.widgets.saved_answer import Kept
from jaxlens.views.view import View

_KINDS = ("grad", "vmap", "jvp", "jit")
_VALUES = {
    "grad": ("by", "the first argument; or 1, 0,1, a name"),
    "vmap": ("axes", "0 for all; or one for each: 0,None"),
}
_SIZE = 8


class Composer(Kept, widgets.VBox):
    """A widget that applies transforms to a function, and shows the jaxpr of each step.

        jaxlens.Composer(loss, w, x)

    Transforms are chosen outermost first. Each choice traces once; nothing is executed or compiled.

    Args:
        f: A function without transforms.
        *args: Its arguments for one example, arrays or `jax.ShapeDtypeStruct`s; a `vmap` adds its
            axis to their shapes.
        **kwargs: Its keyword arguments.

    Attributes:
        view: The view that is shown.
    """

    def __init__(self, f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
        self._call = f, args, kwargs
        self._rows: list[_Row] = []
        self.view: View | None = None
        self._room = OutputArea()
        self._list = widgets.HBox(layout=widgets.Layout(flex_flow="row wrap"))
        more = [self._button(kind) for kind in _KINDS]
        self._put = widgets.HBox([widgets.Label("put round it:"), *more])
        super().__init__([self._put, self._list, self._room])
        self._show()

    @property
    def transforms(self) -> list[tuple[str, str, int]]:
        """The transforms, outermost first: name, value, and the number of examples of a `vmap`."""
        return [row.chosen for row in self._rows]

    def put(self, kind: str, value: str = "", size: int = _SIZE) -> None:
        """Applies another transform, as the outermost one.

        Args:
            kind: "grad", "vmap", "jvp" or "jit".
            value: What to differentiate by, or the axes to map, as behind `--grad` and `--vmap`.
            size: Number of examples of a `vmap`.
        """
        self._rows.insert(0, _Row(kind, value, size, self._show, self._take_off))
        self._show()

    def _button(self, kind: str) -> Any:
        button = widgets.Button(description=kind, tooltip=f"put {kind} round it")
        button.layout.width = "5em"
        button.on_click(lambda _: self.put(kind))
        return button

    def _take_off(self, row: "_Row") -> None:
        self._rows.remove(row)
        row.close()
        self._show()

    def _show(self, _: Any = None) -> None:
        """Traces the chosen transforms; an error is shown as a message above the last view."""
        self._list.children = [row.box for row in self._rows]
        self.view = self._room.show(self._traced) or self.view
        self.keep()

    def kept(self) -> View | None:
        """Returns the view that is shown."""
        return self.view

    def _traced(self) -> View:
        f, args, kwargs = self._call
        capture = api.compose(f, args, kwargs, self.transforms)
        return ask.ladder(capture) if self._rows else api.jaxpr(capture)

    def close(self) -> None:
        """Closes the widget and all in it."""
        self._room.close()
        super().close()


class _Row:
    """One transform: its name, its value, and a button that removes it."""

    def __init__(
        self,
        kind: str,
        value: str,
        size: int,
        changed: Callable[[Any], None],
        off: Callable[["_Row"], None],
    ) -> None:
        self._kind = kind
        name, hint = _VALUES.get(kind, ("", ""))
        self._value = widgets.Text(
            value, placeholder=hint, description=name, continuous_update=False
        )
        self._size = widgets.BoundedIntText(size, min=1, max=1 << 20, description="examples")
        remove = widgets.Button(description="×", tooltip=f"take {kind} off")
        remove.layout.width = "2.5em"
        remove.on_click(lambda _: off(self))
        inputs = [self._value] if name else []
        inputs += [self._size] if kind == "vmap" else []
        for part in inputs:
            part.observe(changed, "value")
        self._value.layout.width, self._size.layout.width = "18em", "12em"
        self.box = widgets.HBox([widgets.Label(f"{kind} of"), *inputs, remove])

    @property
    def chosen(self) -> tuple[str, str, int]:
        return self._kind, self._value.value, self._size.value

    def close(self) -> None:
        """Closes its widgets."""
        for part in (*self.box.children, self.box):
            part.close()
