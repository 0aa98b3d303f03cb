"""What magics and widgets say: groups of `output_recorder.py`."""

import contextlib
from typing import Any

from output_forms import pretty

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
    "%%{m}\nprint(step(params, x)['b'].shape)",
    "%%{m}\njnp.tanh(x @ w).sum()",
    "%%{m} --grad --vmap None,0\nloss(params, x)",
    "%%{m} --jvp\nloss(params, x)",
    "%%{m} --in \"params={{'w': f32[8,4], 'b': f32[4]}}, x=f32[16,8]\"\ndef shaped(params, x):\n"
    "    return (x @ params['w'] + params['b']).sum()",
    "%%{m} -o seen\nmodel(x)",
    "%{m} predict(params, x)",
    "%{m} --full loss(params, x)",
    "v = %{m} step(params, x)",
    "%%{m}\nfor n in (1, 2):\n    out = step(params, batch(n))",
    "%%{m}\nwith jax.disable_jit(False):\n    z = step(params, x)\nz['w'].shape",
    "%%{m}\nimport asyncio\nawait asyncio.sleep(0)\nstep(params, x)",
    "%%{m}\nlist(map(lambda r: predict(params, r), [x]))",
    "%%{m} --core\njnp.tanh(x @ w).sum()",
    "%%{m} --target cpu\npredict(params, x)",
    # what goes wrong
    "%%{m}\nrefuses(x)",
    "%%{m}\nraises(x)",
    "%%{m}\nx + missing",
    "%%{m}\n1 + 1",
    "%%{m}\nx = (",
    "%%{m}\n",
    "%{m}",
    "%%{m} --fulll\npredict(params, x)",
    "%%{m} --nothing\npredict(params, x)",
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

    def __init__(self, out: Any) -> None:
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        config = Config()
        config.HistoryManager.hist_file = ":memory:"
        self.out, self.number = out, 0
        self.shell = InteractiveShell.instance(config=config, colors="nocolor")
        self.shell.run_line_magic("load_ext", "jaxlens")
        self.cell(SETUP)

    def cell(self, code: str) -> None:
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


def cells(out: Any, name: str) -> None:
    """The cells of one magic."""
    shell = Shell(out)
    for code in [look.format(m=name) for look in LOOKS]:
        shell.cell(code)


def watches(out: Any, name: str) -> None:
    """Cells that watch what compiles."""
    shell = Shell(out)
    for code in WATCHES:
        shell.cell(code)


def help_and_tab(out: Any, name: str) -> None:
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


def _signature(value: Any) -> str:
    import inspect

    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""


def widgets(out: Any, name: str) -> None:
    """The state of widgets, and what an `Explorer` answers a page."""
    from output_programs import PROGRAMS

    import jaxlens

    asks = [
        {"html": True},
        {"lines": {"listing": 0, "from": 0, "to": 50}},
        {"lines": {"listing": 1, "from": 2, "to": 9}},
        {"lines": {"listing": 99, "from": 0, "to": 5}},
        {"row": {"listing": 0, "id": "fusion"}},
        {"pass": 0},
        {"pass": 3},
        {"pass": 10_000},
        {"panel": {"graph": 0, "name": "jaxpr"}},
        {"panel": {"graph": 7, "name": "jaxpr"}},
        {"kernel": {"stage": "llvm", "id": "nothing"}},
        {"question": "cost"},
        {"question": "costs"},
        {"nothing": 1},
        {},
    ]
    for source in ("matmul", "scan_rnn", "many_equations"):
        f, args, _ = PROGRAMS[source]()
        cap = jaxlens.capture(f, *args)
        kernels: list[str] = []
        with contextlib.suppress(Exception):
            kernels = [kernel.name for kernel in cap.kernels]
        more = [{"kernel": {"stage": s, "id": k}} for s in ("llvm", "asm") for k in kernels[:2]]
        for verb in ("explore", "jaxpr"):
            explorer = jaxlens.Explorer(getattr(jaxlens, verb)(cap))
            for n, what in enumerate([*asks, *more]):
                said: list[Any] = []
                explorer.send = said.append
                explorer._handle_custom_msg({"ask": n, "what": what}, [])
                if "html" in what and said:
                    continue
                out.write(f"{source}-{verb}-{n}", "answer", f"{what}\n{pretty(said)}")
            told = {k: v for k, v in explorer.get_state().items() if k not in ("_esm", "layout")}
            out.write(f"{source}-{verb}", "state", pretty(told))
    out.write("explorer", "js", explorer.get_state()["_esm"])


KINDS = {"cells": cells, "watches": watches, "help": help_and_tab, "widgets": widgets}
