"""The jaxpr reader on real programs: counts, names, bodies and columns are JAX's own."""

import dataclasses
import functools
import re
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax._src import jaxpr_util, source_info_util  # the oracles
from jax._src.state.discharge import run_state
from jax.custom_derivatives import linear_call
from jax.extend import core as jex_core
from jax.scipy.linalg import expm
from jax.scipy.sparse.linalg import cg, gmres
from jax.sharding import PartitionSpec

from jaxlens.ir.graph import Module
from jaxlens.ir.jaxpr import reader as jaxpr
from jaxlens.ir.jaxpr.bodies import opened
from jaxlens.questions.times.equations import equations
from jaxlens.views.listings import jaxpr as jaxpr_lines
from tests.ir.check import check

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]

X = jax.ShapeDtypeStruct((8, 4), "float32")
BINDER = re.compile(r"((?:[a-z_]+:[^\s=]+ )+)= ([a-zA-Z][\w-]*)")


def mlp(x):
    return jax.nn.relu(x @ x.T + 1.0).sum()


def scan(x):
    def body(carry, row):
        return jnp.tanh(carry * row), carry.sum()

    return jax.lax.scan(body, x[0], x)


def loops(x):
    y = jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x))[1]
    return jax.lax.fori_loop(0, 5, lambda i, c: c + i, y)


def branches(x):
    y = jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x)
    return jax.lax.switch(1, [jnp.sin, jnp.cos, lambda v: jax.lax.cond(v[0, 0] > 0, *PAIR, v)], y)


PAIR = (jnp.sin, jnp.tan)


@jax.custom_jvp
def own_jvp(x):
    return jnp.sin(x) * 2


@own_jvp.defjvp
def own_jvp_rule(primals, tangents):
    return own_jvp(*primals), tangents[0] * 3


@jax.custom_vjp
def own_vjp(x):
    return jnp.cos(x)


own_vjp.defvjp(lambda x: (jnp.cos(x), x), lambda x, g: (g * jnp.sin(x),))


def custom(x):
    return own_jvp(x).sum() + own_vjp(x).sum()


def remat(x):
    return jax.checkpoint(lambda v: jnp.sin(jnp.sin(v)))(x).sum()


def shared(x):
    inner = jax.jit(lambda v: jnp.sin(v) + 1)
    return inner(inner(inner(x)))


def long_bodies(x):
    @jax.jit
    def long(v):
        for _ in range(7):
            v = jnp.sin(v) * 2
        return v, v.sum(), v.max()

    a, _, _ = long(x)
    return long(a)[1]


def sharded(x):
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = PartitionSpec("i")
    return jax.shard_map(
        lambda v: jax.lax.psum(v * 2, "i"), mesh=mesh, in_specs=spec, out_specs=PartitionSpec()
    )(x)


def pallas(x):
    from jax.experimental import pallas as pl

    def kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2.0

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(
        x
    )


def add_one(ref):
    ref[...] = jnp.sin(ref[...]) + 1


def root(x):
    return jax.lax.custom_root(lambda y: y * y - x, x, lambda f, y: f(y), lambda g, y: y / g(1.0))


def rng(x):
    return x + jax.random.normal(jax.random.key(0), x.shape)


def callback(x):
    jax.debug.print("x = {x}", x=x)
    return jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct((8, 4), "float32"), x)


PROGRAMS = {
    "mlp": mlp,
    "scan": scan,
    "loops": loops,
    "branches": branches,
    "custom": custom,
    "remat": remat,
    "shared": shared,
    "long": long_bodies,
    "sharded": sharded,
    "pallas": pallas,
    "rng": rng,
    "callback": callback,
    "pmap": lambda x: jax.pmap(jnp.sin)(x[None]),
    "grad": jax.grad(custom),
    "grad of scan": jax.grad(lambda x: scan(x)[1].sum()),
    "grad of remat": jax.grad(remat),
    "vmap": jax.vmap(mlp),
    "hessian": jax.hessian(lambda x: own_jvp(x).sum()),
    "linear algebra": lambda x: jnp.linalg.qr(x)[0],
    "sort": lambda x: jnp.sort(x, axis=0)[jnp.argsort(x[:, 0])],
    "search": lambda x: jnp.nonzero(x[0], size=2),  # from jax 0.12 on an operation with a class
    "no inputs used": lambda x: 1.0,
    "inverse": lambda x: jnp.linalg.inv(x[:4]),
    "solve": lambda x: jnp.linalg.solve(x[:4], x[0]),
    "grad of solve": jax.grad(lambda x: jnp.linalg.solve(x[:4], x[0]).sum()),
    "exponential": lambda x: expm(x[:4]),
    "conjugate gradient": lambda x: cg(lambda v: x[:4] @ v, x[0])[0],
    "gmres": lambda x: gmres(lambda v: x[:4] @ v, x[0])[0],
    "root": lambda x: root(x.sum()),
    "composite": jax.lax.composite(lambda x: jnp.sin(x) * 2, "my.op"),
    "linear call": lambda x: linear_call(lambda r, v: r * v, lambda r, v: r * v, x, x),
    "scatter": lambda x: x.at[jnp.array([1, 2])].add(1.0),
    "reduce": lambda x: jax.lax.reduce(x, 0.0, lambda a, b: a + 2 * b, (0,)),
    "windows": lambda x: jax.lax.reduce_window(
        x, 0.0, lambda a, b: a + 2 * b, (2, 2), (1, 1), "VALID"
    ),
    "state": lambda x: run_state(add_one)(x),
}


# JAX prints a named tuple's jaxprs each with names from `a` on, and some jaxprs not at all.
PRINTED_OTHERWISE = {
    "pallas",
    "inverse",
    "solve",
    "grad of solve",
    "exponential",
    "conjugate gradient",
    "gmres",
    "root",
    "scatter",
    "state",
}


def trace(f, *args):
    return jax.jit(f).trace(*(args or (X,))).jaxpr


@functools.cache
def program(name):
    f = PROGRAMS[name]
    return trace(f, jax.ShapeDtypeStruct((3, 8, 4), "float32") if name == "vmap" else X)


def read(closed) -> Module:
    module = jaxpr.read(closed)
    assert check(module) == []
    return module


def printed(closed) -> Counter:
    text = " ".join(closed.pretty_print(use_color=False).split())
    found = ((tuple(b.split(":")[0] for b in m[1].split()), m[2]) for m in BINDER.finditer(text))
    return Counter(found)


@pytest.mark.parametrize("name", PROGRAMS)
def test_equations_are_counted_as_jax_counts_them(name):
    closed = program(name)
    module = read(closed)
    plain = opened(closed)
    assert sum(1 for _ in module.nodes()) == sum(1 for _ in jaxpr_util.all_eqns(plain, False))
    times = equations(module).times
    unrolled = sum(times[r.name] * len(r.nodes) for r in module.regions.values())
    assert unrolled == sum(1 for _ in jaxpr_util.all_eqns(plain, True))


class Box(NamedTuple):
    """A parameter of a primitive."""

    rule: object


@dataclasses.dataclass(frozen=True)
class Rule:
    """A container of jaxprs in a user's primitive; not a registered pytree."""

    forward: object
    others: dict


class Table(dict):
    """Parameters must have a hash."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


@pytest.mark.parametrize("registered", [False, True])
def test_jaxprs_are_bodies_in_whatever_container_a_parameter_keeps_them(registered):
    body = jax.make_jaxpr(lambda x: jnp.sin(x) * 2)(1.0)
    back = jax.make_jaxpr(lambda x: jnp.cos(x))(1.0)
    kept = jax.tree_util.Partial(lambda: 0) if registered else [()]
    others = Table(back=(back, [None, kept]))
    others["itself"] = others  # a walk must end
    primitive = jex_core.Primitive("own")
    primitive.def_abstract_eval(lambda x, **params: x)
    closed = trace(lambda x: primitive.bind(x, rule=Box(Rule(body, others))))
    module = read(closed)
    assert [(r.name, len(r.nodes)) for r in module.regions.values()] == [
        ("main", 1),
        ("own forward", 2),
        ("own back", 1),
    ]
    rule = next(module.nodes()).attrs["rule"]
    assert "forward=own forward" in rule
    assert "back=(own back" in rule


def test_the_four_jaxprs_of_a_solve_are_called_as_jax_calls_them():
    module = read(program("conjugate gradient"))
    solve = next(node for node in module.nodes() if node.opcode == "custom_linear_solve")
    assert solve.regions == (
        "custom_linear_solve matvec",
        "custom_linear_solve matvec",  # of a symmetric matrix
        "custom_linear_solve solve",
        "custom_linear_solve transpose solve",
    )
    assert solve.attrs["jaxprs"] == (
        "_LinearSolveTuple(matvec=custom_linear_solve matvec, vecmat=custom_linear_solve matvec, "
        "solve=custom_linear_solve solve, transpose_solve=custom_linear_solve transpose solve)"
    )


def test_bodies_in_a_named_tuple_are_listed_by_its_fields():
    lines = jaxpr_lines.listing(read(program("inverse")), limit=1000).lines
    text = "\n".join("".join(piece.text for piece in line.pieces) for line in lines)
    heads = [line.partition("=")[0] for line in text.split("\n") if "{ lambda" in line[:60]]
    fields = [head for head in heads if head in ("matvec", "vecmat", "solve", "transpose_solve")]
    assert fields == ["matvec", "vecmat", "solve", "transpose_solve"]


def test_index_maps_of_a_kernel_are_bodies_behind_its_own():
    from jax.experimental import pallas as pl

    def double(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2.0

    block = pl.BlockSpec((4, 4), lambda i: (i * 2 + 1 - i - 1, 0))
    call = pl.pallas_call(
        double,
        jax.ShapeDtypeStruct((8, 4), "float32"),
        grid=(2,),
        in_specs=[block],
        out_specs=block,
        interpret=True,
    )
    module = read(trace(call))
    (kernel,) = (node for node in module.nodes() if node.opcode == "pallas_call")
    sizes = [len(module.regions[name].nodes) for name in kernel.regions]
    assert kernel.regions[0] == "double"
    assert kernel.regions[1].startswith("pallas_call index map")
    assert sizes[0] == 3  # get, mul, swap
    assert set(sizes[1:]) == {4}


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - PRINTED_OTHERWISE))
def test_variables_have_the_names_that_jax_prints(name):
    closed = program(name)
    ours = Counter(
        (tuple("_" if v.name[0] == "_" else v.name for v in node.results), node.opcode)
        for node in read(closed).nodes()
        if node.results
    )
    assert ours == printed(closed)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_run_reads_the_same_and_says_no_address(name):
    first = read(program(name))
    jax.clear_caches()
    second = read(
        trace(
            PROGRAMS[name],
            *([jax.ShapeDtypeStruct((3, 8, 4), "float32")] if name == "vmap" else [X]),
        )
    )
    assert first == second
    assert " at 0x" not in repr(first.regions)


@pytest.mark.parametrize("name", PROGRAMS)
def test_spans_are_those_of_jax(name):
    for body in [opened(program(name))]:
        module = read(program(name))
        for eqn, node in zip(body.eqns, module.body().nodes, strict=True):
            frames = source_info_util.user_frames(eqn.source_info.traceback)
            theirs = [
                (f.start_line, f.end_line, f.start_column, f.end_column)
                for f in frames
                if f.file_name == __file__
            ]
            ours = [
                (s.line, s.end_line, s.column, s.end_column)
                for s in node.spans
                if s.key == __file__
            ]
            assert ours == theirs


def test_a_span_covers_the_text_that_made_the_equation():
    def f(x):
        return jnp.sin(x) @ x.T

    sin, *_, dot = read(trace(f)).body().nodes
    lines = Path(__file__).read_text().splitlines()
    for node, text in ((sin, "jnp.sin(x)"), (dot, "jnp.sin(x) @ x.T")):
        owner = node.owner
        assert owner is not None
        assert lines[owner.line - 1][owner.column : owner.end_column] == text
        assert owner.function.endswith("f")
        assert owner.file == "test_jaxpr.py"


def test_a_scan_says_what_it_carries_in_every_version_of_jax() -> None:
    module = read(program("grad of scan"))
    scans = [node.attrs for node in module.nodes() if node.opcode == "scan"]
    assert [attrs["reverse"] for attrs in scans] == ["False", "True"]
    # Forwards the sum; backwards its cotangent and that of the first value.
    assert [int(attrs["num_carry"]) for attrs in scans] == [1, 1]
    assert not any(name.startswith("ft_") for attrs in scans for name in attrs)


def test_bodies_have_names_that_say_what_they_are():
    assert {"scan body"} < set(read(program("scan")).regions)
    assert {"while body", "while cond"} < set(read(program("loops")).regions)
    assert {"branch 0", "branch 1", "branch 2"} < set(read(program("branches")).regions)
    assert {"own_jvp", "own_vjp"} < set(read(program("custom")).regions)
    assert {"shard_map body"} < set(read(program("sharded")).regions)
    assert {"kernel"} < set(read(program("pallas")).regions)


def test_callers_stand_before_callees():
    for name in PROGRAMS:
        module = read(program(name))
        seen = set()
        for region in module.regions.values():
            seen.add(region.name)
            assert not any(inner in seen for node in region.nodes for inner in node.regions)


def test_two_hundred_nested_calls():
    def nest(x, levels=200):
        return jax.jit(lambda y: nest(y, levels - 1))(x) * 2 if levels else jnp.sin(x)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        closed = trace(nest)
    finally:
        sys.setrecursionlimit(limit)
    module = read(closed)
    assert len(module.regions) > 200


def test_a_body_called_a_thousand_million_times_is_one_body():
    f = jnp.sin
    for _ in range(30):
        f = jax.jit(lambda x, g=f: g(g(x)))
    module = read(trace(f, jax.ShapeDtypeStruct((), "float32")))
    assert sum(1 for _ in module.nodes()) < 100
    times = equations(module).times
    assert max(times.values()) == 2**29  # twice per level, and the innermost is `sin` itself


def test_constants_are_counted_among_the_parameters_and_not_printed():
    big = jnp.arange(4000.0)
    module = read(trace(lambda x: x.sum() + big))
    main = module.body()
    assert main.constants == len(main.parameters) - 1
    assert len(repr(module.regions)) < 10_000


@pytest.mark.parametrize(
    ("aval", "notation"),
    [
        (jax.ShapeDtypeStruct((2,), "bfloat16"), "bf16[2]"),
        (jax.ShapeDtypeStruct((), "uint8"), "u8[]"),
        (jax.ShapeDtypeStruct((3,), "bool"), "bool[3]"),
        (jax.ShapeDtypeStruct((3,), "float8_e4m3fn"), "f8e4m3fn[3]"),
        (jax.ShapeDtypeStruct((1, 2), "complex64"), "c64[1,2]"),
        (jax.ShapeDtypeStruct((4,), jax.random.key(0).dtype), "key<fry>[4]"),
    ],
)
def test_types_are_written_short(aval, notation):
    kind = read(trace(lambda x: x, aval)).body().parameters[0].type
    assert str(kind) == notation
    assert kind.bytes is not None


def test_weak_types_and_symbolic_dimensions():
    assert read(trace(lambda x: x, 1.0)).body().parameters[0].type.weak
    (n,) = jax.export.symbolic_shape("n")
    kind = read(trace(lambda x: x + 1, jax.ShapeDtypeStruct((n, 2), "float32"))).body()
    assert kind.parameters[0].type.shape == ("n", 2)
    assert kind.parameters[0].type.bytes is None


def test_cells_of_a_notebook_are_named_by_their_number():
    code = compile(
        "import jax.numpy as jnp\ndef f(x):\n    return jnp.sin(x)\n",
        "<ipython-input-5-abcdef>",
        "exec",
    )
    space = {}
    exec(code, space)
    (sin,) = read(trace(space["f"])).body().nodes
    assert str(sin.owner) == "cell 5:3"
    assert (sin.owner.column, sin.owner.end_column) == (11, 21)


def listed(module: Module) -> list[str]:
    return [
        piece.text
        for line in jaxpr_lines.listing(module).lines
        for piece in line.pieces
        if piece.kind == "op" and any(p.text == "= " for p in line.pieces)
    ]


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - PRINTED_OTHERWISE))
def test_the_listing_has_jax_s_primitives_in_jax_s_order(name):
    closed = program(name)
    text = " ".join(closed.pretty_print(use_color=False).split())
    theirs = [match[2] for match in BINDER.finditer(text)]
    ours = listed(read(closed))
    assert Counter(ours) == Counter(theirs)
    if not text.startswith("let "):  # JAX prints shared and long bodies before the rest
        assert ours == theirs


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_equation_stands_in_the_listing(name):
    module = read(program(name))
    ids = [line.id for line in jaxpr_lines.listing(module, limit=10_000).lines if line.id]
    assert set(ids) == {node.id for node in module.nodes()}


def test_a_listing_is_cut_and_says_so():
    module = read(program("long"))
    cut = jaxpr_lines.listing(module, limit=5)
    assert len(cut.lines) == 5
    assert cut.note.endswith("more equations: cap.jaxpr.text has them all")
