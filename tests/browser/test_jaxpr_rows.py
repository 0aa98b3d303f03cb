"""Rows of a jaxpr that a script puts together from columns are those that Python writes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.ir.jaxpr.user_names import UserNames
from jaxlens.render.control_chars import visible
from jaxlens.render.html.assets import _script
from jaxlens.render.html.marks import pieces
from jaxlens.views.listings.jaxpr import LIMIT, equations, listing
from jaxlens.views.listings.jaxpr_rows import rows_text
from tests.support import programs

READ = """([script, text]) => {
  const rows = new Function(`${script}; return (text) => new JaxprRows(text)`)()(text);
  const all = Array.from({length: rows.count}, (_, n) => n);
  return { html: all.map(n => rows.html(n)), text: all.map(n => rows.text(n)),
    id: all.map(n => rows.id(n)), owner: all.map(n => rows.owner(n)), wide: rows.wide };
}"""
FILES = ("viewer/rows.js", "listing/row_source.js", "listing/jaxpr_rows.js")
HOSTILE = "</script><b>&lt;\u202e`${alert(1)}`\n\0\x07 $& \\1"


@pytest.fixture
def blank(new_page):
    return new_page()


def nested(x):
    """Loops, branches and calls in each other, a shared one among them."""

    @jax.jit
    def shared(x):
        return jnp.sin(x) * 2 + jax.nn.relu(x)

    def body(carry, _):
        carry = jax.lax.cond(carry.sum() > 0, shared, lambda x: shared(x) - 1.5, carry)
        return jax.lax.while_loop(lambda c: c.sum() < 3, lambda c: shared(c) + 1, carry), carry[0]

    return jax.lax.scan(body, shared(x), None, length=3)


def hostile(x):
    with jax.named_scope("a<b>&amp;</script>"):
        x = x + jnp.float32(-0.0) + np.float32("nan") + 1e-30
    called = jax.named_call(lambda x: x * jnp.arange(3.0), name=HOSTILE)
    table = jnp.asarray(np.arange(12.0).reshape(4, 3))
    return called(x) + table[jnp.clip(x.astype(int), 0, 3), 0].sum() if x.ndim == 1 else called(x)


def unread(x, unused):
    values, _ = jax.lax.top_k(x, 2)
    return jnp.sort(values), jax.random.split(jax.random.key(0)), None


def sharing(x):
    """Equal bodies of other names, each used often."""
    one, two = (jax.jit(functools.partial(jnp.multiply, n)) for n in (2.0, 2.0))
    for _ in range(3):
        x = two(one(x)) + one(two(x))
    return jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))(x)


def made():
    yield "nested", nested, (jnp.ones(3),)
    yield "nested, differentiated", jax.grad(lambda x: jax.jit(sharing)(x).sum()), (jnp.ones(3),)
    yield "hostile", hostile, (jnp.ones(3),)
    yield "unread", unread, (jnp.ones(5), jnp.ones(2))
    yield "sharing", sharing, (jnp.ones(2),)
    yield "line", *programs.straight_line(50)
    yield "train step", *programs.gpt_step(2, width=16, length=8, vocab=32, biases=True)


MADE = {name: (f, args) for name, f, args in made()}


def checked(page, more):
    lines = list(more)
    script = "\n".join(map(_script, FILES))
    found = page.evaluate(READ, [script, rows_text(more, len(more))])
    assert found["html"] == [pieces(line) for line in lines]
    assert found["id"] == [visible(line.id) for line in lines]
    assert found["owner"] == [line.line for line in lines]
    texts = ["  " * n.indent + visible("".join(p.text for p in n.pieces)) for n in lines]
    assert found["text"] == texts
    shown = [
        2 * n.indent + sum(len(visible(p.text)) for p in n.pieces if p.kind != "fold")
        for n in lines
    ]
    assert max(shown) <= found["wide"] <= 2 * max(shown) + 80


@pytest.mark.parametrize("name", MADE)
def test_rows_are_those_of_the_listing(blank, name):
    f, args = MADE[name]
    capture = jaxlens.capture(f, *args)
    module = capture.jaxpr.module
    lines = equations(module, UserNames(module, sources=capture.sources))
    checked(blank, listing(module, limit=0, lines=lines).more)
    checked(blank, listing(module, limit=7, lines=lines).more)
    assert blank.evaluate("window.pwned") is None


def test_a_large_number_is_a_character_too(blank):
    """Distances beyond 0xD800, which is no character."""
    f, args = programs.straight_line(60_000)
    module = jaxlens.capture(lambda x, y: f(x) + y, *args, args[0]).jaxpr.module
    more = listing(module, limit=LIMIT).more
    script = "\n".join(map(_script, FILES))
    found = blank.evaluate(READ, [script, rows_text(more, len(more))])
    assert len(found["html"]) == len(more)
    for n in (*range(0, len(more), 5_000), len(more) - 2, len(more) - 1):
        assert found["html"][n] == pieces(more[n])
        assert found["id"][n] == more[n].id
