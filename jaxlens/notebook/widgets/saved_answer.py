"""What a widget answered last, left in the notebook as HTML for when its kernel is gone.

JupyterLab shows a widget's view where a bundle has one, and "model not found" where the widget's
state was not saved, whatever else the bundle holds. So the answer is an output of its own below the
widget. A line of script hides it as long as the widget is there, and shows it in the widget's place
where that is lost. Where scripts do not run, no widget is drawn either, and the answer stands.
"""

from html import escape
from typing import Any, Protocol

from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle, display

from jaxlens.notebook.widgets.comm import cell_of
from jaxlens.views.view import View

_VIEW = "application/vnd.jupyter.widget-view+json"
_NOTHING = "Nothing was asked of it yet."
_SCRIPT = """<script>setTimeout(() => {
for (const box of document.querySelectorAll(".jl-kept:not([data-seen])")) {
  const own = box.closest(".jp-OutputArea-child"), widget = own?.previousElementSibling;
  if (!widget) continue;
  box.dataset.seen = "";
  const settle = () => {
    const lost = widget.textContent.includes("model not found");
    widget.style.display = lost ? "none" : "";
    own.style.display = lost ? "" : "none";
  };
  new MutationObserver(settle).observe(widget, {childList: true, subtree: true});
  settle();
}
})</script>"""


class _Shown(Protocol):
    """What `ipywidgets` gives every widget."""

    def _repr_mimebundle_(self, **kwargs: Any) -> Any: ...


class Kept:
    """Beside a widget: leaves its last answer where it is displayed. To be named before it."""

    _beside: DisplayHandle | None = None

    def kept(self) -> View | None:
        """The last answer; None before there is one. A widget overrides it."""
        return None

    def keep(self) -> None:
        """Writes the last answer anew, where the widget is displayed; called after each answer."""
        if self._beside is not None:
            self._beside.update(self._bundle_beside(), raw=True)

    def _bundle_beside(self) -> dict[str, str]:
        """The answer and the script that hides it as long as the widget is there."""
        view = self.kept()
        words = f"<p>{escape(_NOTHING)}</p>" if view is None else view.html()
        text = _NOTHING if view is None else view.text()
        return {"text/plain": text, "text/html": f"<div class=jl-kept>{words}</div>{_SCRIPT}"}

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """The widget, and its last answer for where no widget can be shown."""
        base: _Shown = super()  # type: ignore[assignment]
        made = base._repr_mimebundle_(**kwargs)
        bundle: dict[str, Any] = dict(made[0] if isinstance(made, tuple) else made or {})
        view = self.kept()
        if view is not None:
            bundle |= {"text/plain": view.text(), "text/html": view.html()}
        return bundle

    def _ipython_display_(self) -> None:
        """Shows the widget, and below it in a live front end what is left when it is gone."""
        bundle = self._repr_mimebundle_()
        if not cell_of(get_ipython()) or _VIEW not in bundle:
            display(bundle, raw=True)
            return
        name = type(self).__name__
        display({_VIEW: bundle[_VIEW], "text/plain": name, "text/html": "<div></div>"}, raw=True)
        self._beside = display(self._bundle_beside(), raw=True, display_id=True)
