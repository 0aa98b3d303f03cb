"""What the first picture needs is there once the thread that gets it ready is done."""

import subprocess
import sys

CODE = """
from jaxlens.render import graphviz_run, page, ready
ready.start().join()
assert ready.start() is ready.start()
assert graphviz_run._session is not None
made = page._element.cache_info().misses
page.scripts(("lens", "graph"))
assert page._element.cache_info().misses == made > 0
"""


def test_ready() -> None:
    subprocess.run([sys.executable, "-c", CODE], check=True)
