"""A saved capture gives the same views in a process without JAX as the live capture."""

import json

import pytest

import jaxlens
from tests.support import programs
from tests.support.paths import run_python

pytestmark = pytest.mark.backend

VIEWS = {
    "jaxpr": ("jaxpr", {}),
    "hlo": ("hlo", {}),
    "compile": ("compile", {}),
    "stablehlo": ("hlo", {"stage": "stablehlo"}),
    "optimized": ("hlo", {"stage": "optimized"}),
    "passes": ("hlo", {"passes": True}),
    "assembly": ("compile", {"asm": True}),
    "memory": ("compile", {"memory": True}),
}

SHOW = """
import sys
for name in ("jax", "jaxlib", "IPython"):
    sys.modules[name] = None
import json, jaxlens
views, paths = json.loads(sys.argv[1])
shown = []
for path in paths:
    cap = jaxlens.load(path)
    seen = {name: getattr(jaxlens, verb)(cap, **options) for name, (verb, options) in views.items()}
    shown.append({name: [view.text(full=True), view.html()] for name, view in seen.items()})
print(json.dumps(shown))
"""


def test_every_view_of_the_small_programs(tmp_path):
    live, paths = [], []
    for name, make in programs.SMALL.items():
        f, args = make()
        cap = jaxlens.capture(f, *args)
        seen = {n: getattr(jaxlens, verb)(cap, **options) for n, (verb, options) in VIEWS.items()}
        live.append({n: [view.text(full=True), view.html()] for n, view in seen.items()})
        paths.append(str(tmp_path / f"{name}.jaxlens"))
        cap.save(paths[-1])
    said = json.loads(run_python(SHOW, json.dumps([VIEWS, paths])))
    for name, was, now in zip(programs.SMALL, live, said, strict=True):
        for view, (text, html) in was.items():
            assert now[view][0] == text, (name, view)
            assert now[view][1] == html, (name, view)
