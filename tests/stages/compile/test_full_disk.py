"""A full disk: the error names what was not written, and JAX's profiler is stopped."""

import json
import re
import sys

import pytest

from tests.support.paths import run_python

pytestmark = pytest.mark.reads_jax

SCRIPT = """
import json, os, resource, sys, tempfile
os.environ["TMPDIR"] = sys.argv[1]
import jax, jaxlens
import jax.numpy as jnp

def f(x):
    for _ in range(3):
        x = jnp.tanh(x @ x.T) @ x
    return x

x = jnp.ones((16, 16))
jax.jit(f)(x)
said = {}
# A file takes no more than this, as on a disk that is full; what is larger is cut off.
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (2048, hard))

def ask(name, answer):
    try:
        said[name] = str(answer())
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"

ask("hlo", lambda: jaxlens.hlo(f, x))
ask("passes", lambda: jaxlens.hlo(jaxlens.capture(f, x), passes=True))
ask("without", lambda: jaxlens.compile(jaxlens.capture(f, x), without="fusion"))
ask("explore", lambda: jaxlens.explore(f, x))
ask("memory", lambda: jaxlens.memory(f, x))
ask("asm", lambda: jaxlens.compile(jaxlens.capture(f, x), asm=True))
ask("optimized", lambda: jaxlens.capture(f, x).optimized.text)
ask("cost", lambda: jaxlens.cost(f, x).flops)
ask("kernels", lambda: {k.note for k in jaxlens.capture(f, x).kernels if k.kind == "kernel"})
ask("times", lambda: jaxlens.times(f, x))
ask("run", lambda: jaxlens.cost(jaxlens.capture(f, x), run=2))
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

with tempfile.TemporaryDirectory() as folder:
    steps = jax.profiler.start_trace, jax.profiler.stop_trace
    ask("own session", lambda: len([steps[0](folder), steps[1]()]))
said["left"] = os.listdir(sys.argv[1])
ask("later", lambda: len(jaxlens.capture(f, x).passes) > 3)
print(json.dumps(said))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="files have no limit of size there")
def test_a_full_disk_is_named_and_nothing_untrue_is_said(tmp_path):
    # Else Python leaves bytecode that is cut off, for every later process.
    done = run_python(SCRIPT, str(tmp_path), PYTHONDONTWRITEBYTECODE="1")
    said = json.loads(done.splitlines()[-1])
    why = "nothing more can be written to "
    flat = {name: " ".join(text.split()) for name, text in said.items() if name != "left"}
    for name in ("passes", "without", "asm"):
        assert flat[name].startswith(f"UnavailableError: {why}"), flat[name]
        assert "(File too large)" in flat[name]
        assert "TMPDIR" in flat[name]
    for name in ("hlo", "memory", "explore", "kernels"):
        assert why in flat[name], flat[name]
        assert "ReadError" not in flat[name]
    # jax 0.10 gives what the profiler recorded without a file, 0.12 with one.
    for name, answered in (("times", r"took \d+% of \d"), ("run", "under the profiler")):
        assert re.search(answered, flat[name]) or why in flat[name], flat[name]
    # What needs no disk is there all the same.
    assert "tanh" in said["optimized"]
    assert float(said["cost"]) > 0
    assert said["own session"] == "2"  # started, and stopped
    assert said["left"] == []
    assert said["later"] == "True"
