"""Chapter 4. vmap: one example in your head, a thousand in the machine.

You write a function of one number, or of one row. Then you have a thousand of them. A Python loop
would run your program a thousand times. The machine would rather do each operation once, on an
array that has all examples in it.

      loop:   sin(x0)  sin(x1)  sin(x2)  ...  then   x0 * y0   x1 * y1   x2 * y2  ...
      vmap:   sin([x0, x1, x2, ...])          then   [x0, x1, x2, ...] * [y0, y1, y2, ...]

So a tracer of this chapter holds *all* examples, along an axis of their own in front, and looks to
your function like *one*: the shape that it shows is that of one example. Each primitive needs a
rule for this question: if these are all examples of the arguments, what are all examples of the
result?

      three numbers    hold shape  (3,)      and look like    ()
      three rows       hold shape  (3, 2)    and look like    (2,)

For `sin` they are the sine of everything. For `mul` they are the product, if both arguments have
the axis of the examples. But in `x * 10.0` there is one 10.0 for all: it is repeated first. This is
what `broadcast` is for.
"""

import numpy as np

if not __package__:  # this file is run by its path
    from chapter import package as __package__

from .chapter import run
from .interpreter import Echo, Interpreter, Primitive, broadcast, interpreting, sin
from .jvp import Tracer, derivative, jvp
from .tracing import make_jaxpr

# ---- Step 1: the rules -------------------------------------------------------------------------
# A rule gets the primitive, the number of examples, the arguments, a list that says which arguments
# hold all examples, along their first axis, and the parameters. Its result holds them so too. For
# `broadcast` the axis of the examples stays in front, so the new axis goes one place further back.


def elementwise(primitive, size, args, batched):
    """The rule of an operation that goes element by element.

    Three examples of x, and one 10.0 for all:

    >>> print(elementwise(Primitive("mul"), 3, [np.array([1.0, 2.0, 3.0]), 10.0], [True, False]))
    [10. 20. 30.]
    """
    pairs = zip(args, batched, strict=True)
    return primitive.bind(*[x if b else broadcast(x, 0, size) for x, b in pairs])


BATCH = {
    "add": elementwise,
    "mul": elementwise,
    "sin": elementwise,
    "broadcast": lambda p, n, args, batched, axis, size: broadcast(args[0], axis + 1, size),
}

# ---- Step 2: the tracer and its interpreter ----------------------------------------------------
# You know the pattern from chapter 2: take the arguments apart, apply the rule in the parent, wrap
# the result. An operation that has nothing to do with the examples is handed on as it is, and done
# once for all of them.


class BatchTracer(Tracer):
    """All examples of a value, which looks like one of them.

    >>> print(BatchTracer(None, np.ones((3, 2))).shape)
    (2,)
    """

    def __init__(self, interpreter, value):
        self.interpreter, self.value = interpreter, value

    shape = property(lambda self: np.shape(self.value)[1:])


class BatchInterpreter(Interpreter):
    """Applies each primitive to all examples at once."""

    def mine(self, x):
        """Whether a value has the axis of the examples."""
        return isinstance(x, BatchTracer) and x.interpreter is self

    def process(self, primitive, args, params):
        batched = list(map(self.mine, args))
        values = [x.value if self.mine(x) else x for x in args]
        with interpreting(self.parent):
            if not any(batched):
                return primitive.bind(*args, **params)
            rule = BATCH[primitive.name]
            return BatchTracer(self, rule(primitive, self.size, values, batched, **params))


def vmap_flat(f, in_axes, args):
    """Applies a function that returns a list to all examples."""
    pairs = list(zip(args, in_axes, strict=True))
    sizes = sorted({np.shape(x)[0] for x, axis in pairs if axis == 0})
    if len(sizes) != 1:
        raise ValueError(f"vmap needs as many examples for each argument; there are {sizes}")
    interpreter = BatchInterpreter()
    interpreter.size = sizes[0]
    with interpreting(interpreter):
        results = f(*[BatchTracer(interpreter, x) if axis == 0 else x for x, axis in pairs])
    return [y.value if interpreter.mine(y) else broadcast(y, 0, sizes[0]) for y in results]


def vmap(f, in_axes=0):
    """Returns the function of all examples.

    `in_axes` is a tuple that says 0 for an argument with examples along its axis 0, and None for
    one that all share; or one of these for all arguments.

    >>> xs = np.array([0.0, 1.0, 2.0])
    >>> with interpreting(Echo()):
    ...     ys = vmap(lambda x, y: sin(x) * y, (0, None))(xs, 10.0)
      sin [0. 1. 2.] -> [0.         0.84147098 0.90929743]
      broadcast 10.0 -> [10. 10. 10.]
      mul [0.         0.84147098 0.90929743] [10. 10. 10.] -> [0.         8.41470985 9.09297427]

    One `vmap` in another makes a table: a row for each x, a column for each y. Each interpreter
    looks after one axis and sees nothing of the other.

    >>> times = lambda x, y: x * y
    >>> print(vmap(vmap(times, (None, 0)), (0, None))(xs, np.array([10.0, 20.0])))
    [[ 0.  0.]
     [10. 20.]
     [20. 40.]]

    With the other transforms: the derivative at three points, and its jaxpr. No loop is left.

    >>> print(vmap(derivative(sin))(xs))
    [ 1.          0.54030231 -0.41614684]
    >>> print(make_jaxpr(vmap(derivative(lambda x: x * x)))(xs))
    { lambda ; a:f32[3]. let
        b:f32[3] = mul a a
        c:f32[3] = broadcast[axis=0 size=3] 1.0:f32[]
        d:f32[3] = mul c a
        e:f32[3] = broadcast[axis=0 size=3] 1.0:f32[]
        f:f32[3] = mul a e
        g:f32[3] = add d f
      in (g,) }
    """

    def batched(*args):
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        [result] = vmap_flat(lambda *xs: [f(*xs)], axes, args)
        return result

    return batched


# ---- Exercise ----------------------------------------------------------------------------------
# `jvp` says how the output moves for one direction of the input. The table of all partial
# derivatives (the Jacobian) asks for each direction: (1, 0, 0), (0, 1, 0), (0, 0, 1), which are the
# rows of `np.eye(3)`. Write `jacfwd` with `vmap` and `jvp`, and without a loop. As your examples
# are directions, the result of `vmap` has the directions in front. By custom a Jacobian has them
# last: `np.moveaxis(result, 0, -1)`.


def jacfwd(f):
    """Exercise: returns the function that computes the Jacobian of `f`. Complete this function.

    >>> print(callable(jacfwd(sin)))
    True
    >>> print(jacfwd(lambda x: x * x)(np.array([1.0, 2.0, 3.0])))
    [[2. 0. 0.]
     [0. 4. 0.]
     [0. 0. 6.]]

    The next function has two rows of outputs for each input:

    >>> print(jacfwd(lambda x: broadcast(x * x, 0, 2))(np.array([1.0, 2.0, 3.0])).shape)
    (2, 3, 3)
    """


if __name__ == "__main__":
    run(__name__)

# ---- Where this is in the real thing -----------------------------------------------------------
# In jaxlens.core: kernel/vmap.py, and `jacfwd` in jacobians.py. In JAX:
# jax/_src/interpreters/batching.py. Left out: examples along another axis than the first (there,
# each tracer knows its axis), and names for that axis, over which `psum` adds up.
