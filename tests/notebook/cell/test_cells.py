"""Cells in the manner of tutorials, plainly and under each magic: the same, and a program shown."""

import re

import pytest

# Each is a notebook: its cells run in order, in one namespace.
NOTEBOOKS = {
    "sharp corners": [
        "import jax, jax.numpy as jnp, numpy as np",
        "def impure(x):\n    print('running', isinstance(x, jax.core.Tracer))\n    return x\n\n"
        "y = impure(jnp.ones(2))",
        "def branches(x):\n    if x < 3:\n        return 3.0 * x**2\n    return -4 * x\n\n"
        "print(branches(2.0))",
        "print(jax.grad(branches)(2.0))",
        "try:\n    jax.jit(branches)(2.0)\n"
        "except Exception as error:\n    print(type(error).__name__)",
        "jax.jit(branches)(2.0)",
        "numbers = np.zeros((3, 3))\nnumbers[1, :] = 1.0\nprint(numbers)",
        "frozen = jnp.zeros((3, 3))\nfrozen[1, :] = 1.0",
        "changed = frozen.at[1, :].set(1.0)\nprint(changed)",
        "print(jnp.arange(10)[11])",
        "log = []\ndef remembers(x):\n    log.append(1)\n    return x + 1\n\n"
        "z = remembers(x=jnp.ones(3))\nprint(len(log))",
        "batches = iter([jnp.ones(3), jnp.zeros(3)])\nprint(float(jnp.sum(next(batches))))",
        "print([float(b.sum()) for b in batches])",
        "undefined_name(1)",
    ],
    "training": [
        "import jax, jax.numpy as jnp, numpy as np, functools",
        "rng = np.random.default_rng(0)\n"
        "xs = rng.normal(size=(64, 1)).astype(np.float32)\nys = 3 * xs - 1",
        "params = {'w': jnp.zeros((1, 1)), 'b': jnp.zeros(1)}\n\n"
        "def loss(params, x, y):\n    return jnp.mean((x @ params['w'] + params['b'] - y) ** 2)\n\n"
        "loss(params, xs, ys)",
        "@functools.partial(jax.jit, donate_argnums=0)\n"
        "def update(params, x, y):\n    grads = jax.grad(loss)(params, x, y)\n"
        "    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)\n\n"
        "params = update(params, xs, ys)",
        "for step in range(100):\n    params = update(params, xs, ys)\n    if step % 50 == 0:\n"
        "        print(step, f'{loss(params, xs, ys):.3f}')",
        "assert loss(params, xs, ys) < 0.1\n"
        "print({k: np.round(v, 1).tolist() for k, v in params.items()})",
        "value, grads = jax.value_and_grad(loss)(params, xs, ys)\nprint(value < 0.1)",
        "class Line:\n    def __init__(self, w):\n        self.w, self.calls = w, 0\n"
        "    def __call__(self, x):\n        self.calls += 1\n        return x * self.w\n\n"
        "line = Line(jnp.float32(2))\nprint(line(xs).sum() != 0, line.calls)",
        "print(line.calls)",
        "carry, outs = jax.lax.scan(lambda c, x: (c + x, c * x), 0.0, xs[:4, 0])\n"
        "print(carry == sum(xs[:4, 0]))",
        "lowered = update.lower(params, xs, ys)\nprint(len(lowered.as_text()) > 0)",
        "compiled = lowered.compile()\nparams = compiled(params, xs, ys)",
        "with jax.default_matmul_precision('float32'):\n    out = loss(params, xs, ys)",
        "print(f'{jnp.linalg.norm(params[\"w\"]):.1f}', rng.integers(100))",
    ],
}


def same(text, failed):
    """What a cell printed, without numbers of cells, and of lines where it failed.

    Below a traceback the look's note says what to write instead.
    """
    text = re.sub(r"Out\[\d+\]|Cell In\[\d+\]|cell \d+|0x\w+|input-\d+-\w+", "N", text)
    if not failed:
        return text
    text = text.partition("\njaxlens: ")[0]
    lines = [line for line in text.splitlines() if "# %%" not in line]
    plain = [re.sub(r"^[-> ]*\d+ ?|, line \d+|:\d+", "", line) for line in lines]
    return "\n".join(line.rstrip() for line in plain)


@pytest.mark.parametrize("cells", NOTEBOOKS.values(), ids=NOTEBOOKS)
def test_a_notebook_is_as_without_the_magic(run, shell, cells):
    plain = [run(f"# %%\n{code}") for code in cells]
    for magic in ("jaxpr", "compile"):
        shell.reset(new_session=True)
        computed = shown = 0
        for code, was in zip(cells, plain, strict=True):
            shell.user_ns.pop("view_", None)
            ran = run(f"%%{magic} -o view_\n{code}")
            assert type(ran.error) is type(was.error), f"{magic}: {code}\n{ran.out}"
            failed = was.error is not None
            bare = code.splitlines()[-1].startswith("loss(")  # staged, and not made
            if not bare:
                assert same(ran.out, failed) == same(was.out, failed), f"{magic}: {code}"
            if "jnp." in code or "(params" in code:
                computed += not failed
                shown += not failed and shell.user_ns["view_"].capture is not None
        assert shown >= 0.9 * computed, magic
