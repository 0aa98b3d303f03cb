"""Saves a widget's last answer in the notebook as HTML, shown when its kernel has shut down.

JupyterLab renders the widget-view mime type if a bundle has one, and shows "model not found" if
the widget's state was not saved, whatever else the bundle has. So the answer is a separate output
below the widget. A script hides it while the widget is rendered, and shows it in the widget's
place otherwise. Where scripts do not run, no widget is rendered either, and the answer is visible.

Jupyter renders widgets if its own environment has `jupyterlab_widgets`, and the kernel's may be
another one. Without it the widget's output is its HTML, where the script says what to install.
"""

from html import escape
from typing import Any, Protocol

from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle, display

from jaxlens.notebook.widgets.comm import cell_of
from jaxlens.views.view import View

_VIEW = "application/vnd.jupyter.widget-view+json"
# The HTML of a widget's output: only a front end without widgets renders it.
_UNRENDERED = (
    "<p class=jl-no-widget hidden>No widget is rendered here; its last answer is below. In "
    "Jupyter, install jupyterlab_widgets into the environment that Jupyter itself runs in, and "
    "reload the page.</p>"
)
_SCRIPT = """<script>setTimeout(() => {
for (const box of document.querySelectorAll(".jl-kept:not([data-seen])")) {
  const own = box.closest(".jp-OutputArea-child"), widget = own?.previousElementSibling;
  if (!widget) continue;
  box.dataset.seen = "";
  const settle = () => {
    const lost = widget.textContent.includes("model not found");
    const unrendered = widget.querySelector(".jl-no-widget");
    if (unrendered) unrendered.hidden = false;
    widget.style.display = lost ? "none" : "";
    own.style.display = lost || unrendered ? "" : "none";
  };
  new MutationObserver(settle).observe(widget, {childList: true, subtree: true});
  settle();
}
})</script>"""


class _Shown(Protocol):
    """The mime bundle method that every `ipywidgets` widget has."""

    def _repr_mimebundle_(self, **kwargs: Any) -> Any: ...


class Kept:
    """Mixin that saves a widget's last answer below it; precedes the widget in the bases."""

    _beside: DisplayHandle | None = None
    _nothing = "Nothing was asked of it yet."

    def kept(self) -> View | None:
        """Returns the last answer, or None before there is one; widgets override it."""
        return None

    def keep(self) -> None:
        """Updates the saved answer of a displayed widget; called after each answer."""
        if self._beside is not None:
            self._beside.update(self._bundle_beside(), raw=True)

    def _bundle_beside(self) -> dict[str, str]:
        """Returns the saved answer, with the script that hides it while the widget is rendered."""
        answer = self._answer_bundle()
        html = f"<div class=jl-kept>{answer['text/html']}</div>{_SCRIPT}"
        return {**answer, "text/html": html}

    def _answer_bundle(self) -> dict[str, str]:
        """Returns the last answer, or that there is none, as text and HTML."""
        view = self.kept()
        if view is None:
            return {"text/plain": self._nothing, "text/html": f"<p>{escape(self._nothing)}</p>"}
        return {"text/plain": view.text(), "text/html": view.html()}

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """Returns the widget's mime bundle, with its last answer as text and HTML."""
        base: _Shown = super()  # type: ignore[assignment]
        own = base._repr_mimebundle_(**kwargs)
        return dict(own[0] if isinstance(own, tuple) else own or {}) | self._answer_bundle()

    def _display_(self) -> str:
        """Returns what marimo shows: of widgets it draws those of anywidget alone."""
        return (
            f"jaxlens.{type(self).__name__} is made of ipywidgets, which marimo does not draw: "
            "call a verb there, such as jaxlens.compile(f, x) or jaxlens.memory(f, x)"
        )

    def _ipython_display_(self) -> None:
        """Displays the widget and, in a live front end, the saved answer below it."""
        bundle = self._repr_mimebundle_()
        if not cell_of(get_ipython()) or _VIEW not in bundle:
            display(bundle, raw=True)
            return
        name = type(self).__name__
        display({_VIEW: bundle[_VIEW], "text/plain": name, "text/html": _UNRENDERED}, raw=True)
        self._beside = display(self._bundle_beside(), raw=True, display_id=True)
