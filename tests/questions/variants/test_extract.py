"""Every instruction of a program, run alone, has the bits that it has in the program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.errors import OptionError, UnavailableError

pytestmark = pytest.mark.reads_jax

RANDOM = np.random.default_rng(0)
X = jnp.asarray(RANDOM.normal(size=(8, 16)), jnp.float32)
W = jnp.asarray(RANDOM.normal(size=(16, 16)), jnp.float32)
VIEWS = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast"}


def f(x, w):
    """A product, a loop that writes in place, an update, a sort and a softmax."""
    y = jnp.tanh(x @ w)

    def body(c, i):
        c = jnp.sin(c) * 1.1 + y.sum()
        return c, c * i

    c, ys = jax.lax.scan(body, x.sum(0), jnp.arange(3.0))
    z = jax.lax.dynamic_update_slice(y, c[None, :] + 1, (1, 0))
    return jnp.sort(z, axis=1), jax.nn.softmax(y), ys


@pytest.fixture(scope="module")
def cap():
    yield jaxlens.capture(jax.jit(f, donate_argnums=0), X, W)
    assert not X.is_deleted()


def test_every_instruction_has_its_bits(cap):
    module = cap.optimized.module
    fused = {r for node in module.nodes() if node.opcode == "fusion" for r in node.regions}
    names = {
        node.id: region
        for region, body in module.regions.items()
        if region not in fused and "region_" not in region
        for node in body.nodes
        if node.opcode not in VIEWS
    }
    assert len(names) > 10
    for name in names:
        made = jaxlens.extract(cap, name, run=1)
        assert made.equal, name
        assert made.share > 0
    (sorted_,) = (jaxlens.extract(cap, n, run=1) for n in names if n.startswith("sort"))
    expected = np.asarray(jax.jit(f)(X, W)[0])
    assert sorted_.outputs[0].tobytes() == expected.tobytes()
    assert np.sort(np.asarray(sorted_.inputs[0]), axis=1).tobytes() == expected.tobytes()


def test_a_loop_its_body_and_what_is_in_it(cap):
    module = cap.optimized.module
    loop = next(node for node in module.nodes() if node.opcode == "while")
    body = next(r for r in loop.regions if module.regions[r].nodes[-1].opcode == "tuple")
    whole, once = (jaxlens.extract(cap, name, run=1) for name in (loop.id, body))
    assert whole.equal
    assert once.equal is None
    y = np.tanh(np.asarray(X) @ np.asarray(W))
    first = np.sin(np.asarray(X).sum(0)) * np.float32(1.1) + y.sum()
    carried = [value for value in once.outputs if value.shape == (16,)]
    assert any(np.allclose(value, first, rtol=1e-4) for value in carried)
    assert f"first iteration of {loop.id}" in repr(once)
    assert int(whole.outputs[0]) == 3
    assert int(once.outputs[0]) == 1


def test_what_was_extracted_is_edited(cap):
    name = next(n.id for n in cap.optimized.module.body().nodes if "tanh" in n.id)
    made = jaxlens.extract(cap, name, run=2)
    assert "by itself: it and the program ran 2 times" in repr(made)
    assert "% of the program's" in made.text(times=True)
    assert "bit for bit equal" in made.html()
    text = jaxlens.edit(made.capture, "optimized")
    edited = jaxlens.edit(made.capture, "optimized", text.replace(" tanh(", " cosine("), run=1)
    product = np.asarray(made.inputs[0])
    difference = np.abs(np.tanh(product) - np.cos(product)).max()
    assert edited.outputs[0].largest == pytest.approx(difference, rel=1e-4)
    with pytest.raises(UnavailableError, match="holds no StableHLO"):
        jaxlens.reproducer(made.capture, "repro.py")


def test_what_cannot_be_extracted_is_one_line(cap):
    module = cap.optimized.module
    with pytest.raises(OptionError, match=r"no instruction .fusion\.999.; "):
        jaxlens.extract(cap, "fusion.999")
    parameter = module.body().nodes[0].id
    with pytest.raises(OptionError, match="computes nothing by itself"):
        jaxlens.extract(cap, parameter)
    fusion = next(node for node in module.body().nodes if node.opcode == "fusion")
    inner = module.regions[fusion.regions[0]].nodes[-1].id
    with pytest.raises(UnavailableError, match=rf"part of {fusion.id} \(fusion\)"):
        jaxlens.extract(cap, inner)
