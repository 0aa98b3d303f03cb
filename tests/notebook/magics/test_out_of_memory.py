"""A cell that runs out of memory: the failed program is found and shown, unasked."""

from types import SimpleNamespace

import jax
import pytest
from jax._src import compiler

import jaxlens
from jaxlens.notebook.magics import look
from jaxlens.program import published_limits
from jaxlens.questions.out_of_memory.measure import room, wanted_bytes
from jaxlens.questions.out_of_memory.verbs import out_of_memory
from jaxlens.questions.out_of_memory.view import no_memory
from jaxlens.render.text.document_text import text
from tests.support.paths import run_python

pytestmark = pytest.mark.notebook
# Of jax 0.11.2 on an H100, cut to one of 22 failures.
AUTOTUNING = """NOT_FOUND: All configs failed during profiling or were excluded from selection.
Failures (22):
EXECUTION FAILED: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 83.83GiB with \
allocator GPU_0_bfc on device 0. [tf-allocator-allocation-error='']"""


def test_other_errors_show_nothing(run):
    ran = run("raise RuntimeError('out of memory')")
    assert ran.shown == ""
    assert out_of_memory(ValueError("the pool is RESOURCE_EXHAUSTED")) is None


def test_a_program_that_is_not_found_is_said():
    kind = type("JaxRuntimeError", (RuntimeError,), {})
    view = out_of_memory(kind("RESOURCE_EXHAUSTED: Out of memory allocating 7000000 bytes."))
    assert "XLA could not get 7 MB" in str(view)
    assert "Put %%compile --memory above a cell" in str(view)


SYNCHRONOUS = """
import jax
jax.config.update("jax_cpu_enable_async_dispatch", False)  # as on GPUs, the call itself fails
import resource
from IPython.core.interactiveshell import InteractiveShell
def limited(size):
    resource.setrlimit(resource.RLIMIT_AS, (size, -1))
shell = InteractiveShell.instance()
shell.events.register("post_run_cell", lambda result: limited(-1))
run = shell.run_cell
run("%load_ext jaxlens\\nimport jax, jax.numpy as jnp")
run("@jax.jit\\ndef outer(x): return jnp.outer(x, x) + 1")
run("@jax.jit\\ndef other(x): return jnp.outer(x, x) - 1")
run("@jax.jit\\ndef loss(x): return jnp.sin(jnp.outer(x, x)).sum()")
run("x = jnp.ones(60_000_000); s = jnp.ones(8_000); f = jax.vmap(outer)")
run("outer(s); other(s); f(s[None]);")
for cell in ("outer(x)", "f(x[None]);", "jax.grad(loss)(x);", '%explain --fits "16 GB"'):
    print("CELL", cell)
    run(cell)
for cell in ("outer(s);", "def g(): return f(s[None])\\ng();"):
    print("CELL", cell)
    limited(int(open("/proc/self/statm").read().split()[0]) * 4096 + 10**8)
    run(cell)
"""


def test_the_frames_of_jax_and_the_failing_call_name_the_program():
    texts = " ".join(run_python(SYNCHRONOUS).split()).split("CELL ")[1:]
    first, vmap, grad, fits, served, again = texts
    assert "for outer(x) with x f32[60000000] on cpu" in first
    assert "The peak is 14.4 PB" in first
    assert first.rstrip().endswith('(nothing runs): %explain --fits "16 GB"')
    assert "for outer(x) with x f32[1,60000000] on cpu, under vmap" in vmap
    assert "f32[60000000] on cpu, under grad" in grad
    assert "It does not fit 16 GB" in fits
    assert "onat" not in grad + fits  # its arguments are JAX's: no jit of the user's donates them
    assert "for outer(x) with x f32[1,8000] on cpu, under vmap" in again
    assert "Which program ran out of memory is not known here." in served  # C++ called it


def test_the_magic_says_whether_it_fits(run):
    ran = run("import jax.numpy as jnp\n%compile --fits '16 GB' jnp.ones(8) * 2")
    assert "It fits 16 GB" in ran.shown
    assert jaxlens.fits


@pytest.mark.parametrize(
    ("words", "size"),
    [
        (AUTOTUNING, 90_011_777_106),
        (
            "Out of memory while trying to allocate 74.50GiB (rounded to 80000000000)",
            79_993_765_888,
        ),
        ("Out of memory allocating 7000000 bytes.", 7_000_000),
        ("Out of memory while trying to allocate 640B with", 640),
        ("Out of memory while trying to allocate 1.5KiB with", 1536),
        ("Attempting to allocate 7.50G. That was not possible. There are 5.2G free.", 8053063680),
        ("Ran out of memory in memory space hbm", None),
    ],
)
def test_the_bytes_are_read_in_each_unit_that_xla_writes(words, size):
    assert wanted_bytes(RuntimeError(words)) == size


@pytest.fixture
def fails_to_compile(monkeypatch):
    """JAX's compile of any program called step fails with the text that this is called with."""
    compile_and_load = compiler.backend_compile_and_load

    def fail_with(words):
        def fail(backend, module, *args, **kwargs):
            if "jit_step" in str(module.operation.attributes["sym_name"]):
                raise jax.errors.JaxRuntimeError(words)
            return compile_and_load(backend, module, *args, **kwargs)

        monkeypatch.setattr(compiler, "backend_compile_and_load", fail)

    return fail_with


STEP = """import jax, jax.numpy as jnp
def step(y):
    a = jnp.ones((1500, 1500))
    return (a @ a.T) + y
jax.jit(step)(1.0)"""


def test_a_program_that_autotuning_could_not_run_is_shown_without_it(run, fails_to_compile):
    fails_to_compile(AUTOTUNING)
    ran = run(STEP)
    for shown in (ran.shown, run("%explain").shown):
        words = " ".join(shown.split())
        assert "XLA could not get 90 GB for step(y) with y f32[] on cpu, xla_gpu" in words
        assert "It failed while XLA compiled it: autotuning" in words
        assert "The peak is 18 MB" in words
    assert jaxlens.explain(ran.error) is None


def test_a_program_that_does_not_compile_is_named(run, fails_to_compile):
    fails_to_compile("RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory")
    assert "The program is step(y). It failed while XLA compiled it." in run(STEP).shown


def test_the_magic_compiles_for_the_device_as_the_verb_does(run, monkeypatch):
    asked = []
    capture = look.Looking._capture

    def noted(self, call, target=""):
        asked.append(target)
        return capture(self, call, target)

    monkeypatch.setattr(look.Looking, "_capture", noted)
    monkeypatch.setattr(published_limits, "target_of", lambda device: "cpu")
    run("import jax.numpy as jnp\nf = lambda x: x + 1\nx = jnp.ones(8)")
    assert "It fits" in run("%compile --fits h100 f(x)").shown
    assert asked == ["cpu"]


def test_the_limit_to_fit_is_what_other_arrays_leave_of_the_device(monkeypatch):
    """Of what JAX takes of it; 4 bytes are the program's own."""
    stats = {"bytes_limit": 15_011_414_016, "bytes_in_use": 12_800_000_004}
    here = [SimpleNamespace(memory_stats=lambda: stats)]
    monkeypatch.setattr(jax, "local_devices", lambda backend: here)
    memory = jaxlens.memory(lambda y: y + 1, 1.0).document
    words = " ".join(text(no_memory(None, memory, False, room("cpu"), 4)).split())
    assert "JAX takes 15 GB of this device at most; 12.8 GB of that are other arrays now" in words
    assert '%explain --fits "2.21 GB"' in words
    stats["bytes_in_use"] = stats["bytes_limit"] - 5_299_996
    words = " ".join(text(no_memory(None, memory, False, room("cpu"), 4)).split())
    assert '%explain --fits "5.3 MB"' in words
