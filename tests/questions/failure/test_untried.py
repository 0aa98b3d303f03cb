"""What a failed trace offers is tried only where that runs no code of the user's."""

import functools
import linecache
import os  # noqa: F401 - an expression below names it

import jax
import jax.numpy as jnp
import pytest

import jaxlens
from jaxlens.questions.failure.measure.explain import explanation

pytestmark = pytest.mark.reads_jax

RAN: list[str] = []
BOX = [1.0] * 9
SHELF = {"box": BOX}
X = jnp.arange(3.0)


def note(name, value=2.0):
    RAN.append(name)
    return value


class Model:
    scale = 2.0
    box = BOX

    def __init__(self):
        self.w = X

    rate = property(lambda self: note("property"))
    __radd__ = __add__ = lambda self, other: note("operator", other)

    def __matmul__(self, other):
        return note("operator", other)

    def __call__(self, x):
        return note("call", x)

    def __getattr__(self, name):
        if name != "lazy":
            raise AttributeError(name)
        return note(name)

    def __getitem__(self, name):
        return note("item")


def user(x):
    return note("function", x)


@functools.wraps(jnp.sin)
def sine(x):
    return note("disguised", x)


@jax.tree_util.register_pytree_node_class
class Tree:
    def tree_flatten(self):
        return (), note("flatten", None)

    tree_unflatten = classmethod(lambda cls, *_: cls())


jitted, where, sin, partial, tree = jax.jit(user), jnp.where, user, functools.partial(user), Tree()
model = Model()

RUNS_YOURS = [
    "x + BOX.pop()",
    "x + SHELF['box'].pop()",
    "x + model.box.pop()",
    "x + [b.pop() for b in (BOX,)][0]",
    "x + (lambda b: b.pop())(BOX)",
    "user(x)",
    "sin(x)",
    "sine(x)",
    "jitted(x)",
    "partial(x)",
    "model(x)",
    "x * model.rate",
    "x + model",
    "model @ x",
    "x * model.lazy",
    "x * model['w']",
    "jax.vmap(user)(x)",
    "jax.lax.cond(True, user, user, x)",
    "jax.lax.fori_loop(0, 2, lambda i, y: user(y), x)",
    "jax.tree.map(os.remove, ['no such file'])",
    "jax.tree.map(lambda a: a, (x, tree))[0]",
    "x * len(os.listdir('.'))",
    "x + (RAN.append('list') or 1)",
    "X.delete() or x",
    "x * float(print('text') or 2)",
]
TRIED = [
    "-x",
    "where(x > 0, x, 0)",
    "x.at[0].set(1.0).sum()",
    "(x + 1).astype(int)",
    "x * model.scale + jnp.sum(model.w)",
    "model.w.max() * x",
    "jax.vmap(lambda a: a.sum())(x[None])",
    "x * len(BOX) + SHELF['box'][0]",
    "jax.nn.relu(x)",
]


def offered(branch):
    """What is offered for a function, one of whose branches is an expression; runs no branch."""
    source = f"def either(x):\n    return x if x.sum() > 0 else {branch}\n"
    namespace = dict(globals())
    code = compile(source, __file__.replace(".py", "_cell.py"), "exec")
    exec(code, namespace)
    linecache.cache[code.co_filename] = len(source), None, source.splitlines(True), code.co_filename
    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        jaxlens.jaxpr(namespace["either"], X).text()
    (remedy,) = explanation(caught.value).remedies
    assert branch[:5] in remedy.code or "model" in branch
    return remedy.outcome


@pytest.mark.parametrize("branch", RUNS_YOURS)
def test_a_rewrite_that_would_run_code_of_the_users_is_offered_untried(branch, capsys):
    RAN.clear()
    assert offered(branch) == ""
    assert (RAN, len(BOX), X.is_deleted()) == ([], 9, False)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("branch", TRIED)
def test_one_of_jaxs_own_calls_is_tried(branch):
    RAN.clear()
    assert offered(branch).startswith("it traces and gives f32[3]")
    assert RAN == []
