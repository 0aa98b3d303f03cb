"""XLA's warning on the stderr of a real kernel, on the user's line; nothing of stderr is lost."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.notebook.test_kernel import Kernel, pytestmark  # noqa: F401

SETUP = """
%load_ext jaxlens
import os, jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("x", "y", "z"))
x = jnp.ones((64, 64))
"""
RESHARD = """def keep(x, spec):
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, spec))
@jax.jit
def f(x):
    x = jnp.sin(keep(x, P(None, "x")))
    return jnp.cos(keep(x, P(("y", "x"), None)))
f(x)
os.write(2, b"the last words\\n"); __import__("time").sleep(2)  # ipykernel reads them in a thread
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: Any) -> Iterator[Kernel]:
    patch = pytest.MonkeyPatch()
    patch.delenv("PYTEST_CURRENT_TEST")  # ipykernel then leaves descriptor 2 alone
    patch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    kernel = Kernel(tmp_path_factory.mktemp("kernel"))
    patch.undo()
    kernel.run(SETUP)
    yield kernel
    kernel.stop()


def test_a_reshard_by_replication(kernel: Kernel) -> None:
    assert kernel.run("%jaxlens on")[0].startswith("jaxlens is on")
    printed, shown, error = kernel.run(RESHARD)
    assert not error
    assert printed.count("Involuntary full rematerialization") == 1  # XLA's own text, still there
    assert printed.endswith("the last words\n")
    assert shown.splitlines()[-2:] == [
        "Compiled `f`.",
        "Warning: XLA replicates f32[64,64], made at cell 3:2 (called at cell 3:5), on every "
        "device, to reshard it from P(None, 'x') to P(('y', 'x'), None) (involuntary full "
        "rematerialization).",
    ]


def test_by_way_of_another_sharding_nothing_is_replicated(kernel: Kernel) -> None:
    cured = RESHARD.replace("def f(", "def g(").replace("f(x)\nos", "g(x)\nos")
    cured = cured.replace("x, P((", 'keep(x, P("x", "y")), P((')
    assert 'keep(keep(x, P("x", "y")), P(("y", "x"), None))' in cured
    printed, shown, error = kernel.run(cured)
    assert not error
    assert "Involuntary" not in printed
    assert shown.splitlines()[-1] == "Compiled `g`."


def test_stderr_is_as_ever_when_off(kernel: Kernel) -> None:
    kernel.run("%jaxlens off")
    printed, shown, _ = kernel.run(RESHARD.replace("64", "32"))
    assert printed.count("Involuntary full rematerialization") == 1
    assert "Compiled" not in shown
