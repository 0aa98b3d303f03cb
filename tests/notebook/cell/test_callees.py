"""A verb and a magic take the same call for the user's, and show the same program of it."""

import functools
import json
import operator
import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from IPython.utils.capture import capture_output

import jaxlens
from jaxlens.notebook.cell.callee import is_foreign
from tests.support import jitted_programs
from tests.support.calls import callables
from tests.support.calls.callables import CALLABLES, X, Y
from tests.support.model_programs import MARKS

pytestmark = [pytest.mark.backend, *MARKS]


@pytest.fixture(scope="module")
def cell(one_shell):
    """Runs cells in one shell for all callables; returns what was shown."""
    one_shell.reset(new_session=True)
    one_shell.extension_manager.load_extension("jaxlens")

    def run(code, **names):
        one_shell.push(names)
        with capture_output() as captured:
            result = one_shell.run_cell(code)
        assert result.success, captured.stdout
        return " ".join(output.data["text/plain"] for output in captured.outputs)

    yield run
    one_shell.extension_manager.unload_extension("jaxlens")


def _arrays(args):
    """Copies on the device, which a call may take away."""
    return jax.tree.map(lambda x: jnp.array(x) if isinstance(x, np.ndarray) else x, args)


def _told(view):
    """What a view says of a program, whatever the user calls the object."""
    capture = view.capture
    program = replace(capture.program, name="", inputs=(), statics=())
    inputs = [(str(i.type), i.donated) for i in capture.program.inputs]
    _, _, text = str(view).partition("\n\n")
    text = re.sub(r"\bself\b|0x\w+", "it", text)
    return program, inputs, [s.text for s in capture.program.statics], capture.jaxpr.text, text


def _made(name):
    if name in CALLABLES:
        f, args = CALLABLES[name]()
        return f, _arrays(args), {}
    return jitted_programs.CALLS[name]()


# Those left out take seconds to trace, and are of the same kinds.
LARGE = set(
    "nnx_optimizer nnx_scan equinox_state equinox_step linen_step haiku_step diffrax_gradient "
    "numpyro_svi blackjax_hmc mjx_step".split()
)


@pytest.mark.parametrize("name", [*CALLABLES, *sorted({*jitted_programs.CALLS} - LARGE)])
def test_verb_and_magic_show_the_same(one_shell, cell, name):
    jitted_programs.require(name)
    with jitted_programs.surroundings(name):
        f, args, kwargs = _made(name)
        by_verb = _told(jaxlens.jaxpr(f, *args, **kwargs))
        callables.ran.clear()
        cell("%%jaxpr -o view\nit(*args, **kwargs)", it=f, args=args, kwargs=kwargs)
        assert len(callables.ran) <= 1  # traced, and not run
        by_magic = _told(one_shell.user_ns["view"])
    assert by_magic == by_verb
    assert not any(x.is_deleted() for x in jax.tree.leaves(args) if isinstance(x, jax.Array))


def test_what_is_donated_is_said_by_both_and_stays(one_shell, cell):
    """The issue's call: it was run, and donation could save the bytes that it had saved."""
    g, (b, a) = jax.jit(jnp.add, donate_argnums=0), _arrays((X, Y))
    cell("%%compile --memory -o view\ng(b, a)", g=g, b=b, a=a)
    assert not b.is_deleted()
    view = one_shell.user_ns["view"]
    assert "could save" not in str(view)
    assert view.capture.memory == jaxlens.capture(g, b, a).memory


def _compiled(b):
    return jax.jit(jnp.add, donate_argnums=0).lower(b, Y).compile()


def _that_reads(b):
    rates = iter([2.0, 3.0])
    return jax.jit(lambda b, a: b * next(rates) + a, donate_argnums=0)


@pytest.mark.parametrize("make", [_compiled, _that_reads])
def test_a_call_that_donates_is_not_run_where_it_cannot_be_looked_at(cell, make):
    b, a = _arrays((X, Y))
    shown = cell("%%jaxpr --tape\ng(b, a)", g=make(b), b=b, a=a)
    said = "g(b, a) was not run, because it donates its arguments, and nothing is shown."
    assert shown.startswith(said)
    assert "could not be looked at" in shown
    assert not b.is_deleted()


@pytest.mark.parametrize(
    "code",
    [
        "np.asarray(k(x))\nprint()",
        "for _ in range(2):\n    v = k(x)\nprint(v.shape)",
        "list(map(k, [x]))",
        "v = k(x)\nassert v.shape",
    ],
)
def test_the_first_line_says_where_the_cell_ran_first(cell, code):
    def k(x):
        return x * 2

    shown = cell(f"%%jaxpr\n{code}", k=jax.jit(k), x=jnp.ones(3), np=np)
    assert shown.startswith("The cell ran, and called k(x) with x f32[3] on cpu")


FOREIGN = [
    *(print, dict, json.dumps, operator.itemgetter(0), functools.partial(json.dumps, indent=1)),
    *(np.sum, np.add, np.vectorize(len), np.random.normal, np.ndarray.__class_getitem__),
    *(jnp.where, jnp.tanh, jnp.add, jnp.float32, jax.nn.relu, jax.vmap, jax.block_until_ready),
    *(jax.enable_x64, jax.debug.print, jax.checking_leaks, jaxlens.cost),
]


def test_what_a_library_has_under_its_name_is_not_the_users():
    lowered = jax.jit(jnp.sin).lower(X)
    assert all(map(is_foreign, [*FOREIGN, lowered.compile, lowered.as_text, [].append]))
