"""Sphinx's settings of the site; `build.py` calls Sphinx with a folder of generated sources."""

from typing import Any

from sphinx.application import Sphinx

import jaxlens
from notebooks.site.glossary import GlossaryPage

project = "jaxlens"
author = "the authors of jaxlens"
release = jaxlens.__version__
extensions = ["myst_nb"]
nb_execution_mode = "off"  # the course holds its outputs; `build.py` ran the others
nb_merge_streams = True
nb_ipywidgets_js = {}
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence"]
myst_heading_anchors = 3
smartquotes = False  # `--full` has two signs
html_theme = "furo"
html_title = "jaxlens"
html_static_path = ["static"]
templates_path = ["templates"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_use_index = False
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0550ae", "color-brand-content": "#0550ae"},
    "dark_css_variables": {"color-brand-primary": "#79b8ff", "color-brand-content": "#79b8ff"},
}


def without_contents(app: Sphinx, page: str, template: str, names: dict[str, Any], _: Any) -> None:
    """A page of wide outputs has no table of contents beside them."""
    if page.startswith(("gallery/", "howto/", "course/")) or page == "index":
        names["furo_hide_toc"] = True


def setup(app: Sphinx) -> None:
    app.add_directive("glossary-of", GlossaryPage)
    app.connect("html-page-context", without_contents, priority=900)
