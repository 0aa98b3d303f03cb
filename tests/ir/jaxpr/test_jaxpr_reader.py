"""The jaxpr reader on programs that are not JAX's: only the attribute names count."""

from types import SimpleNamespace

from jaxlens.ir.jaxpr import reader as jaxpr
from jaxlens.ir.jaxpr.params import LIMIT, text
from jaxlens.questions.times.equations import equations
from jaxlens.views.listings import jaxpr as jaxpr_lines
from jaxlens.views.listings.equation import equation
from tests.ir.check import check

F32 = SimpleNamespace(dtype=SimpleNamespace(name="float32"), shape=(2,), weak_type=False)
NOWHERE = SimpleNamespace(traceback=None, name_stack="")


def var():
    return SimpleNamespace(aval=F32)


def eqn(primitive, invars, outvars, **params):
    return SimpleNamespace(
        primitive=SimpleNamespace(name=primitive),
        invars=invars,
        outvars=outvars,
        params=params,
        source_info=NOWHERE,
    )


def body(eqns, invars, outvars):
    return SimpleNamespace(eqns=eqns, invars=invars, outvars=outvars, constvars=[])


def nested(levels):
    """`sin` in `depth` nested calls."""
    x, y = var(), var()
    inner = body([eqn("sin", [x], [y])], [x], [y])
    for _ in range(levels):
        x, y = var(), var()
        inner = body([eqn("call", [x], [y], jaxpr=inner)], [x], [y])
    return inner


def test_five_thousand_levels_are_read_and_listed():
    module = jaxpr.read(nested(5000))
    assert check(module) == []
    assert len(module.regions) == 5001
    assert list(equations(module).times.values()) == [1] * 5001
    listing = jaxpr_lines.listing(module, limit=10**6)
    assert len(listing.lines) == 3 + 4 * 5000  # head, tail, the sin; four per call
    assert max(line.indent for line in listing.lines) > 5000


def test_a_body_used_by_doubling_stays_one():
    x, y = var(), var()
    inner = body([eqn("sin", [x], [y])], [x], [y])
    for _ in range(100):
        x, y, z = var(), var(), var()
        calls = [eqn("call", [x], [y], jaxpr=inner), eqn("call", [y], [z], jaxpr=inner)]
        inner = body(calls, [x], [z])
    module = jaxpr.read(inner)
    assert sum(1 for _ in module.nodes()) == 201
    assert max(equations(module).times.values()) == 2**100
    listing = jaxpr_lines.listing(module, limit=10**6)
    written = [p.text for line in listing.lines for p in line.pieces if p.kind == "op"]
    assert len(written) == 201


def test_letters_go_on_as_jax_s_do():
    start = x = var()
    eqns = []
    for _ in range(60):
        y = var()
        eqns.append(eqn("sin", [x], [y]))
        x = y
    module = jaxpr.read(body(eqns, [start], [x]))
    names = [node.name for node in module.nodes()]
    assert names[:2] == ["b", "c"]
    assert names[24:27] == ["z", "ba", "bb"]
    assert names[51] == "ca"


def test_unread_results_print_as_a_dash_and_stay_distinct():
    x, unread, also, y = var(), var(), var(), var()
    program = body([eqn("split", [x], [unread, also, y])], [x], [y])
    module = jaxpr.read(program)
    assert check(module) == []
    line = equation(next(module.nodes()))
    assert "".join(p.text for p in line.pieces) == "_:f32[2] _:f32[2] b:f32[2] = split a"


def test_parameters_are_short_stable_text():
    class Rude:
        def __repr__(self):
            raise RuntimeError

    def named():
        pass

    def none(value):
        return None

    assert text((1, "a", 2.5), none) == "(1, 'a', 2.5)"
    assert text((False,), none) == "(False,)"
    assert text(frozenset({"b", "a"}), none) == "{'a', 'b'}"
    assert text({"k": [1]}, none) == "{k: [1]}"
    assert text(named, none) == "named"
    assert text(int, none) == "int"
    assert text(Rude(), none) == "Rude"
    assert " at 0x" not in text(object(), none)
    assert text("x" * 1000, none).endswith(f"... ({1000 - LIMIT} more characters)")
    assert text(SimpleNamespace(shape=(9,), dtype="float32"), none) == "<f32[9]>"
    loop = []
    loop.append(loop)
    assert "..." in text(loop, none)


def test_a_region_is_named_where_a_parameter_holds_it():
    inner = nested(0)
    program = body([eqn("cond", [], [], branches=(inner, nested(0)), index=0)], [], [])
    node = next(jaxpr.read(program).nodes())
    assert node.regions == ("branch 0", "branch 1")
    assert node.attrs["branches"] == "(branch 0, branch 1)"


def test_a_hostile_name_is_one_line_of_bounded_length():
    name = "<b>\n\n" + "x" * 500
    x, y = var(), var()
    program = body([eqn("jit", [x], [y], name=name, jaxpr=nested(0))], [x], [y])
    module = jaxpr.read(program)
    (_, inner) = module.regions
    assert inner == "<b> " + "x" * 76
    lines = ["".join(p.text for p in line.pieces) for line in jaxpr_lines.listing(module).lines]
    assert sum("jaxpr={ lambda" in line for line in lines) == 1
    assert not any("\n" in line for line in lines)
