"""What the first picture needs is there once the thread that gets it ready is done."""

from tests.support.paths import run_python

CODE = """
from jaxlens.render.graph import graphviz_run
from jaxlens.render.html import assets
from jaxlens.notebook.magics import warm_up
warm_up.start().join()
assert warm_up.start() is warm_up.start()
assert graphviz_run._session is not None
made = assets._element.cache_info().misses
assets.scripts(("viewer", "graph", "glossary"))
assert assets._element.cache_info().misses == made > 0
"""


def test_ready():
    run_python(CODE)
