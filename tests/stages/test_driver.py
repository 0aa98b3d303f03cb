"""A live capture: every property is computed once, and only when it is read."""

import gc
import linecache
import pathlib
import weakref

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlens.errors import OptionError, UnavailableError
from jaxlens.ir.hlo import reader as hlo
from jaxlens.stages.driver import capture
from tests.ir.check import check
from tests.support import programs

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]


def step(params, x):
    hidden = jnp.tanh(x @ params["w"])
    return {"loss": hidden.mean(), "parts": (hidden, hidden.sum(0))}


ARGS = ({"w": np.ones((8, 4), np.float32)}, np.ones((2, 8), np.float32))


@pytest.fixture(scope="module")
def taken():
    return capture(step, ARGS)


def test_outputs_have_their_paths(taken):
    assert [(o.name, str(o.type)) for o in taken.outputs] == [
        ("result['loss']", "f32[]"),
        ("result['parts'][0]", "f32[2,4]"),
        ("result['parts'][1]", "f32[4]"),
    ]


@pytest.mark.parametrize("name", ["jaxpr", "stablehlo", "hlo", "optimized"])
def test_every_stage_is_a_legal_graph(taken, name):
    stage = taken.stage(name)
    assert stage is getattr(taken, name)
    assert stage.text is stage.text
    assert check(stage.module) == []
    assert not stage.module.unknown
    assert any(n.owner and n.owner.file == "test_driver.py" for n in stage.module.nodes())


def test_what_the_compile_gave(taken):
    assert taken.memory.arguments == 8 * 4 * 4 + 2 * 8 * 4
    assert taken.cost["flops"] > 0
    assert "BufferAssignment" in taken.buffers
    assert taken.kernels
    assert taken.passes[0].stage.module.stage == "passes"


def test_passes_asked_for_late_are_made_again_and_say_so(monkeypatch):
    monkeypatch.setattr("jaxlens.stages.compile.xla_options._SMALL", 0)  # as for a large program
    late = capture(step, ARGS)
    assert late.optimized.text
    assert late.passes
    compiles = [t for t in late.times if t.step == "compile"]
    assert ["second time" in t.note for t in compiles] == [False, True]
    early = capture(step, ARGS)
    assert early.passes
    assert early.optimized.text
    assert len([t for t in early.times if t.step == "compile"]) == 1


def test_sources_of_files_and_cells():
    key = "<ipython-input-7-abc>"
    code = "def f(x):\n    return g(x) * 2\n"
    linecache.cache[key] = (len(code), None, code.splitlines(True), key)
    space = {"g": jnp.sin}
    exec(compile(code, key, "exec"), space)
    seen = capture(space["f"], (jnp.ones(3),))
    assert [(s.file, s.text, s.library) for s in seen.sources.values()] == [("cell 7", code, False)]
    assert list(seen.sources) == [key]
    assert seen.program.span.file == "cell 7"
    own = capture(step, ARGS).sources[__file__]
    assert own.text == pathlib.Path(__file__).read_text()


def test_every_span_has_its_source(taken):
    keys = {s.key for n in taken.jaxpr.module.nodes() for s in n.spans}
    assert keys <= set(taken.sources)


def test_unknown_stages(taken):
    with pytest.raises(UnavailableError, match="did you mean 'jaxpr'"):
        taken.stage("jaxp")
    with pytest.raises(UnavailableError, match="no stage 'source'"):
        taken.driver.stage("source")


def test_names_and_transforms_can_be_told():
    program = capture(step, ARGS, name="predict", transforms=("jvp",)).program
    assert (program.name, program.transforms) == ("predict", ("jvp",))


def test_run_executes_what_was_compiled():
    def f(x, mode, n=2):
        return x * n if mode == "scale" else x

    seen = capture(f, (jnp.ones(3), "scale"))
    done = seen.driver.run(2)
    assert len(done.seconds) == 2
    np.testing.assert_array_equal(done.outputs, [2, 2, 2])
    static = jax.jit(f, static_argnames=("mode", "n"), donate_argnums=0)
    x = jnp.ones(3)
    seen = capture(static, (x, "scale"), {"n": 5})
    assert seen.optimized.text
    np.testing.assert_array_equal(seen.driver.run(1).outputs, [5, 5, 5])
    assert not x.is_deleted()
    with pytest.raises(OptionError, match=r"needs arrays, .* of x;"):
        capture(f, (jax.ShapeDtypeStruct((3,), jnp.float32), "scale")).driver.run(1)


def test_large_arrays_live_no_longer_than_the_users():
    x = jnp.ones(2**20)
    seen = capture(lambda x: x.sum(), (x,))
    assert seen.stablehlo.text
    assert seen.driver.run(1).outputs == 2**20
    del x
    gc.collect()
    with pytest.raises(UnavailableError, match="arrays of this call are gone"):
        seen.driver.run(1)
    fresh = capture(lambda x: x.sum(), (jnp.ones(2**20),))
    assert fresh.driver.run(1).outputs == 2**20


def test_a_model_of_many_small_arrays_lives_no_longer_either():
    model = [jnp.full(2**16, n, jnp.float32) for n in range(8)]  # 256 KiB each
    alive = [weakref.ref(array) for array in model]
    seen = capture(lambda model: sum(x.sum() for x in model), (model,))
    assert seen.stablehlo.text
    del model
    gc.collect()
    assert sum(array() is not None for array in alive) == 4  # 1 MiB
    with pytest.raises(UnavailableError, match="arrays of this call are gone"):
        seen.driver.run(1)


def test_a_compile_error_is_xlas_own_and_can_be_asked_again():
    def f(x):
        return jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct((3,), jnp.float32), x)

    seen = capture(f, (jnp.ones(3),))
    assert "callback" in seen.stablehlo.text
    assert seen.optimized.text


def test_hostile_names_are_data():
    hostile = "</script><img src=x onerror=alert(1)>\"'"
    seen = capture(lambda d: d[hostile] * 2, ({hostile: jnp.ones(3)},), name=hostile)
    assert seen.program.inputs[0].name == f"d[{hostile!r}]"
    for name in ("jaxpr", "stablehlo", "hlo", "optimized"):
        assert list(getattr(seen, name).module.nodes())


def test_a_large_program_is_asked_for_the_passes_that_fuse_alone():
    f, args = programs.gpt_step(layers=2)
    cap = capture(f, args)
    assert len(cap.stablehlo.text) > 60_000
    names = {stage.name for stage in cap.fusing[1:]}
    assert "fusion" in names
    assert "algsimp" not in names
    assert not cap.has_all_passes
    assert [timing.step for timing in cap.times].count("compile") == 1


def test_a_small_program_is_asked_for_every_pass_at_once():
    f, args = programs.mlp_step()
    cap = capture(f, args)
    assert cap.fusing is cap.passes
    assert cap.has_all_passes
    assert [timing.step for timing in cap.times].count("compile") == 1


def exported(*shape, platforms=("cpu",)):
    """A program that calls another that was exported, of shapes that are symbols there."""
    scope = jax.export.SymbolicScope()
    symbols = jax.export.symbolic_shape(", ".join(shape), scope=scope)
    inner = jax.jit(lambda x: jnp.tanh(x).sum(0) * x.shape[0])
    argument = jax.ShapeDtypeStruct(symbols, jnp.float32)
    inner = jax.export.export(inner, platforms=platforms)(argument)
    return lambda x: inner.call(x) + 1, (np.ones((3, 4), np.float32),)


CONVERTED = programs.SMALL | {
    "exported": lambda: exported("3", "4"),
    "exported of any shape": lambda: exported("a", "b"),
    "exported for two platforms": lambda: exported("3", "4", platforms=("cpu", "cuda")),
}


@pytest.mark.parametrize("name", sorted(CONVERTED))
def test_hlo_before_optimisation_is_one_program_before_and_after_the_compile(name):
    f, args = CONVERTED[name]()
    taken = capture(f, args)
    assert taken.optimized.text  # the compile's dump holds HLO before optimisation too
    stage = taken.hlo
    read_again = hlo.read(stage.raw, stage="hlo", origins=taken.driver.compiling.origins)
    assert list(stage.module.regions) == list(read_again.regions)
    for one, other in zip(stage.module.nodes(), read_again.nodes(), strict=True):
        assert (one.text, one.stamps, one.spans) == (other.text, other.stamps, other.spans)
