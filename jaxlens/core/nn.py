"""Functions that networks are made of, from those of `numpy`; the names are those of `jax.nn`."""

from typing import Any

import numpy as np

from jaxlens.core import numpy as cnp
from jaxlens.core.kernel.interpreter import aval_of
from jaxlens.core.numpy.arrays import Axis, axes_of
from jaxlens.core.numpy.ufuncs import alike
from jaxlens.core.primitives import contractions, functions, shapes
from jaxlens.core.transforms.custom import custom_jvp


@custom_jvp
def relu(x: Any) -> Any:
    """Rectified linear unit: max(x, 0); its derivative at 0 is 0."""
    return cnp.maximum(x, 0)


@relu.defjvp
def relu_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (tangent,) = primals, tangents
    return relu(x), cnp.where(x > 0, tangent, cnp.zeros_like(tangent))


def sigmoid(x: Any) -> Any:
    """Logistic function: 1 / (1 + exp(-x))."""
    return functions.logistic_p.bind(x)


def _largest(x: Any, axis: Axis) -> Any:
    """Returns the maximum along axes, which stay; it has no derivative, as it cancels out."""
    axes = axes_of(axis, aval_of(x))
    top = shapes.expand_dims(contractions.reduce_max(x, axes), axes)
    return functions.stop_gradient(top)


def logsumexp(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """Log of the sum of exponentials; the maximum is subtracted first, against overflow."""
    (x,) = alike(x, inexact=True)
    top = _largest(x, axis)
    top = cnp.where(cnp.isfinite(top), top, 0)  # what is -inf throughout has the sum 0
    result = cnp.log(cnp.sum(cnp.exp(x - top), axis, keepdims=True)) + top
    return result if keepdims else cnp.squeeze(result, axis)


def softmax(x: Any, axis: Axis = -1) -> Any:
    """Softmax: exponentials divided by their sum along an axis."""
    exps = cnp.exp(cnp.subtract(x, _largest(x, axis)))
    return exps / cnp.sum(exps, axis, keepdims=True)


def log_softmax(x: Any, axis: Axis = -1) -> Any:
    """The logarithm of `softmax`."""
    below = cnp.subtract(x, _largest(x, axis))
    return below - cnp.log(cnp.sum(cnp.exp(below), axis, keepdims=True))


def one_hot(x: Any, num_classes: int, dtype: Any = np.float32) -> Any:
    """One-hot encoding of integers along a new last axis."""
    ndim = aval_of(x).ndim
    places = shapes.iota(aval_of(x).dtype, (*(1,) * ndim, num_classes), ndim)
    return cnp.astype(cnp.equal(shapes.expand_dims(x, [ndim]), places), dtype)


def __getattr__(name: str) -> Any:
    raise cnp.missing("nn", name)
