"""HLO names the program's inputs by their path in the user's code."""

import jax.numpy as jnp

import jaxlens
from jaxlens.ir.facts import Input
from jaxlens.ir.hlo.reader import read
from jaxlens.render.text.lines import line_text
from jaxlens.views.listings import hlo
from jaxlens.views.listings.hlo import names_of

TEXT = """HloModule jit_f, entry_computation_layout={(f32[4]{0}, f32[4]{0})->f32[4]{0}}

ENTRY %main.1 (model_states_0__0_.1: f32[4], x.1: f32[4]) -> f32[4] {
  %model_states_0__0_.1 = f32[4]{0} parameter(0), metadata={op_name="model.states[0][0]"}
  %x.1 = f32[4]{0} parameter(1), metadata={op_name="x"}
  ROOT %add.1 = f32[4]{0} add(%model_states_0__0_.1, %x.1), metadata={op_name="jit(f)/add"}
}
"""
MODULE = read(TEXT)
F32 = MODULE.body().parameters[0].type
INPUTS = (Input("model.blocks[0].a.kernel", F32, path="model.states[0][0]"), Input("x", F32))


def test_a_name_that_says_no_more_is_left_out():
    assert names_of(MODULE, INPUTS) == {"model_states_0__0_.1": "model.blocks[0].a.kernel"}
    assert names_of(MODULE) == {"model_states_0__0_.1": "model.states[0][0]"}


def test_a_parameter_has_both_names_and_its_readers_the_user_s():
    lines = [line_text(line, False) for line in hlo.listing(MODULE, inputs=INPUTS).lines]
    assert "model_states_0__0_.1 (model.blocks[0].a.kernel) = f32[4] parameter(0)" in lines[1]
    assert "add(model.blocks[0].a.kernel, x.1)" in lines[3]


def test_all_of_an_output_says_it():
    def f(params, x):
        return jnp.tanh(x @ params["w"][0]) + params["b"]

    text = str(jaxlens.hlo(f, {"w": [jnp.ones((4, 4))], "b": jnp.ones(4)}, jnp.ones((2, 4))))
    assert "params['b']" in text
    assert "params__" not in text


def test_many_captured_arrays_are_one_entry_and_named_in_the_fold():
    constants = [jnp.full(2, float(n)) for n in range(30)]

    def f(x):
        return sum(constants, x)

    view = jaxlens.jaxpr(f, jnp.ones(2))
    assert "# a to bd = 30 captured arrays, be = x\n" in view.text()
    assert "one by one: a = constants[0] (captured), b = constants[1] (captured)," in view.text(
        full=True
    )


def test_names_of_inputs_are_whole_in_a_pane_and_many_are_by_argument():
    def f(params, m, x):
        return x @ params["first layer"] @ params["last layer"] + m["first layer"].sum()

    one, two = jnp.ones((4, 4)), jnp.ones((4, 2))
    layers = {"first layer": one, "last layer": two}
    few = jaxlens.jaxpr(f, layers, {"first layer": one}, one).text()
    assert "\n  # a = params['first layer'], b = params['last layer']\n  # c = m['fi" in few
    more = jaxlens.jaxpr(f, layers, {**layers, "bias": one, "norm": one}, one)
    assert "\n  # a to b = params (2 arrays), c to f = m (4 arrays), g = x\n" in more.text()
    assert "one by one: a = params['first layer'], b = params['last" in more.text(full=True)
