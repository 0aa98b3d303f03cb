"""JAX's stage objects, opened: what is shown equals what the objects themselves print."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.errors import OptionError, ReadError, TargetError, UnavailableError
from tests.support.compiled_by_jax import fingerprint
from tests.support.jax_events import Compiles

pytestmark = pytest.mark.reads_jax

KINDS = ("traced", "lowered", "compiled", "exported", "stablehlo", "hlo", "optimized", "folder")
LATER = ("stablehlo", "hlo", "optimized", "llvm", "asm")
HOLDS = {  # of the stages in pipeline order, what can be had from each kind
    "traced": ("jaxpr", *LATER),
    "lowered": LATER,
    "compiled": ("optimized",),
    "exported": LATER,
    "stablehlo": LATER,
    "hlo": LATER[1:],
    "optimized": ("optimized",),
    "folder": LATER[1:],
}


def step(params, batch):
    hidden = jnp.tanh(params["w"] @ batch)
    return jnp.maximum(hidden, 0.0).sum(), batch * 2.0


W = jax.ShapeDtypeStruct((8, 16), jnp.float32)
BATCH = jax.ShapeDtypeStruct((16, 4), jnp.float32)


class Things:
    """One program at each of its stages, made by JAX alone."""

    def __init__(self, folder):
        jitted = jax.jit(step, donate_argnums=1)
        self.traced = jitted.trace({"w": W}, BATCH)
        self.lowered = self.traced.lower()
        self.compiled = self.lowered.compile()
        self.exported = jax.export.export(jitted)({"w": W}, BATCH)
        self.stablehlo = self.lowered.as_text(debug_info=True)
        self.hlo = self.lowered.as_text(dialect="hlo")
        self.optimized = self.compiled.as_text()
        options = {"xla_dump_to": str(folder), "xla_dump_hlo_pass_re": ".*"}
        if jax.version.__version_info__ >= (0, 11):
            options["xla_dump_emitter_re"] = "^(llvm|ptx)$"
        self.lowered.compile(compiler_options=options)
        self.folder = folder


@pytest.fixture(scope="module")
def things(tmp_path_factory):
    return Things(tmp_path_factory.mktemp("dumps"))


@pytest.mark.parametrize("kind", KINDS)
def test_every_stage_is_there_or_says_why_not(things, kind):
    cap = jaxlens.capture(getattr(things, kind))
    for name in ("jaxpr", *LATER):
        if name in HOLDS[kind]:
            stage = cap.stage(name)
            assert stage.text if name in ("llvm", "asm") else list(stage.module.nodes())
        else:
            with pytest.raises(UnavailableError, match=r"holds no .*capture") as caught:
                cap.stage(name)
            assert "\n" not in str(caught.value)
    names = [leaf.name for leaf in cap.program.inputs]
    assert names == (["p__w__.1", "batch.1"] if kind == "hlo" else ["params['w']", "batch"]) or (
        kind == "hlo" and len(names) == 2  # that text holds no names of arguments
    )
    assert [leaf.donated for leaf in cap.program.inputs] == [False, True]


@pytest.mark.parametrize("kind", KINDS)
def test_the_optimised_program_is_the_one_of_jax(things, kind):
    found = fingerprint(jaxlens.capture(getattr(things, kind)).optimized.text)
    expected = fingerprint(things.compiled.as_text())
    if kind in ("exported", "stablehlo", "hlo"):  # the first line holds options of jit's own
        found, expected = (text.partition("\n")[2] for text in (found, expected))
    assert found == expected


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("optimized", "folder")])
def test_figures_are_those_of_the_executable(things, kind):
    cap = jaxlens.capture(getattr(things, kind))
    assert cap.cost["flops"] == things.compiled.cost_analysis()["flops"]
    sizes = things.compiled.memory_analysis()
    assert cap.memory.temporaries == sizes.temp_size_in_bytes
    assert cap.memory.arguments == sizes.argument_size_in_bytes
    assert cap.memory.aliases == sizes.alias_size_in_bytes


def test_a_folder_says_of_memory_what_xla_does(things):
    found = jaxlens.capture(things.folder).memory
    sizes = things.compiled.memory_analysis()
    assert found.arguments == sizes.argument_size_in_bytes
    assert found.outputs == sizes.output_size_in_bytes
    assert found.temporaries == sizes.temp_size_in_bytes
    assert found.aliases == sizes.alias_size_in_bytes


def test_a_folder_holds_passes_buffers_and_code(things):
    cap = jaxlens.capture(str(things.folder))
    assert cap.passes[0].stage.text
    assert len(cap.passes) > 3
    assert "BufferAssignment" in cap.buffers
    assert any(kernel.asm for kernel in cap.kernels)
    assert "fused" in jaxlens.hlo(cap).text()
    assert jaxlens.memory(cap).peak


def test_a_compiled_program_is_not_compiled_again(things):
    with Compiles() as heard:
        cap = jaxlens.capture(things.compiled)
        str(jaxlens.compile(cap))
        str(jaxlens.explore(cap))
        str(jaxlens.cost(cap))
        str(jaxlens.memory(cap))
    assert heard.names == []


def test_a_lowered_object_is_left_as_it_was(things):
    before = things.lowered.as_text(debug_info=True)
    str(jaxlens.explore(jaxlens.capture(things.lowered)))
    str(jaxlens.explore(jaxlens.capture(things.traced)))
    assert things.lowered.as_text(debug_info=True) == before
    assert things.lowered.compile().as_text() == things.compiled.as_text()
    assert "_jl" not in things.traced.lower().as_text(debug_info=True)


def test_ops_are_linked_to_instructions_without_a_jaxpr(things):
    cap = jaxlens.capture(things.lowered)
    tanh = next(n for n in cap.stablehlo.module.nodes() if n.opcode == "stablehlo.tanh")
    heads = cap.links.forward(tanh.id, "optimized")
    opcodes = {n.id: n.opcode for n in cap.optimized.module.nodes()}
    assert "tanh" in {opcodes[head] for head in heads}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", ["hlo", "compile", "explore"])
def test_views_show_what_is_there(things, kind, verb):
    view = getattr(jaxlens, verb)(getattr(things, kind))
    assert view.text().startswith("step(")
    assert "read from" in view.text().splitlines()[0] + view.text().splitlines()[1]
    assert "tanh" in view.text(full=True)
    assert view.html()


@pytest.mark.parametrize("kind", KINDS[1:])
def test_what_only_a_call_has_is_one_line(things, kind):
    for ask in (jaxlens.jaxpr, jaxlens.tape, jaxlens.ladder, jaxlens.receipt):
        with pytest.raises(UnavailableError, match="holds no"):
            str(ask(getattr(things, kind)))
    with pytest.raises(OptionError, match=r"takes no arguments|to run it with|lowered for"):
        jaxlens.capture(getattr(things, kind), jnp.ones(3))


def test_a_compiled_program_runs_with_the_arguments_of_its_call(things):
    given = {"w": np.ones((8, 16), np.float32)}, jnp.ones((16, 4))
    cap = jaxlens.capture(things.compiled, *given)
    done = cap.driver.run(2)
    assert done.outputs[0] == things.compiled(given[0], jnp.ones((16, 4)))[0]
    assert not given[1].is_deleted()  # the donated one was copied
    with pytest.raises(OptionError, match=r"lowered for batch f32\[16,4\], got f32\[16,5\]"):
        jaxlens.capture(things.compiled, given[0], jnp.ones((16, 5)))
    with pytest.raises(UnavailableError, match="no arguments to run it with"):
        jaxlens.compile(jaxlens.capture(things.compiled), run=1).text()


def test_of_several_modules_one_is_chosen_by_name(tmp_path):
    for f in (jnp.sin, lambda x: jnp.cos(x) @ x.T):
        options = {"xla_dump_to": str(tmp_path)}
        jax.jit(f).lower(jnp.ones((3, 3))).compile(compiler_options=options)
    large = jaxlens.capture(tmp_path)
    assert "dot(" in large.hlo.text
    assert "1 of 2 modules" in large.program.origin
    small = jaxlens.capture(tmp_path, module="jit_sin")
    assert small.program.name == "sin"
    assert "sine(" in small.hlo.text
    with pytest.raises(UnavailableError, match="xla_dump_hlo_pass_re"):
        small.passes
    with pytest.raises(OptionError, match="jit_sin"):
        jaxlens.capture(tmp_path, module="jit_sim")


def test_what_cannot_be_opened_says_what_was_expected(things, tmp_path):
    with pytest.raises(OptionError, match="folder that XLA dumped into"):
        jaxlens.capture(tmp_path)
    with pytest.raises(ReadError):
        jaxlens.capture("HloModule broken\n\nENTRY %main (x: f32[2]) -> f32[2] {\n")
    with pytest.raises(TargetError, match="no target 'gpa'"):
        jaxlens.capture(things.stablehlo, target="gpa")
    with pytest.raises(OptionError, match="optimised already"):
        jaxlens.capture(things.optimized, target="cpu")
    with pytest.raises(OptionError, match="for its device already"):
        jaxlens.capture(things.lowered, target="cpu")


def test_opened_programs_are_saved_with_what_they_hold(things, tmp_path):
    for kind in ("compiled", "folder", "lowered"):
        cap = jaxlens.capture(getattr(things, kind))
        cap.save(tmp_path / kind)
        again = jaxlens.load(tmp_path / kind)
        assert again.optimized.text == cap.optimized.text
        assert again.program == cap.program
        with pytest.raises(UnavailableError, match="holds no"):
            again.jaxpr


def test_librarys_stage_objects_are_opened_too():
    equinox = pytest.importorskip("equinox")
    compiled = equinox.filter_jit(lambda x: jnp.sin(x) * 2).lower(jnp.ones(4)).compile()
    assert "sine(" in jaxlens.capture(compiled).optimized.text


def test_a_program_for_eight_devices_is_read_and_says_what_compiling_it_takes():
    text = (
        "module @jit_f attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {\n"
        "  func.func public @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {\n"
        "    %0 = stablehlo.sine %arg0 : tensor<8xf32>\n    return %0 : tensor<8xf32>\n  }\n}"
    )
    cap = jaxlens.capture(text)
    assert [n.opcode for n in cap.stablehlo.module.nodes()] == ["stablehlo.sine"]
    if len(jax.devices()) < 8:
        with pytest.raises(UnavailableError, match="for 8 devices and this process has"):
            cap.optimized
