"""Arrays and programs on devices: every dtype, NumPy and JAX on both sides, several devices."""

from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import jaxlens.core.numpy as cnp
from jaxlens import core
from jaxlens.core.kernel.types import float0
from tests.support.paths import python

X = np.arange(3, dtype=np.float32)
DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    ml_dtypes.bfloat16,
]


def same(found, expected):
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


def through(arrays):
    """Of each array: itself through a program, two constants of it, and an empty part."""

    def f(arguments):
        pairs = zip(arguments, arrays, strict=True)
        return [(x, kept, core.array(kept), kept.reshape(-1)[:0]) for x, kept in pairs]

    return core.jit(f)(arrays)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arguments_results_and_constants(dtype):
    dtype = np.dtype(dtype)
    table = np.array([[1, 0, 3], [0, 5, 1]]).astype(dtype)
    arrays = [table, np.ones((40, 50), dtype), np.array(1).astype(dtype)]
    with core.enable_x64(), jax.enable_x64(True):
        for array, (once, constant, of_core, empty) in zip(arrays, through(arrays), strict=True):
            for found in (once, constant, of_core, jnp.asarray(once), core.array(array)):
                same(found, array)
            assert (empty.dtype, empty.shape) == (dtype, (0,))
        same(core.array(table.astype(table.dtype.newbyteorder())), table)


def test_signs_and_nans_survive():
    odd = np.array([np.nan, -0.0, 0.0, -np.inf], np.float32)
    zeros = np.array([0.0, -0.0], np.float32)
    for array, found in zip((odd, zeros), through([odd, zeros]), strict=True):
        for x in found[:3]:
            same(x, array)


def test_64_bits_are_halved_unless_x64():
    assert core.array(np.arange(3)).dtype == np.int32
    assert core.jit(lambda x: x)(np.ones(2)).dtype == np.float32
    with core.enable_x64():
        assert core.array(2.5).dtype == np.float64
        wide = core.array(np.array([1 + 2**-40]))
    assert float(wide[0] if wide.shape == () else np.asarray(wide)[0]) == 1 + 2**-40


def test_no_numbers_at_all():
    nothing = np.zeros((2,), float0)
    found = core.jit(lambda x: (x, X))(nothing)[0]
    assert isinstance(found, np.ndarray)
    assert (found.dtype, found.shape) == (float0, (2,))
    assert core.jit(lambda: ())() == ()
    assert core.jit(lambda x: None)(1.0) is None
    assert core.jit(lambda x: x)(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_numpy_and_jax_take_arrays_of_the_core():
    x = core.array(X)
    same(np.asarray(x), X)
    same(np.sin(np.asarray(x)), np.sin(X))
    same(jnp.asarray(x), X)
    same(jnp.ones(3) + x, X + 1)
    assert np.array(x, dtype=np.int64).dtype == np.int64
    own = np.array(x)
    own[0] = 7
    same(x, X)
    same(x + jnp.ones(3), X + 1)
    same(np.ones(3, np.float32) + x, X + 1)
    assert isinstance(np.ones(3, np.float32) + x, core.Array)


def test_an_array_is_its_own_and_a_program_s_argument_is_not_copied():
    source = np.zeros(64, np.float32)
    x = core.array(source)
    source[:] = 1
    same(x, np.zeros(64, np.float32))
    theirs = jnp.arange(5.0)
    assert core.array(theirs).buffer is theirs
    y = core.jit(lambda x: x + 1)(x)
    assert core.array(y).buffer is y.buffer


def test_scalars_of_python():
    x = core.array(2.5)
    assert (float(x), int(x), bool(x), complex(x)) == (2.5, 2, True, 2.5 + 0j)
    assert (x.item(), f"{x:.2f}", [10, 20, 30][core.array(1)]) == (2.5, "2.50", 20)
    assert core.array(X).tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(core.array(X))
    assert repr(core.array(X)) == "Array([0., 1., 2.], dtype=float32)"
    assert repr(core.jit(lambda x: x * 2)(1.0)).endswith("dtype=float32, weak_type=True)")


def test_trees_to_a_device_and_back():
    tree = {"a": X, "b": (1, [2.0])}
    there = core.block_until_ready(core.device_put(tree))
    assert all(isinstance(x, core.Array) for x in core.tree_leaves(there))
    back = core.device_get(there)
    assert type(back["a"]) is np.ndarray
    assert core.tree_leaves(back["b"]) == [1, 2.0]


def test_results_come_later():
    """A call returns before its program is done; asking for a number waits."""
    n = np.ones((600, 600), np.float32)
    power = core.jit(lambda x: x @ x @ x @ x @ x)
    power(n).block_until_ready()
    assert float(power(power(n) * 0)[0, 0]) == 0


def test_eager_operations_are_compiled_once():
    from jaxlens.core.kernel.run import _program

    cnp.sin(X)
    misses = _program.cache_info().misses
    for _ in range(3):
        cnp.sin(core.array(X))
    assert _program.cache_info().misses == misses


SEVERAL = """
import numpy as np
from jaxlens import core

first, second, *_ = devices = core.devices()
assert len(devices) == 4
x = np.arange(3, dtype=np.float32)
there = core.device_put(x, second)
assert there.devices() == {second} and core.array(x).devices() == {first}
f = core.jit(lambda x, y: (x * 2, y))
a, b = f(there, 1.0)
assert a.devices() == b.devices() == {second} and (a + 1).devices() == {second}
assert f(x, 1.0)[0].devices() == {first}
assert [key.device for key in f.cache_keys()] == [second, None]
assert np.array_equal(a, x * 2)
with core.enable_x64():
    wide = core.device_put(core.device_put(np.array([1 + 2**-40]), second), first)
assert np.asarray(wide)[0] == 1 + 2**-40
try:
    f(there, core.device_put(x, devices[2]))
except ValueError as error:
    assert "incompatible devices" in str(error) and "device_put" in str(error), error
else:
    raise AssertionError("two devices")
"""


def test_several_devices():
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    done = python("-W", "error", "-c", SEVERAL, **flags)
    assert done.returncode == 0, done.stderr


def test_the_log_of_jaxlib_is_not_written_to_stderr():
    code = "import jaxlens.core as core; core.jit(lambda x: x * 2)(1.0)"
    done = python("-c", code, without=["TF_CPP_MIN_LOG_LEVEL"])
    assert (done.returncode, done.stderr) == (0, "")


def test_on_eight_devices() -> None:
    file = Path(__file__).parents[1] / "support" / "core" / "on_eight_devices.py"
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", file, **flags)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert " passed" in done.stdout


WITHOUT = r"""
import importlib, re, shutil, sys
from pathlib import Path

import numpy as np

source, copies = Path(sys.argv[1]), Path(sys.argv[2])
for gone in ("aot/export.py", "parallel/pmap.py", "parallel"):
    core = copies / "jaxlens" / "core"
    shutil.rmtree(core, ignore_errors=True)
    shutil.copytree(source, core, ignore=shutil.ignore_patterns("__pycache__"))
    (core.parent / "__init__.py").touch()
    (shutil.rmtree if (core / gone).is_dir() else Path.unlink)(core / gone)
    module = "jaxlens.core." + gone.removesuffix(".py").replace("/", ".")
    text = (core / "__init__.py").read_text()
    lines = re.findall(rf"^from {module}\b.* import (.*)$", text, re.M)
    text = re.sub(rf"^from {module}\b.*\n", "", text, flags=re.M)
    (core / "__init__.py").write_text(text)
    for name in [name for name in sys.modules if name.startswith("jaxlens")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    import jaxlens.core as found
    assert found.__file__.startswith(str(core)) and lines, gone
    assert all(hasattr(found, name) for name in found.__all__), gone
    assert not (core / gone).exists()
    f = found.jit(found.grad(lambda x: found.vmap(found.numpy.sin)(x).sum()))
    np.testing.assert_allclose(f(np.ones(3, np.float32)), np.cos(np.ones(3)), rtol=1e-6)
"""


def test_what_can_be_deleted(tmp_path: Path) -> None:
    """Each of these, with its lines in `core/__init__.py`: nothing else imports it."""
    script = tmp_path / "script.py"
    script.write_text(WITHOUT)
    done = python("-B", script, Path(core.__file__).parent, tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
