"""Chapter 7. Trees: real programs keep their numbers in dicts.

The weights of a model come as a dict of layers, a layer as a tuple of arrays, the data as a pair.
But the functions that you transformed so far took arrays, one after the other. Is all of it to be
written again?

No. A nest of dicts, lists and tuples is two things. There are the arrays in it, in a row: its
**leaves**. And there is its form, which has a hole where each array was. Take the nest apart before
a transform, put it together after it, and the transform never sees it.

      {"w": (1.0, 2.0), "b": 3.0}    -- flatten -->     leaves   3.0, 1.0, 2.0
                                                        form     {"b": _, "w": (_, _)}

      {"w": (0.1, 0.2), "b": 0.3}    <-- unflatten --   leaves   0.3, 0.1, 0.2

JAX calls such a nest a **pytree**. You now wrap the transforms for trees, in a few lines each, and
train a model with all seven chapters.
"""

from typing import NamedTuple

import numpy as np

if not __package__:  # this file is run by its path
    from chapter import package as __package__

from .chapter import run
from .interpreter import GROUND, current, sin
from .jit import by_numpy, cache_key, xla
from .jvp import jvp_flat
from .tracing import trace_flat
from .vjp import backward_pass, linearize_flat, must_be_number, total
from .vmap import vmap_flat

# ---- Step 1: flatten and unflatten -------------------------------------------------------------
# For each kind of container, a table has two functions. The first takes it apart: into its
# children, and whatever else one must know to build it again. The second builds it. The keys of a
# dict are sorted, so that two dicts with the same keys have one form, in whatever order they were
# written.

CONTAINERS = {
    tuple: (lambda x: (x, None), lambda _, children: tuple(children)),
    list: (lambda x: (x, None), lambda _, children: list(children)),
    dict: (
        lambda x: ([x[key] for key in sorted(x)], tuple(sorted(x))),
        lambda keys, children: dict(zip(keys, children, strict=True)),
    ),
}


class TreeDef(NamedTuple):
    """The form of a tree; its `kind` is None for a leaf."""

    kind: type | None = None
    extra: object = None
    children: tuple = ()


def tree_flatten(tree):
    """Returns the leaves of a tree, and its form.

    >>> leaves, form = tree_flatten({"w": (1.0, 2.0), "b": 3.0})
    >>> print(leaves)
    [3.0, 1.0, 2.0]
    """
    if type(tree) not in CONTAINERS:
        return [tree], TreeDef()
    children, extra = CONTAINERS[type(tree)][0](tree)
    pairs = list(map(tree_flatten, children))
    leaves = [leaf for part, _ in pairs for leaf in part]
    return leaves, TreeDef(type(tree), extra, tuple(form for _, form in pairs))


def tree_unflatten(treedef, leaves):
    """Builds a tree of this form.

    >>> print(tree_unflatten(tree_flatten({"w": (1.0, 2.0), "b": 3.0})[1], [30.0, 10.0, 20.0]))
    {'b': 30.0, 'w': (10.0, 20.0)}
    """
    leaves = iter(leaves)  # each leaf is taken once, whichever call takes it
    if treedef.kind is None:
        return next(leaves)
    children = [tree_unflatten(child, leaves) for child in treedef.children]
    return CONTAINERS[treedef.kind][1](treedef.extra, children)


def tree_map(f, tree, *others):
    """Applies a function to the leaves of trees of one form.

    >>> print(tree_map(lambda x, y: x + y, {"w": (1, 2), "b": 3}, {"w": (10, 20), "b": 30}))
    {'b': 33, 'w': (11, 22)}
    """
    leaves, treedef = tree_flatten(tree)
    return tree_unflatten(treedef, map(f, leaves, *[tree_flatten(other)[0] for other in others]))


# ---- Step 2: a function of trees, as a function of leaves --------------------------------------
# Chapters 2 to 5 each have a function whose name ends in `_flat`, for functions from arrays to a
# list of arrays. `flat` makes such a function of yours. The form of the result is not known before
# your function has run, so `flat` also returns an empty list, into which that run puts the form.


def flat(f, in_tree):
    """Returns `f` on leaves, and the list that will hold the form of its result.

    >>> _, in_tree = tree_flatten(({"x": 1.0},))
    >>> flat_f, out_trees = flat(lambda p: {"twice": p["x"] * 2.0}, in_tree)
    >>> print(flat_f(5.0), tree_unflatten(out_trees[0], [10.0]))
    [10.0] {'twice': 10.0}
    """
    out_trees = []

    def flat_f(*leaves):
        results, out_tree = tree_flatten(f(*tree_unflatten(in_tree, leaves)))
        out_trees.append(out_tree)
        return results

    return flat_f, out_trees


# ---- Step 3: the transforms, for trees ---------------------------------------------------------
# Flatten, call the function of the chapter, unflatten. For `jit`, the form of the arguments is a
# part of the key: another form is another program.


def vmap(f, in_axes=0):
    """Returns the function of all examples; `in_axes` says 0 or None for each argument."""

    def batched(*args):
        leaves, in_tree = tree_flatten(args)
        flat_f, out_trees = flat(f, in_tree)
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        pairs = zip(args, axes, strict=True)
        leaf_axes = [axis for arg, axis in pairs for _ in tree_flatten(arg)[0]]
        results = vmap_flat(flat_f, leaf_axes, leaves)
        return tree_unflatten(out_trees[0], results)

    return batched


def vjp(f, *primals):
    """Returns the result of `f`, and a function from its cotangent to those of the arguments."""
    leaves, in_tree = tree_flatten(primals)
    flat_f, out_trees = flat(f, in_tree)
    results, linear = linearize_flat(flat_f, leaves)

    def pullback(ct):
        return tree_unflatten(in_tree, backward_pass(linear, tree_flatten(ct)[0]))

    return tree_unflatten(out_trees[0], results), pullback


def grad(f):
    """Returns the function that computes the gradient of `f` for its first argument.

    >>> gradient = grad(lambda p: p["w"][0] * p["w"][1] + p["b"] * 4.0)({"w": (1.0, 2.0), "b": 3.0})
    >>> print(tree_map(float, gradient))
    {'b': 4.0, 'w': (2.0, 1.0)}
    """

    def gradient(x, *others):
        result, pullback = vjp(lambda x: f(x, *others), x)
        must_be_number(result)
        return pullback(1.0)[0]

    return gradient


def jit(f, backend=xla):
    """Returns `f` compiled, once for each key."""
    programs = {}

    def jitted(*args):
        if current() is not GROUND:
            return f(*args)
        leaves, in_tree = tree_flatten(args)
        key = (in_tree, cache_key(leaves))
        if key not in programs:
            flat_f, out_trees = flat(f, in_tree)
            programs[key] = backend(trace_flat(flat_f, *map(np.shape, leaves))), out_trees
        program, out_trees = programs[key]
        return tree_unflatten(out_trees[0], program(*leaves))

    return jitted


# ---- Step 4: train a model ---------------------------------------------------------------------
# Points (x, y) lie on a sine, whose frequency and phase are to be found. The model is a dict. The
# loss is a mean over all points, by `vmap`. A step goes against the gradient. All of it is one
# program.


def loss(params, xs, ys):
    """The mean of the squared errors."""
    model = lambda x: sin(params["frequency"] * x + params["phase"])
    errors = vmap(model)(xs) - ys
    return total(errors * errors) * (1.0 / np.shape(xs)[0])


def train_step(params, data):
    """Moves each weight a little against its gradient.

    >>> xs = np.linspace(0.0, 2.0, 20)
    >>> ys = np.sin(1.7 * xs + 0.4)
    >>> params, fast_step = {"frequency": 1.0, "phase": 0.0}, jit(train_step, by_numpy)
    >>> for i in range(201):
    ...     if i % 100 == 0:
    ...         print(i, tree_map(lambda w: round(float(w), 3), params))
    ...     params = fast_step(params, (xs, ys))
    0 {'frequency': 1.0, 'phase': 0.0}
    100 {'frequency': 1.7, 'phase': 0.401}
    200 {'frequency': 1.7, 'phase': 0.4}
    """
    gradients = grad(loss)(params, *data)
    return tree_map(lambda w, slope: w - slope * 0.3, params, gradients)


# ---- Exercise ----------------------------------------------------------------------------------
# One transform is missing. Write `jvp` for trees, with `jvp_flat` and after the pattern of step 3.
# Its primals and tangents are tuples of trees.


def jvp(f, primals, tangents):
    """Exercise: returns the result of `f` and its tangent. Complete this function.

    >>> product = lambda p: p["a"] * p["b"]
    >>> print(np.array(jvp(product, ({"a": 2.0, "b": 3.0},), ({"a": 1.0, "b": 0.0},))))
    [6. 3.]
    >>> swap = lambda p, c: {"b": p[0] * c, "a": p[1] * c}
    >>> y, t = jvp(swap, ((1.0, 2.0), 10.0), ((0.0, 1.0), 0.0))
    >>> print(tree_map(float, y), tree_map(float, t))
    {'a': 20.0, 'b': 10.0} {'a': 10.0, 'b': 0.0}
    """


if __name__ == "__main__":
    run(__name__)

# ---- Where this is in the real thing -----------------------------------------------------------
# In jaxlens.core: transforms/trees.py. In JAX: jax/_src/tree_util.py, where `register_pytree_node`
# makes your own class a container. Left out: None (a container without leaves), named tuples, and
# errors that say which leaf does not fit.
#
# This is the end of the lesson: you have a JAX. Next is the README of jaxlens.core, which names its
# files in reading order. The ideas are the same, with all that is needed to be of use.
