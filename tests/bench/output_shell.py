"""What magics say: groups of `output_recorder.py`."""

MAGICS = ("jaxpr", "hlo", "compile", "explore", "recompiles")
SETUP = """
import functools
import jax, jax.numpy as jnp, numpy as np
import jaxlens
w, b, x = np.ones((8, 4), np.float32), np.zeros(4, np.float32), np.ones((3, 8), np.float32)
params = {"w": w, "b": b}
def predict(params, x):
    return jax.nn.relu(x @ params["w"] + params["b"])
def loss(params, x, y=0.0):
    return jnp.mean((predict(params, x) - y) ** 2)
@jax.jit
def step(params, x):
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params, x))
class Model:
    def __init__(self, w): self.w = w
    def __call__(self, x): return jnp.tanh(x @ self.w)
model = Model(w)
def refuses(x):
    if x.sum() > 0:
        return x
    return -x
def raises(x):
    raise ValueError("no luck")
def batch(n):
    return np.ones((n, 8), np.float32)
"""
LOOKS = [
    "%%{m}\npredict(params, x)",
    "%%{m}\ny = predict(params, x)\nprint('shape', y.shape)",
    "%%{m}\njnp.tanh(x @ w).sum()",
    "%%{m} --grad --vmap None,0\nloss(params, x)",
    "%%{m} --jvp\nloss(params, x)",
    "%%{m} --in \"params={{'w': f32[8,4], 'b': f32[4]}}, x=f32[16,8]\"\ndef shaped(params, x):\n"
    "    return (x @ params['w'] + params['b']).sum()",
    "%%{m} -o seen\nmodel(x)",
    "%{m} predict(params, x)",
    "%{m} --full loss(params, x)",
    "%%{m}\nfor n in (1, 2):\n    out = step(params, batch(n))",
    "%%{m}\nlist(map(lambda r: predict(params, r), [x]))",
    "%%{m} --core\njnp.tanh(x @ w).sum()",
    # what goes wrong
    "%%{m}\nrefuses(x)",
    "%%{m}\nraises(x)",
    "%%{m}\n1 + 1",
    "%%{m}\n",
    "%{m}",
    "%%{m} --fulll\npredict(params, x)",
    "%%{m} -o 3x\npredict(params, x)",
    "%%{m} --target tpuu\npredict(params, x)",
    "%%{m} --target gpu:h999\npredict(params, x)",
    "%%{m} --in 'f32[8'\ndef shaped(x): return x",
    "%%{m} --vmap 0,None,None\npredict(params, x)",
    "%%{m} --grad y\npredict(params, x)",
    "%%{m}\npredict(params)",
    "%%{m}\npredict(params, x[:, :3])",
]
WATCHES = [
    "%%recompiles\nfor n in (5, 4, 3):\n    step(params, batch(n))",
    "%%recompiles -o log\nstep(params, batch(3))\nn = 2",
    "%%recompiles\njax.jit(lambda v: v * 2)(x)\njax.jit(lambda v: v * 2)(x)",
    "%recompiles step(params, batch(9))",
    "%%recompiles\nraises(x)",
    "%%recompiles\nx + 1",
    "%%recompiles --nothing\nx + 1",
    "%recompiles",
    "log",
    "jaxlens.key(step, params, x)",
    "jaxlens.key(step, params, batch(77))",
    "%recompiles on",
    "step(params, batch(21))",
    "%recompiles off",
    "%recompiles on off",
]


class Shell:
    """A real IPython shell with jaxlens loaded, that records what cells show."""

    def __init__(self, out):
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        config = Config()
        config.HistoryManager.hist_file = ":memory:"
        self.out, self.number = out, 0
        self.shell = InteractiveShell.instance(config=config, colors="nocolor")
        self.shell.run_line_magic("load_ext", "jaxlens")
        self.cell(SETUP)

    def cell(self, code):
        from IPython.utils.capture import capture_output

        with capture_output() as captured:
            result = self.shell.run_cell(code, store_history=True)
        name = f"cell{self.number:02}"
        self.number += 1
        timed = any(word in code for word in ("compile", "recompile", "--against", "log"))
        error = result.error_in_exec or result.error_before_exec
        told = f">>> {code}\nout:\n{captured.stdout}\nerr:\n{captured.stderr}\nerror: {error!r}"
        for n, output in enumerate(captured.outputs):
            kinds = sorted(output.data)
            told += f"\ndisplay {n}: {kinds}\n{output.data.get('text/plain', '')}"
            if "text/html" in output.data:
                self.out.html(f"{name}-{n}", output.data["text/html"], timed)
        self.out.write(name, "txt", told, timed)


def cells(out, name):
    """The cells of one magic."""
    shell = Shell(out)
    for code in [look.format(m=name) for look in LOOKS]:
        shell.cell(code)


def watches(out, name):
    """Cells that watch what compiles."""
    shell = Shell(out)
    for code in WATCHES:
        shell.cell(code)


def help_of_all(out, name):
    """`-h` and `?` of each magic, docstrings of the package, unloading."""
    import inspect

    from IPython.core.oinspect import getdoc

    import jaxlens

    shell = Shell(out)
    for magic in MAGICS:
        shell.cell(f"%{magic} -h")
        shell.cell(f"%%{magic} -h\n1")
        found = shell.shell.find_magic(magic, "cell")
        out.write(f"doc-{magic}", "txt", str(getdoc(found)))
    for word in jaxlens.__all__:
        value = getattr(jaxlens, word)
        out.write(f"python-{word}", "txt", f"{_signature(value)}\n{inspect.getdoc(value)}")
    shell.cell("%unload_ext jaxlens")
    shell.cell("%%jaxpr\n1")


def _signature(value):
    import inspect

    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""


KINDS = {"cells": cells, "watches": watches, "help": help_of_all}
