"""The ladder of transforms, compared with JAX's own trace of each rung."""

import jax
import jax.numpy as jnp
import pytest
from jax._src.jaxpr_util import all_eqns

import jaxlens
from jaxlens import core
from jaxlens.core import numpy as cnp
from jaxlens.errors import UnavailableError

W, X = jnp.ones((3, 4)), jnp.ones((5, 3))


def loss(w, x):
    h = jnp.tanh(x @ w)
    return jnp.sum(h**2)


def chooses(w, x):
    h = x @ w
    return jax.lax.cond(h.sum() > 0, lambda h: jnp.sin(h), lambda h: -h, h).sum()


def equations(f, *args) -> int:
    """Counted in JAX's own print: an equation a line with ` = `, bodies written out once."""
    return str(jax.make_jaxpr(f)(*args)).count(" = ")


PER_EXAMPLE = jax.vmap(jax.grad(loss), (None, 0))


def test_each_rung_is_what_jax_traces() -> None:
    ladder = jaxlens.ladder(PER_EXAMPLE, W, X)
    assert [r.title for r in ladder.rungs] == ["loss", "grad(loss)", "vmap(grad(loss))"]
    assert ladder.equations == (
        equations(loss, W, X[0]),
        equations(jax.grad(loss), W, X[0]),
        equations(PER_EXAMPLE, W, X),
    )


def test_backward_is_what_jax_says() -> None:
    ladder = jaxlens.ladder(PER_EXAMPLE, W, X)
    for rung, (f, x) in zip(
        ladder.rungs[1:], ((jax.grad(loss), X[0]), (PER_EXAMPLE, X)), strict=True
    ):
        eqns = jax.make_jaxpr(f)(W, x).jaxpr.eqns
        stacks = [str(eqn.source_info.name_stack) for eqn in eqns]
        assert rung.backward == {f"e{n}" for n, s in enumerate(stacks) if "transpose" in s}
        assert rung.forward + len(rung.backward) == len(eqns)


def test_forward_and_backward_equations_keep_their_side() -> None:
    ladder = jaxlens.ladder(PER_EXAMPLE, W, X)
    _, below, rung = ladder.rungs
    for id, sources in rung.steps.items():
        assert {source in below.backward for source in sources} == {id in rung.backward}
    for use in ladder.rules:
        if use.rung == 1:
            assert {id in below.backward for id in use.made} == {use.rule == "backward"}
    text = str(ladder)
    assert f": {below.forward} forward, {len(below.backward)} backward." in text
    _, row, _ = ladder.report.tables[0].rows
    assert [cell.value for cell in row[2:4]] == [below.forward, len(below.backward)]
    shown = text.partition("\ngrad(loss):")[2].partition("\nvmap(")[0].split()
    sides = ["bwd" if node.id in below.backward else "fwd" for node in below.module.nodes()]
    assert [word for word in shown if word in ("fwd", "bwd")] == sides


def test_every_equation_is_tied_to_the_text_it_came_from() -> None:
    ladder = jaxlens.ladder(PER_EXAMPLE, W, X)
    first = {node.id: node for node in ladder.rungs[0].module.nodes()}
    for n in (1, 2):
        nodes = {node.id: node for node in ladder.rungs[n].module.nodes()}
        ties = ladder.facts.ties(n)
        assert ties.keys() == nodes.keys()
        for id, sources in ties.items():
            assert sources, id
            assert {first[s].owner.line for s in sources} == {nodes[id].owner.line}
    opcode = {node.id: node.opcode for node in ladder.rungs[1].module.nodes()}
    came = ladder.facts.ties(1)
    # the backward pass of the matrix product, and of nothing else in its line
    products = [id for id in came if opcode[id] == "dot_general"]
    assert [[first[s].opcode for s in came[id]] for id in products] == [["dot_general"]] * 2
    spread = next(id for id in came if opcode[id] == "broadcast_in_dim")
    assert [first[s].opcode for s in came[spread]] == ["reduce_sum"]


def test_a_cond_that_a_batch_took_away_is_pointed_out() -> None:
    f = jax.vmap(jax.grad(chooses), (None, 0))
    assert "cond" not in str(jax.make_jaxpr(f)(W, X))
    text = " ".join(str(jaxlens.ladder(f, W, X)).split())
    line = chooses.__code__.co_firstlineno + 2
    assert f"The cond (test_ladder.py:{line}) became select_n under vmap" in text
    alike = jax.vmap(lambda x, i: jax.lax.cond(i > 0, jnp.sin, jnp.cos, x), (0, None))
    assert "became select_n" not in str(jaxlens.ladder(alike, X, 1))


def test_a_while_loop_waits_for_its_last_example() -> None:
    def halve(x):
        return jax.lax.while_loop(lambda x: x > 1, lambda x: x / 2, x)

    text = " ".join(str(jaxlens.ladder(jax.vmap(halve), X[:, 0])).split())
    assert "runs under vmap until its last example is done" in text


def test_jit_is_a_rung_that_changes_nothing() -> None:
    ladder = jaxlens.ladder(jax.jit(PER_EXAMPLE), W, X)
    assert ladder.rungs[-1].title == "jit(vmap(grad(loss)))"
    assert ladder.equations[-1] == ladder.equations[-2] + 1  # the call
    assert "jit changes no equation" in str(ladder)


def test_examples_of_trees_and_keywords() -> None:
    def f(p, *, x):
        return p["w"] @ x + p["b"]

    ladder = jaxlens.ladder(
        jax.vmap(f, ({"w": None, "b": 0},)), {"w": W, "b": X[:, 0]}, x=jnp.ones((5, 4))
    )
    inputs = {i.name: str(i.type) for i in ladder.capture.program.inputs}
    assert inputs == {"p['b']": "f32[5]", "p['w']": "f32[3,4]", "x": "f32[5,4]"}
    assert ladder.rungs[0].module.body().parameters[0].type.shape == ()


def test_of_the_core() -> None:
    def f(w, x):
        return cnp.tanh(x @ w).sum()

    ladder = jaxlens.ladder(core.vmap(core.grad(f), (None, 0)), W, X)
    assert [r.transform for r in ladder.rungs] == ["", "grad", "vmap"]
    assert ladder.rungs[1].backward
    assert all(ladder.facts.ties(2).values())


def test_nothing_to_climb_is_one_line(tmp_path) -> None:
    jaxlens.capture(PER_EXAMPLE, W, X).save(tmp_path / "a.jaxlens", stages=["jaxpr"])
    with pytest.raises(UnavailableError, match="of whose transforms a ladder could be made"):
        str(jaxlens.ladder(jaxlens.load(tmp_path / "a.jaxlens")))
    with pytest.raises(UnavailableError, match=r"jax\.vmap\(jax\.grad\(f\)\)"):
        str(jaxlens.ladder(loss, W, X[0]))


def test_a_deep_program_is_climbed_in_linear_time() -> None:
    def deep(x):
        for _ in range(2_000):
            x = jnp.sin(x)
        return x

    ladder = jaxlens.ladder(jax.grad(deep), 1.0)
    assert ladder.equations == (2_000, 6_000)  # sines, then cosines and products beside them
    assert len(ladder.html()) < 400_000


def test_bodies_of_library_functions_are_tied_to_the_call_that_holds_them() -> None:
    def f(x):
        return jnp.where(x > 0, x, jnp.nan).sum() + jax.nn.relu(x).sum()

    ladder = jaxlens.ladder(jax.grad(f), X)
    below = {n.id: n for n in ladder.rungs[0].module.nodes()}
    above = {n.id: n for n in ladder.rungs[1].module.nodes()}
    ties = ladder.facts.ties(1)
    inside = [id for id, n in above.items() if not n.spans]
    assert inside  # select_n and max stand in bodies of JAX's own
    assert all(ties[id] for id in inside)
    largest = next(id for id in inside if above[id].opcode == "max")
    assert [below[s].opcode for s in ties[largest]] == ["max"]


def test_a_rule_of_ones_own_stands_for_the_rules_inside() -> None:
    @jax.custom_vjp
    def twice(x):
        return x * 2

    twice.defvjp(lambda x: (twice(x), x), lambda x, ct: (ct * x * 3,))
    ladder = jaxlens.ladder(jax.grad(lambda x: twice(jnp.sin(x))), 1.0)
    assert [(u.primitive, u.rule) for u in ladder.rules] == [
        ("sin", "forward"),
        ("sin", "backward"),
        ("custom_vjp_call", "backward"),
    ]


@pytest.mark.parametrize(
    ("f", "args", "titles"),
    [
        (
            jax.grad(jax.checkpoint(loss)),
            (W, X),
            ["loss", "checkpoint(loss)", "grad(checkpoint(loss))"],
        ),
        (
            jax.vmap(jax.jit(jax.grad(loss)), (None, 0)),
            (W, X),
            ["loss", "grad(loss)", "jit(grad(loss))", "vmap(jit(grad(loss)))"],
        ),
        (jax.hessian(loss), (W, X), ["loss", "jacrev(loss)", "jacfwd(jacrev(loss))"]),
        (
            jax.grad(lambda w, x: (loss(w, x), x), has_aux=True),
            (W, X),
            ["<lambda>", "grad(<lambda>)"],
        ),
    ],
)
def test_titles_name_every_transform(f, args, titles) -> None:
    ladder = jaxlens.ladder(f, *args)
    assert [r.title for r in ladder.rungs] == titles
    every = all_eqns(jax.make_jaxpr(f)(*args).jaxpr, revisit_inner_jaxprs=False)
    assert ladder.equations[-1] == sum(1 for _ in every)


def test_static_arguments_stay_static_on_every_rung() -> None:
    def power(w, x, n):
        return loss(w, x) if n == 3 else w.sum()

    f = jax.jit(jax.grad(power), static_argnums=2)
    ladder = jaxlens.ladder(f, W, X, 3)
    assert [r.title for r in ladder.rungs] == ["power", "grad(power)", "jit(grad(power))"]
    assert ladder.equations[:2] == (
        equations(lambda w, x: power(w, x, 3), W, X),
        equations(lambda w, x: jax.grad(power)(w, x, 3), W, X),
    )
