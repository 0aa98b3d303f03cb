"""The result of every verb and magic: facts, and one document that renders in many forms.

Facts and document are computed on first use, and once.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from json import dumps
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, cast

from jaxlens.captures import Capture
from jaxlens.errors import LensError, OptionError, UnavailableError, nearest
from jaxlens.program.figures import Figures
from jaxlens.render.document import Document, Findings, GraphPane, Picture, TableBlock, walk
from jaxlens.render.text.document_text import text
from jaxlens.render.text.lines import REST
from jaxlens.render.to_json import plain
from jaxlens.report import Finding, Report, Table, traced_again
from jaxlens.views.about import pictures, versions

F = TypeVar("F")


@dataclass(frozen=True, eq=False, repr=False)
class View(Generic[F]):
    """An answer: `str(view)` is its text, a notebook shows its HTML, each fact is an attribute.

    `jaxlens.cost(f, x).flops` is a number to assert on; `view.facts` has all facts.

    Attributes:
        capture: The program; None for a view of something else, such as a log of compiles.
        build: Returns the document; called once, when the view is first displayed or read.
        know: Returns the facts, data with a name for each figure; by default the figures of the
            program, such as `.equations` and `.kernels`, each computed when it is read.
        tell: Returns the report; by default the sentences and tables of the document.
    """

    capture: Capture | None
    build: Callable[[], Document]
    know: Callable[[], F] | None = field(default=None, kw_only=True)
    tell: Callable[[], Report] | None = field(default=None, kw_only=True)
    _traced: int = field(init=False)  # traces before this output; the first is no trial's

    def __post_init__(self) -> None:
        traced = self.capture.driver.tracings() if self.capture is not None else 0
        object.__setattr__(self, "_traced", max(traced, 1))

    @classmethod
    def of(
        cls,
        facts: F,
        document: Callable[[F], Document],
        report: Callable[[F], Report],
        capture: Capture | None = None,
    ) -> Self:
        """Returns the view of facts that are there."""
        return cls(capture, lambda: document(facts), know=lambda: facts, tell=lambda: report(facts))

    @cached_property
    def document(self) -> Document:
        """The parts of the output, as data."""
        built = self.build()
        if self.capture is None:
            return built
        deviations = built.deviations or self.capture.deviations
        known = versions(self.capture.program.target)
        again = traced_again(
            self.capture.program.name, self.capture.driver.tracings() - self._traced
        )
        said = (Findings((Finding(again, "traced"),)),) if again else ()
        return replace(built, blocks=(*built.blocks, *said), deviations=deviations, versions=known)

    @cached_property
    def facts(self) -> F:
        """The figures as data."""
        if self.know is not None:
            return self.know()
        return cast(F, Figures(self.capture) if self.capture else self.document)

    @cached_property
    def report(self) -> Report:
        """Sentences, tables and overlays as data."""
        if self.tell is not None:
            return self.tell()
        parts = [step.part for step in walk(self.document.blocks)]
        found = [
            finding for part in parts if isinstance(part, Findings) for finding in part.findings
        ]
        tables = [part.table for part in parts if isinstance(part, TableBlock)]
        return Report(self.document.taken, tuple(found), tuple(tables))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The answer in sentences, each with how it is known."""
        return self.report.findings

    @property
    def tables(self) -> tuple[Table, ...]:
        """The facts as tables."""
        return self.report.tables

    def __getattr__(self, name: str) -> Any:
        """A fact by its name."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name in ("facts", "report", "document"):
            # The cached property raised an AttributeError, which Python hides: raise it again.
            return type(self).__dict__[name].func(self)
        facts = self.facts
        try:
            return getattr(facts, name)
        except AttributeError:
            names = [word for word in dir(facts) if not word.startswith("_")]
            raise AttributeError(
                f"this answer has no fact {name!r}; it has {', '.join(names)}"
            ) from None

    def __dir__(self) -> list[str]:
        facts = [word for word in dir(self.facts) if not word.startswith("_")]
        return sorted({*super().__dir__(), *facts})

    def compute(self) -> "View[F]":
        """Builds the document now, so that an error is raised here."""
        _ = self.document
        return self

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text()

    def text(
        self, *, full: bool = False, times: bool = False, width: int = 100, rest: str = REST
    ) -> str:
        """Returns the view as text, equal from run to run apart from times.

        Args:
            full: Whether folds, all tabs and every line are written.
            times: Whether figures that change from run to run are written even if not requested.
            width: Maximum columns of prose, tables and diffs.
            rest: What the text names as the way to what it leaves out.
        """
        return text(self.document, full=full, times=times, width=width, rest=rest)

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

    def md(self, *, full: bool = False) -> str:
        """Returns versions, answer and programs as Markdown, for a report of a bug or a chat.

        Args:
            full: Whether folds, all tabs and every line are written.
        """
        from jaxlens.render.text.markdown import markdown

        known = self.document.versions or versions()
        return markdown(replace(self.document, versions=known), full=full)

    @property
    def pictures(self) -> tuple[str, ...]:
        """The names of the drawings and charts, for `svg`, `png` and `dot`."""
        return tuple(pictures(self.document))

    def svg(self, picture: str = "") -> str:
        """Returns a drawing or a chart as an SVG document.

        Args:
            picture: One of `pictures`; "" for the first.

        Raises:
            UnavailableError: The view has no drawing.
            OptionError: It has none of that name.
            GraphError: The drawing could not be laid out.
        """
        part = self._picture(picture)
        if isinstance(part, Picture):
            return part.svg
        from jaxlens.render.graph.svg import svg  # Graphviz is loaded when drawn

        return svg(part.figure, title=part.alt)

    def png(self, picture: str = "") -> bytes:
        """Returns a drawing or chart as a PNG; needs the package `resvg-py`.

        Args:
            picture: One of `pictures`; "" for the first.

        Raises:
            PackageError: `resvg-py` is not installed.
            UnavailableError: The view has no drawing, or the machine has no font.
            OptionError: It has none of that name.
        """
        from jaxlens.render.png import png

        return png(self.svg(picture))

    def dot(self, picture: str = "") -> str:
        """Returns a drawing as Graphviz source, for `graphviz.Source(...)`.

        Args:
            picture: One of `pictures`; "" for the first.

        Raises:
            UnavailableError: The view has no drawing, or the picture is a chart.
            OptionError: It has none of that name.
        """
        part = self._picture(picture)
        if not isinstance(part, GraphPane):
            name = picture or self.pictures[0]
            raise UnavailableError(f"{name!r} is a chart, not a graph; .svg() gives it")
        from jaxlens.render.graph.dot import dot

        return str(dot(part.figure).source)

    def save(self, path: str | os.PathLike[str], *, picture: str = "") -> Path:
        """Writes the view to a file, in the format of its suffix.

        `step.html` is a page that needs no kernel and no network; `step.html#e12` opens it with
        that equation pinned. `.md` and `.txt` are the text forms, `.json` is the data, and `.svg`,
        `.png` and `.dot` are one picture.

        Args:
            path: Name of the file.
            picture: One of `pictures`; "" for the first.

        Returns:
            The path.

        Raises:
            OptionError: The suffix is none of these.
        """
        from jaxlens.render.html.page import page

        path = Path(path)
        forms: Mapping[str, Callable[[], str | bytes]] = {
            ".html": lambda: page(self.document),
            ".md": self.md,
            ".txt": lambda: self.text() + "\n",
            ".json": lambda: dumps(self.json()),
            ".svg": lambda: self.svg(picture),
            ".png": lambda: self.png(picture),
            ".dot": lambda: self.dot(picture),
        }
        form = forms.get(path.suffix.lower())
        if form is None:
            ends = ", ".join(forms)
            raise OptionError(f"a view is saved as {ends}; got the name {path.name!r}")
        content = form()
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def _picture(self, name: str) -> GraphPane | Picture:
        """Returns the picture with a name; the first for ""."""
        found = pictures(self.document)
        if not found:
            raise UnavailableError(
                f"this {self.document.verb} view holds no drawing; jaxlens.jaxpr(f, ...) draws one"
            )
        if not name:
            return next(iter(found.values()))
        if name not in found:
            raise OptionError(f"no picture {name!r} in this view; {nearest(name, found)}")
        return found[name]

    def _display_(self) -> Any:
        """Returns the live widget for marimo, which does not run scripts in HTML outputs.

        The widget contains the HTML, which is shown after the kernel has shut down too.
        """
        import jaxlens  # the widget is the notebook's, which imports this file

        return jaxlens.Explorer(self, html=self.html())

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


class Watch(View[F]):
    """A view of what goes on: each read is of what is there by then.

    Args:
        now: Returns the view so far.
    """

    def __init__(self, now: Callable[[], View[F]]) -> None:
        super().__init__(None, lambda: now().document)
        self._now = now

    @property
    def document(self) -> Document:
        """The parts of the output, as data."""
        return self._now().document

    @property
    def facts(self) -> F:
        """The figures as data."""
        return self._now().facts

    @property
    def report(self) -> Report:
        """Sentences, tables and overlays as data."""
        return self._now().report

    def html(self) -> str:
        """Returns a fragment of HTML that needs no network and no kernel."""
        return self._now().html()
