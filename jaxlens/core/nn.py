"""Functions that networks are made of, from those of `numpy`; the names are those of `jax.nn`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxlens.core import numpy as cnp
from jaxlens.core.kernel.interpreter import aval_of
from jaxlens.core.primitives import functions, shapes
from jaxlens.core.transforms.custom import custom_jvp

Axis = int | Sequence[int] | None


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


def silu(x: Any) -> Any:
    """Sigmoid-weighted linear unit: `x * sigmoid(x)`."""
    return x * sigmoid(x)


@custom_jvp
def softplus(x: Any) -> Any:
    """Softplus: log(1 + exp(x)), without overflow."""
    return cnp.maximum(x, 0) + cnp.log1p(cnp.exp(-cnp.abs(x)))


@softplus.defjvp
def softplus_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (tangent,) = primals, tangents
    return softplus(x), tangent * sigmoid(x)


def gelu(x: Any) -> Any:
    """Gaussian error linear unit, by its tanh approximation (arXiv:1606.08415)."""
    inner = np.sqrt(2 / np.pi).item() * (x + 0.044715 * x**3)
    return x * (0.5 * (1.0 + cnp.tanh(inner)))


def logsumexp(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
    """Log of the sum of exponentials; the maximum is subtracted first, against overflow."""
    top = functions.stop_gradient(cnp.max(x, axis, keepdims=True))
    top = cnp.where(cnp.isfinite(top), top, 0)  # what is -inf throughout has the sum 0
    result = cnp.log(cnp.sum(cnp.exp(x - top), axis, keepdims=True)) + top
    return result if keepdims else cnp.squeeze(result, axis)


def softmax(x: Any, axis: int = -1) -> Any:
    """Softmax: exponentials divided by their sum along an axis."""
    exps = cnp.exp(x - functions.stop_gradient(cnp.max(x, axis, keepdims=True)))
    return exps / cnp.sum(exps, axis, keepdims=True)


def log_softmax(x: Any, axis: int = -1) -> Any:
    """The logarithm of `softmax`."""
    return x - logsumexp(x, axis, keepdims=True)


def one_hot(x: Any, num_classes: int, dtype: Any = np.float32) -> Any:
    """One-hot encoding of integers along a new last axis."""
    ndim = aval_of(x).ndim
    places = shapes.iota(aval_of(x).dtype, (*(1,) * ndim, num_classes), ndim)
    return cnp.astype(cnp.equal(shapes.expand_dims(x, [ndim]), places), dtype)
