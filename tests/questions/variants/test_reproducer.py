"""The file of a program runs in an empty folder, and computes what the program does."""

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens import core
from jaxlens.errors import OptionError, UnavailableError
from tests.support.paths import python

pytestmark = pytest.mark.reads_jax

TABLE = np.arange(6.0, dtype=np.float32).reshape(2, 3)

RUN = """
import runpy, numpy as np
outputs = runpy.run_path("repro.py")["outputs"]
outputs = [np.asarray(o).view("u1") if o.dtype == "bfloat16" else o for o in outputs]
np.savez("outputs.npz", *outputs)
"""


def in_empty_folder(folder: Path) -> tuple[str, list[np.ndarray]]:
    """Runs the file in a new process that knows nothing of jaxlens; its words and outputs."""
    done = python("-c", RUN, folder=folder, without=["PYTHONPATH", "XLA_FLAGS"])
    assert done.returncode == 0, done.stderr
    with np.load(folder / "outputs.npz") as saved:
        return done.stdout, [saved[name] for name in saved]


def step(params, unused, x, key, scale):
    """Unused, donated and closed-over arrays, a key, bfloat16, a Python number, LAPACK."""
    h = jnp.linalg.cholesky(x @ x.T + jnp.eye(2)) + jax.random.normal(key, (2, 2)) * scale
    return h @ TABLE, (params["w"] * 2).astype(jnp.bfloat16), x + 1


def test_it_runs_with_jax_alone_bit_for_bit(tmp_path: Path) -> None:
    f = jax.jit(step, donate_argnums=2, compiler_options={"xla_cpu_enable_fast_math": False})
    x = jnp.asarray(np.random.default_rng(1).normal(size=(2, 2)), jnp.float32)
    args = ({"w": jnp.arange(3.0) / 7}, jnp.ones(5), x, jax.random.key(3), 0.3)
    made = jaxlens.reproducer(jaxlens.capture(f, *args), tmp_path / "repro.py", data=True)
    assert sorted(os.listdir(tmp_path)) == ["repro.npz", "repro.py"]
    assert "jaxlens" not in made.code
    assert "step" in made.code
    assert __file__ not in made.code
    assert "xla_cpu_enable_fast_math" in made.code
    assert jax.__version__ in made.code
    words, outputs = in_empty_folder(tmp_path)
    assert "ran: output 0 is float32[2, 3]" in words
    assert not x.is_deleted()
    expected = jax.tree.leaves(f(*args))
    assert [np.asarray(e).tobytes() for e in expected] == [o.tobytes() for o in outputs]


def test_the_data_of_a_large_program_is_drawn(tmp_path: Path) -> None:
    def f(x, i):
        for n in range(150):
            x = jnp.sin(x) * n
        return x[i]

    with jax.enable_x64(True):
        cap = jaxlens.capture(f, np.ones(4), 1)
    made = jaxlens.reproducer(cap, tmp_path / "repro.py")
    assert made.data == ""
    assert "python" in repr(made)
    words, (output,) = in_empty_folder(tmp_path)
    assert "float64[]" in words
    assert output.dtype == np.float64


def test_a_program_of_the_core(tmp_path: Path) -> None:
    cap = jaxlens.capture(lambda x: core.numpy.sum(x * 3), core.array([1.0, 2.0]))
    jaxlens.reproducer(cap, tmp_path / "repro.py", data=True)
    assert in_empty_folder(tmp_path)[1] == [9.0]


def test_what_cannot_be_a_file_is_one_line(tmp_path: Path) -> None:
    cap = jaxlens.capture(lambda x: x * 2, jax.ShapeDtypeStruct((2,), jnp.float32))
    with pytest.raises(OptionError, match="needs arrays, got only the shape"):
        jaxlens.reproducer(cap, tmp_path / "repro.py", data=True)
    with pytest.raises(OptionError, match="No such file"):
        jaxlens.reproducer(cap, tmp_path / "none" / "repro.py")

    def calls_back(x):
        jax.debug.print("{}", x)
        return x

    with pytest.raises(UnavailableError, match="Python functions"):
        jaxlens.reproducer(jaxlens.capture(calls_back, 1.0), tmp_path / "repro.py")
    assert list(tmp_path.iterdir()) == []
