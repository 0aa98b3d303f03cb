"""Cells in the manner of tutorials, plainly and under each magic: the same, and a program shown.

`tests/bench/cells_of_others.py` does the same with notebooks that others wrote.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.bench.cells_of_others import reaches_out
from tests.support.paths import environment

# Each is a notebook: its cells run in order, in one namespace.
NOTEBOOKS = {
    "first steps": [
        "import jax\nimport jax.numpy as jnp\nimport numpy as np",
        "def selu(x, alpha=1.67, lmbda=1.05):\n"
        "    return lmbda * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)\n\n"
        "x = jnp.arange(5.0)\nprint(selu(x))",
        "key = jax.random.key(1701)\nx = jax.random.normal(key, (1_000,))",
        "selu_jit = jax.jit(selu)\n_ = selu_jit(x)\nselu_jit(x).block_until_ready();",
        "def sum_logistic(x):\n    return jnp.sum(1.0 / (1.0 + jnp.exp(-x)))\n\n"
        "derivative = jax.grad(sum_logistic)\nprint(derivative(jnp.arange(3.0)))",
        "def differences(f, x, eps=1e-3):\n"
        "    steps = eps * jnp.eye(len(x))\n"
        "    return jnp.array([(f(x + v) - f(x - v)) / (2 * eps) for v in steps])\n\n"
        "print(np.round(differences(sum_logistic, jnp.arange(3.0)), 2))",
        "print(jax.grad(jax.jit(jax.grad(jax.jit(jax.grad(sum_logistic)))))(1.0))",
        "mat = jnp.ones((15, 10))\nbatch = jnp.ones((4, 10))\n\n"
        "def apply_matrix(x):\n    return jnp.dot(mat, x)",
        "def naive(batch):\n    return jnp.stack([apply_matrix(v) for v in batch])\n\n"
        "np.testing.assert_allclose(naive(batch), jax.vmap(apply_matrix)(batch), atol=1e-4)",
        "jax.make_jaxpr(selu)(x[:3])",
        "first, second = jax.random.split(key)\nprint(first == second)",
        "x.shape, x.dtype",
    ],
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


def same(text: str, failed: bool) -> str:
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


@pytest.mark.parametrize("magic", ["jaxpr", "hlo", "compile"])
@pytest.mark.parametrize("cells", NOTEBOOKS.values(), ids=NOTEBOOKS)
def test_a_notebook_is_as_without_the_magic(
    run: Callable[[str], Any], shell: Any, cells: list[str], magic: str
) -> None:
    plain = [run(f"# %%\n{code}") for code in cells]
    shell.reset(new_session=True)
    computed = shown = 0
    for code, was in zip(cells, plain, strict=True):
        shell.user_ns.pop("view_", None)
        ran = run(f"%%{magic} -o view_\n{code}")
        assert type(ran.error) is type(was.error), f"{code}\n{ran.out}"
        failed = was.error is not None
        bare = code.splitlines()[-1].startswith(("loss(", "selu_jit("))  # staged, and not made
        if not bare:
            assert same(ran.out, failed) == same(was.out, failed), code
        if "jnp." in code or "(params" in code:
            computed += not failed
            shown += not failed and shell.user_ns["view_"].capture is not None
    assert shown >= 0.9 * computed


@pytest.mark.parametrize(
    "code",
    [
        "# Install\n!pip install --upgrade -q pip jax",
        "x = 1\n  !ls",
        "files = !ls",
        "%pip install flax",
        "try:\n    import tinygp\nexcept ImportError:\n    %pip install tinygp",
        "%%bash\nls",
        "import subprocess\nsubprocess.run(['ls'])",
        "import os\nos.system('ls')",
        "shutil.rmtree(folder)",
    ],
)
def test_the_bench_never_runs_what_changes_the_machine(code: str) -> None:
    assert reaches_out(code)
    assert not reaches_out("import jax\ny = x != 1\nprint(f'{y!r}', 7 % 3)")


BENCH_SHELL = """
from tests.bench.cells_of_others import without_shell
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="nocolor")
without_shell(shell)
for code in ("!true", "names = !ls", "get_ipython().system('true')"):
    print("@@", type(shell.run_cell(code).error_in_exec).__name__)
print("@@", shell.run_cell("%pip --version").success)
"""


def test_the_shell_of_the_bench_has_no_way_out(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BENCH_SHELL],
        capture_output=True,
        text=True,
        env=environment(IPYTHONDIR=str(tmp_path)),
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("@@")]
    assert said == ["@@ PermissionError"] * 3 + ["@@ False"], done.stdout + done.stderr
