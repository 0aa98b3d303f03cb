"""Constants of a nested jaxpr are printed and drawn as such: no call gives them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.ir.saved.columns import from_columns, to_columns
from jaxlens.views.figures.body import bodies_of

C, D = jnp.arange(3.0), np.ones((2, 3), np.float32)
X = jnp.ones(3)


@pytest.mark.parametrize(
    ("f", "heading", "constants"),
    [
        (lambda x: jax.jit(lambda y: y + C)(x), "{ lambda c:f32[3]; d (y):f32[3]. let", 1),
        (lambda x: jax.jit(lambda y: y + D)(x), "{ lambda c:f32[2,3]; d (y):f32[3]. let", 1),
        (lambda x: jax.jit(lambda y: (y + D) @ C)(x), "{ lambda c:f32[2,3] d:f32[3]; e (y)", 2),
        (jax.jit(jax.jit(lambda y: y + C)), "{ lambda c:f32[3]; d (y):f32[3]. let", 1),
        (lambda x: jax.jit(lambda: C * 2)() + x, "{ lambda c:f32[3]; . let", 1),
        (lambda x: jax.vmap(jax.jit(lambda y: y * C[0]))(x), "{ lambda c:f32[3]; d (y)", 1),
    ],
)
def test_constants_of_a_nested_jaxpr_come_before_its_parameters(f, heading, constants):
    cap = jaxlens.capture(jax.jit(lambda x: f(x)), X)
    assert heading in jaxlens.jaxpr(cap).text(full=True)
    module = cap.jaxpr.module
    drawn = bodies_of(module, max_boxes=9, inputs=("x",), outputs=("",))
    assert max(len(body.constants) for body in drawn.values()) == constants
    loaded = from_columns(to_columns(module))
    assert [r.constants for r in loaded.regions.values()] == [
        r.constants for r in module.regions.values()
    ]
    assert jaxlens.tree(cap).depth > 0
    assert "jit" not in jaxlens.tree(cap).opaque


def test_a_capture_that_names_the_constants_of_the_entry_alone_is_read():
    data = to_columns(jaxlens.capture(lambda x: x + C, X).jaxpr.module)
    for row in data["regions"]:
        row.pop("constants", None)
    data["attrs"]["constants"] = "a"
    module = from_columns(data)
    assert module.body().constants == 1
    data["regions"][0]["constants"] = 7
    data["attrs"] = {}
    with pytest.raises(ValueError, match="more constants than parameters"):
        from_columns(data)
