"""Chapter 3. trace and jaxpr: the interpreter that only takes notes.

The interpreters so far compute, or hand an operation to one that does. This one computes nothing.
It gives your function tracers that have a shape and no numbers. It writes down each primitive that
is applied to them, and returns a new tracer for the result. When your function is done, the notes
are your program.

      your Python                        the notes
      def f(x):                          { lambda ; a:f32[]. let
          y = sin(x)                         b:f32[] = sin a
          return y * 2.0 + x                 c:f32[] = mul b 2.0:f32[]
                                             d:f32[] = add c a
                                           in (d,) }

The notes are called a **jaxpr**, a JAX expression. Taking them is called **tracing**. A jaxpr is
much simpler than Python: it is a list of equations. Each applies one primitive and gives its result
a new name. No name is assigned twice. There is no `if` in it, no loop, no class and no function
call. Python has dealt with all of these while it ran your function.

What is it good for? You can read a list, run it, run it backwards, shorten it, or translate it for
a compiler. With a Python function you can do one thing: call it.
"""

from string import ascii_lowercase
from typing import NamedTuple

import numpy as np

if not __package__:  # this file is run by its path
    from chapter import package as __package__

from .chapter import run
from .interpreter import Interpreter, Primitive, interpreting, sin
from .jvp import Tracer, derivative, jvp

# ---- Step 1: the language ----------------------------------------------------------------------
# A variable has a shape, and no name: names are made when somebody prints. An equation reads
# variables, and values as they are (the 2.0 above). The four short functions after the classes only
# print.


class Var:
    """A variable."""

    def __init__(self, shape):
        self.shape = shape


class JaxprEqn(NamedTuple):
    """One equation: `outvars = primitive[params] invars`."""

    primitive: Primitive
    invars: list
    outvars: list
    params: dict


class Jaxpr(NamedTuple):
    """A function as a list of equations.

    You can write one by hand:

    >>> a, b = Var((3,)), Var((3,))
    >>> print(Jaxpr([a], [JaxprEqn(Primitive("sin"), [a], [b], {})], [b]))
    { lambda ; a:f32[3]. let
        b:f32[3] = sin a
      in (b,) }
    """

    invars: list
    eqns: list
    outvars: list

    def __str__(self):
        names = {}
        head = " ".join(typed(var, names) for var in self.invars)
        lines = [f"{{ lambda ; {head}. let", *[equation_text(eqn, names) for eqn in self.eqns]]
        ends = "".join(f"{atom_text(x, names)}, " for x in self.outvars)
        return "\n    ".join(lines) + f"\n  in ({ends[:-1]}) }}"


def type_text(x):
    """f32[3,4]: f32 is only text here. NumPy computes with 64 bits, XLA in chapter 6 with 32."""
    return f"f32[{','.join(map(str, np.shape(x)))}]"


def atom_text(x, names):
    """The letter of a variable, a new one where it first appears; of a value, itself."""
    if isinstance(x, Var):
        return names.setdefault(x, ascii_lowercase[len(names) % 26] + "'" * (len(names) // 26))
    return f"{x if isinstance(x, Tracer) else np.asarray(x, float)}:{type_text(x)}"


def typed(var, names):
    """a:f32[3]."""
    return f"{atom_text(var, names)}:{type_text(var)}"


def equation_text(eqn, names):
    """b:f32[3] = sin a."""
    inputs = " ".join(atom_text(x, names) for x in eqn.invars)
    params = " ".join(f"{key}={value}" for key, value in eqn.params.items())
    word = f"{eqn.primitive}[{params}]" if params else eqn.primitive
    return f"{typed(eqn.outvars[0], names)} = {word} {inputs}"


# ---- Step 2: shapes without numbers ------------------------------------------------------------
# To give the next tracer its shape, the interpreter needs a rule for each primitive: from the
# shapes of the arguments to the shape of the result. So a mistake in a shape is found before
# anything is computed.


def equal_shapes(x, y):
    """The rule of add and mul.

    >>> print(ABSTRACT["broadcast"]((3,), axis=0, size=4))
    (4, 3)
    """
    if x != y:
        raise TypeError(f"shapes {x} and {y} do not fit")
    return x


ABSTRACT = {
    "add": equal_shapes,
    "mul": equal_shapes,
    "sin": lambda x: x,
    "broadcast": lambda x, axis, size: (*x[:axis], size, *x[axis:]),
}

# ---- Step 3: the interpreter that records ------------------------------------------------------
# It never asks its parent, as nothing is to be computed. `trace` takes shapes. `make_jaxpr`, as in
# JAX, takes arguments, and uses only their shapes.


class StagedTracer(Tracer):
    """A value of which the shape is known, and nothing else."""

    def __init__(self, interpreter, var):
        self.interpreter, self.var = interpreter, var

    shape = property(lambda self: self.var.shape)


class Staging(Interpreter):
    """Records each primitive as an equation."""

    def __init__(self):
        super().__init__()
        self.eqns = []

    def atom(self, x):
        """The variable of a tracer of this interpreter; anything else is a constant."""
        mine = isinstance(x, StagedTracer) and x.interpreter is self
        return x.var if mine else x

    def process(self, primitive, args, params):
        var = Var(ABSTRACT[primitive.name](*map(np.shape, args), **params))
        self.eqns.append(JaxprEqn(primitive, list(map(self.atom, args)), [var], params))
        return StagedTracer(self, var)


def trace_flat(f, *shapes):
    """Records a function that returns a list."""
    staging, invars = Staging(), list(map(Var, shapes))
    with interpreting(staging):
        results = f(*[StagedTracer(staging, var) for var in invars])
    return Jaxpr(invars, staging.eqns, list(map(staging.atom, results)))


def trace(f, *shapes):
    """Records a function that returns an array.

    >>> print(trace(lambda x: sin(x) * 2.0 + x, ()))
    { lambda ; a:f32[]. let
        b:f32[] = sin a
        c:f32[] = mul b 2.0:f32[]
        d:f32[] = add c a
      in (d,) }

    Python runs while you trace. A loop is not recorded, only the operations that it did:

    >>> def power(x, n):
    ...     result = x
    ...     for _ in range(n - 1):
    ...         result = result * x
    ...     return result
    >>> print(trace(lambda x: power(x, 3), ()))
    { lambda ; a:f32[]. let
        b:f32[] = mul a a
        c:f32[] = mul b a
      in (c,) }
    """
    return trace_flat(lambda *xs: [f(*xs)], *shapes)


def make_jaxpr(f):
    """Returns the function that records `f` at the shapes of its arguments.

    Trace a derivative, and you read how it is computed. Two interpreters are at work: that of
    chapter 2 applies its rules, and the operations that these are made of are recorded.

    >>> print(make_jaxpr(derivative(sin))(1.0))
    { lambda ; a:f32[]. let
        b:f32[] = sin a
        c:f32[] = add a 1.5707963267948966:f32[]
        d:f32[] = sin c
        e:f32[] = mul 1.0:f32[] d
      in (e,) }

    Where Python needs a number to go on, there is none:

    >>> try:
    ...     make_jaxpr(lambda x: 1.0 if x else 2.0)(1.0)
    ... except TypeError as error:
    ...     print(error)
    StagedTracer[] stands for a number, and has none that Python could look at.
    """
    return lambda *args: trace(f, *map(np.shape, args))


# ---- Step 4: from notes back to a function -----------------------------------------------------
# To run a jaxpr is to go through its equations with a dict of what is known so far. Note that each
# primitive is *bound* again: so the current interpreter decides what it means, and you can
# differentiate a jaxpr, or trace it once more.


def eval_jaxpr(jaxpr, *args):
    """Applies each equation of a jaxpr, and returns the list of its results.

    >>> jaxpr = make_jaxpr(lambda x: sin(x) * x)(2.0)
    >>> print(*jvp(lambda x: eval_jaxpr(jaxpr, x)[0], (2.0,), (1.0,)))
    1.8185948536513634 0.077003753731397
    """
    env = dict(zip(jaxpr.invars, args, strict=True))

    def read(x):
        return env[x] if isinstance(x, Var) else x

    for eqn in jaxpr.eqns:
        [var] = eqn.outvars
        env[var] = eqn.primitive.bind(*map(read, eqn.invars), **eqn.params)
    return list(map(read, jaxpr.outvars))


# ---- Exercise ----------------------------------------------------------------------------------
# Compilers drop what nobody reads. `dce` (dead code elimination) returns the jaxpr without
# equations whose results are not needed: neither for a result of the jaxpr, nor by an equation that
# is needed. Hint: in which direction must you go, to know at each equation whether somebody will
# read it?


def dce(jaxpr):
    """Exercise: drops the equations whose results nobody needs. Complete this function.

    In this program, the sum is read by the product alone, which nobody reads.

    >>> def wasteful(x):
    ...     y = x * 3.0
    ...     unused = (y + 1.0) * y
    ...     return y + x
    >>> jaxpr = make_jaxpr(wasteful)(2.0)
    >>> print(dce(jaxpr))
    { lambda ; a:f32[]. let
        b:f32[] = mul a 3.0:f32[]
        c:f32[] = add b a
      in (c,) }
    >>> print(len(jaxpr.eqns))
    4
    >>> print(dce(make_jaxpr(lambda x: 1.0)(2.0)))
    { lambda ; a:f32[]. let
      in (1.0:f32[],) }
    """


if __name__ == "__main__":
    run(__name__)

# ---- Where this is in the real thing -----------------------------------------------------------
# In jaxlens.core: kernel/jaxpr.py and kernel/trace.py. In JAX: jax/_src/core.py (`Jaxpr`,
# `eval_jaxpr`) and jax/_src/interpreters/partial_eval.py. Left out: dtypes (a type there is a
# `ShapedArray`: shape, dtype, weak or not), equations with several results or with jaxprs inside
# (`cond`, `scan`), and `constvars`: there, arrays from outside are listed at the head of the jaxpr,
# and `eval_jaxpr` takes their values as an argument.
