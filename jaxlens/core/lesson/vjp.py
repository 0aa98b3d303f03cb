"""Chapter 5. vjp: run the derivative backwards.

A loss depends on a million weights. Forward mode gives you its slope in one direction, so you would
need a million runs. Reverse mode gives all million slopes in about the time of three runs. It takes
two steps, and you have met the parts of both.

**Step one: split the work.** Run `jvp` with a tangent that is not known yet. What depends on the
input alone is computed at once. What depends on the tangent is recorded, as in chapter 3.

      f(x) = sin(x) * x           computed                recorded; a is the tangent of x
      at x = 2.0                  sin(x) =  0.909         b = mul a -0.416
                                  cos(x) = -0.416         c = mul b 2.0
                                  f(x)   =  1.819         d = mul 0.909 a
                                                          e = add c d

The record is **linear**: it adds up, and multiplies by known numbers, and does nothing else. So it
is the table J of chapter 2, written as a program. Nobody ever makes the table.

**Step two: transpose it.** Read forwards, the record says how the output moves with each input.
Read from its end to its beginning, it says how much the output depends on each input: that is the
table with rows and columns exchanged. Each arrow is reversed. Where one value went to two places,
two contributions come back, and they are added.

      forwards:    a --*-0.416--> b --*2.0--> c --+
                   |                              +--> e
                   +-----------*0.909-------> d --+

      backwards:   a <--*-0.416-- b <--*2.0-- c <-+
                   ^                              +--- e    begin with 1.0
                   +-----------*0.909-------- d <-+

What goes backwards is called a **cotangent**: how much the output moves if this value moves. If the
output is one number, the cotangents of the inputs are the gradient, after one run.
"""

import numpy as np

if not __package__:  # this file is run by its path
    from chapter import package as __package__

from .chapter import run
from .interpreter import RUN, Primitive, add, broadcast, interpreting, mul, sin
from .jvp import JVP, jvp_flat
from .tracing import ABSTRACT, Jaxpr, StagedTracer, Staging, Var, make_jaxpr
from .vmap import BATCH, vmap

# ---- Step 1: split the work --------------------------------------------------------------------
# `Partial` is a `Staging` that records only what depends on something unknown. Anything else goes
# to its parent, which computes. `linearize_flat` runs `jvp` on top of it, with the rules of chapter
# 2 as they are. The numbers that have got into the record (-0.416, 2.0 and 0.909 above) are called
# **residuals**. Reverse mode keeps them until the way back: this is the memory that training needs.


class Partial(Staging):
    """Computes what is known, records what is not."""

    def process(self, primitive, args, params):
        if any(isinstance(self.atom(x), Var) for x in args):
            return super().process(primitive, args, params)
        with interpreting(self.parent):
            return primitive.bind(*args, **params)


def linearize_flat(f, primals):
    """Returns the results of `f`, and a jaxpr from the tangents of arguments to those of results.

    >>> [y], linear = linearize_flat(lambda x: [sin(x) * x], [2.0])
    >>> print(linear)
    { lambda ; a:f32[]. let
        b:f32[] = mul a -0.41614683654714235:f32[]
        c:f32[] = mul b 2.0:f32[]
        d:f32[] = mul 0.9092974268256817:f32[] a
        e:f32[] = add c d
      in (e,) }
    """
    partial, invars = Partial(), [Var(np.shape(x)) for x in primals]
    with interpreting(partial):
        results, tangents = jvp_flat(f, primals, [StagedTracer(partial, var) for var in invars])
    return results, Jaxpr(invars, partial.eqns, list(map(partial.atom, tangents)))


# ---- Step 2: reverse each arrow ----------------------------------------------------------------
# A rule gets the cotangent of the result and the inputs of the equation. It returns the cotangents
# of the inputs. An input that is a `Var` is unknown and needs one; any other is a residual.
#
# `sin` has no rule: it is not linear, so it never gets into a record. And in a record, `mul` has
# one unknown input, never two. `broadcast` gives one value to many places, so what comes back to it
# is a sum.

TRANSPOSE = {
    "add": lambda ct, x, y: [ct, ct],
    "mul": lambda ct, x, y: [mul(ct, y), None] if isinstance(x, Var) else [None, mul(x, ct)],
    "broadcast": lambda ct, x, axis, size: [reduce_sum(ct, axis)],
}

# ---- Step 3: a primitive was missing -----------------------------------------------------------
# There was no sum yet. Here it is, with its rules: what to compute, how it moves, its shape,
# what to do for many examples, and its transpose, which is `broadcast` again. This is how you add a
# primitive to JAX, too.

sum_p = Primitive("reduce_sum")
RUN["reduce_sum"] = np.sum
JVP["reduce_sum"] = [lambda t, x, axis: reduce_sum(t, axis)]
ABSTRACT["reduce_sum"] = lambda x, axis: x[:axis] + x[axis + 1 :]
BATCH["reduce_sum"] = lambda p, n, args, batched, axis: reduce_sum(args[0], axis + 1)
TRANSPOSE["reduce_sum"] = lambda ct, x, axis: [broadcast(ct, axis, x.shape[axis])]


def reduce_sum(x, axis):
    """The sum along an axis.

    >>> print(reduce_sum(np.array([[1.0, 2.0], [3.0, 4.0]]), 0))
    [4. 6.]

    Two rules at work, for a cotangent of 1. In x * 5, 5 comes back to x, and 5 gets none. If x is
    given to three places, their three contributions come back.

    >>> print(*TRANSPOSE["mul"](1.0, Var(()), 5.0))
    5.0 None
    >>> print(*TRANSPOSE["broadcast"](np.ones(3), Var(()), axis=0, size=3))
    3.0
    """
    return sum_p.bind(x, axis=axis)


def total(x):
    """The sum of all elements.

    >>> print(total(np.array([[1.0, 2.0], [3.0, 4.0]])))
    10.0
    """
    for _ in np.shape(x):
        x = reduce_sum(x, 0)
    return x


# ---- Step 4: the way back ----------------------------------------------------------------------
# Go through the record from its end. For each equation, look up what has come back to its result,
# ask the rule, and give its inputs what the rule returns. If nothing has come back, the output does
# not depend on this equation, and you can skip it.


def backward_pass(jaxpr, cts):
    """Runs a linear jaxpr backwards, from cotangents of its results to those of its inputs."""
    ct_of = {}

    def give(x, ct):
        if isinstance(x, Var):
            ct_of[x] = add(ct_of[x], ct) if x in ct_of else ct

    for x, ct in zip(jaxpr.outvars, cts, strict=True):
        give(x, ct)
    for eqn in reversed(jaxpr.eqns):
        [var] = eqn.outvars
        if var in ct_of:
            cts_in = TRANSPOSE[eqn.primitive.name](ct_of[var], *eqn.invars, **eqn.params)
            for x, ct in zip(eqn.invars, cts_in, strict=True):
                give(x, ct)
    return [ct_of.get(var, np.zeros(var.shape)) for var in jaxpr.invars]


def vjp(f, *primals):
    """Returns the result of `f`, and a function from its cotangent to those of the arguments.

    >>> y, pullback = vjp(lambda x: sin(x) * x, 2.0)
    >>> print(y, *pullback(1.0))
    1.8185948536513634 0.077003753731397
    >>> y, pullback = vjp(lambda x, y: x * y + x, 2.0, 5.0)
    >>> print(y, *pullback(1.0))
    12.0 6.0 2.0
    """
    [result], linear = linearize_flat(lambda *xs: [f(*xs)], primals)
    return result, lambda ct: tuple(backward_pass(linear, [ct]))


# ---- Step 5: gradients -------------------------------------------------------------------------
# For a function whose result is one number, begin with the cotangent 1.0: the output moves as fast
# as itself. `grad` is for the first argument.


def grad(f):
    """Returns the function that computes the gradient of `f` for its first argument.

    One w for three x, so three contributions come back to w. See where they are added:

    >>> xs = np.array([0.0, 1.0, 2.0])
    >>> loss = lambda w: total(vmap(lambda x: w * x)(xs))
    >>> print(make_jaxpr(grad(loss))(0.5))
    { lambda ; a:f32[]. let
        b:f32[3] = broadcast[axis=0 size=3] a
        c:f32[3] = mul b [0. 1. 2.]:f32[3]
        d:f32[] = reduce_sum[axis=0] c
        e:f32[3] = broadcast[axis=0 size=3] 1.0:f32[]
        f:f32[3] = mul e [0. 1. 2.]:f32[3]
        g:f32[] = reduce_sum[axis=0] f
      in (g,) }
    >>> print(grad(loss)(0.5), grad(grad(sin))(1.0))
    3.0 -0.8414709848078964

    Any transform of any other works: here three gradients at once.

    >>> print(vmap(grad(lambda x: sin(x) * x))(xs))
    [0.         1.38177329 0.07700375]
    """

    def gradient(x, *others):
        result, pullback = vjp(lambda x: f(x, *others), x)
        must_be_number(result)
        return pullback(1.0)[0]

    return gradient


def must_be_number(result):
    """Raises TypeError for a result that has no gradient."""
    if np.shape(result) != ():
        raise TypeError(f"grad needs a function to one number, not to shape {np.shape(result)}")


# ---- Exercise ----------------------------------------------------------------------------------
# `roll(x, 1)` moves each element of a vector one place to the right, and the last one to the front:
# (a, b, c) becomes (c, a, b). It is linear. Of the rules that `grad` needs, one is missing: write
# its transpose. (`vmap` and `jit` would need entries in their tables.)
# Draw the arrows from (a, b, c) to (c, a, b), and reverse them.

roll_p = Primitive("roll")
RUN["roll"] = np.roll
JVP["roll"] = [lambda t, x, shift: roll(t, shift)]
ABSTRACT["roll"] = lambda x, shift: x
TRANSPOSE["roll"] = lambda ct, x, shift: [roll_transposed(ct, shift)]


def roll(x, shift):
    """Moves each element some places to the right."""
    return roll_p.bind(x, shift=shift)


def roll_transposed(ct, shift):
    """Exercise: from the cotangent of roll(x, shift) to that of x. Complete this function.

    >>> print(roll_transposed(np.array([2.0, 3.0, 5.0]), 1))
    [3. 5. 2.]
    >>> print(grad(lambda x: total(roll(x, 2) * np.array([2.0, 3.0, 5.0])))(np.ones(3)))
    [5. 2. 3.]
    >>> gradient = grad(lambda x: total(x * x * roll(x, 1)))
    >>> print(vjp(lambda x: total(gradient(x) * np.array([1.0, 0.0, 0.0])), np.ones(3))[1](1.0)[0])
    [2. 2. 2.]
    """


if __name__ == "__main__":
    run(__name__)

# ---- Where this is in the real thing -----------------------------------------------------------
# In jaxlens.core: kernel/vjp.py. In JAX: `linearize` and `backward_pass` in
# jax/_src/interpreters/ad.py, `JaxprTrace` in partial_eval.py. The idea is that of "You Only
# Linearize Once" (Radul et al., arXiv:2204.10923). Left out: primitives that hold jaxprs and can do
# half of their work, derivatives that you give yourself (`custom_vjp`), and residuals that are
# computed again rather than kept (`checkpoint`).
