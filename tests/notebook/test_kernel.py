"""The magics in a real kernel: interrupts, the running event loop, and XLA's words on stderr."""

import os
import re
import subprocess
import time

import pytest

from tests.support.paths import without_folders

manager = pytest.importorskip("jupyter_client.manager")

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="interrupts differ"),
    # jupyter_client speaks of its own future
    pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client"),
    pytest.mark.filterwarnings("ignore:.*TCP without encryption"),
]

SETUP = """
%load_ext jaxlens
import os, jax, jax.numpy as jnp, numpy as np, threading, time
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("x", "y", "z"))
x = jnp.ones((8, 8))
def slow(x):
    print("before the interrupt")  # of this thread: buffered
    threading.Thread(target=print, args=("tracing",), kwargs={"flush": True}).start()
    time.sleep(60)
def heavy(x):
    for _ in range(800):
        x = jnp.sin(x @ x) + jnp.cos(x).sum(0)
    return x
def compiling():
    while not any(t.name == "jaxlens compile" for t in threading.enumerate()):
        time.sleep(0.01)
    time.sleep(0.3)
    print("compiling", flush=True)
"""
# XLA warns of it on stderr.
RESHARD = """def keep(x, spec):
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, spec))
@jax.jit
def f(x):
    x = jnp.sin(keep(x, P(None, "x")))
    return jnp.cos(keep(x, P(("y", "x"), None)))
f(jnp.ones((64, 64)))
os.write(2, b"the last words\\n"); __import__("time").sleep(2)  # ipykernel reads them in a thread
"""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Kernel:
    """A kernel with what a front end needs to drive it."""

    def __init__(self, folder):
        env = os.environ | {"TMPDIR": str(folder)}
        started = manager.start_new_kernel(cwd=str(folder), env=env, stderr=subprocess.DEVNULL)
        self._manager, self._client = started

    def run(self, code, interrupt_at=""):
        """Output, displayed text and error of a cell, interrupted once its output says so."""
        printed = shown = error = ""
        waiting = bool(interrupt_at)

        def hear(message):
            nonlocal printed, shown, error, waiting
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                printed += content["text"]
                if waiting and interrupt_at in printed:
                    waiting = False
                    self._manager.interrupt_kernel()
            elif kind in ("display_data", "execute_result"):
                shown += content["data"]["text/plain"]
            elif kind == "error":
                error = _COLOURS.sub("", "\n".join(content["traceback"]))

        self._client.execute_interactive(code, output_hook=hear, timeout=120)
        return printed, shown, error

    def stop(self):
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kernel")


@pytest.fixture(scope="module")
def kernel(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTEST_CURRENT_TEST")  # ipykernel then leaves descriptor 2 alone
        patch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
        kernel = Kernel(folder)
    kernel.run(SETUP)
    yield kernel
    kernel.stop()


def test_a_look_and_its_files(kernel, folder):
    for verb in ("jaxpr", "hlo", "compile", "explore"):
        _, shown, error = kernel.run(f"%%{verb}\nheavy.__name__\njnp.tanh(x @ x)")
        assert not error
        assert shown.startswith("expression with x f32[8,8] on cpu, jitted for this look")
    assert list(folder.iterdir()) == []


def test_an_interrupt_while_tracing(kernel, folder):
    began = time.monotonic()
    printed, shown, error = kernel.run("%%jaxpr\ny = 1\nslow(x)", interrupt_at="tracing")
    assert time.monotonic() - began < 30  # of 60 s
    assert "before the interrupt" in printed
    assert not shown
    assert "----> 3 slow(x)" in error
    assert error.rstrip().endswith("KeyboardInterrupt:")
    assert kernel.run("y, float(x.sum())")[1] == "(1, 64.0)"


def test_an_interrupt_while_compiling(kernel, folder):
    start = "y = 2\nthreading.Thread(target=compiling).start()"
    began = time.monotonic()
    _, shown, error = kernel.run(f"%%hlo --passes\n{start}\nheavy(x)", interrupt_at="compiling")
    assert time.monotonic() - began < 60
    assert not shown
    assert "----> 4 heavy(x)" in error
    assert error.rstrip().endswith("KeyboardInterrupt:")
    assert "jaxlens" not in without_folders(error)
    assert kernel.run("y, float(x.sum())")[1] == "(2, 64.0)"
    assert kernel.run("%compile jnp.tanh(x)")[1].startswith(
        "expression with x f32[8,8] on cpu, jitted for this look"
    )
    kernel.run("[t.join() for t in threading.enumerate() if t.name == 'jaxlens compile'];")
    assert list(folder.iterdir()) == []


def test_await_under_the_kernels_own_loop_is_refused_before_anything_runs(kernel):
    _, _, error = kernel.run("%%jaxpr\nran = 1\nimport asyncio\nawait asyncio.sleep(0, 3)")
    assert "await in a cell of its own, and look at its result in the next" in error
    assert kernel.run("'ran' in globals()")[1] == "False"


def test_a_reshard_by_replication_is_said_at_its_line_and_nothing_of_stderr_is_lost(kernel):
    assert kernel.run("%jaxlens on")[0].startswith("jaxlens is on")
    printed, shown, error = kernel.run(RESHARD)
    assert not error
    assert printed.count("Involuntary full rematerialization") == 1  # XLA's own text, still there
    assert printed.endswith("the last words\n")
    assert re.sub(r"cell \d+", "cell N", shown).splitlines()[-2:] == [
        "Compiled `f`.",
        "Warning: XLA replicates f32[64,64], made at cell N:2 (called at cell N:5), on every "
        "device, to reshard it from P(None, 'x') to P(('y', 'x'), None) (involuntary full "
        "rematerialization).",
    ]
    cured = RESHARD.replace("def f(", "def g(").replace("f(jnp", "g(jnp")
    cured = cured.replace("x, P((", 'keep(x, P("x", "y")), P((')  # by way of another sharding
    printed, shown, error = kernel.run(cured)
    assert not error
    assert "Involuntary" not in printed
    assert shown.splitlines()[-1] == "Compiled `g`."
    kernel.run("%jaxlens off")
    printed, shown, _ = kernel.run(RESHARD.replace("64", "32"))
    assert printed.count("Involuntary full rematerialization") == 1
    assert "Compiled" not in shown
