"""The live widget of a view: answers the viewer's requests, and syncs its selection with Python.

An output of `%%explore` is HTML, which a saved notebook keeps; while the kernel lives, an
`Explorer` that is not displayed answers the viewer's requests (`notebook/widgets/comm.py`).
A displayed `Explorer` shows the view as HTML, and answers its requests; as a child of another
widget, for a user interface of one's own, it renders the view itself.
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib.resources import files
from typing import Any

import anywidget
import traitlets

from jaxlens.api import explore
from jaxlens.captures import Capture
from jaxlens.errors import LensError
from jaxlens.notebook.widgets.transformed import with_transform
from jaxlens.notebook.widgets.viewer_requests import answer, key_of, with_answer
from jaxlens.views.view import View


class Explorer(anywidget.AnyWidget):
    """A view as a live widget, whose selection is synchronised with Python.

    The selection is the pinned node or line: `{"stage": "optimized", "id": "fusion.3"}`,
    `{"line": "cell 3:4"}`, or None. Both sides can set it:

        explorer = jaxlens.Explorer(jaxlens.explore(step, params, x))
        explorer.observe(lambda change: print(change.new), "selection")
        explorer.selection = {"line": "cell 3:4"}

    Two Explorers of one view serve the same outputs, since they have the same key.

    Args:
        view: What `jaxlens.explore` or another verb returned.

    Attributes:
        key: Identifies the view's outputs on a page (their `data-key`).
        selection: The pinned node or line, or None.
        panes: Keys of the open panes, left to right; set by the page.
        html: The view's HTML, where the page has no output to keep it in (`View._display_`).
    """

    _esm = files("jaxlens.notebook").joinpath("explorer.js").read_text("utf-8")
    key = traitlets.Unicode(read_only=True).tag(sync=True)
    panes = traitlets.List(traitlets.Unicode()).tag(sync=True)
    selection = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)
    html = traitlets.Unicode().tag(sync=True)

    def __init__(self, view: View[Any], **traits: Any) -> None:
        self._next: dict[str, Explorer] = {}  # views that took the place of this one
        self._view = view
        self._html = view.html()
        super().__init__(**traits)
        self.on_msg(self._hear)

    @traitlets.default("key")
    def _key(self) -> str:
        return key_of(self._html)

    @traitlets.validate("selection")
    def _checked(self, proposal: Mapping[str, Any]) -> dict[str, str] | None:
        selection = proposal["value"]
        if not selection:
            return None
        if set(selection) not in ({"line"}, {"stage", "id"}):
            raise traitlets.TraitError(
                'a selection is {"line": NAME}, {"stage": STAGE, "id": ID} or None, '
                f"got {sorted(selection)}"
            )
        return {name: str(value) for name, value in selection.items()}

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Returns the view's own mime bundle, so that the output survives the kernel.

        JupyterLab would prefer a widget-view mime type to HTML, and show "model not found" when
        the widget's state is lost.
        """
        return self._view._repr_mimebundle_()

    def close(self) -> None:
        """Closes the comm; the outputs then behave as in a saved notebook."""
        layout = self.layout
        for explorer in self._next.values():
            explorer.close()
        super().close()
        layout.close()  # a widget of its own, which ipywidgets leaves open

    def _hear(self, _: Any, message: Any, __: Any) -> None:
        """Answers a request of the viewer; an exception is sent as an answer too."""
        if not isinstance(message, dict) or "ask" not in message:
            return
        request = message.get("what")
        try:
            reply = self._answer(request if isinstance(request, dict) else {})
        except (Exception, KeyboardInterrupt) as why:
            first, *_ = str(why).split("\n")  # JAX's have more
            reply = {"error": f"{type(why).__name__}: {first}"}
        self.send({"answer": message["ask"], **reply})

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if "html" in request:
            return {"ok": self._html}
        if self._view.capture is None:
            return {"error": "there is no program behind this view"}
        try:
            if "further" in request:
                return {"ok": self._then("", explore)}
            if "question" in request:
                name = str(request["question"])
                return {"ok": self._then(name, lambda _: with_answer(self._view, name))}
            if "transform" in request:
                name, value = map(str, request["transform"])
                made = partial(with_transform, self._view, name, value)
                return {"ok": self._then(f"{name} {value}", lambda _: made())}
            return answer(self._view.capture, self._view.document, request)
        except LensError as why:
            return {"error": str(why)}

    def _then(self, name: str, view: Callable[[Capture], View[Any]]) -> str:
        """Returns the HTML of a view that takes the place of this one, and serves its outputs."""
        assert self._view.capture is not None
        if name not in self._next:
            self._next[name] = Explorer(view(self._view.capture))
        return self._next[name]._html
