"""The StableHLO reader on real programs: ops, names and locations as MLIR prints them."""

import re
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlens.errors import ReadError
from jaxlens.ir.jaxpr import reader as jaxpr
from jaxlens.ir.stablehlo import reader as stablehlo
from tests.ir.check import check
from tests.ir.jaxpr.test_jaxpr import loops, sharded

pytestmark = pytest.mark.backend

X = jax.ShapeDtypeStruct((8, 4), "float32")
NAMED = re.compile(r"^ *%([\w]+)(?::\d+)? = \"?(?:stablehlo\.|func\.|chlo\.)?([\w.]+)", re.M)


def scan(x):
    return jax.lax.scan(lambda c, r: (jnp.tanh(c * r), c.sum()), x[0], x)


def branches(x):
    return jax.lax.switch(x.sum().astype(int), [jnp.sin, lambda v: loops(v), jnp.cos], x)


def sorting(x):
    return jnp.sort(x, axis=0), jnp.argsort(x, axis=1), jnp.cumsum(x), x.at[1].add(2.0)


def images(x):
    y = jnp.stack([x, x])[None, ...]
    y = jax.lax.reduce_window(y, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 1, 1), "SAME")
    return y, jnp.fft.fft(x), x.astype("bfloat16") @ x.T.astype("bfloat16"), (x > 0).any()


def own_call(x):
    return jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct((8, 4), "float32"), x)


PROGRAMS = {
    "relu": lambda x: jax.nn.relu(x @ x.T),
    "scan": scan,
    "grad of scan": jax.grad(lambda x: scan(x)[1].sum()),
    "loops": loops,
    "branches": branches,
    "sorting": sorting,
    "images": images,
    "grad of max pool": jax.grad(lambda x: images(x)[0].sum()),
    "rng": lambda x: x + jax.random.normal(jax.random.key(0), x.shape),
    "sharded": sharded,
    "callback": own_call,
    "erf": jax.scipy.special.erfinv,
    "linear algebra": lambda x: jnp.linalg.svd(x),
    "empty": lambda x: None,
}


def lower(f, *args):
    return jax.jit(f).trace(*(args or (X,))).lower()


def read(source):
    module = stablehlo.read(source)
    assert check(module) == []
    return module


def walked(module, ir):
    """Names of all ops but the module, its functions and the ops that close a block."""
    names = []

    def see(op):
        names.append(op.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(see)
    return Counter(n for n in names if not n.endswith((".return", "func.func", "module", ".mesh")))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_op_is_read_once(name):
    from jaxlib.mlir import ir

    lowered = lower(PROGRAMS[name])
    module = lowered.compiler_ir("stablehlo")
    assert Counter(node.opcode for node in read(module).nodes()) == walked(module, ir)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_have_the_names_that_mlir_prints(name):
    lowered = lower(PROGRAMS[name])
    printed = Counter(NAMED.findall(lowered.as_text()))
    ours = Counter(
        (node.results[0].name.split("#")[0], node.opcode.split(".", 1)[1])
        for node in read(lowered.compiler_ir("stablehlo")).nodes()
        if node.results
    )
    # bodies of one op print inside their parent's line: "applies stablehlo.add"
    assert not printed - ours
    assert all("body" in name or op for name, op in ours - printed)


@pytest.mark.parametrize("name", PROGRAMS)
def test_text_with_locations_reads_as_the_module_does(name):
    lowered = lower(PROGRAMS[name])
    assert read(lowered.as_text(debug_info=True)) == read(lowered.compiler_ir("stablehlo"))


@pytest.mark.parametrize("name", ["relu", "scan", "branches"])
def test_spans_are_those_of_the_equations(name):
    jax.clear_caches()  # a body lowered for another test keeps that test's frames
    traced = jax.jit(PROGRAMS[name]).trace(X)
    places = {
        (s.key, s.line, s.end_line, s.column, s.end_column)
        for node in jaxpr.read(traced.jaxpr).nodes()
        for s in node.spans
    }
    found = {
        (s.key, s.line, s.end_line, s.column, s.end_column)
        for node in read(traced.lower().compiler_ir("stablehlo")).nodes()
        for s in node.spans[:1]
    }
    assert found
    assert found <= places


def test_blocks_say_what_they_do():
    assert {"while cond", "while body"} < set(read(lower(loops).as_text()).regions)
    assert {"case branch 0", "case branch 2"} < set(read(lower(branches).as_text()).regions)
    assert {"sort comparator", "scatter body"} < set(read(lower(sorting).as_text()).regions)


def test_calls_name_their_functions():
    module = read(lower(PROGRAMS["relu"]).compiler_ir("stablehlo"))
    (call,) = [n for n in module.nodes() if n.opcode == "func.call"]
    assert call.regions == ("relu",)
    assert module.regions["relu"].kind == "func"
    assert str(module.regions["relu"].parameters[0].type) == "f32[8,8]"


def test_a_large_constant_is_counted_and_not_printed():
    big = np.arange(1_000_000, dtype="float32")
    module = read(lower(lambda x: big + x.sum()).compiler_ir("stablehlo"))
    values = [n.attrs["value"] for n in module.nodes() if n.opcode == "stablehlo.constant"]
    assert "dense<... 1,000,000 elements>" in values
    assert len(repr(module)) < 20_000


def test_arguments_keep_their_names_and_marks():
    f = jax.jit(lambda state, x: {"a": state["a"] + x}, donate_argnums=0)
    module = read(f.trace({"a": X}, X).lower().compiler_ir("stablehlo"))
    assert module.attrs["main arg0"].startswith("state['a']")
    assert "aliasing" in module.attrs["main arg0"] or "donor" in module.attrs["main arg0"]
    assert module.attrs["main arg1"] == "x"


def test_deep_nesting_is_no_recursion():
    def nest(x):
        f = jnp.sin
        for _ in range(40):
            f = (lambda g: lambda v: jax.lax.fori_loop(0, 2, lambda i, c: g(c), v))(f)
        return f(x)

    module = read(lower(nest).compiler_ir("stablehlo"))
    assert len(module.regions) > 80


def test_what_is_no_stablehlo_is_refused_in_one_line():
    with pytest.raises(ReadError, match="cannot parse the StableHLO text") as caught:
        stablehlo.read("module { nonsense }")
    assert "\n" not in str(caught.value)
