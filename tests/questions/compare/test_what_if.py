"""Compiles without a pass or with a flag, compared with XLA's own figures."""

import io
import pickle
import re
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens import progress
from jaxlens.compat import has_cuda_plugin
from jaxlens.errors import OptionError, UnavailableError
from jaxlens.ir.facts import PassStage, Stage
from jaxlens.ir.hlo.traffic import Traffic
from jaxlens.program.fusion_change import operations
from jaxlens.stages.child import child as other_process
from jaxlens.stages.child import main as other_process_main
from jaxlens.stages.child import recompile
from tests.support import programs
from tests.support.hlo_counts import joining_fusions
from tests.support.model_programs import captured, on_models
from tests.support.paths import RECORDS

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]
X, W, B = np.ones((64, 32), np.float32), np.ones((32, 16), np.float32), np.ones(16, np.float32)


def layer(x, w, b):
    y = jnp.tanh(x @ w + b)
    return (y * y + 1.0).sum(0), y


@pytest.fixture(scope="module")
def plain():
    return jaxlens.capture(layer, X, W, B)


@pytest.fixture(scope="module")
def apart(plain):
    return recompile.without(plain, "fusion", run=2)


def test_what_is_compiled_without_fusion_is_not_fused(plain, apart):
    other, _ = apart
    assert joining_fusions(plain.optimized.text) > 0
    assert joining_fusions(other.optimized.text) == 0
    assert "fusion" not in [p.name for p in other.passes if p.changed]
    assert other.program.flags == ("without fusion",)
    answer = jaxlens.compare(plain, other)
    assert answer.figures["fusions"] == (joining_fusions(plain.optimized.text), 0)
    was, now = answer.figures["kernels"]
    assert now > was
    assert answer.findings[0].text.startswith("Without fusion: ")
    assert answer.equations.equal


@pytest.mark.parametrize("name", ["attention", "mlp_step", "scan_rnn"])
def test_fusion_on_a_gpu_is_every_pass_that_joins_operations(name):
    passes = recompile.read("fusion", jaxlens.load(RECORDS / f"{name}.gpu-h100.jaxlens")).passes
    assert {"priority-fusion", "multi_output_fusion"} <= set(passes)
    assert len(passes) == len(set(passes))
    assert ("triton-softmax-rewriter" in passes) is (name == "attention")


def test_the_pass_that_wraps_single_operations_for_a_gpu_is_not_left_out():
    first = jaxlens.load(RECORDS / "mlp_step.gpu-h100.jaxlens")
    last = first.passes[-1]
    raw = "\n".join([last.stage.raw, *["wrapped = f32[] fusion(x)"] * 20])
    wrapper = PassStage(99, "", "fusion-wrapper", Stage(last.stage.info, lambda: raw, None), True)
    wrapped = SimpleNamespace(passes=(*first.passes, wrapper), program=first.program)
    assert recompile.read("fusion", wrapped) == recompile.read("fusion", first)
    assert recompile.read("fusion-wrapper", wrapped).passes == ("fusion-wrapper",)


@pytest.mark.skipif(not has_cuda_plugin(), reason="needs jaxlens[gpu]: JAX's CUDA plugin")
def test_without_fusion_a_gpu_runs_one_operation_per_kernel():
    def mixed(x, w):
        p = jax.nn.softmax(jnp.tanh(x @ w).astype(jnp.float32), axis=-1)
        return jnp.sort(p, axis=-1)[:, 0].sum() + jnp.cumsum(x, axis=0)[-1].sum(), p.T

    there = jaxlens.capture(mixed, X, np.ones((32, 128), np.float32), target="gpu:h100")
    assert joining_fusions(there.optimized.text) > 0
    other = jaxlens.without(there, "fusion")
    assert joining_fusions(other.optimized.text) == 0
    assert " fusion(" in other.optimized.text


def test_what_fusion_saved_is_what_xla_accesses_more_without_it(plain, apart):
    other, _ = apart
    answer = jaxlens.fusion(plain)
    more = other.cost["bytes accessed"] - plain.cost["bytes accessed"]
    assert answer.saved == more > 0
    # By hand: the broadcast of b is 64 + 4,096 B, its sum with the product 3 * 4,096, tanh
    # 2 * 4,096; as one: the product, b, and the result.
    first = next(one for one in answer.fusions if "tanh" in one.operations)
    assert first.saved == (64 + 4096) + 3 * 4096 + 2 * 4096 - (4096 + 64 + 4096)


def test_it_says_how_long_it_may_take(plain, monkeypatch):
    said = []

    def started(*_):
        said.append(progress.current().sentence)
        raise UnavailableError("not started")

    monkeypatch.setattr(recompile, "compiled", started)
    _ = plain.optimized
    own = next(t.seconds for t in plain.times if t.step == "compile")
    with pytest.raises(UnavailableError, match="not started"):
        recompile.without(plain, "fusion", run=2)
    assert said[0].endswith(f", and 2 runs of each, where its own compile took {own:.2g} s")
    fresh = jaxlens.capture(lambda x: x + 1, X)
    with pytest.raises(UnavailableError, match="not started"):
        recompile.without(fresh, "xla_cpu_enable_fast_math=true")
    assert said[1].endswith("in another process")


def test_every_link_of_what_was_compiled_anew_holds(plain, apart):
    other, _ = apart
    assert other.links.coverage().instructions == plain.links.coverage().instructions == 1
    tanh = next(n.id for n in plain.jaxpr.module.nodes() if n.opcode == "tanh")
    made = other.links.forward(tanh, "optimized")
    nodes = {node.id: node for node in other.optimized.module.nodes()}
    assert "tanh" in {nodes[id].opcode for id in made}
    assert other.stablehlo.text == plain.stablehlo.text
    assert "ENTRY" in other.hlo.text
    assert [leaf.name for leaf in other.outputs] == [leaf.name for leaf in plain.outputs]


def test_both_were_run_in_turn(apart):
    _, measured = apart
    assert len(measured.before) == len(measured.after) == 2
    assert min(*measured.before, *measured.after) > 0
    assert "on the call's own inputs" in measured.how


def test_a_capture_that_was_compiled_anew_is_saved_and_compared(plain, apart, tmp_path):
    other, _ = apart
    other.save(tmp_path / "apart.jaxlens")
    answer = jaxlens.compare(plain, tmp_path / "apart.jaxlens")
    assert answer.figures["fusions"][1] == 0
    assert answer.causes[0].text == "Without fusion"
    with pytest.raises(UnavailableError, match="no program that could be compiled again"):
        jaxlens.without(jaxlens.load(tmp_path / "apart.jaxlens"), "fusion")


def test_a_flag_is_set_and_an_unknown_one_answered_with_the_nearest(plain):
    other = jaxlens.without(plain, "xla_cpu_enable_fast_math=true")
    assert other.program.flags == ("xla_cpu_enable_fast_math=true",)
    with pytest.raises(OptionError, match="did you mean 'xla_cpu_enable_fast_math'"):
        jaxlens.without(plain, "xla_cpu_enable_fast_mat=true")


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ("fusoin", "no pass 'fusoin' changed this program; did you mean 'fusion'?"),
        ("pipeline-start", "no pass 'pipeline-start' changed this program; choose from "),
        ("", "without takes the name of a pass, or flag=value"),
    ],
)
def test_a_wrong_name_is_one_line(plain, names, says):
    with pytest.raises(OptionError) as error:
        jaxlens.without(plain, names)
    assert str(error.value).startswith(says)


def test_a_process_that_ends_or_hangs_is_a_sentence(plain, monkeypatch):
    def runs_instead(code):
        monkeypatch.setattr(other_process, "COMMAND", [sys.executable, "-c", code])

    runs_instead("import os, sys; sys.stderr.write('F0000 Check failed: pass\\n'); os.abort()")
    with pytest.raises(UnavailableError, match=r"signal 6\): F0000 Check failed: pass"):
        jaxlens.without(plain, "fusion")
    monkeypatch.setattr(other_process, "TIMEOUT", 0.3)
    runs_instead("import time; time.sleep(20)")
    with pytest.raises(UnavailableError, match="took more than 0 s to compile it without fusion"):
        jaxlens.without(plain, "fusion")


def test_one_process_serves_several_requests(plain, monkeypatch):
    jaxlens.without(plain, "fusion")
    child = other_process._child
    assert other_process.start(plain.program.target) is child
    jaxlens.without(plain, "xla_cpu_enable_fast_math=true")
    assert other_process._child is child
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_min_max=true")  # as for a new process
    assert other_process.start(plain.program.target) is not child
    assert child.code is not None


def test_a_process_that_nobody_asks_ends_sooner_than_one_that_has_answered(tmp_path, monkeypatch):
    waits = []

    class Timer:
        def __init__(self, seconds, *_):
            waits.append(seconds)

        def start(self): ...
        def cancel(self): ...

    monkeypatch.setattr(other_process_main.threading, "Timer", Timer)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{tmp_path}\n"))
    (tmp_path / "request").write_bytes(pickle.dumps({}))
    other_process_main.serve(lambda request: {})
    assert waits == [60, 300]


def test_an_interrupt_ends_the_process(plain, monkeypatch):
    monkeypatch.setattr(other_process, "COMMAND", [sys.executable, "-c", "input(); input()"])

    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(other_process.time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        jaxlens.without(plain, "fusion")
    assert other_process._child is None


def test_what_only_this_process_can_do_is_not_tried(plain):
    def talks(x):
        jax.debug.callback(print, x.sum())
        return jnp.sin(x) + 1

    with pytest.raises(UnavailableError, match="calls back into Python"):
        jaxlens.without(jaxlens.capture(talks, X), "fusion")
    view = jaxlens.compile(plain)
    assert jaxlens.capturing.as_capture(view) is plain


def test_fusion_groups_are_told_of_programs_with_loops_and_of_the_core():
    from jaxlens import core

    f, args = programs.scan_rnn()
    answer = jaxlens.fusion(f, *args)
    assert any(one.times == 20 for one in answer.fusions)  # the scan's length
    assert any(edge.times == 20 for edge in answer.boundaries)
    text = str(answer)
    assert "A run moves" in text
    assert "travel between kernels" in text

    def loss(w, x):
        return (core.numpy.tanh(x @ w) * 2.0).sum()

    assert jaxlens.fusion(core.grad(loss), W, X).saved > 0


@on_models
def test_fusions_of_library_programs_are_those_of_their_text(name):
    capture = captured(name)
    answer = jaxlens.fusion(capture)
    assert len(answer.fusions) == joining_fusions(capture.optimized.text)
    assert answer.sums[0] > 0
    assert re.match(r"A run( with one pass of the loops? at .+)? moves ", answer.findings[0].text)
    # What the instructions move is what XLA says that they do, but for scalars that are read twice.
    module = capture.optimized.module
    traffic = Traffic(module)
    ours = sum(traffic.alone(node) for node in operations(module))
    assert ours == pytest.approx(capture.cost["bytes accessed"], rel=0.05, abs=200)
