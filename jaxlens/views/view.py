"""The result of a verb or magic: one document that renders as text, HTML, JSON, SVG or DOT.

The document is built on first use, and once.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from jaxlens.captures import Capture
from jaxlens.errors import LensError, UnavailableError
from jaxlens.render.document import Document, GraphPane, walk
from jaxlens.render.text.document_text import text
from jaxlens.render.to_json import plain


@dataclass(frozen=True, eq=False, repr=False)
class View:
    """An output about a capture: `str(view)` is its text, and a notebook shows its HTML.

    Attributes:
        capture: The program; None for a view of something else, such as a log of compiles.
        build: Returns the document; called once, when the view is first displayed or read.
    """

    capture: Capture | None
    build: Callable[[], Document]

    @cached_property
    def document(self) -> Document:
        """The parts of the output, as data."""
        built = self.build()
        if self.capture is None or built.deviations:
            return built
        return replace(built, deviations=self.capture.deviations)

    def compute(self) -> "View":
        """Builds the document now, so that an error is raised here."""
        _ = self.document
        return self

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text()

    def text(self, *, full: bool = False, times: bool = False, width: int = 100) -> str:
        """Returns the view as text, equal from run to run apart from times.

        Args:
            full: Whether folds, all tabs and every line are written.
            times: Whether figures that change from run to run are written even if not requested.
            width: Maximum columns of prose, tables and diffs.
        """
        return text(self.document, full=full, times=times, width=width)

    def html(self) -> str:
        """Returns a fragment of HTML that needs no network and no kernel."""
        return self._html

    @cached_property
    def _html(self) -> str:
        from jaxlens.render.html.document_html import html  # text needs none of it

        return html(self.document)

    def json(self) -> Any:
        """Returns the document as JSON-able data; each object names its type."""
        return plain(self.document)

    def svg(self) -> str:
        """Returns the first drawing as an SVG document.

        Raises:
            UnavailableError: The view has no drawing.
            GraphError: The drawing could not be laid out.
        """
        pane = self._drawing()
        from jaxlens.render.graph.svg import svg  # Graphviz is loaded when drawn

        return svg(pane.figure, title=pane.alt)

    def dot(self) -> str:
        """Returns the first drawing as Graphviz source, for `graphviz.Source(...)`.

        Raises:
            UnavailableError: The view has no drawing.
        """
        figure = self._drawing().figure
        from jaxlens.render.graph.dot import dot

        return str(dot(figure).source)

    def _drawing(self) -> GraphPane:
        for step in walk(self.document.blocks):
            if isinstance(step.part, GraphPane):
                return step.part
        raise UnavailableError(
            f"this {self.document.verb} view holds no drawing; jaxlens.jaxpr(f, ...) draws one"
        )

    def _repr_mimebundle_(
        self, include: Iterable[str] | None = None, exclude: Iterable[str] | None = None
    ) -> dict[str, str]:
        """Text and HTML for IPython; an error of ours shows as its one line."""
        try:
            bundle = {"text/plain": self.text(), "text/html": self.html()}
        except LensError as error:
            bundle = {"text/plain": f"{type(error).__name__}: {error}"}
        types = set(include or bundle) - set(exclude or ())
        return {k: v for k, v in bundle.items() if k in types}
