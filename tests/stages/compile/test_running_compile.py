"""What a compile gives while it goes on."""

import os
import re
import threading
from contextlib import nullcontext
from itertools import permutations

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens import compat, progress
from jaxlens.ir.needs import Needs
from jaxlens.links.links import Links
from jaxlens.program import counted as cost_facts
from jaxlens.program import kernel_cost
from jaxlens.stages.compile import dump_files, xla, xla_options
from jaxlens.stages.compile.dump_files import is_optimized
from jaxlens.stages.session import compiling
from tests.support.jax_events import Compiles

pytestmark = [
    pytest.mark.skipif(jax.default_backend() != "cpu", reason="only a CPU writes HLO first"),
    pytest.mark.reads_jax,
]


_VERBS = jaxlens.hlo, jaxlens.compile, jaxlens.explore, jaxlens.memory


class _Paused:
    """A lowered program whose compile ends only when it is let go."""

    def __init__(self, lowered):
        self._lowered = lowered
        self.go = threading.Event()

    def compile(self, **options):
        done = self._lowered.compile(**options)
        assert self.go.wait(60)
        return done

    def compiler_ir(self, dialect):
        return self._lowered.compiler_ir(dialect)


def _step(x, w):
    return jnp.tanh(x @ w).sum() * 3


@pytest.fixture
def lowered():
    shape = jax.ShapeDtypeStruct((24, 24), jnp.float32)
    return _Paused(jax.jit(lambda x, w: _step(x, w)).trace(shape, shape).lower())


def test_hlo_is_there_before_the_compile_ends_and_stays_the_same(lowered):
    running = xla.RunningCompile(lowered, name="step", passes=True)
    early = running.hlo()
    assert early is not None
    assert early.executable is None
    stage, passes = early.optimized, early.passes
    lowered.go.set()
    done = running.result()
    assert done.optimized is stage
    assert done.passes is passes
    assert done.dump.optimized == stage.raw
    assert (done.dump.buffers, done.dump.live) == (early.dump.buffers, early.dump.live)
    assert done.dump.pass_texts is early.dump.pass_texts  # read once
    assert done.executable is not None
    assert done.dump.llvm_after


def test_hlo_is_not_taken_while_xla_writes_it(tmp_path):
    names = ("before_optimizations.txt", "debug_options", "cpu_after_optimizations.txt")
    for second, name in enumerate(names):
        path = tmp_path / f"module_0001.jit_step.{name}"
        path.write_text("HloModule jit_step")
        os.utime(path, (1_000 + second, 1_000 + second))
    assert not is_optimized(tmp_path)  # the options are those of the begin
    os.utime(tmp_path / "module_0001.jit_step.debug_options", (1_003, 1_003))
    assert is_optimized(tmp_path)


def test_gathering_waits_at_its_end():
    capture = jaxlens.capture(lambda x: jnp.sin(x) * 2, jnp.ones(8))
    with capture.gathering(Needs(compiled=True)):
        assert "sine" in capture.optimized.text
    assert not [t for t in threading.enumerate() if t.name == "jaxlens compile" and t.is_alive()]
    assert [timing.step for timing in capture.times][-2:] == ["compile", "read dumps"]


def test_an_error_of_the_compile_is_raised_where_it_is_waited_for(monkeypatch):
    capture = jaxlens.capture(lambda x: jnp.cos(x) * 2, jnp.ones(8))

    def fails(*args, **options):
        raise RuntimeError("XLA ran out of memory")

    monkeypatch.setattr(type(capture.driver.lowered), "compile", fails)
    with pytest.raises(RuntimeError, match="out of memory"):
        str(jaxlens.compile(capture))
    monkeypatch.undo()
    assert "became 1 kernel" in str(jaxlens.compile(capture))


@pytest.fixture
def slow(monkeypatch):
    """Takes each compile for a slow one."""
    monkeypatch.setattr(compiling, "_SLOW", 0.0)


def _looked(f, *args, needs):
    capture = jaxlens.capture(f, *args)
    capture.gather(needs)
    return capture


@pytest.mark.parametrize("large", [False, True])
def test_a_program_is_compiled_once_by_whatever_verb_in_whatever_order(large, monkeypatch):
    if large:
        monkeypatch.setattr(xla_options, "_SMALL", 0)
    x = jnp.ones((8, 8))
    for first, second in permutations(_VERBS, 2):
        with Compiles() as compiled:
            assert first(_step, x, x).text()
            assert second(_step, x, x).text()
        assert len(compiled.names) == 1, (first, second)
    with Compiles() as compiled:
        for verb in (*_VERBS, *reversed(_VERBS)):
            assert verb(_step, x, x).html()
    assert len(compiled.names) == 1


def test_another_program_between_is_compiled_and_the_last_one_is_kept():
    x, other = jnp.ones((8, 8)), jnp.ones((4, 8))
    with Compiles() as compiled:
        for argument in (x, other, x):
            assert jaxlens.compile(_step, argument, x).text()
    assert len(compiled.names) == 3


@pytest.mark.usefixtures("slow")
def test_one_compile_serves_later_looks_at_the_same_program():
    x = jnp.ones((8, 8))
    several = Needs(passes=True, profile=True), Needs(compiled=True)
    first, second = [_looked(_step, x, x, needs=needs) for needs in several]
    (compiled,) = [timing for timing in second.times if timing.step == "compile"]
    assert compiled.note.endswith("by an earlier look at the same program")
    assert second.optimized.text == first.optimized.text
    assert second.passes == first.passes
    assert second.profile == first.profile
    assert second.driver.run(1).outputs == pytest.approx(first.driver.run(1).outputs)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("other", ["shape", "closure", "setting", "option", "callback"])
def test_another_program_is_compiled(other):
    x, y = jnp.ones((8, 8)), jnp.ones((8, 16))
    held = jnp.arange(8.0)

    def closes(x):
        return jnp.sin(x) + held

    def calls_python(x):
        jax.debug.callback(lambda x: None, x)
        return jnp.sin(x)

    unfused = jax.jit(_step, compiler_options={"xla_disable_hlo_passes": "fusion"})
    f, args = {"closure": (closes, (held,)), "callback": (calls_python, (x,))}.get(
        other, (_step, (x, x))
    )
    looks = []
    for _ in range(2):
        changed = other == "setting" and looks
        with jax.default_matmul_precision("highest" if changed else "default"):
            again = (x, y) if other == "shape" and looks else args
            function = unfused if other == "option" and looks else f
            looks.append(_looked(function, *again, needs=Needs(compiled=True)))
    for capture in looks:
        assert [t.note for t in capture.times if t.step == "compile"] == [
            "XLA, writing its dumps too"
        ]


@pytest.fixture
def large(monkeypatch):
    """Takes each program for a large one, of which the passes that fuse are dumped alone."""
    monkeypatch.setattr(xla_options, "_SMALL", 0)


def _read(capture):
    code = [(kernel.llvm_after, kernel.asm) for kernel in capture.kernels]
    return capture.optimized, capture.kernels, capture.memory, capture.cost, capture.llvm, code


def _programs(passes):
    """Name and instructions of each dump; their places differ by the line that makes a look."""
    instructions = [
        tuple((n.id, n.opcode, n.operands) for n in p.stage.module.nodes()) for p in passes
    ]
    return [((p.pipeline, p.name), rows) for p, rows in zip(passes, instructions, strict=True)]


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("looks_again", [False, True])
def test_all_passes_are_added_without_machine_code(looks_again):
    x = jnp.ones((8, 8))
    first = _looked(_step, x, x, needs=Needs(compiled=True))
    assert not first.has_all_passes
    few, read = _programs(first.fusing), _read(first)
    executable = first.driver.compiling.made.executable
    capture = jaxlens.capture(_step, x, x) if looks_again else first
    assert len(capture.passes) > len(few)
    made = capture.driver.compiling.made
    assert made.executable is executable
    assert all(new is old for new, old in zip(_read(capture)[:3], read[:3], strict=True))
    assert _read(capture)[5] == read[5]
    programs = _programs(capture.passes)
    assert {program for _, program in few} <= {program for _, program in programs}
    notes = [timing.note for timing in capture.times if timing.step == "compile"]
    assert notes[-1] == (
        "XLA's passes, writing their dumps, without machine code; a second time, for the passes"
    )
    compiling.forget()
    at_once = _looked(_step, x, x, needs=Needs(passes=True))
    assert _programs(at_once.passes) == programs


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("why", ["other passes", "no stop"])
def test_a_program_whose_passes_cannot_be_added_is_compiled_again(why, monkeypatch):
    x = jnp.ones((8, 8))
    capture = _looked(_step, x, x, needs=Needs(compiled=True))
    executable = capture.driver.compiling.made.executable
    if why == "no stop":
        monkeypatch.setattr(compat, "stopped_when_scheduled", lambda chosen: nullcontext([]))
    else:
        monkeypatch.setattr(xla, "same_passes", lambda few, every: False)
    assert capture.passes
    assert (capture.driver.compiling.made.executable is executable) == (why == "no stop")
    assert capture.has_all_passes


@pytest.mark.usefixtures("large")
def test_a_compile_of_another_thread_is_not_stopped(monkeypatch):
    x = jnp.ones((8, 8))
    capture = _looked(_step, x, x, needs=Needs(compiled=True))
    compiled, results = jax.stages.Lowered.compile, []

    def beside(lowered, *args, **options):
        other = threading.Thread(
            target=lambda: results.append(jax.jit(lambda x: jnp.cos(x) + 3)(x)), name="the user's"
        )
        other.start()
        other.join()
        return compiled(lowered, *args, **options)

    monkeypatch.setattr(jax.stages.Lowered, "compile", beside)
    assert capture.passes
    assert len(results) == 1


@pytest.mark.usefixtures("slow", "large")
def test_a_compile_that_is_made_again_says_what_the_first_took(monkeypatch):
    names, begin = [], progress.begin
    monkeypatch.setattr(progress, "begin", lambda name, *a: names.append(name) or begin(name, *a))
    x = jnp.ones((8, 8))
    needs = Needs(compiled=True), Needs(passes=True)
    looks = [_looked(_step, x, x, needs=need) for need in needs]
    assert len(looks) == 2
    _, again = [name for name in names if name.startswith("XLA compiles")]
    assert re.fullmatch(
        r"XLA compiles .* again, for its passes \(the first compile took \d+ s\)", again
    )


def test_a_compile_that_ends_before_its_hlo_is_read_leaves_it_to_the_result(lowered, monkeypatch):
    emptied, removed = threading.Event(), threading.Event()

    def remove(path):
        for file in path.iterdir():
            file.unlink()
        emptied.set()
        assert removed.wait(60)
        path.rmdir()

    def late(path):
        lowered.go.set()
        return emptied.wait(60)

    monkeypatch.setattr(dump_files, "remove", remove)
    monkeypatch.setattr(xla, "is_optimized", late)
    running = xla.RunningCompile(lowered, name="step", passes=True)
    assert running.hlo() is None
    removed.set()
    assert "tanh" in running.result().dump.optimized


def test_text_is_opened_while_results_of_slow_compiles_are_kept(monkeypatch):
    monkeypatch.setattr(compiling, "_SLOW", 0.0)
    x = jnp.ones((4, 4))
    slow = jaxlens.capture(lambda x: _step(x, x), x)
    assert slow.kernels
    assert compiling._slow
    lowered = jax.jit(lambda x: jnp.tanh(x) @ x).lower(x)
    assert "read from StableHLO text" in str(jaxlens.hlo(lowered.as_text()))


@pytest.mark.parametrize("verb", [jaxlens.compile, jaxlens.explore])
def test_what_hlo_gives_is_computed_before_the_compile_is_waited_for(verb, monkeypatch):
    order = []
    waited = threading.Event()  # the compile lasts until then: a small one could end first
    compiled = jax.stages.Lowered.compile

    def compile_until_waited(lowered, *args, **options):
        done = compiled(lowered, *args, **options)
        assert waited.wait(60)
        return done

    def noted(name, owner, attribute):
        real = getattr(owner, attribute)

        def noting(*args):
            order.append(name)
            if name == "end":
                waited.set()
            return real(*args)

        monkeypatch.setattr(owner, attribute, noting)

    monkeypatch.setattr(jax.stages.Lowered, "compile", compile_until_waited)
    noted("end", compiling.Compiling, "finish")
    noted("fates", Links, "known_fates")
    noted("costs", kernel_cost, "instruction_costs")
    noted("flops", cost_facts, "counted")
    verb(_step, jnp.ones((4, 4)), jnp.ones((4, 4))).compute()
    assert {"fates", "costs", "flops"} <= set(order[: order.index("end")])
