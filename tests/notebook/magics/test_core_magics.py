"""The magics on functions of `jaxlens.core`, and `--core` on functions of `jax.numpy`."""

import pytest

pytestmark = [pytest.mark.notebook, pytest.mark.backend]
CORE = """
from jaxlens import core
import jaxlens.core.numpy as cnp
x = cnp.ones((2, 3))
w = cnp.ones((3, 4))
def loss(w, x):
    return cnp.tanh(x @ w).sum()
"""
JAX = """
import jax, jax.numpy as jnp
x, w = jnp.ones((2, 3)), jnp.ones((3, 4))
def loss(w, x):
    return jnp.tanh(x @ w).sum()
"""


GIVEN = "w f32[3,4], x f32[2,3]"


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("%%jaxpr\nloss(w, x)", ("dot_general", GIVEN)),
        ("%%jaxpr --grad\nloss(w, x)", ("transpose", GIVEN)),
        ("%%hlo\nloss(w, x)", ("Before and after fusion", GIVEN)),
        ("%%hlo --stage stablehlo\nloss(w, x)", ("stablehlo.tanh", GIVEN)),
        ("%%compile\nloss(w, x)", ("Kernels", GIVEN)),
        ("%%explore\nloss(w, x)", ("loss(w, x)", GIVEN)),
        ("%jaxpr core.vmap(core.grad(loss), in_axes=(None, 0))(w, x)", ("vmap(grad(loss))(w, x)",)),
        ("%%jaxpr\ncnp.tanh(x @ w).sum()", ("x f32[2,3], w f32[3,4]",)),
        ("%jaxpr (lambda p: p['w'] * 2 + 1)({'w': w, 'rate': 0.5})", ("p['w'] f32[3,4]",)),
    ],
)
def test_a_program_of_the_core_s(run, cell, said):
    run(CORE)
    ran = run(cell).well()
    assert [words for words in said if words not in ran.shown] == []


CALLS = [
    "loss(w, x)",
    "jax.grad(loss)(w, x)",
    "jnp.tanh(x @ w).sum()",
    "jax.jit(lambda w: jnp.tanh(w @ w.T).sum())(w)",
    "(lambda x: x.clip(0, 1).sum())(x)",
    "imports(x)",
    "TABLE['sum'](x)",
    "Layer(w)(x)",
    "layer.norm(x)",
    "functools.partial(loss, w)(x)",
    "jnp.linalg.norm(x)",
    "jax.nn.logsumexp(x, axis=1).sum()",
    "jax.vmap(jax.grad(loss), in_axes=(None, 0))(w, x[None]).sum()",
]
WRITTEN = """
import functools
def imports(x):
    import jax.numpy as other
    return other.sort(x).sum()
TABLE = {"sum": lambda x: jnp.sum(x)}
class Layer:
    table = (jnp.sum,)
    def __init__(self, w):
        self.w = w
    def __call__(self, x):
        return self.table[0](x @ self.w)
    def norm(self, x):
        return jnp.sqrt(self.table[0](x**2))
layer = Layer(w)
"""


def test_a_model_with_keys_and_scans(run):
    run(JAX)
    run(
        """
def loss(p, key, xs):
    keep = jax.random.bernoulli(key, 0.9, xs.shape)
    cell = lambda h, x: (jnp.tanh(h @ p + x), h.sum())
    return jax.lax.scan(cell, jnp.zeros(4), jnp.where(keep, xs / 0.9, 0.0))[0].sum()
p, key, xs = jnp.eye(4), jax.random.key(1), jnp.ones((5, 4))
step = jax.jit(lambda p, key, xs: (p - jax.grad(loss)(p, key, xs), jax.random.split(key)[0]))
"""
    )
    for line in ("%jaxpr --core --grad loss(p, key, xs)", "%%compile --core\nstep(p, key, xs)"):
        ran = run(line).well()
        shown = " ".join(ran.shown.split())
        assert "the rest by jaxlens.core" in shown
        assert "key key<fry>[]" in shown


@pytest.mark.parametrize("call", CALLS)
def test_core_option(run, call):
    run(JAX + WRITTEN)
    assert run(f"%%jaxpr -o plain\n{call}").ok
    ran = run(f"%%jaxpr --core -o seen\n{call}").well()
    shown = " ".join(ran.shown.split())
    assert "traced by JAX, the rest by jaxlens.core" in shown
    assert "Not what runs: JAX compiles the call as it is written" in shown
    # a parameter that only JAX's own `reduce_sum` has
    ran = run("print(*('out_sharding' in v.capture.jaxpr.text for v in (plain, seen)))")
    assert ran.out.split() == ["True", "False"]
    assert run("assert jnp is jax.numpy and loss.__globals__['jnp'] is jnp").ok


@pytest.mark.parametrize("magic", ["%jaxpr --core", "%hlo --core", "%jaxpr --core --grad"])
def test_core_option_on_a_function_that_names_no_library(run, shell, magic):
    run(JAX + "def plain(x):\n    return (x * 2 + 1) @ x")
    ran = run(f"{magic} -o seen plain(jnp.ones(5))").well()
    assert "x f32[5]" in ran.shown
    kinds = {node.opcode for node in shell.user_ns["seen"].capture.jaxpr.module.nodes()}
    assert {"mul", "add", "dot_general"} <= kinds


def test_what_the_core_lacks_is_one_line(run):
    run(JAX)
    run("def asked(x):\n    return jax.pure_callback(abs, x, x)")
    ran = run("%%jaxpr --core\nasked(x)")
    assert not ran.ok
    assert "jaxlens.core has no pure_callback, which calls Python" in ran.out
    assert "Traceback" not in ran.out


def test_a_mistake_under_the_core_shows_the_user_s_lines_only(run):
    run(CORE)
    ran = run("%%jaxpr\nloss(x, w)")
    assert not ran.ok
    assert "return cnp.tanh(x @ w).sum()" in ran.out
    assert "requires contracting dimensions to have the same shape" in ran.out
    assert "magics.py" not in ran.out
    assert "reductions.py" not in ran.out
