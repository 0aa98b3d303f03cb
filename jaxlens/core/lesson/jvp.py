"""Chapter 2. jvp: a number that knows how fast it moves.

You want the derivative of a function that somebody wrote in Python. You could run it twice, at two
points close together, and divide. That is never exact. Here is another way. Let each number carry a
second one, its **tangent**: how fast it moves while the input moves. You choose how fast the input
moves, say at speed 1. Each operation knows how fast its result moves when its arguments do.

      x         moves at  t
      sin(x)    moves at  t * cos(x)
      x + y     moves at  t_x + t_y
      x * y     moves at  t_x * y  +  x * t_y

Begin at the input, run the program once, and read the speed of the output. There is no other step.
The chain rule happens by itself, as each operation reads the speeds that earlier ones have left.

                 x               s = sin(x)                y = s * x
      value      2.0     --->    0.909            --->     1.819
      tangent    1.0     --->    1.0 * cos(2.0)   --->     t_s * 2.0 + 0.909 * 1.0  =  0.077
                                 = -0.416

This is **forward mode**, and the function is called `jvp`, for *Jacobian-vector product*. If x is a
vector and moves at t, the output moves at J t, where J is the table of all partial derivatives. You
get J t without ever making J.
"""

from functools import reduce

import numpy as np

if not __package__:  # this file is run by its path
    from chapter import package as __package__

from .chapter import run
from .interpreter import RUN, Echo, Interpreter, Primitive, add, broadcast, interpreting, mul, sin

# ---- Step 1: the rules -------------------------------------------------------------------------
# For each primitive, the table has one rule for each argument: if only this argument moves, at
# speed t, how fast does the result move? If several move, the speeds add up.
#
# The rules are made of operations and not of NumPy's functions. In step 4 you see why. There is no
# primitive for the cosine: it is the sine of x + pi/2.


def cos(x):
    """The cosine of x.

    A rule at work: in 5 * 7, only the first factor moves, at speed 1.

    >>> print(JVP["mul"][0](1.0, 5.0, 7.0))
    7.0
    """
    return sin(add(x, np.pi / 2))


JVP = {
    "add": [lambda t, x, y: t, lambda t, x, y: t],
    "mul": [lambda t, x, y: mul(t, y), lambda t, x, y: mul(x, t)],
    "sin": [lambda t, x: mul(t, cos(x))],
    "broadcast": [lambda t, x, axis, size: broadcast(t, axis, size)],
}

# ---- Step 2: a value that looks like a number --------------------------------------------------
# Instead of a number your function gets a **tracer**. `x * y` on tracers must end in our `mul`, so
# the class defines three of Python's operators: `+`, `*`, and `-` with the tracer on the left. Use
# `x * -1.0` for `-x`, and our `sin(x)` for `np.sin(x)`. Where Python insists on a true number, as
# in `if x:`, a tracer refuses. An error is better than a wrong answer.


class Tracer:
    """A value inside an interpreter."""

    __array_ufunc__ = None  # makes NumPy leave `array * tracer` to `__rmul__`
    ndim = property(lambda self: len(self.shape))

    def __add__(self, other):
        return add(self, other)

    def __radd__(self, other):
        return add(other, self)

    def __mul__(self, other):
        return mul(self, other)

    def __rmul__(self, other):
        return mul(other, self)

    def __sub__(self, other):
        return add(self, mul(other, -1.0))

    def _refuse(self, *_):
        raise TypeError(f"{self} stands for a number, and has none that Python could look at.")

    __bool__ = __float__ = __int__ = __eq__ = __lt__ = __gt__ = _refuse

    def __repr__(self):
        return f"{type(self).__name__}{list(self.shape)}"


class JVPTracer(Tracer):
    """A value and its tangent.

    >>> x = JVPTracer(None, 2.0, 1.0)
    >>> print(x, x.shape)
    JVPTracer[] ()
    """

    def __init__(self, interpreter, primal, tangent):
        self.interpreter, self.primal, self.tangent = interpreter, primal, tangent

    shape = property(lambda self: np.shape(self.primal))


# ---- Step 3: the interpreter -------------------------------------------------------------------
# It takes each argument apart into value (JAX says *primal*) and tangent. Its parent computes the
# value. The rules give the tangent: one part for each argument that moves. A number that you wrote,
# such as 3.0 in `x + 3.0`, does not move, and its tangent is None.


class JVPInterpreter(Interpreter):
    """Computes values and tangents."""

    def split(self, x):
        """Takes a tracer of this interpreter apart; anything else does not move."""
        mine = isinstance(x, JVPTracer) and x.interpreter is self
        return (x.primal, x.tangent) if mine else (x, None)

    def process(self, primitive, args, params):
        primals, tangents = zip(*map(self.split, args), strict=True)
        with interpreting(self.parent):
            result = primitive.bind(*primals, **params)
            rules = zip(JVP[primitive.name], tangents, strict=True)
            parts = [rule(t, *primals, **params) for rule, t in rules if t is not None]
            return JVPTracer(self, result, reduce(add, parts)) if parts else result


def jvp_flat(f, primals, tangents):
    """Returns the results of `f` and their tangents; here `f` returns a list."""
    interpreter = JVPInterpreter()
    with interpreting(interpreter):
        pairs = zip(primals, tangents, strict=True)
        results = f(*[JVPTracer(interpreter, x, t) for x, t in pairs])
    pairs = list(map(interpreter.split, results))
    return [y for y, _ in pairs], [np.zeros(np.shape(y)) if t is None else t for y, t in pairs]


def jvp(f, primals, tangents):
    """Returns the result of `f` and its tangent; here `f` returns an array.

    There is a tangent for each argument, of its shape. First the example of the drawing; then the
    same slope from two runs at nearby points:

    >>> print(*jvp(lambda x: sin(x) * x, (2.0,), (1.0,)))
    1.8185948536513634 0.077003753731397
    >>> print((np.sin(2.001) * 2.001 - np.sin(2.0) * 2.0) / 0.001)
    0.07567799367991235

    What reaches the interpreter below: the sine, then the cosine (a sum and a sine), then t * cos.

    >>> with interpreting(Echo()):
    ...     y, t = jvp(sin, (2.0,), (1.0,))
      sin 2.0 -> 0.9092974268256817
      add 2.0 1.5707963267948966 -> 3.5707963267948966
      sin 3.5707963267948966 -> -0.41614683654714235
      mul 1.0 -0.41614683654714235 -> -0.41614683654714235
    """
    [y], [t] = jvp_flat(lambda *xs: [f(*xs)], primals, tangents)
    return y, t


# ---- Step 4: derivatives of derivatives --------------------------------------------------------
# `derivative(f)` is a function like any other, so it has a derivative too. Two interpreters are at
# work then. That of the outer derivative is made first, and is the parent of the inner one. The
# inner one applies its rules. They are made of operations, so the outer one can differentiate them.
#
# With two of them, whose tangent is whose? In
#
#       d/dx  x * (d/dy (x + y))
#
# the inner derivative is 1 for any x, so the outer one is 1 as well. But while the inner one runs,
# x is a tracer of the outer one, and moves. If the inner interpreter took that tangent for its own,
# it would say 1 + 1 = 2. The test `x.interpreter is self` in `split` prevents this, and nothing
# else does: to an interpreter, the tracer of another one is a constant.


def derivative(f):
    """Returns the derivative of a function of one number.

    >>> print(derivative(sin)(1.0), derivative(derivative(sin))(1.0))
    0.5403023058681398 -0.8414709848078964
    >>> print(derivative(lambda x: x * derivative(lambda y: x + y)(1.0))(1.0))
    1.0
    """
    return lambda x: jvp(f, (x,), (1.0,))[1]


# ---- Exercise ----------------------------------------------------------------------------------
# `exp` is a new primitive. Write the rule of its derivative: if x moves at t, how fast does exp(x)
# move? The second derivative is tried too, so use operations that a tracer can go through.

exp_p = Primitive("exp")
RUN["exp"] = np.exp
JVP["exp"] = [lambda t, x: exp_rule(t, x)]


def exp(x):
    """The exponential of x."""
    return exp_p.bind(x)


def exp_rule(t, x):
    """Exercise: how fast exp(x) moves. Complete this function.

    >>> print(exp_rule(3.0, 0.0))
    3.0
    >>> print(np.round(derivative(exp)(1.0), 6))
    2.718282
    >>> print(np.round(derivative(derivative(lambda x: exp(x * 2.0)))(0.0), 6))
    4.0
    """


if __name__ == "__main__":
    run(__name__)

# ---- Where this is in the real thing -----------------------------------------------------------
# In jaxlens.core: kernel/jvp.py; the tracer is in kernel/interpreter.py. In JAX:
# jax/_src/interpreters/ad.py. The rules stand beside each primitive in jax/_src/lax/lax.py, one for
# each argument, as here (`ad.defjvp`). Left out: integers, which cannot move.
