"""The program shown is the program that runs: the one that JAX itself compiles for the call.

Held over the programs that other tests share and over `jitted_programs`: same instructions, same
constants, same inputs and outputs, same donation, as XLA's own text without names says it.
"""

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.ir.jaxpr.bodies import bodies
from jaxlens.views.listings.jaxpr import listing
from tests.support import jitted_programs, programs
from tests.support.compiled_by_jax import Executables, difference, ran
from tests.support.model_programs import MARKS, NAMES, captured, program
from tests.support.paths import run_python

pytestmark = [pytest.mark.backend, *MARKS]


def assert_shown(f, args, kwargs):
    """Looks first: the call may donate its arguments, or write to them."""
    cap = jaxlens.capture(f, *args, **kwargs)
    shown = cap.optimized.text
    assert_printed_as_by_jax(cap)
    assert not difference(shown, ran(f, args, kwargs))
    return cap


def headings(text):
    """The types of the constants and of the parameters of each jaxpr in a text."""
    found = re.findall(r"\{ lambda ([^;]*); (.*?)\. let\b", text, re.DOTALL)
    return {tuple(tuple(re.findall(r"[\w)]:(\S+)", names)) for names in pair) for pair in found}


def assert_printed_as_by_jax(cap):
    """Each nested jaxpr has the constants, parameters and results that it has for JAX."""
    jaxpr = cap.driver.staging.traced.jaxpr
    regions = cap.jaxpr.module.regions
    for body in bodies(jaxpr.jaxpr).values():
        region = regions[body.name]
        counts = region.constants, len(region.parameters), len(region.results)
        inner = body.jaxpr
        variables = len(inner.constvars) + len(inner.invars), len(inner.outvars)
        assert counts == (len(inner.constvars), *variables), body.name
    lines = listing(cap.jaxpr.module, limit=10**6)
    rows = (*lines.lines, *lines.more)
    printed = "\n".join("".join(piece.text for piece in line.pieces) for line in rows)
    # Of a Pallas kernel JAX prints no index maps that leave blocks where they are.
    assert headings(printed) >= headings(str(jaxpr))


@pytest.mark.filterwarnings("ignore")  # the libraries' own; MuJoCo's, that it misses Warp
@pytest.mark.parametrize("name", list(jitted_programs.CALLS))
def test_of_a_jitted_function(name):
    jitted_programs.require(name)
    with jitted_programs.surroundings(name):
        cap = assert_shown(*jitted_programs.CALLS[name]())
    assert not cap.program.unjitted


@pytest.mark.parametrize("name", [*programs.SMALL, *NAMES])
def test_of_a_function_that_is_not_jitted_it_is_what_jit_would_run(name):
    cap, (f, args) = captured(name), program(name)
    assert_printed_as_by_jax(cap)
    jax.clear_caches()  # the programs are shared, so another test may have compiled this one
    assert not difference(cap.optimized.text, ran(jax.jit(f), args, {}))
    assert cap.program.unjitted


def _mesh():
    return jax.set_mesh(jax.make_mesh((1,), ("i",)))


SETTINGS = {
    "x64": (lambda: jax.enable_x64(True), lambda x: x * 2.5 + jnp.ones(2)),
    "precision": (lambda: jax.default_matmul_precision("highest"), lambda x: jnp.outer(x, x) @ x),
    "mesh": (_mesh, lambda x: jax.sharding.reshard(x * 2, jax.P("i"))),
    "generator": (
        lambda: jax.default_prng_impl("rbg"),
        lambda x: x * jax.random.normal(jax.random.key(0), (2,)),
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_asked_for_elsewhere_it_is_under_the_settings_of_where_the_call_stands(name):
    setting, f = SETTINGS[name]
    f, args = jax.jit(f), (np.ones(2),)
    with setting():
        inside = jaxlens.capture(f, *args)
        run = ran(f, args, {})
    outside = jaxlens.capture(jax.jit(lambda x: x * 2.5), *args)
    assert not difference(inside.optimized.text, run)
    with setting():
        assert "f64" not in outside.optimized.text
    assert inside.verdict.hit  # the key has the settings in it


SCALE = 2.0


def _scaled():
    return jax.jit(lambda x: jnp.sin(x) * SCALE)


def _helped():
    def helper(x):
        return globals()["HELPER"](x) + 1

    return jax.jit(lambda x: jax.lax.scan(lambda c, _: (helper(c), None), x, None, 3)[0])


def _captured():
    return jax.jit(lambda x: x + TABLE)


TABLE = np.ones(2, np.float32)
HELPER = jnp.sin


def _in_flax():
    from flax import nnx

    return nnx.jit(lambda x: jnp.sin(x) * SCALE)


def _in_equinox():
    import equinox

    return equinox.filter_jit(lambda x: jnp.sin(x) * SCALE)


SCALED = "its mul reads 2.0:f32[] where this one reads 3.0:f32[]"
CHANGES = {
    "jit": ("SCALE", _scaled, 3.0, SCALED),
    "nnx.jit": ("SCALE", _in_flax, 3.0, SCALED),
    "eqx.filter_jit": ("SCALE", _in_equinox, 3.0, SCALED),
    "helper": ("HELPER", _helped, jnp.cos, "it has sin where this one has cos"),
    "array": (
        "TABLE",
        _captured,
        np.zeros(2, np.float32),
        "an array of type f32[2] that it captured",
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_call_that_runs_an_earlier_trace_is_said_to(case, monkeypatch):
    name, make, value, said = CHANGES[case]
    f, x = make(), np.ones(2, np.float32)
    before = np.asarray(f(x))
    assert not jaxlens.capture(f, x).deviations
    monkeypatch.setitem(globals(), name, value)
    assert not jaxlens.capture(make(), x).deviations  # a new jit traces anew
    cap = jaxlens.capture(f, x)
    text = " ".join(str(jaxlens.jaxpr(cap)).split())
    assert (
        f"was traced before, and a call runs that program until jax.clear_caches(): {said}" in text
    )
    assert cap.optimized.text  # the arguments are gone now
    assert len(cap.deviations) == 1
    with Executables() as made:
        assert np.asarray(f(x)).tobytes() == before.tobytes()  # it does
    assert not made.texts


def test_where_jit_is_off_it_says_so():
    with jax.disable_jit():
        cap = jaxlens.capture(jax.jit(jnp.tanh), np.ones(2))
    (sentence,) = cap.deviations
    assert sentence.startswith("jax_disable_jit is on here, so the call runs op by op")
    assert not jaxlens.capture(jax.jit(jnp.tanh), np.ones(2)).deviations


ON_EIGHT = """
import json
import sys

import jax

jax.config.update("jax_num_cpu_devices", 8)
from tests.support import jitted_programs
from tests.support.compiled_by_jax import Executables, difference, ran

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
    return json.loads(run_python(ON_EIGHT))


@pytest.mark.parametrize(
    "name",
    list(jitted_programs.ON_EIGHT_DEVICES),
)
def test_on_eight_devices(on_eight_devices, name):
    if name == "fsdp_step":
        pytest.importorskip("optax")
    assert on_eight_devices[name] == [8, ""]
