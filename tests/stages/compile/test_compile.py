"""One compile with dumps: its results, and that no file, option or thread is left."""

import os
import shutil
import signal
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.errors import UnavailableError
from jaxlens.ir.needs import Needs
from jaxlens.stages.compile import dump_files
from jaxlens.stages.compile.analyses import cost
from jaxlens.stages.compile.xla import compile_lowered
from tests.ir import check
from tests.support import programs
from tests.support.paths import python, run_python

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]


@pytest.fixture
def lowered():
    f, args = programs.mlp_step()
    return jax.jit(f).trace(*args).lower()


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Sends dumps to a folder of the test; a file left in it is a leak."""
    monkeypatch.setattr(dump_files.tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def compiles():
    """Names of the programs that the backend compiled."""
    names = []

    def heard(event, _, **facts):
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(facts.get("fun_name"))

    jax.monitoring.register_event_duration_secs_listener(heard)
    yield names
    jax.monitoring.unregister_event_duration_listener(heard)


def test_gives_every_text(lowered):
    done = compile_lowered(lowered, name="step")
    assert "HloModule jit_step" in done.dump.before
    assert "ENTRY" in done.optimized.text
    assert not check.check(done.optimized.module)
    assert "allocation 0" in done.buffers
    assert done.memory.arguments == 4 * (64 * 128 + 128 + 128 * 10 + 10 + 32 * 64 + 32 * 10)
    assert done.cost["flops"] > 0
    assert list(done.cost) == sorted(done.cost)
    assert [t.step for t in done.times] == ["compile", "read dumps"]


def test_passes_only_when_asked(lowered):
    done = compile_lowered(lowered, name="step")
    with pytest.raises(UnavailableError, match="none were asked for"):
        _ = done.passes
    done = compile_lowered(lowered, name="step", passes=True)
    assert done.passes_asked is True
    assert len(done.passes) > 10
    assert done.passes[0].stage.text == done.dump.before
    assert {"fusion", "layout-assignment"} <= {p.name for p in done.passes}


def test_passes_by_name(lowered):
    done = compile_lowered(lowered, name="step", passes="fusion")
    assert {p.name for p in done.passes[1:]} >= {"fusion"}
    assert "layout-assignment" not in {p.name for p in done.passes}


def test_compiles_once_also_after_the_same_program(lowered, compiles):
    for number in (1, 2):
        assert compile_lowered(lowered, name="step").dump.before
        assert len(compiles) == number


def test_optimized_text_is_what_jax_says(lowered):
    ours = compile_lowered(lowered, name="step").optimized.module
    jaxs = jax.jit(programs.mlp_step()[0]).lower(*programs.mlp_step()[1]).compile().as_text()
    from jaxlens.ir.hlo import reader as hlo

    theirs = hlo.read(jaxs, stage="optimized")
    assert [n.name for n in ours.nodes()] == [n.name for n in theirs.nodes()]


def test_xlas_own_error_is_unchanged(folders):
    @jax.jit
    def f(x):
        return jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct((), "float32"))(x)

    with pytest.raises(jax.errors.JaxRuntimeError, match="no_such_target"):
        compile_lowered(f.trace(1.0).lower(), name="f")
    assert list(folders.iterdir()) == []


class _Slow:
    """A lowered program whose compile is busy until it is let go, as XLA is in C++."""

    def __init__(self):
        self.started, self.go = threading.Event(), threading.Event()

    def compile(self, compiler_options):
        self.folder = Path(compiler_options["xla_dump_to"])
        (self.folder / "half").write_text("written")
        self.started.set()
        self.go.wait(20)
        self.folder.mkdir(exist_ok=True)  # XLA makes the folder again when it writes more
        (self.folder / "late").write_text("written")
        raise RuntimeError("nobody hears this")


@pytest.fixture
def interruptible():
    """Handles SIGINT even if the tests run in the background, where it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(os.name == "nt", reason="signals to oneself differ")
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("profiled", [False, True])
def test_interrupt_returns_at_once_and_leaves_nothing(folders, profiled):
    slow = _Slow()

    def interrupt():
        slow.started.wait(20)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        compile_lowered(slow, name="step", profiled=profiled)
    assert time.perf_counter() - start < 10
    assert list(folders.iterdir()) == []
    jax.profiler.start_trace(str(folders / "own"))  # ours has ended, though the compile goes on
    jax.profiler.stop_trace()
    shutil.rmtree(folders / "own")
    assert any(t.name == "jaxlens compile" and t.is_alive() for t in threading.enumerate())
    slow.go.set()
    for thread in threading.enumerate():
        if thread.name == "jaxlens compile":
            thread.join(20)
    assert list(folders.iterdir()) == []


_CACHE = """
import sys, jax, jax.numpy as jnp, os
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
from jaxlens.stages.compile.xla import compile_lowered
f = jax.jit(lambda x: jnp.sin(x) * 3)
files = lambda: sorted(n for n in os.listdir(sys.argv[1]) if n.endswith("-cache"))
compile_lowered(f.trace(1.0).lower(), name="f")
print(len(files()))
f(1.0)
print(len(files()))
done = compile_lowered(f.trace(1.0).lower(), name="f")
print(len(files()), bool(done.dump.before))
"""


def test_persistent_cache_is_neither_used_nor_switched_off(tmp_path):
    """Ours first: JAX must still use the cache for the user's own compile afterwards."""
    assert run_python(_CACHE, str(tmp_path)).split() == ["0", "1", "1", "True"]


def test_persistent_cache_with_overlapping_compiles(monkeypatch):
    from jax._src import compilation_cache

    from jaxlens import compat

    before = (compilation_cache._cache_checked, compilation_cache._cache_used)
    first, second = compat.persistent_cache_off(), compat.persistent_cache_off()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not compilation_cache._cache_used
    second.__exit__(None, None, None)
    assert (compilation_cache._cache_checked, compilation_cache._cache_used) == before


@pytest.mark.skipif(os.name != "posix", reason="processes can be asked for on POSIX only")
def test_what_a_killed_process_left_goes_with_the_next_compile(folders):
    script = (
        "import os\nfrom jaxlens.stages.compile.dump_files import folder\n"
        "with folder() as path:\n    (path / 'half').touch()\n    os._exit(1)"
    )
    for _ in range(2):
        python("-c", script, TMPDIR=str(folders))
        assert len(list(folders.iterdir())) == 1
    (folders / "jaxlens-notes").touch()
    with dump_files.folder() as path, dump_files.folder():
        assert path.is_dir()
    assert [p.name for p in folders.iterdir()] == ["jaxlens-notes"]


@pytest.mark.parametrize("name", ["ü/../..; rm -rf '\"", "x" * 300, "<lambda>", "é" * 90])
def test_names_of_any_kind(folders, capfd, name):
    def f(x):
        return jnp.sin(x) + 1

    f.__name__ = f.__qualname__ = name
    done = jaxlens.capture(f, 1.0).gather(Needs(passes=True))
    assert done.program.name == name
    assert len(done.passes) > 5
    assert all(kernel.asm for kernel in done.kernels)
    assert capfd.readouterr().err == ""
    assert list(folders.iterdir()) == []


def test_cost_says_when_there_is_none():
    class Absent:
        def cost_analysis(self):
            raise NotImplementedError("not for this client\nand more")

    with pytest.raises(UnavailableError) as caught:
        cost(Absent(), "tpu")
    assert str(caught.value) == "no cost analysis on tpu: not for this client"


def test_what_is_missing_says_so():
    from jaxlens.stages.compile.xla import CompileOutput

    class Executable:
        def as_text(self):
            return "HloModule f\n\nENTRY %main () -> f32[] {\n  ROOT %c = f32[] constant(0)\n}\n"

    done = CompileOutput("f", "tpu", Executable(), dump_files.Dump(), (), True)
    assert done.optimized.module.name == "f"
    for name, words in {
        "llvm": "XLA gave no LLVM IR for f on tpu",
        "asm": "XLA gave no object code that can be read for f on tpu",
        "buffers": "XLA gave no buffer assignment for f on tpu",
        "passes": "XLA gave no dump of a pass for f on tpu",
    }.items():
        with pytest.raises(UnavailableError, match=words):
            getattr(done, name)


def test_files_of_a_program_that_libtpu_goes_on_with_under_a_later_number(tmp_path):
    for name in (
        "module_0000.jit_f.cl_9.0000.a.after_pipeline-start.before_b.txt",
        "module_0000.jit_f.cl_9.before_optimizations.txt",
        "module_0001.jit_g.cl_9.before_optimizations.txt",
        "module_0003.jit_f.cl_9.0000.c.after_d.before_e.txt",
        "module_0003.jit_f.cl_9.after_optimizations-buffer-assignment.txt",
        "module_0010.jit_f.cl_9.0000.next.after_d.before_e.txt",
        "module_0010.jit_f.cl_9.before_optimizations.txt",
        "module_0010.jit_f.cl_9.after_optimizations-buffer-assignment.txt",
    ):
        (tmp_path / name).write_text(name)
    dump = dump_files.read(tmp_path)
    assert dump.buffers == "module_0003.jit_f.cl_9.after_optimizations-buffer-assignment.txt"
    assert [name[:28] for name in dump.pass_names] == [
        "module_0000.jit_f.cl_9.befor",
        "module_0000.jit_f.cl_9.0000.",
        "module_0003.jit_f.cl_9.0000.",
    ]
    after = dump_files.read(tmp_path, stem="module_0010.jit_f.cl_9")
    assert after.buffers.startswith("module_0010")
