"""The program shown is the program that runs: the one that JAX itself compiles for the call.

Held over the programs that other tests share and over `jitted_programs`: same instructions, same
constants, same inputs and outputs, same donation, as XLA's own text without names says it.
"""

import json
import subprocess
import sys
from pathlib import Path

import jax
import jitted_programs
import programs
import pytest
from compiled_by_jax import difference, ran
from model_programs import MARKS, NAMES, program

import jaxlens

pytestmark = [pytest.mark.backend, *MARKS]

# By the words that begin their names: the library that a call needs.
LIBRARIES = {
    "nnx": "flax",
    "equinox": "equinox",
    "linen": "flax",
    "haiku": "haiku",
    "optax": "optax",
    "diffrax": "diffrax",
    "optimistix": "optimistix",
    "lineax": "lineax",
    "numpyro": "numpyro",
    "blackjax": "blackjax",
    "mjx": "mujoco.mjx",
}
# Wrappers whose jit is not yet looked into: JAX's program has what they add to it.
UNOPENED = pytest.mark.xfail(strict=False, reason="the wrapper is jitted from outside")
WRAPPED = ("nnx", "equinox", "diffrax", "mapped")


def assert_shown(f, args, kwargs):
    """Looks first: the call may donate its arguments, or write to them."""
    cap = jaxlens.capture(f, *args, **kwargs)
    shown = cap.optimized.text
    assert not difference(shown, ran(f, args, kwargs))
    return cap


@pytest.mark.filterwarnings("ignore")  # the libraries' own; MuJoCo's, that it misses Warp
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[UNOPENED] if name.startswith(WRAPPED) else [])
        for name in jitted_programs.CALLS
    ],
)
def test_of_a_jitted_function(name):
    library = LIBRARIES.get(name.partition("_")[0])
    if library:
        pytest.importorskip(library)
    with jitted_programs.surroundings(name):
        cap = assert_shown(*jitted_programs.CALLS[name]())
    assert not cap.program.unjitted


@pytest.mark.parametrize("name", [*programs.SMALL, *NAMES])
def test_of_a_function_that_is_not_jitted_it_is_what_jit_would_run(name):
    f, args = program(name) if name in NAMES else programs.SMALL[name]()
    cap = jaxlens.capture(f, *args)
    assert not difference(cap.optimized.text, ran(jax.jit(f), args, {}))
    assert cap.program.unjitted


ON_EIGHT = """
import json
import sys

import jax

jax.config.update("jax_num_cpu_devices", 8)
sys.path[:0] = sys.argv[1:]
import jitted_programs
from compiled_by_jax import difference, ran

import jaxlens

found = {}
for name, made in jitted_programs.ON_EIGHT_DEVICES.items():
    f, args, kwargs = made()
    cap = jaxlens.capture(f, *args, **kwargs)
    shown = cap.optimized.text
    found[name] = [cap.program.target.devices, difference(shown, ran(f, args, kwargs))]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def on_eight_devices():
    tests = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-W", "ignore", "-c", ON_EIGHT, str(tests)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[UNOPENED] if name.startswith(WRAPPED) else [])
        for name in jitted_programs.ON_EIGHT_DEVICES
    ],
)
def test_on_eight_devices(on_eight_devices, name):
    if name == "fsdp_step":
        pytest.importorskip("optax")
    assert on_eight_devices[name] == [8, ""]
