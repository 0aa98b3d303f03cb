"""`from_jax`: JAX traces a function, the core differentiates, batches, lowers and runs it.

The core's primitives have the names and parameters of JAX's. So a jaxpr of JAX is read as
`eval_jaxpr` reads the core's: each equation binds the primitive of its name, in the interpreter
that is current. What differs is here: equations that hold jaxprs, those that carry rules of the
user's, and keys of random numbers, which are u32 words in the core.

    core.grad(core.from_jax(lambda x: jnp.sort(x)[0]))(x)    # the derivative of sort is the core's

A custom rule stays the user's: JAX applies it to its one equation, by `jax.jvp` or `jax.vjp`, and
the jaxpr of that is read in the same way.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from itertools import repeat
from math import log, prod
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import tree_util

from jaxlens.core import random
from jaxlens.core.control.loops import loop, until_the_last
from jaxlens.core.kernel import basics
from jaxlens.core.kernel.interpreter import NUMBERS, Primitive, Value, aval_of, observer
from jaxlens.core.kernel.jaxpr import ClosedJaxpr, eval_jaxpr, hoisted
from jaxlens.core.kernel.run import jit_p
from jaxlens.core.kernel.trace import trace
from jaxlens.core.kernel.types import ShapedArray, canonical, float0, is_inexact, x64
from jaxlens.core.primitives import contractions, elementwise, functions, gathering, pieces, shapes
from jaxlens.core.transforms import signatures
from jaxlens.core.transforms.batching import vmap
from jaxlens.core.transforms.calls import with_common_consts
from jaxlens.core.transforms.custom import custom_jvp, custom_vjp
from jaxlens.core.transforms.flags import cut, merge, split
from jaxlens.core.transforms.sources import NameStack, SourceInfo

Rules = Mapping[str, Callable[..., Any]]
_SCATTERS = "scatter scatter-add scatter-sub scatter-mul scatter-min scatter-max".split()
_JAX = str(Path(jax.__file__).parent)
_U32 = np.dtype("uint32")
# What these say is about precision or several devices, not about what is computed.
_IGNORED = {"accuracy", "precision", "sharding", "out_sharding"}


class MissingPrimitiveError(NotImplementedError):
    """The core cannot apply an equation of JAX: it has no such primitive, or not this of it."""


def from_jax(
    f: Callable[..., Any],
    rules: Rules | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> Callable[..., Any]:
    """Returns a function that JAX traces, and that the core transforms, compiles and runs.

    Args:
        f: A function of pytrees that JAX can trace. It is traced once for the types of its
            arguments; what it takes from outside must not be traced by the core.
        rules: For primitives that the core lacks, by name: functions of the core of their operands
            and parameters, such as `{"exp10": lambda x, **params: 10**x}`.
        static_argnums: Arguments that are not traced but compared, as are those that hold neither
            arrays nor numbers.
        static_argnames: The same, by name.

    Raises:
        MissingPrimitiveError: When the function is called: the core lacks one of its primitives,
            and `rules` has none for it.
    """
    chosen = signatures.chosen(f, static_argnums, static_argnames, "static_arg")
    programs: dict[Any, tuple[ClosedJaxpr, Any]] = {}

    @wraps(f)
    def traced_by_jax(*args: Any, **kwargs: Any) -> Any:
        args, kwargs, static = signatures.without_static(chosen, args, kwargs)
        leaves, in_tree = tree_util.tree_flatten((args, kwargs))
        plain = tuple(None if _is_array(leaf) else leaf for leaf in leaves)
        arrays = [_words(leaf) for leaf in leaves if _is_array(leaf)]
        types = tuple(_jax_type(leaf) for leaf in leaves if _is_array(leaf))
        key = in_tree, plain, types, static, x64()
        if key not in programs:

            def flat(*values: Any) -> Any:
                given = iter(values)
                filled = [next(given) if _is_array(x) else x for x in leaves]
                args, kwargs = tree_util.tree_unflatten(in_tree, filled)
                return signatures.filled(f, static)(*args, **kwargs)

            programs[key] = _traced(flat, types, rules or {})
        closed, out_tree = programs[key]
        results = eval_jaxpr(closed.jaxpr, closed.consts, *arrays)
        return tree_util.tree_unflatten(out_tree, results)

    return traced_by_jax


def _traced(f: Callable[..., Any], types: Sequence[Any], rules: Rules) -> tuple[ClosedJaxpr, Any]:
    """Lets JAX trace a function of arrays; returns its jaxpr in the core, and its result's tree."""
    with jax.enable_x64(x64()):
        made, shapes_out = jax.make_jaxpr(f, return_shape=True)(*types)
        closed = _Reader(rules).closed(made.jaxpr, made.consts)
    return closed, tree_util.tree_structure(shapes_out)


# ---- types and values ---------------------------------------------------------------------------


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (Value, *NUMBERS)) or (
        hasattr(leaf, "shape") and hasattr(leaf, "dtype")
    )


def _jax_type(value: Any) -> Any:
    """Returns JAX's type of an array, a number, or a type."""
    struct: Any = jax.ShapeDtypeStruct
    if _is_key(value):
        return struct(value.shape, value.dtype)
    aval = aval_of(value)
    return struct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def _is_key(value: Any) -> bool:
    """Whether a value or type is JAX's key of random numbers, rather than its words."""
    dtypes: Any = jax.dtypes
    dtype = getattr(value, "dtype", None)
    return dtype is not None and bool(dtypes.issubdtype(dtype, dtypes.prng_key))


def _words(value: Any) -> Any:
    return jax.random.key_data(value) if _is_key(value) else value


def _type(aval: Any) -> ShapedArray:
    """Returns the core's type for JAX's: a key is two words."""
    if _is_key(aval):
        return ShapedArray((*aval.shape, 2), _U32)
    return ShapedArray(aval.shape, canonical(aval.dtype), aval.weak_type)


def _source(eqn: Any, around: SourceInfo) -> SourceInfo:
    """Returns the position of an equation of JAX: the calls above this file, without JAX's own.

    What a jitted function of JAX's does has the position `around` it, that of the call.
    """
    info, calls = eqn.source_info, []
    if info.traceback is not None:
        for code, instruction in zip(*info.traceback.raw_frames(), strict=True):
            if code.co_filename == __file__:
                break
            if not code.co_filename.startswith(_JAX):
                calls.append((code, instruction))
    name = str(info.name_stack)
    return SourceInfo(tuple(calls) or around.calls, NameStack((name,)) if name else NameStack())


# ---- equations ----------------------------------------------------------------------------------


class _Reader:
    """Reads jaxprs of JAX in the current interpreter of the core; each nested one once.

    Args:
        rules: The user's, which come first.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._source = SourceInfo(())  # of the equation that is read
        self._closed: dict[int, tuple[Any, ClosedJaxpr]] = {}  # with the jaxpr, which keeps its id

    def closed(self, jaxpr: Any, consts: Sequence[Any] = ()) -> ClosedJaxpr:
        """Returns a jaxpr of JAX as one of the core's."""
        if id(jaxpr) not in self._closed:
            types = [_type(var.aval) for var in jaxpr.invars]
            made = trace(partial(self.results, jaxpr, consts), types)
            self._closed[id(jaxpr)] = jaxpr, made
        return self._closed[id(jaxpr)][1]

    def nested(self, closed: Any) -> tuple[ClosedJaxpr, list[Any]]:
        """Returns a closed jaxpr of JAX with its constants as its first parameters."""
        return hoisted(self.closed(closed.jaxpr, closed.consts))

    def results(self, jaxpr: Any, consts: Sequence[Any], *args: Any) -> list[Any]:
        """Applies each equation of a jaxpr of JAX: `eval_jaxpr`."""
        env = dict(
            zip([*jaxpr.constvars, *jaxpr.invars], [*map(_words, consts), *args], strict=True)
        )

        def read(atom: Any) -> Any:
            if not hasattr(atom, "val"):
                return env[atom]
            if not atom.aval.shape:
                number = np.asarray(atom.val, _type(atom.aval).dtype)[()]
                return number.item() if atom.aval.weak_type else number
            return np.asarray(atom.val)

        around = self._source
        for eqn in jaxpr.eqns:
            self._source = _source(eqn, around)
            with observer.source.at(self._source):
                results = self.apply(eqn, list(map(read, eqn.invars)))
            self._source = around
            many = isinstance(results, list | tuple)
            env.update(zip(eqn.outvars, results if many else [results], strict=True))
        return list(map(read, jaxpr.outvars))

    def apply(self, eqn: Any, args: list[Any]) -> Any:
        """Applies an equation of JAX to values of the core."""
        name = eqn.primitive.name
        if name in self.rules:
            return self.rules[name](*args, **eqn.params)
        if name in _EQUATIONS:
            return _EQUATIONS[name](self, eqn, args)
        keys = [_is_key(atom.aval) for atom in (*eqn.invars, *eqn.outvars)]
        rule: Callable[..., Any] = partial(self.bind, name, eqn.params)
        if name in _RANDOM:
            return _RANDOM[name](*args, **eqn.params)
        if any(keys):  # the same for both words of each key
            count = len(args)
            axes = [-1 if has else None for has in keys]
            rule = vmap(rule, tuple(axes[:count]), axes[count] if len(axes) == count + 1 else -1)
        return rule(*args)

    def bind(self, name: str, params: dict[str, Any], *args: Any) -> Any:
        """Binds the core's primitive of a name."""
        params = {key: value for key, value in params.items() if key not in _IGNORED}
        if name in _OPERATIONS:
            return _OPERATIONS[name](*args, **params)
        primitive = _primitives().get(name)
        if primitive is None:
            raise self.missing(
                f"has no primitive {name}. Say what it computes with functions of the core: "
                f"from_jax(f, {{{name!r}: lambda *args, **params: ...}})."
            )
        return primitive.bind(*args, **params)

    def missing(self, says: str) -> MissingPrimitiveError:
        """Returns the error for the equation that is read, which the core cannot apply."""
        at = f"{self._source}: " if self._source.calls else ""
        return MissingPrimitiveError(f"{at}jaxlens.core {says}")


def _primitives() -> dict[str, Primitive]:
    """Returns the primitives of the core that is loaded, by name."""
    modules = [m for n, m in list(sys.modules.items()) if n.startswith("jaxlens.core.")]
    values = (value for module in modules for value in vars(module).values())
    return {value.name: value for value in values if isinstance(value, Primitive)}


# ---- equations that hold jaxprs -----------------------------------------------------------------


def _jit(reader: _Reader, eqn: Any, args: list[Any]) -> Any:
    closed, consts = reader.nested(eqn.params["jaxpr"])
    return jit_p.bind(*consts, *args, jaxpr=closed, name=eqn.params["name"])


def _call(reader: _Reader, eqn: Any, args: list[Any]) -> Any:
    closed = eqn.params["call_jaxpr"]
    return reader.results(closed.jaxpr, closed.consts, *args)


def _remat(reader: _Reader, eqn: Any, args: list[Any]) -> Any:
    params = dict(eqn.params)
    if params.pop("policy", None) is not None:
        raise reader.missing("has no policy of jax.checkpoint: leave it out.")
    closed, consts = hoisted(reader.closed(params.pop("jaxpr")))
    return _primitives()["remat2"].bind(*consts, *args, jaxpr=closed, **params)


def _cond(reader: _Reader, eqn: Any, args: list[Any]) -> Any:
    branches, consts = with_common_consts(list(map(reader.nested, eqn.params["branches"])))
    return _primitives()["cond"].bind(args[0], *consts, *args[1:], branches=tuple(branches))


def _while(reader: _Reader, eqn: Any, args: list[Any]) -> Any:
    params = eqn.params
    test, tests = reader.nested(params["cond_jaxpr"])
    body, consts = reader.nested(params["body_jaxpr"])
    own_tests, own_consts, carry = cut(args, params["cond_nconsts"], params["body_nconsts"])
    tests, consts = tests + own_tests, consts + own_consts
    if test.out_avals[0].shape:  # JAX's vmap leaves the condition of each example in place
        test, body = until_the_last((test, body), len(tests))
        consts = tests + consts
    return loop(test, tests, body, consts, carry)


def _scan(reader: _Reader, eqn: Any, args: list[Any]) -> Any:
    body, new = reader.nested(eqn.params["jaxpr"])
    params = {key: eqn.params[key] for key in ("length", "reverse", "unroll")}
    num_consts, num_carry = _scan_counts(eqn)
    params |= {"num_consts": len(new) + num_consts, "num_carry": num_carry}
    return _primitives()["scan"].bind(*new, *args, jaxpr=body, **params)


def _scan_counts(eqn: Any) -> tuple[int, int]:
    """Returns the numbers of constants and carried values, from their types from jax 0.12 on."""
    if "num_carry" in eqn.params:
        return eqn.params["num_consts"], eqn.params["num_carry"]
    body = eqn.params["jaxpr"].jaxpr

    def same(outside: Sequence[Any], inside: Sequence[Any]) -> int:
        pairs = zip(outside, inside, strict=True)
        return sum(len(_type(a.aval).shape) == len(_type(b.aval).shape) for a, b in pairs)

    num_carry = same(eqn.outvars, body.outvars)
    return same(eqn.invars, body.invars) - num_carry, num_carry


def _hi_primitive(reader: _Reader, eqn: Any, args: list[Any]) -> Any:
    """Reads a primitive of JAX that stands for others, from jax 0.12 on, as those."""
    return from_jax(eqn.params["_prim"].expand, reader.rules)(*args)


# ---- rules of the user's ------------------------------------------------------------------------


def _alone(eqn: Any) -> Callable[..., list[Any]]:
    """Returns a call with the user's rules as a function for JAX, which knows the rules."""
    called = eqn.params["call_jaxpr"].jaxpr
    params = list(called.invars)  # in place of the operands, which may be literals
    alone = called.replace(
        constvars=[], eqns=[eqn.replace(invars=params)], outvars=list(eqn.outvars)
    )
    return lambda *args: list(jax.core.eval_jaxpr(alone, [], *args))


def _moves(variables: Sequence[Any]) -> list[bool]:
    return [is_inexact(_type(var.aval).dtype) for var in variables]


def _tangents(variables: Sequence[Any], moving: Sequence[Any]) -> list[Any]:
    """Returns a tangent or cotangent for each variable, of those for the inexact ones."""
    zeros = [np.zeros(var.aval.shape, float0) for var in variables]
    return merge(_moves(variables), split(_moves(variables), zeros)[0], moving)


def _custom_jvp(reader: _Reader, eqn: Any, args: list[Any]) -> Any:
    def by_jax(primals: Any, moving: Any) -> Any:
        values, tangents = jax.jvp(_alone(eqn), primals, _tangents(eqn.invars, moving))
        return values, split(_moves(eqn.outvars), tangents)[1]

    rule = from_jax(by_jax, reader.rules)

    def jvp(primals: Any, tangents: Any) -> Any:
        values, moved = rule(list(primals), split(_moves(eqn.invars), tangents)[1])
        return values, _tangents(eqn.outvars, moved)

    function = custom_jvp(_named(reader, eqn))
    function.defjvp(jvp)
    return function(*args)


def _custom_vjp(reader: _Reader, eqn: Any, args: list[Any]) -> Any:
    trees: list[Any] = []  # of the pullback of JAX, whose leaves are the residuals

    def fwd_by_jax(*primals: Any) -> Any:
        values, pullback = jax.vjp(_alone(eqn), *primals)
        residuals, tree = tree_util.tree_flatten(pullback)
        trees.append(tree)
        return values, residuals

    def bwd_by_jax(residuals: Any, cts: Any) -> Any:
        pullback = tree_util.tree_unflatten(trees[-1], residuals)
        cts_in = pullback(_tangents(eqn.outvars, cts))
        return split(_moves(eqn.invars), cts_in)[1]

    bwd = from_jax(bwd_by_jax, reader.rules)

    def back(residuals: Any, cts: Any) -> Any:
        moving = bwd(residuals, split(_moves(eqn.outvars), cts)[1])
        return tuple(merge(_moves(eqn.invars), repeat(None), moving))

    function = custom_vjp(_named(reader, eqn))
    function.defvjp(from_jax(fwd_by_jax, reader.rules), back)
    return function(*args)


def _named(reader: _Reader, eqn: Any) -> Callable[..., Any]:
    """Returns the function that a call with the user's rules calls, under its name."""

    def function(*args: Any) -> list[Any]:
        return list(_call(reader, eqn, list(args)))

    function.__name__ = eqn.params["call_jaxpr"].jaxpr.debug_info.func_name
    return function


_EQUATIONS: dict[str, Callable[[_Reader, Any, list[Any]], Any]] = {
    "jit": _jit,
    "closed_call": _call,
    "core_call": _call,
    "remat2": _remat,
    "checkpoint": _remat,
    "call_hi_primitive": _hi_primitive,
    "cond": _cond,
    "while": _while,
    "scan": _scan,
    "custom_jvp_call": _custom_jvp,
    "custom_vjp_call": _custom_vjp,
}

# ---- random numbers: a key is u32[2] ------------------------------------------------------------


def _seed(seeds: Any, **_: Any) -> Any:
    low = shapes.convert_element_type(seeds, _U32)
    wide = aval_of(seeds).dtype.itemsize == 8
    high = shapes.convert_element_type(seeds >> 32, _U32) if wide else low ^ low
    return pieces.stack([high, low], aval_of(low).ndim)


def _of_each(f: Callable[..., Any], keys: Any, *args: Any) -> Any:
    """Applies a function of a key to an array of keys."""
    for _ in aval_of(keys).shape[1:]:
        f = vmap(f)
    return f(keys, *args)


def _split(keys: Any, *, shape: tuple[int, ...]) -> Any:
    return _of_each(lambda key: random.split(key, prod(shape)).reshape(*shape, 2), keys)


def _bits(keys: Any, *, bit_width: int, shape: tuple[int, ...]) -> Any:
    def bits(key: Any) -> Any:
        if bit_width == 64:
            count = basics.reshape(shapes.iota(_U32, (prod(shape),), 0), shape)
            words = random.threefry(key, count ^ count, count)
            high, low = (shapes.convert_element_type(x, np.dtype("uint64")) for x in words)
            return (high << 32) | low
        return shapes.convert_element_type(random.bits(key, shape), f"uint{bit_width}")

    return _of_each(bits, keys)


_RANDOM: dict[str, Callable[..., Any]] = {
    "random_seed": _seed,
    "random_wrap": lambda words, **_: words,
    "random_unwrap": lambda words: words,
    "random_clone": lambda words: words,
    "random_split": _split,
    "random_bits": _bits,
    "random_fold_in": lambda keys, data: _of_each(random.fold_in, keys, data),
}

# ---- primitives that the core writes with others ------------------------------------------------


def _collective(name: str, reduce: Callable[..., Any]) -> Callable[..., Any]:
    """Binds a sum over devices; what JAX's vmap has made a sum over axes of an array is that."""

    def collective(x: Any, *, axes: Sequence[Any], axis_index_groups: Any = None) -> Any:
        if all(isinstance(axis, int) for axis in axes):
            return reduce(x, axes)
        return _primitives()[name].bind(x, axes=axes)

    return collective


def _tile(x: Any, *, reps: Sequence[int]) -> Any:
    for axis, count in enumerate(reps):
        x = pieces.concatenate([x] * count, axis)
    return x


def _ordered(x: Any) -> Any:
    """Returns integers in the total order of floats: -NaN, -inf, ..., -0, 0, ..., inf, NaN."""
    if elementwise.kind(aval_of(x).dtype) in "biu":
        return x
    bits = elementwise.bitcast_convert_type(x, f"int{8 * aval_of(x).dtype.itemsize}")
    return elementwise.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def _mul(x: Any, y: Any, out_dtype: Any = None) -> Any:
    if out_dtype is not None:
        x, y = (shapes.convert_element_type(operand, out_dtype) for operand in (x, y))
    return elementwise.mul(x, y)


def _pow(x: Any, y: Any) -> Any:
    return functions.pow_p.bind(x, shapes.convert_element_type(y, aval_of(x).dtype))


def _dot_general(x: Any, y: Any, dimension_numbers: Any, preferred_element_type: Any) -> Any:
    dtype = preferred_element_type or aval_of(x).dtype
    return contractions.dot_general(x, y, dimension_numbers, preferred_element_type=dtype)


def _conv(x: Any, kernel: Any, **params: Any) -> Any:
    from jaxlens.core.primitives.convolution import ConvDimensionNumbers

    dtype, groups = params.pop("preferred_element_type"), params.pop("batch_group_count")
    if groups != 1 or dtype not in (None, aval_of(x).dtype):
        raise MissingPrimitiveError(
            "jaxlens.core has no conv_general_dilated with batch_group_count or "
            "preferred_element_type."
        )
    params["dimension_numbers"] = ConvDimensionNumbers(*params["dimension_numbers"])
    return _primitives()["conv_general_dilated"].bind(x, kernel, **params)


def _gather(x: Any, indices: Any, dimension_numbers: Any, mode: Any, **params: Any) -> Any:
    params["dimension_numbers"] = gathering.GatherDimensionNumbers(*dimension_numbers)
    params["mode"] = gathering.GatherScatterMode[mode.name]
    return gathering.gather_p.bind(x, indices, **params)


def _scatter(name: str) -> Callable[..., Any]:
    """Binds a scatter of the core, whose name says how it combines old and new."""

    def scatter(
        *args: Any, dimension_numbers: Any, mode: Any, update_jaxpr: Any, **params: Any
    ) -> Any:
        if name == "scatter" and update_jaxpr is not None and update_jaxpr.eqns:
            raise MissingPrimitiveError("jaxlens.core has no scatter that applies a function.")
        del params["update_consts"]
        params["dimension_numbers"] = gathering.ScatterDimensionNumbers(*dimension_numbers)
        params["mode"] = gathering.GatherScatterMode[mode.name]
        return _primitives()[name].bind(*args, **params)

    return scatter


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "conv_general_dilated": _conv,
    "copy": lambda x: x,
    "copy_p": lambda x: x,
    "dot_general": _dot_general,
    "exp2": lambda x: functions.exp_p.bind(x * log(2)),
    "gather": _gather,
    "le_to": lambda x, y: _ordered(x) <= _ordered(y),
    "lt_to": lambda x, y: _ordered(x) < _ordered(y),
    "mul": _mul,
    "optimization_barrier": lambda *args: args,
    "pmax": _collective("pmax", contractions.reduce_max),
    "pmin": _collective("pmin", contractions.reduce_min),
    "pow": _pow,
    "psum": _collective("psum", basics.reduce_sum),
    "stack": lambda *args, axis: pieces.stack(args, axis),
    "tile": _tile,
    "unstack": pieces.unstack,
    **{name: _scatter(name) for name in _SCATTERS},
}
