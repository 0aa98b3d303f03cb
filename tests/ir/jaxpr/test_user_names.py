"""What the user's code calls the values of a jaxpr; what is not certain has no name."""

import jax
import jax.numpy as jnp

import jaxlens
from jaxlens.ir.jaxpr.python_text import assignments
from jaxlens.ir.jaxpr.user_names import UserNames
from jaxlens.ir.saved.columns import from_columns, to_columns

A = jnp.ones((2, 4))
W = jnp.ones((4, 4))


def names(f, *args):
    """The names by region and letter."""
    capture = jaxlens.capture(f, *args)
    inputs = [leaf.name for leaf in capture.program.inputs]
    module = capture.jaxpr.module
    known = UserNames(module, inputs, sources=capture.sources)
    return {
        region: {module.value_name(region, n): name for n, name in known.of(region).items()}
        for region in module.regions
    }


def rnn(w, xs, start):
    def cell(h, x):
        z = x @ w + h
        h = jnp.tanh(z)
        return h, h * 2

    last, rows = jax.lax.scan(cell, start, xs)
    return last, rows


def test_arguments_of_a_loop_s_body_and_results_of_its_lines():
    found = names(rnn, W, jnp.ones((3, 2, 4)), A)
    assert sorted(found["main"].values()) == ["last", "rows", "start", "w", "xs"]
    assert list(found["scan body"].values()) == ["h", "x", "w", "z", "h"]


def test_a_loop_s_letters_say_them_in_the_text():
    text = str(jaxlens.jaxpr(rnn, W, jnp.ones((3, 2, 4)), A))
    assert "(h):f32[2,4] = tanh" in text
    assert "(last):f32[2,4] " in text


def test_branches_and_while_loops():
    def f(x, n):
        def small(v):
            return v + 1

        y = jax.lax.cond(n > 0, small, lambda t: t, x)
        return jax.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * y), (0, x))

    found = names(f, A, 3)
    assert "v" in found["branch 1"].values()
    assert list(found["while body"].values())[:3] == ["c[0]", "c[1]", "y"]
    assert "y" in found["main"].values()


def test_a_function_called_on_the_line_gives_its_result_alone():
    def inner(x):
        a = x * 2
        return jnp.sin(a) + 1

    def f(x):
        y = inner(x)
        return y * y

    found = names(f, A)["main"]
    assert sorted(found.values()) == ["a", "x", "y"]
    assert found["d"] == "y"


def test_two_values_that_are_read_later_have_no_name():
    kept = []

    def inner(x):
        kept.append(jnp.cos(x))
        return jnp.sin(x)

    def f(x):
        y = inner(x)
        return y + kept.pop()

    assert list(names(f, A)["main"].values()) == ["x"]


def test_the_backward_pass_has_no_names_of_the_forward_one():
    def loss(w, x):
        y = x @ w
        h = jnp.tanh(y)
        total = jnp.sum(h)
        return total * 2

    found = names(jax.value_and_grad(loss), W, A)["main"]
    assert sorted(found.values()) == ["h", "total", "w", "x", "y"]
    text = str(jaxlens.jaxpr(jax.value_and_grad(loss), W, A))
    assert text.count("(h)") == 1
    assert "(h):f32[2,4] = tanh" in text


def test_what_was_moved_out_of_a_loop_is_no_value_of_its_line():
    def f(b, xs, start):
        def cell(h, x):
            z = x + h + b
            return jnp.tanh(z), None

        last, _ = jax.lax.scan(cell, start, xs)
        return jnp.sum(last)

    found = names(jax.grad(f), jnp.ones(4), jnp.ones((3, 2, 4)), A)
    assert "z" not in found["main"].values()


def test_a_saved_program_keeps_the_arguments_of_its_bodies():
    module = jaxlens.capture(rnn, W, jnp.ones((3, 2, 4)), A).jaxpr.module
    again = from_columns(to_columns(module))
    assert again.regions["scan body"].arguments == ("", "h", "x")
    assert again.regions["scan body"].function == "cell"


def test_functions_of_jax_give_no_names():
    assert "x" not in names(lambda mine: jax.nn.relu(mine), A)["relu"].values()


def test_assignments_are_read_with_their_extents():
    text = "%%time\ny = f(x)\nif y:\n    a, b = g(y), h\n    a += 1\n_ = f(y)\nself.x = y\n"
    text += "rows = [f(x) for x in a]\n"
    assert assignments(text) == {
        (2, 4, 2, 8): "y",
        (4, 11, 4, 15): "a",
        (4, 17, 4, 18): "b",
        (5, 4, 5, 10): "a",
    }
