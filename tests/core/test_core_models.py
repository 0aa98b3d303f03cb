"""Programs of the sizes that people write: the same code gives the same on the core and on JAX."""

from typing import Any

import numpy as np
import pytest

import jaxlens
from jaxlens import core
from jaxlens.program import counted as cost
from tests.support.core import models
from tests.support.core.models import CORE, JAX

pytestmark = [pytest.mark.backend, pytest.mark.models]


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in core.tree_leaves(tree)]


def close(ours: Any, theirs: Any, tolerance: float) -> None:
    for a, b in zip(leaves(ours), leaves(theirs), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def digits() -> tuple[np.ndarray, np.ndarray]:
    datasets = pytest.importorskip("sklearn.datasets")
    found = datasets.load_digits()
    order = np.random.default_rng(0).permutation(len(found.data))  # the writers came one by one
    return (found.data[order] / 16).astype(np.float32), found.target[order].astype(np.int32)


def trained(lib: Any, model: Any, params: Any, epochs: int) -> tuple[Any, float]:
    """Parameters after some epochs on the first 1,500 images, and the accuracy on the rest."""
    x, labels = digits()
    step = models.classifier_step(lib, model)
    for _ in range(epochs):
        for start in range(0, 1500, 100):
            batch = slice(start, start + 100)
            params, _ = step(params, x[batch], labels[batch])
    guess = np.asarray(model(lib, params, lib.np.array(x[1500:]))).argmax(-1)
    return params, float((guess == labels[1500:]).mean())


@pytest.mark.parametrize(
    ("model", "params", "epochs", "least"),
    [
        (models.mlp, models.mlp_params, 20, 0.95),
        (models.cnn, models.cnn_params, 8, 0.95),
    ],
    ids=["mlp", "cnn"],
)
def test_digits(model: Any, params: Any, epochs: int, least: float) -> None:
    ours, accuracy = trained(CORE, model, params(), epochs)
    theirs, expected = trained(JAX, model, params(), epochs)
    assert accuracy >= least
    assert abs(accuracy - expected) < 0.01
    close(ours, theirs, 0.02)  # some 200 steps apart


def steps(lib: Any, step: Any, params: Any, *batch: Any) -> tuple[Any, list[float]]:
    losses = []
    for _ in range(5):
        params, loss = step(params, *batch)
        losses.append(float(loss))
    return params, losses


def test_rnn() -> None:
    batch = np.stack(models.normals(*[(10, 4)] * 3))
    ours, losses = steps(CORE, models.rnn_step(CORE), models.rnn_params(), batch)
    theirs, expected = steps(JAX, models.rnn_step(JAX), models.rnn_params(), batch)
    close(ours, theirs, 1e-4)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert losses[-1] < losses[0]


def test_transformer() -> None:
    tokens = np.random.default_rng(0).integers(0, 32, (4, 9)).astype(np.int32)
    params = models.transformer_params()
    ours, losses = steps(CORE, models.transformer_step(CORE), params, tokens)
    theirs, expected = steps(JAX, models.transformer_step(JAX), params, tokens)
    close(ours, theirs, 1e-3)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert losses[-1] < losses[0]


def test_ode() -> None:
    start = np.array([1.0, 0.5], np.float32)
    angles = np.linspace(0, 2, 20)
    path = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
    ours, losses = steps(CORE, models.ode_step(CORE), models.ode_params(), start, path)
    theirs, expected = steps(JAX, models.ode_step(JAX), models.ode_params(), start, path)
    close(ours, theirs, 1e-4)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert losses[-1] < losses[0]


def test_newton() -> None:
    start = np.array([-1.0, 1.5], np.float32)
    ours = np.asarray(models.newton(CORE, start))
    np.testing.assert_allclose(ours, np.asarray(models.newton(JAX, start)), rtol=1e-3)
    np.testing.assert_allclose(ours, [1, 1], atol=1e-3)


@pytest.mark.parametrize("name", ["mlp", "rnn", "ode"])
def test_a_lens_counts_as_many_flops(name: str) -> None:
    x, labels = np.ones((8, 64), np.float32), np.zeros(8, np.int32)
    batch, path = np.ones((3, 10, 4), np.float32), np.ones((20, 2), np.float32)
    make, args = {
        "mlp": (
            lambda lib: models.classifier_step(lib, models.mlp),
            (models.mlp_params(), x, labels),
        ),
        "rnn": (models.rnn_step, (models.rnn_params(), batch)),
        "ode": (models.ode_step, (models.ode_params(), path[0], path)),
    }[name]
    captures = [jaxlens.capture(make(lib), *args) for lib in (CORE, JAX)]
    ours, theirs = (cost.facts(capture, compiled=False).flops for capture in captures)
    assert theirs > 1000
    assert abs(ours - theirs) < 0.1 * theirs  # jax 0.12 writes some derivatives with fewer
