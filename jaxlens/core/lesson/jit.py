"""Chapter 6. jit: give the notes to a compiler, and keep what it makes.

So far each operation went to NumPy by itself. It reads its arguments from memory and writes its
result back. A compiler sees the whole program: it can do several operations in one loop, and what
is between them never gets to memory. JAX's compiler is XLA. It does not read Python, nor jaxprs. It
reads **StableHLO**, which says nearly the same in another spelling.

      { lambda ; a:f32[3]. let        func.func public @main(%arg0: tensor<3xf32>) -> ... {
          b:f32[3] = sin a              %0 = stablehlo.sine %arg0 : tensor<3xf32>
          c:f32[3] = mul b a            %1 = stablehlo.multiply %0, %arg0 : tensor<3xf32>
        in (c,) }                       return %1 : tensor<3xf32>
                                      }

To compile takes milliseconds for a small program and minutes for a large one. To run it takes
microseconds. So `jit` compiles once and keeps the program. When may it be used again? It depends on
the shapes and dtypes of the arguments, and not on their numbers. These are the **key** of a cache.

      jit(f)(args)   --->   key = shape and dtype of each argument
                            known?   run the program
                            new?     trace f, write StableHLO, compile, keep it, run it

To write the text you need NumPy alone. To run it you need `jax`, which brings XLA. Without jax,
give `jit` the other backend of step 3: `jit(f, by_numpy)`.
"""

import numpy as np

if not __package__:  # this file is run by its path
    from chapter import package as __package__

from .chapter import run
from .interpreter import GROUND, current, sin
from .tracing import Var, eval_jaxpr, trace
from .vjp import grad, total

# ---- Step 1: a line for each primitive ---------------------------------------------------------
# A rule returns the right side of a line. It gets the names of the operands, the types of operands
# and result, and the parameters. The sum needs a number to begin with, which is a line of its own:
# `emit` writes one, and returns the name of its result.


def tensor(x):
    """The type of a value: f32[2,3] in the spelling of StableHLO.

    >>> print(tensor(np.ones((2, 3))), tensor(1.0))
    tensor<2x3xf32> tensor<f32>
    """
    return f"tensor<{''.join(f'{n}x' for n in np.shape(x))}f32>"


def lower_broadcast(emit, names, ins, out, axis, size):
    """`dims` has the place of each axis of the operand in the result; the new axis is skipped."""
    dims = [i for i in range(out.count("x")) if i != axis]  # tensor<2x3xf32> has two axes
    return f"stablehlo.broadcast_in_dim {names[0]}, dims = {dims} : ({ins[0]}) -> {out}"


def lower_sum(emit, names, ins, out, axis):
    """A reduction: from which number on, by which operation, along which axes."""
    zero = emit(f"stablehlo.constant dense<0.0> : {tensor(0.0)}")
    how = f"applies stablehlo.add across dimensions = [{axis}]"
    return f"stablehlo.reduce({names[0]} init: {zero}) {how} : ({ins[0]}, {tensor(0.0)}) -> {out}"


LOWER = {
    "add": lambda emit, names, ins, out: f"stablehlo.add {names[0]}, {names[1]} : {out}",
    "mul": lambda emit, names, ins, out: f"stablehlo.multiply {names[0]}, {names[1]} : {out}",
    "sin": lambda emit, names, ins, out: f"stablehlo.sine {names[0]} : {out}",
    "broadcast": lower_broadcast,
    "reduce_sum": lower_sum,
}

# ---- Step 2: from a jaxpr to a module ----------------------------------------------------------
# One pass through the equations, and a line for each. A constant gets a line too. StableHLO wants a
# point in its numbers, as in 1.0e-05; where Python writes none (1e-05, inf), the bits will do.


def digits(x):
    """The elements of an array, in nested lists.

    >>> print(digits(np.array([0.5, 3, np.inf])))
    [0.5, 3.0, 0x7F800000]
    """
    if np.ndim(x):
        return f"[{', '.join(map(digits, x))}]"
    text = repr(float(np.float32(x)))
    return text if "." in text else f"0x{np.float32(x).view(np.uint32):08X}"


def lower(jaxpr):
    """Returns a jaxpr as a StableHLO module.

    >>> print(lower(trace(lambda x: total(sin(x) * x), (3,))))
    module {
      func.func public @main(%arg0: tensor<3xf32>) -> (tensor<f32>) {
        %0 = stablehlo.sine %arg0 : tensor<3xf32>
        %1 = stablehlo.multiply %0, %arg0 : tensor<3xf32>
        %2 = stablehlo.constant dense<0.0> : tensor<f32>
        %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [0] \
: (tensor<3xf32>, tensor<f32>) -> tensor<f32>
        return %3 : tensor<f32>
      }
    }
    """
    names = {var: f"%arg{i}" for i, var in enumerate(jaxpr.invars)}
    lines = []

    def emit(line):
        lines.append(f"%{len(lines)} = {line}")
        return f"%{len(lines) - 1}"

    def name(x):
        known = isinstance(x, Var)
        return names[x] if known else emit(f"stablehlo.constant dense<{digits(x)}> : {tensor(x)}")

    for eqn in jaxpr.eqns:
        [var] = eqn.outvars
        operands, ins = list(map(name, eqn.invars)), list(map(tensor, eqn.invars))
        rule = LOWER[eqn.primitive.name]
        names[var] = emit(rule(emit, operands, ins, tensor(var), **eqn.params))
    types = ", ".join(map(tensor, jaxpr.outvars))
    lines.append(f"return {', '.join(map(name, jaxpr.outvars))} : {types}")
    head = ", ".join(f"{names[var]}: {tensor(var)}" for var in jaxpr.invars)
    body = "\n    ".join(lines)
    return f"module {{\n  func.func public @main({head}) -> ({types}) {{\n    {body}\n  }}\n}}"


# ---- Step 3: two ways to run a jaxpr -----------------------------------------------------------
# A *backend* makes a Python function of a jaxpr. The first compiles its StableHLO with XLA. The
# second needs no compiler, and no jax.


def xla(jaxpr):
    """Compiles a jaxpr with XLA.

    >>> print(*xla(trace(sin, (2,)))(np.array([1.0, 2.0])))
    [0.84147096 0.9092974 ]
    """
    import jax
    from jax.extend.backend import get_backend, get_compile_options

    options = get_compile_options(num_replicas=1, num_partitions=1)
    program = get_backend().compile_and_load(lower(jaxpr), jax.devices()[:1], options)

    def call(*args):
        buffers = [jax.device_put(np.asarray(x, np.float32)) for x in args]
        return list(map(np.asarray, program.execute(buffers)))

    return call


def by_numpy(jaxpr):
    """Runs a jaxpr with NumPy, one equation after the other.

    >>> print(*by_numpy(trace(sin, (2,)))(np.array([1.0, 2.0])))
    [0.84147098 0.90929743]
    """
    return lambda *args: eval_jaxpr(jaxpr, *args)


# ---- Step 4: jit and its cache -----------------------------------------------------------------
# The cache is a dict. It belongs to one jitted function: another function has another dict. What if
# `jit(f)` is called while you trace or differentiate? Its arguments are tracers then, and a
# compiled program takes no tracer. So `jit` just calls `f`, whose operations become part of what
# goes on.


def cache_key(args):
    """What a program depends on: shape and dtype of each argument."""
    return tuple((np.shape(x), np.result_type(x)) for x in args)


def jit(f, backend=xla):
    """Returns `f` compiled, once for each key.

    Four calls, two traces:

    >>> def noisy(x):
    ...     print("tracing, shape", np.shape(x))
    ...     return sin(x) * x
    >>> fast = jit(noisy, by_numpy)
    >>> for x in (2.0, 3.0, np.ones(2), np.zeros(2)):
    ...     print(fast(x))
    tracing, shape ()
    1.8185948536513634
    0.4233600241796016
    tracing, shape (2,)
    [0.84147098 0.84147098]
    [0. 0.]

    The compiled gradient, and the gradient of what is compiled. XLA computes with 32 bits, so the
    first is right to five digits:

    >>> print(jit(grad(lambda x: sin(x) * x))(2.0), grad(jit(lambda x: sin(x) * x))(2.0))
    0.07700342 0.077003753731397
    """
    programs = {}

    def jitted(*args):
        if current() is not GROUND:
            return f(*args)
        key = cache_key(args)
        if key not in programs:
            programs[key] = backend(trace(f, *map(np.shape, args)))
        return programs[key](*args)[0]

    return jitted


# ---- Exercise ----------------------------------------------------------------------------------
# `power(x, n)` is a loop of n rounds. Under `jit`, n would be a tracer, and Python cannot loop over
# it. So n must stay a number that belongs to the key: each n has a program of its own. JAX calls
# such an argument *static*. Write `jit_static(f)` for functions of x and a static n. Make use of
# `jit`, and remember that n can be the key of a dict.


def jit_static(f, backend=xla):
    """Exercise: returns `f(x, n)` compiled, once for each key of x and each n. Complete it.

    >>> traced = []
    >>> def power(x, n):
    ...     traced.append(n)
    ...     result = x
    ...     for _ in range(n - 1):
    ...         result = result * x
    ...     return result
    >>> fast = jit_static(power, by_numpy)
    >>> print(callable(fast))
    True
    >>> print(fast(2.0, 3), fast(2.0, 5), fast(3.0, 3))
    8.0 32.0 27.0
    >>> print(traced)
    [3, 5]
    """


if __name__ == "__main__":
    run(__name__)

# ---- Where this is in the real thing -----------------------------------------------------------
# In jaxlens.core: kernel/run.py, and aot/ for programs on devices. In JAX: jax/_src/pjit.py for the
# cache, jax/_src/interpreters/mlir.py for the lowering. Left out: `jit` as a primitive (there, a
# jitted function stays one equation of the larger program, with a jaxpr inside), programs of other
# dtypes (the key tells them apart here, and all compute in f32), and arrays that stay on the device
# between two calls.
