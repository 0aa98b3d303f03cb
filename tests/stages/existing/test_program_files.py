"""Programs in files and bytes are opened by what they hold, whatever they are called."""

import os

import jax
import jax.export
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens import compat
from jaxlens.compat.lowering import hlo_text
from jaxlens.errors import OptionError, PackageError, ReadError, UnavailableError
from jaxlens.ir.stablehlo import reader as stablehlo

pytestmark = pytest.mark.reads_jax

S = jax.ShapeDtypeStruct


def step(x, w):
    return jnp.tanh(x) @ w


@pytest.fixture(scope="module")
def lowered():
    return jax.jit(step).lower(S((4, 3), jnp.float32), S((3, 2), jnp.float32))


FILES = {
    "m.hlo": lambda t: t.as_text(dialect="hlo").encode(),
    "windows.hlo": lambda t: b"\xef\xbb\xbf" + t.as_text("hlo").replace("\n", "\r\n").encode(),
    "m.txt": lambda t: t.compile().as_text().encode(),
    "m.mlir": lambda t: t.as_text().encode(),
    "m.bin": lambda t: compat.bytecode(t.compiler_ir("stablehlo")),
}


@pytest.mark.parametrize("file", FILES)
def test_a_file_is_opened_by_its_content(lowered, tmp_path, file):
    data = FILES[file](lowered)
    path = tmp_path / "é a" / file
    path.parent.mkdir()
    path.write_bytes(data)
    for program in (str(path), path, data):
        cap = jaxlens.capture(program)
        assert cap.program.name == "step"
        assert [str(leaf.type) for leaf in cap.program.inputs] == ["f32[4,3]", "f32[3,2]"]
    assert "tanh(" in cap.optimized.text


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"hello", "a.txt is no program: give the text of"),
        ("a.hlo.pb", b"\n\xff\xff\xff", "a.hlo.pb is no program: give the text of"),
        ("empty.hlo", b"", "empty.hlo is no program"),
        ("a.mlir", b"module {", "cannot parse the StableHLO"),
        ("bad.bin", b"ML\xefR\x0dStableHLO_v1.0.0\0bad", "cannot parse the StableHLO"),
    ],
)
def test_what_is_no_program_says_what_is(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ReadError, match=message) as error:
        jaxlens.capture(tmp_path / name)
    assert "\n" not in str(error.value)


def test_a_pipe_is_not_waited_for_and_a_name_not_found(tmp_path):
    os.mkfifo(tmp_path / "pipe.hlo")
    with pytest.raises(ReadError, match="pipe or a device"):
        jaxlens.capture(tmp_path / "pipe.hlo")
    with pytest.raises(OptionError, match="no file or folder"):
        jaxlens.capture(tmp_path / "gone.hlo")


@pytest.fixture(scope="module")
def exported():
    b, n = jax.export.symbolic_shape("b, n", constraints=["n >= 2"])
    shapes = S((b, n), jnp.float32), S((n, 2 * n), jnp.float32)
    return jax.export.export(jax.jit(step))(*shapes)


def test_symbolic_sizes_are_named_and_the_stablehlo_is_shown(exported):
    cap = jaxlens.capture(exported)
    assert [str(leaf.type) for leaf in (*cap.program.inputs, *cap.outputs)] == [
        "f32[b,n]",
        "f32[n,2*n]",
        "f32[b,2*n]",
    ]
    assert "with symbolic sizes (b, n)" in cap.program.origin
    assert "stablehlo.tanh" in jaxlens.hlo(cap, stage="stablehlo").text()
    for verb in (jaxlens.hlo, jaxlens.compile, jaxlens.explore):
        assert "jaxlens.capture(exported.call, x)" in " ".join(verb(cap).text().split())
    for verb in (jaxlens.cost, jaxlens.memory):
        with pytest.raises(UnavailableError, match=r"\(b, n\).*exported.call, x"):
            verb(cap).text()
    with pytest.raises(UnavailableError, match=r"f32\[\?,\?\].*exported.call, x"):
        _ = jaxlens.capture(exported.mlir_module()).optimized


def test_with_arrays_its_call_compiles(exported):
    cap = jaxlens.capture(exported.call, jnp.ones((8, 5)), jnp.ones((5, 10)))
    plain = jax.jit(step).lower(S((8, 5), jnp.float32), S((5, 10), jnp.float32)).compile()
    assert cap.cost["flops"] == plain.cost_analysis()["flops"]


def test_a_serialised_exported_is_opened_or_names_its_package(exported):
    try:
        import flatbuffers  # noqa: F401
    except ImportError:
        with pytest.raises(PackageError, match="pip install flatbuffers"):
            jaxlens.capture(b"\x20\0\0\0" + exported.mlir_module_serialized)
        return
    data = exported.serialize()
    assert jaxlens.capture(data).program.inputs == jaxlens.capture(exported).program.inputs
    with pytest.raises(ReadError, match="looks like a serialised"):
        jaxlens.capture(b"\x20\0\0\0" + exported.mlir_module_serialized)


PLACES = {
    "none": "",
    "a name": 'loc("mul")',
    "a name at a line": 'loc("a/mul"("-":3:1))',
    "a line": 'loc("x.py":3:1)',
    "lines": 'loc(callsite("x.py":3:1 at "x.py":9:1))',
    "several": 'loc(fused["x.py":3:1, "x.py":4:1])',
    "a kind": 'loc("mul:"("x.py":3:1))',
    "a function": 'loc("a/mul"("f"("x.py":3:1)))',
}


@pytest.mark.parametrize("place", PLACES)
def test_stablehlo_keeps_the_names_and_places_that_xla_gives_it(place):
    """Whatever its locations are: our stamps go through XLA and are not seen."""
    text = f"""module @m {{
      func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {{
        %0 = call @inner(%arg0) : (tensor<4xf32>) -> tensor<4xf32> {PLACES[place]}
        return %0 : tensor<4xf32>
      }}
      func.func private @inner(%arg0: tensor<4xf32>) -> tensor<4xf32> {{
        %0 = stablehlo.multiply %arg0, %arg0 : tensor<4xf32> {PLACES[place]}
        %1 = stablehlo.custom_call @Sharding(%0) : (tensor<4xf32>) -> tensor<4xf32> {PLACES[place]}
        return %1 : tensor<4xf32>
      }}
    }}"""
    cap = jaxlens.capture(text)
    assert cap.hlo.text == hlo_text(compat.to_hlo(stablehlo.parse(text)).as_hlo_module())
    view = jaxlens.hlo(cap, stage="hlo")
    assert "_jls" not in view.text(full=True) + view.html() + str(view.json())
    assert [link.head for link in cap.links.links("s1", "hlo", "stablehlo")]
