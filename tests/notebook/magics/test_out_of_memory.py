"""A cell that runs out of memory: the failed program is found and shown, unasked."""

import gc
import subprocess
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest
from jax._src import compiler

import jaxlens
from jaxlens import ask
from jaxlens.lenses.memory import fits
from jaxlens.notebook.magics import look
from jaxlens.stages.watch.out_of_memory import wanted_bytes

pytestmark = pytest.mark.notebook
SETUP = """import jax, jax.numpy as jnp
@jax.jit
def small(x):
    return x * 2
@jax.jit
def outer(x):
    return jnp.outer(x, x) + 1
x = jnp.ones(60_000_000)
"""
# Of jax 0.11.2 on an H100, cut to one of 22 failures.
AUTOTUNING = """NOT_FOUND: All configs failed during profiling or were excluded from selection.
Failures (22):
EXECUTION FAILED: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 83.83GiB with \
allocator GPU_0_bfc on device 0. [tf-allocator-allocation-error='']"""


@pytest.fixture(autouse=True)
def _nothing_left(shell):
    """Arrays that could not be allocated live no longer than a test."""
    yield
    shell.reset(new_session=True)
    for name in ("last_exc", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)
    gc.unfreeze()
    gc.collect()


@pytest.mark.parametrize(
    "cell",
    [
        "y = outer(x)\nz = small(x)\ny.block_until_ready()",
        "def train(data):\n    y = outer(data)\n    return float(y[0, 0])\ntrain(x)",
        "def train(data, n=2):\n    for _ in range(n):\n        y = outer(data)\n    return y\n"
        "y = train(x)\ny.block_until_ready()",
        "def outer(x):\n    return jnp.outer(x, x) + 1\n"
        "y = jax.jit(outer, donate_argnums=(), inline=True)(x)\ny.block_until_ready()",
    ],
)
def test_the_program_that_failed_is_shown_below_the_traceback(run, cell):
    run(SETUP)
    ran = run(cell)
    assert type(ran.error).__name__ == "JaxRuntimeError"
    assert "for outer(x) with x f32[60000000]" in ran.shown  # 4 * 6e7 ** 2 bytes
    assert "The peak is 14.4 PB" in ran.shown
    assert ran.shown.rstrip().endswith('(nothing runs):\n%explain --fits "16 GB"')


def test_the_limit_to_fit_is_what_other_arrays_leave_of_the_device(run, monkeypatch):
    """Of what JAX takes of it; `x`, 240 MB, is the program's own."""
    stats = {"bytes_limit": 15_011_414_016, "bytes_in_use": 12_800_000_000}
    run(SETUP)
    here = [SimpleNamespace(memory_stats=lambda: stats)]
    monkeypatch.setattr(jax, "local_devices", lambda backend: here)
    words = " ".join(run("y = outer(x)\ny.block_until_ready()").shown.split())
    assert "JAX takes 15 GB of this device at most; 12.6 GB of that are other arrays now" in words
    assert '%explain --fits "2.45 GB"' in words


def test_other_errors_show_nothing(run):
    ran = run("raise RuntimeError('out of memory')")
    assert ran.shown == ""
    assert ask.out_of_memory(ValueError("the pool is RESOURCE_EXHAUSTED")) is None


def test_a_program_that_is_not_found_is_said():
    kind = type("JaxRuntimeError", (RuntimeError,), {})
    view = ask.out_of_memory(kind("RESOURCE_EXHAUSTED: Out of memory allocating 7000000 bytes."))
    assert "XLA could not get 7 MB" in str(view)
    assert "Put %%compile --memory above a cell" in str(view)


def test_the_module_that_a_gpu_names_is_shown_and_not_another_of_its_size():
    first = jax.jit(lambda x: jnp.outer(x, x) + 1)

    @jax.jit
    def second(x):
        return jnp.outer(x, x) + 2

    for f in (first, second):
        f(jnp.ones(1000))
    kind = type("JaxRuntimeError", (RuntimeError,), {})
    # Of jax 0.11.2 on an H200.
    text = (
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 3.81MiB with allocator "
        "GPU_0_bfc on device 0. [tf-allocator-allocation-error=''] [executable_name='jit_{}']"
    )
    assert "4 MB for second(x) with x f32[1000]" in str(
        ask.out_of_memory(kind(text.format("second")))
    )
    shown = str(ask.out_of_memory(kind(text.format("_lambda"))))
    assert "4 MB for <lambda>(x) with x f32[1000]" in shown


def test_small_programs_of_another_trace_context_are_no_candidates(run):
    """Such as backward passes: their executables are not looked up, and many left no answer."""
    many = [jax.jit(lambda x, n=n: (jnp.sin(x) * n).sum()) for n in range(9)]
    for f in many:
        jax.grad(f)(jnp.ones(4))
    run(SETUP)
    ran = run("y = outer(x)\ny.block_until_ready()")
    assert "for outer(x) with x f32[60000000]" in ran.shown


def test_no_code_of_the_users_is_called_to_find_it(run):
    run(SETUP + "def noisy():\n    print('called')\n    return x\n")
    ran = run("y = outer(noisy())\ny.block_until_ready()")
    assert ran.out.count("called") == 1
    assert "for outer(x) with x f32[60000000]" in ran.shown


@pytest.mark.parametrize(
    "cell",
    [
        "y = outer(x * 1)\ny.block_until_ready()",
        "%%timeit -n1 -r1\nouter(x).block_until_ready()",
    ],
)
def test_a_call_that_jits_cache_serves_is_found_in_it(run, cell):
    run(f"{SETUP}outer(x)\nouter(x[:8])\njax.vmap(outer)(x[:8, None])")
    assert "for outer(x) with x f32[60000000]" in run(cell).shown


def test_programs_of_one_size_are_named_and_none_is_picked(run):
    run(f"{SETUP}@jax.jit\ndef other(z):\n    return z[:, None] - z\na = outer(x)\nb = other(x)")
    words = " ".join(run("a.block_until_ready()").shown.split())
    assert "other(z) with z f32[60000000] and outer(x) with x f32[60000000] have an" in words


def test_a_function_of_the_same_name_is_not_taken_for_it(run):
    """`jnp.outer` fails; a user's `outer` has the name and would take as much."""
    run(f"{SETUP}y = outer(x)\nz = jnp.outer(x, x)")
    words = " ".join(run("z.block_until_ready()").shown.split())
    assert "outer(a, b) with a f32[60000000], b f32[60000000] and outer(x) with x" in words


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
for cell in ("f(x[None]);", "jax.grad(loss)(x);", '%explain --fits "16 GB"'):
    print("CELL", cell)
    run(cell)
for cell in ("outer(s * 2);", "def g(): return f(s[None])\\ng();"):
    print("CELL", cell)
    limited(int(open("/proc/self/statm").read().split()[0]) * 4096 + 10**8)
    run(cell)
"""


def test_the_frames_of_jax_and_the_failing_call_name_the_program():
    done = subprocess.run([sys.executable, "-c", SYNCHRONOUS], capture_output=True, text=True)
    vmap, grad, fits, served, again = " ".join(done.stdout.split()).split("CELL ")[1:]
    assert "for outer(x) with x f32[1,60000000] on cpu, under vmap" in vmap
    assert "f32[60000000] on cpu, under grad" in grad
    assert "It does not fit 16 GB" in fits
    assert "onat" not in grad + fits  # its arguments are JAX's: no jit of the user's donates them
    assert "for outer(x) with x f32[8000] on cpu - The" in served
    assert "for outer(x) with x f32[1,8000] on cpu, under vmap" in again


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
        assert "tracing" not in words
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
    monkeypatch.setattr(fits, "target_of", lambda device: "cpu")
    run("import jax.numpy as jnp\nf = lambda x: x + 1\nx = jnp.ones(8)")
    assert "It fits" in run("%compile --fits h100 f(x)").shown
    assert asked == ["cpu"]
