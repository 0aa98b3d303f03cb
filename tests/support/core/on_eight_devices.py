"""What `test_core_device.py` runs in a process that has eight devices: against JAX."""

import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import jaxlens.core.numpy as cnp
from jaxlens import core
from jaxlens.core.parallel import collectives
from jaxlens.core.parallel.mapping import shard_map
from jaxlens.core.parallel.pmap import pmap
from tests.support.core import alike

X = np.arange(64, dtype=np.float32).reshape(8, 8) / 16
MESH = Mesh(np.array(core.devices()).reshape(4, 2), ("i", "j"))
NAMES = ["psum", "pmean", "axis_size"]
OURS = SimpleNamespace(
    **{name: getattr(collectives, name) for name in NAMES},
    np=cnp,
    **{name: getattr(core, name) for name in ("vmap", "scan", "fori_loop")},
)
JAX = SimpleNamespace(
    **{name: getattr(lax, name) for name in (*NAMES, "scan", "fori_loop")}, np=jnp, vmap=jax.vmap
)
# name: function of one part, spec of the argument, spec of the result
CASES = {
    "psum": (lambda m, x: m.psum(m.np.sin(x), "i"), P("i", "j"), P(None, "j")),
    "psum, both": (lambda m, x: m.psum(m.np.sin(x), ("i", "j")), P("i", "j"), P()),
    "psum, tree": (
        lambda m, x: m.psum((m.np.sin(x), m.np.cos(x)), "j")[1] * x,
        P("i", "j"),
        P("i", "j"),
    ),
    "psum of copies": (lambda m, x: m.psum(m.np.sin(x), "j"), P("i"), P("i")),
    "no collective": (lambda m, x: m.np.sin(x) * 2, P("j", "i"), P("j", "i")),
    "scalar residual": (
        lambda m, x: m.np.exp(m.np.sin(x.sum())) * x,
        P("i", "j"),
        P("i", "j"),
    ),
    "pmean": (lambda m, x: m.np.sin(x) - m.pmean(x * x, "i"), P("i", "j"), P("i", "j")),
    "axis_size": (lambda m, x: x * m.axis_size("i") + m.psum(1, "j"), P("i"), P("i")),
}


def both(f, ins, outs, mesh=MESH):
    """A function of a library's names and a part, over the devices: the core's, and JAX's."""
    specs = {"mesh": mesh, "in_specs": ins, "out_specs": outs}
    return (
        shard_map(lambda x: f(OURS, x), **specs),
        jax.shard_map(lambda x: f(JAX, x), **specs, check_vma=False),
    )


def mapped(name: str):
    return both(*CASES[name])


def primitives(jaxpr) -> list:
    """The equations of a jaxpr; those in calls stand where the call is."""
    found = []
    for eqn in jaxpr.eqns:
        inner = eqn.params.get("jaxpr")
        if inner is not None:
            found += primitives(inner)
        elif eqn.primitive.name != "reshard":  # JAX's note to itself
            found.append((eqn.primitive.name, [v.aval.shape for v in eqn.outvars]))
    return found


close = functools.partial(alike.close, tolerance=2e-6)


def gradient(module, f):
    """By a cotangent that is no constant."""
    return lambda x: module.vjp(f, x)[1](f(x) ** 2)[0]


@pytest.mark.parametrize("name", CASES)
def test_like_jax(name: str) -> None:
    ours, theirs = mapped(name)
    written = core.make_jaxpr(ours)(X)
    core.check_jaxpr(written)
    assert primitives(written) == primitives(jax.make_jaxpr(theirs)(X))
    close(ours(X), theirs(X))
    close(core.jvp(ours, (X,), (X,)), jax.jvp(theirs, (X,), (X,)))


@pytest.mark.parametrize("name", CASES)
def test_reverse_mode(name: str) -> None:
    ours, theirs = mapped(name)
    core.check_jaxpr(core.make_jaxpr(gradient(core, ours))(X))
    found = gradient(core, ours)(X)
    close(core.jit(gradient(core, ours))(X), found)
    close(found, jax.jit(gradient(jax, theirs))(X))


@pytest.mark.parametrize("name", CASES)
def test_batched(name: str) -> None:
    ours, theirs = mapped(name)
    many = np.stack([X, X + 1], 1)
    found = core.jit(core.vmap(ours, 1))(many)
    expected = jax.jit(jax.vmap(theirs, 1))(many)
    close(found, expected)


def test_a_gradient_is_written_as_jax_does() -> None:
    ours, theirs = mapped("psum")
    found = primitives(core.make_jaxpr(core.grad(lambda x: ours(x).sum()))(X))
    assert found == primitives(jax.make_jaxpr(jax.grad(lambda x: theirs(x).sum()))(X))


NAMED = {
    "psum": lambda m, x: m.psum(m.np.sin(x), "i") * x,
    "psum of what all share": lambda m, x: x + m.psum(m.np.ones(3), "i").sum(),
    "pmean": lambda m, x: x * x - m.pmean(x, "i"),
}


@pytest.mark.parametrize("name", NAMED)
def test_over_a_vmapped_axis(name: str) -> None:
    f = NAMED[name]

    def ours(x):
        return core.vmap(lambda x: f(OURS, x), 1, axis_name="i")(x)

    def theirs(x):
        return jax.vmap(lambda x: f(JAX, x), 1, axis_name="i")(x)

    close(core.jit(ours)(X), jax.jit(theirs)(X))
    close(core.jit(gradient(core, ours))(X), jax.jit(gradient(jax, theirs))(X))
    written = core.make_jaxpr(ours)(X)
    core.check_jaxpr(written)
    assert "psum" not in {e.primitive.name for e in written.eqns}


def test_over_devices_and_examples_at_once() -> None:
    def f(m, x):
        return m.vmap(lambda row: m.psum(m.np.sin(row), ("i", "k")) * row, axis_name="k")(x)

    ours, theirs = both(f, P("i", "j"), P("i", "j"))
    close(ours(X), theirs(X))


def test_results_lie_over_the_devices() -> None:
    ours, _ = mapped("no collective")
    for f in (ours, core.jit(ours)):
        y = f(X)
        assert y.devices() == set(core.devices())
        assert {shard.data.shape for shard in y.buffer.addressable_shards} == {(4, 2)}
        assert y.buffer.sharding.spec == P("j", "i")
        again = f(y)  # what lies right is not moved
        close(again, np.sin(np.sin(X) * 2) * 2)
        assert (y + 1).devices() == {core.devices()[0]}
    both = core.jit(lambda x: (ours(x) + 1, x * 2))(X)  # beside ops of the whole arrays
    close(both, (np.sin(X) * 2 + 1, X * 2))


def test_training_step_over_the_batch() -> None:
    """The gradient of a mean over all examples is the mean of the devices' gradients."""
    w = np.linspace(-1, 1, 8, dtype=np.float32)

    def loss(m, w, x):
        return (m.np.tanh(x @ w) ** 2).mean()

    def step(m, module, w, x):
        value, g = module.value_and_grad(lambda w: loss(m, w, x))(w)
        return m.pmean(value, "i"), w - m.pmean(g, "i")

    mesh = Mesh(core.devices(), "i")
    specs = {"in_specs": (P(), P("i")), "out_specs": (P(), P())}
    found = core.jit(shard_map(lambda w, x: step(OURS, core, w, x), mesh=mesh, **specs))(w, X)
    value, g = jax.value_and_grad(lambda w: loss(JAX, w, X))(w)
    close(found, (value, w - g))


def test_control_flow_in_parts() -> None:
    def f(m, x):
        return m.fori_loop(0, 4, lambda i, x: m.psum(x, "i") + i, x)

    ours, theirs = both(f, P("i", "j"), P("i", "j"))
    close(core.jit(ours)(X), theirs(X))


@pytest.mark.parametrize("order", [[7, 5, 3, 1], [2, 3, 4, 5]])
def test_devices_in_the_order_of_the_mesh(order: list[int]) -> None:
    def f(m, x):
        return x + m.psum(x, "i")

    mesh = Mesh([core.devices()[k] for k in order], "i")
    found, expected = (g(X) for g in both(f, P("i"), P("i"), mesh))
    close(found, expected)
    shards = zip(found.buffer.addressable_shards, expected.addressable_shards, strict=True)
    assert all((a.device, a.index) == (b.device, b.index) for a, b in shards)


def test_with_other_transformations() -> None:
    ours, theirs = mapped("psum")

    def summed(f):
        return lambda x: (f(x) ** 2).sum()

    def recurrent(m, x):
        def step(carry, row):
            return m.psum(carry * row, "j"), m.np.sin(carry)

        return m.scan(step, x[0], x)

    small = X[:4, :2]
    close(core.jit(core.hessian(summed(ours)))(small), jax.jit(jax.hessian(summed(theirs)))(small))
    close(
        core.vmap(core.grad(summed(core.checkpoint(ours))))(np.stack([X, X + 1])),
        jax.vmap(jax.grad(summed(theirs)))(np.stack([X, X + 1])),
    )
    inside, expected = both(recurrent, P("j"), (P(), P("j")))
    close(core.jit(gradient_of_sums(core, inside))(X), jax.jit(gradient_of_sums(jax, expected))(X))

    def around(scan, f):
        return lambda x: scan(lambda c, _: (c + f(c).sum(), f(c)), x, None, length=2)

    close(core.jit(around(core.scan, ours))(X), jax.jit(around(lax.scan, theirs))(X))


def gradient_of_sums(module, f):
    return module.grad(lambda x: sum((y**2).sum() for y in f(x)))


def test_what_cannot_be_compiled() -> None:
    ours, _ = mapped("psum")
    other = shard_map(lambda x: x, mesh=Mesh(core.devices(), "i"), in_specs=P(), out_specs=P())
    with pytest.raises(ValueError, match="one program can use one mesh"):
        core.jit(lambda x: ours(x).sum() + other(x).sum())(X)
    with pytest.raises(NotImplementedError, match="not exported"):
        core.export(core.jit(ours))(X)
    with pytest.raises(ValueError, match="an axis of one of these names"):
        shard_map(ours, mesh=MESH, in_specs=P(), out_specs=P())(X)


def test_pmap() -> None:
    def f(m, x, y):
        return {"a": m.psum(x * y, "k"), "b": x + 1}

    for axes in ((0, None), (1, 0)):
        ours = pmap(lambda x, y: f(OURS, x, y), "k", in_axes=axes)
        theirs = jax.pmap(lambda x, y: f(JAX, x, y), "k", in_axes=axes)
        found = ours(X, X[0])
        close(found, theirs(X, X[0]))
        assert found["b"].devices() == set(core.devices())
    by_name = pmap(lambda x, *, y: x * y)(X, y=X)
    close(by_name, jax.pmap(lambda x, *, y: x * y)(X, y=X))
    square = pmap(lambda x: x * x, in_axes=1)
    assert square(X).shape == (8, 8)
    assert square.cache_info().misses == 1
    close(core.grad(lambda x: pmap(lambda x: cnp.sin(x))(x).sum())(X), np.cos(X))


def test_64_bits_and_halves() -> None:
    with core.enable_x64():
        x = X.astype(np.float64)
        f = shard_map(lambda x: collectives.psum(x, "i"), mesh=MESH, in_specs=P("i"), out_specs=P())
        y = f(x)
        assert y.dtype == np.float64
        np.testing.assert_array_equal(np.asarray(y), x.reshape(4, 2, 8).sum(0))
    y = f(core.array(X).astype(cnp.bfloat16))
    assert y.dtype == cnp.bfloat16


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: collectives.psum(X, "k"), NameError, "unbound axis name 'k'; bound are: none"),
        (
            lambda: shard_map(lambda x: x, mesh=MESH, in_specs=P("k"), out_specs=P())(X),
            ValueError,
            r"in_specs of args\[0\]: P\('k',\) must name axes .* mesh has i, j",
        ),
        (
            lambda: shard_map(lambda x: x, mesh=MESH, in_specs=P("i"), out_specs=P())(X[:6]),
            ValueError,
            r"axis 0 of f32\[6,8\] has length 6, which .* into 4 equal parts",
        ),
        (
            lambda: shard_map(lambda x: x, mesh=MESH, in_specs=P(*"iji"), out_specs=P())(X[0]),
            ValueError,
            "name axes of the mesh, each once",
        ),
        (
            lambda: shard_map(lambda x: x, mesh=MESH, in_specs="i", out_specs=P())(X),
            TypeError,
            "expected a PartitionSpec",
        ),
        (
            lambda: shard_map(lambda x: x.sum(), mesh=MESH, in_specs=P(), out_specs=P("i"))(X),
            ValueError,
            "out_specs: P.'i',. has more entries",
        ),
        (
            lambda: pmap(lambda x: x)(X[0].repeat(2)),
            ValueError,
            r"Number of devices 8 must be >= .* \(16,\)",
        ),
        (lambda: pmap(lambda x: x, in_axes=None)(X), ValueError, "pmap: no argument counts"),
    ],
)
def test_errors(call, kind, words: str) -> None:
    with pytest.raises(kind, match=words):
        call()
