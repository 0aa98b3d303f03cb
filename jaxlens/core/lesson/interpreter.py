"""Chapter 1. The interpreter: an operation asks what it means.

In Python, `2.0 * 3.0` is 6.0, and that is all there is to say. In JAX, a multiplication asks a
question first: *what do I mean here?* Most of the time the answer is "compute". Inside `jit` the
answer is "write me down". Inside `grad` it is "compute, and keep the derivative as well". Your
function does not notice. It is the same function each time, and somebody else decides what its
operations mean.

You need three words for this.

- A **primitive** is an operation such as `sin`. It is a name, and no more than that.
- An **interpreter** gives primitives a meaning. It has one method, `process`.
- To **bind** a primitive is to hand it and its arguments to the interpreter that is current.

      your function            the primitive              the current interpreter
      sin(x)          ---->    sin_p.bind(x)     ---->    process(sin_p, (x,), {})
                                                          compute? record? differentiate?

That question, asked at every operation, is JAX's whole design. This chapter answers it with
"compute". Each of the next chapters answers it in another way, and none of them changes a line of
what you read here.

Run this file beside your reading: `python -m jaxlens.core.lesson.interpreter`, or `python` and the
path of the file. It prints the examples (the lines behind `>>>`) one by one.
"""

from contextlib import contextmanager

import numpy as np

if not __package__:  # this file is run by its path
    from chapter import package as __package__

from .chapter import run

# ---- Step 1: primitives and interpreters -------------------------------------------------------
# A primitive knows its name. `bind` asks the interpreter that is current. By custom, the names of
# primitives end in `_p`.


class Primitive:
    """An operation without a meaning."""

    def __init__(self, name):
        self.name = name

    def bind(self, *args, **params):
        """Hands the operation to the interpreter that is current.

        >>> print(mul_p, mul_p.bind(2.0, 3.0))
        mul 6.0
        """
        return current().process(self, args, params)

    def __repr__(self):
        return self.name


class Interpreter:
    """Gives primitives a meaning.

    It stands on another one, its parent: the one that was current when it was made.
    """

    def __init__(self):
        self.parent = current()

    def process(self, primitive, args, params):
        """Applies a primitive to arguments."""
        raise NotImplementedError


add_p = Primitive("add")
mul_p = Primitive("mul")
sin_p = Primitive("sin")
broadcast_p = Primitive("broadcast")

# ---- Step 2: the interpreter that computes -----------------------------------------------------
# It looks the name of a primitive up in a table, and NumPy does the work. It is called `Ground`
# because all others stand on it: in the end, somebody has to compute.
#
# `broadcast` repeats an array along a new axis: an array of shape (3,) becomes one of (4, 3). It is
# here so that a number can meet an array in step 4. Forget about it until chapter 4.


class Ground(Interpreter):
    """Computes, with NumPy.

    >>> print(Ground().process(sin_p, (2.0,), {}))
    0.9092974268256817
    """

    def __init__(self):
        self.parent = None

    def process(self, primitive, args, params):
        return RUN[primitive.name](*args, **params)


RUN = {
    "add": np.add,
    "mul": np.multiply,
    "sin": np.sin,
    "broadcast": lambda x, axis, size: np.repeat(np.expand_dims(x, axis), size, axis),
}

# ---- Step 3: which interpreter is current ------------------------------------------------------
# The last one of a list. `with interpreting(i):` makes `i` the current one for a while.

GROUND = Ground()
_stack = [GROUND]


def current():
    """Returns the interpreter that is current.

    >>> with interpreting(Ground()) as other:
    ...     print(current() is other)
    True
    >>> print(current() is other, current() is GROUND)
    False True
    """
    return _stack[-1]


@contextmanager
def interpreting(interpreter):
    """Within it, primitives are handed to this interpreter."""
    _stack.append(interpreter)
    try:
        yield interpreter
    finally:
        _stack.pop()


# ---- Step 4: functions to write programs with --------------------------------------------------
# You do not want to write `bind` everywhere, so here are functions that do. `add_p` and `mul_p`
# take arrays of one shape. Where one of two arguments has fewer axes, `same_shape` gives it the
# axes that it lacks, in front, as NumPy would.


def add(x, y):
    """x + y."""
    return add_p.bind(*same_shape(x, y))


def mul(x, y):
    """x * y.

    >>> print(mul(np.array([1.0, 2.0]), 10.0))
    [10. 20.]
    """
    return mul_p.bind(*same_shape(x, y))


def sin(x):
    """The sine of x."""
    return sin_p.bind(x)


def broadcast(x, axis, size):
    """Repeats x `size` times along a new axis."""
    return broadcast_p.bind(x, axis=axis, size=size)


def same_shape(x, y):
    """Adds axes in front of the argument that has fewer, until both have one shape."""
    while np.ndim(x) < np.ndim(y):  # axes are compared from the last one on
        x = broadcast(x, 0, np.shape(y)[-1 - np.ndim(x)])
    while np.ndim(y) < np.ndim(x):
        y = broadcast(y, 0, np.shape(x)[-1 - np.ndim(y)])
    return x, y


def f(x):
    """A program to try things on: x * (sin(x) + 3).

    >>> print(f(2.0))
    7.818594853651364
    """
    return mul(x, add(sin(x), 3.0))


# ---- Step 5: a second interpreter --------------------------------------------------------------
# `Echo` prints what happens. It cannot compute, so it hands each primitive on to the interpreter
# below it, its parent. To hand on means: make the parent current, and bind once more.
#
# Now look at `f` again. It was written before `Echo` was, and knows nothing of it.


class Echo(Interpreter):
    """Prints each primitive that is applied.

    >>> with interpreting(Echo()):
    ...     y = f(2.0)
      sin 2.0 -> 0.9092974268256817
      add 0.9092974268256817 3.0 -> 3.909297426825682
      mul 2.0 3.909297426825682 -> 7.818594853651364

    Two of them, one on the other. The upper one is asked first, and the lower one is done first.

    >>> with interpreting(Echo("  lower:")), interpreting(Echo("  upper:")):
    ...     y = sin(2.0)
      lower: sin 2.0 -> 0.9092974268256817
      upper: sin 2.0 -> 0.9092974268256817
    """

    def __init__(self, mark=" "):
        super().__init__()
        self.mark = mark

    def process(self, primitive, args, params):
        with interpreting(self.parent):
            result = primitive.bind(*args, **params)
        print(self.mark, primitive, *args, "->", result)
        return result


# ---- Exercise ----------------------------------------------------------------------------------
# Write an interpreter that counts. `process` is missing: in at most five lines, it counts the
# primitive in `self.counts`, a dict from names to numbers, and hands it on to its parent. The
# examples are what it must do. Run this file until its last line says "solved".


class Count(Interpreter):
    """Exercise: counts the primitives that are applied.

    >>> with interpreting(Count()) as lower, interpreting(Count()) as upper:
    ...     result = sin(mul(sin(1.0), 2.0))
    >>> print(upper.counts)
    {'sin': 2, 'mul': 1}
    >>> print(lower.counts)
    {'sin': 2, 'mul': 1}
    >>> print(np.round(result, 6))
    0.993718
    """

    def __init__(self):
        super().__init__()
        self.counts = {}

    def process(self, primitive, args, params):
        """Counts a primitive, and hands it on: complete this method."""


if __name__ == "__main__":
    run(__name__)

# ---- Where this is in the real thing -----------------------------------------------------------
# In jaxlens.core: kernel/interpreter.py, under the same names. In JAX: jax/_src/core.py, where an
# interpreter is called `Trace`. Left out here: primitives with several results, and threads (there,
# what is current is a context variable). And JAX's ground is no table: it compiles a small program
# for each operation and runs that on the device. Chapter 6 shows how.
