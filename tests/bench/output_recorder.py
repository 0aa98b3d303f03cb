"""Writes what one group of programs says: a process of `outputs.py`, not called by hand."""

# ruff: noqa: B023 - what is asked in a loop is asked at once

import base64
import contextlib
import json
import os
import re
import sys
import time
import zlib
from dataclasses import fields
from functools import partial
from pathlib import Path
from urllib.parse import unquote

import jax
import jax.numpy as jnp
import numpy as np

import jaxlens
from jaxlens.render.html import packing
from jaxlens.viewer.panes import OPTIONS
from tests.support import jitted_programs, programs
from tests.support.calls.callables import CALLABLES
from tests.support.paths import RECORDS

# ---- programs -----------------------------------------------------------------------------------
# Source lines appear in outputs, so an edit in here changes them.


def checkpointed():
    @jax.checkpoint
    def block(w, x):
        return jnp.sin(jnp.tanh(x @ w) @ w.T)

    def loss(ws, x):
        for w in ws:
            x = block(w, x)
        return jnp.sum(x**2)

    return jax.grad(loss), ([jnp.ones((32, 64)) * 0.1] * 3, jnp.ones((16, 32)))


def closed_over():
    table, small = np.arange(4096, dtype=np.float32).reshape(64, 64), jnp.ones(64) * 3

    def looked_up(i, x):
        return (jnp.asarray(table)[i] + small * x) @ table

    return looked_up, (jnp.int32(3), jnp.ones(64))


def low_precision():
    def mixed(key, x, w, scale):
        y = (x.astype(jnp.bfloat16) @ w).astype(jnp.float32)
        kept = jax.random.bernoulli(key, 0.5, y.shape)
        return (y * scale).astype(jnp.float16), jnp.argmax(jnp.where(kept, y, 0), axis=-1), y > 0

    w = jnp.ones((16, 8), jnp.bfloat16)
    return mixed, (jax.random.key(0), jnp.ones((4, 16)), w, jnp.float32(2))


def core_grad():
    from jaxlens import core
    from jaxlens.core import numpy as cnp

    grads = core.vmap(core.grad(lambda w, x: (cnp.tanh(x @ w) ** 2).sum()), in_axes=(None, 0))
    return core.jit(grads), (cnp.ones((3, 4)), cnp.ones((2, 3)))


def opened(open_):
    """A program that is there already."""
    f, args = programs.mlp_step()
    return open_(jax.jit(f).lower(*args)), ()


PROGRAMS = {
    **programs.SMALL,
    **programs.MODELS,
    "gpt_step": partial(programs.gpt_step, layers=4),
    "many_equations": partial(programs.straight_line, 2000),
    "sharded_step": lambda: programs.sharded_step(jax.devices()),
    "exchanges": lambda: programs.exchanges(jax.devices()),
    **{f.__name__: f for f in (checkpointed, closed_over, low_precision, core_grad)},
    "lowered": lambda: opened(lambda lowered: lowered),
    "compiled": lambda: opened(lambda lowered: lowered.compile()),
    "hlo_text": lambda: opened(lambda lowered: lowered.compile().as_text()),
    **{name.replace(" ", "_"): make for name, make in CALLABLES.items()},
    **jitted_programs.CALLS,
}

# ---- what is asked of a program -----------------------------------------------------------------

QUESTIONS = "captured cost fusion ladder memory receipt sharding tape times".split()
VALUES = {  # of options that are no switches
    "depth": [3],
    "stage": ["jaxpr", "stablehlo", "hlo", "optimized", "llvm", "asm"],
    "diff": [("hlo", "optimized")],
    "pass_name": ["fusion", "algsimp"],
    "roofline": ["h100"],
    "fits": ["16 GB"],
    "against": [],
    "kernel": [],
}
TRIED = {"without": "fusion", "checkpoint": True, "run": 2}  # compile more, or run
# Views whose very rows and order are of the clock: only that they were said is held.
CLOCK = ("-times", "-run")


def looks(small):
    """Name, verb and options of each look; those that compile more, or run, where it is small."""
    for verb in ("jaxpr", "hlo", "compile", "explore"):
        yield verb, verb, {}
        for option in (field.name for field in fields(OPTIONS[verb])):
            tried = [TRIED[option]] if small and option in TRIED else []
            for value in tried if option in TRIED else VALUES.get(option, [True]):
                word = value if isinstance(value, str) else ""
                yield f"{verb}-{option}-{word}".rstrip("-"), verb, {option: value}


# ---- outputs in a form that a diff can be read of -----------------------------------------------

# Digits of base 85 in order, as `static/base85.js` reads them.
_DIGITS = bytes(range(40, 125)).translate(bytes.maketrans(b"<\\", b"}~"))
_STANDARD = bytes(base64.b85encode(bytes([0, 0, 0, n]))[-1] for n in range(85))
_READ = bytes.maketrans(_DIGITS, _STANDARD)
_STYLE = re.compile(r"<style data-jl=\"\w+\">.*?</style>", re.DOTALL)
_INSTALL = re.compile(r"<script>\(\(\) => \{\n.*?</script>", re.DOTALL)
_DATA = re.compile(r'(<script type="application/json"[^>]*>)("?)([^<]*?)\2</script>')
_IMAGE = re.compile(r"data:image/svg\+xml,([^']+)")
_MASKS = (
    (re.compile(r"\bjl[0-9a-f]{10}\b"), "jlKEY"),
    (re.compile(r"0x[0-9a-f]{9,16}\b"), "0xADDRESS"),
    (re.compile(r"IPY_MODEL_[0-9a-f]{32}"), "IPY_MODEL_ID"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "HEX32"),
    (re.compile(r"/tmp/(?:tmp|jaxlens)[\w.-]+"), "/tmp/FOLDER"),
    (re.compile(r"<ipython-input-(\d+)-[0-9a-f]+>"), r"<ipython-input-\1>"),
)
_UNIT = r"(?:\s|&nbsp;)?(?:ns|µs|μs|us|ms|s|min)\b"
_TIMES = (
    (re.compile(r" style=--bar:[\d.]+em"), ""),
    (re.compile(r"linear-gradient\([^)]*\)"), "BAR"),
    (re.compile(r'style="([\w:-]+);background:BAR"'), r"style=\1"),
    (re.compile(rf"(?<![\w.#])~?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?{_UNIT}"), "TIME"),
    (re.compile(r"(?<![\w.#])\d+(?:\.\d+)?(?:e-\d+)?\s?%"), "SHARE"),
    (re.compile(r"(?<![\w.#])x(?: |&nbsp;)\d+(?:\.\d+)?"), "RATIO"),
    (re.compile(r"(?<![\w.#])\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+)(?![\w.])"), "FLOAT"),
)
_BREAKS = (  # prose is wrapped after the length of its figures: one sentence on a line
    (re.compile(r"--+"), "--"),
    (re.compile(r"\s+"), " "),
    (re.compile(r"(?<=[.:;\]]) "), "\n"),
)


def unpacked(pack):
    """What `packed` of the package wrote; other data as it is."""
    try:
        data = base64.b85decode(pack.encode().translate(_READ))
        text = zlib.decompress(data, -15).decode(errors="surrogatepass")
        return getattr(packing, "unstepped", str)(text)
    except (ValueError, zlib.error):
        return pack


def readable(text):
    """A payload: JSON, or a line of JSON with rows of text below; control characters visible."""
    head, _, rows = text.partition("\n")
    with contextlib.suppress(ValueError):
        head = json.dumps(json.loads(head), ensure_ascii=False, indent=0)
    return "".join(c if c >= " " or c == "\n" else f"‹{ord(c)}›" for c in f"{head}\n{rows}")


def markup(text):
    """A tag on each line; line breaks that were there before end with a sign."""
    return text.replace("\n", "¶\n").replace("><", ">\n<")


class Out:
    """A folder of outputs."""

    def __init__(self, folder):
        self.folder, self.paths = folder, json.loads(os.environ["OUTPUTS_PATHS"])
        folder.mkdir(parents=True, exist_ok=True)

    def timed(self, name):
        """Whether figures of the clock are masked: not those of saved captures."""
        plain = name.startswith(("jaxpr", "hlo")) and "without" not in name
        return not plain and "record" not in self.folder.name

    def write(self, name, face, text, timed=False):
        """Writes one file, without what differs from run to run."""
        if self.timed(name) and name.endswith(CLOCK) and not text.startswith("! "):
            text = f"said, with {len(text.split()) > 20} words"
        for path, word in self.paths.items():
            text = text.replace(path, word)
        breaks = _BREAKS if timed and face.endswith("txt") else ()
        for pattern, word in (*_MASKS, *(_TIMES if timed else ()), *breaks):
            text = pattern.sub(word, text)
        file = re.sub(r"[^\w.@+-]+", "_", name)[:120]
        (self.folder / f"{file}.{face}").write_text(text + "\n", errors="surrogatepass")

    def html(self, name, html, timed=False):
        """HTML with placeholders for its data and its assets, tag by tag; and the data as text."""
        data = []

        def held(before, text):
            data.append(f"=== {len(data)}: {before}\n{text}")
            return f"{before}DATA {len(data) - 1}"

        html = _INSTALL.sub("<script ASSETS></script>", _STYLE.sub("<style ASSET></style>", html))
        html = _IMAGE.sub(lambda m: held("data:image/svg+xml;", markup(unquote(m[1]))), html)
        html = _DATA.sub(lambda m: held(m[1], readable(unpacked(m[3]))) + "</script>", html)
        self.write(name, "html", markup(html), timed)
        if data:
            self.write(name, "html-data", "\n".join(data), timed)

    def view(self, name, ask, faces="tfhj"):
        """All faces of a view: t(ext), f(ull text), h(tml) and j(son); or its error."""
        timed = self.timed(name)
        try:
            view = ask()
            self.write(name, "txt", str(view), timed)
            if "f" in faces:
                self.write(name, "full.txt", view.text(full=True), timed)
            if "h" in faces:
                self.html(name, view.html(), timed)
            if "j" in faces:
                self.write(name, "json", readable(json.dumps(view.json())), timed)
        except Exception as error:
            notes = "\n".join(getattr(error, "__notes__", ()))
            self.write(name, "txt", f"! {type(error).__name__}: {error}\n{notes}".rstrip(), timed)


# ---- groups -------------------------------------------------------------------------------------


def program(out, name):
    """One program under every verb and question."""
    f, args, kwargs = (*PROGRAMS[name](), {})[:3]
    if callable(f) and not hasattr(f, "as_text"):
        out.view("key-before", lambda: jaxlens.key(f, *args, **kwargs))
    take = partial(jaxlens.capture, f, *args, **kwargs)
    cap, small = take(), name in ("mlp_step", "attention")
    views(out, cap, name in ("many_equations", "gpt_step"), small)
    out.view("compare-itself", lambda: jaxlens.compare(cap, take()))
    if small or name in ("scan_rnn", "sharded_step"):
        before = jaxlens.capture(*_flat(programs.while_cond()))
        out.view("compare-other", lambda: jaxlens.compare(before, cap))
        out.view("jaxpr-against", lambda: jaxlens.jaxpr(cap, against=before))
        receipt = jaxlens.receipt(f, *args, **kwargs)
        out.view("receipt-wrong", lambda: receipt.expect(equations=1, fusions=99), "t")
        watched(out, f, args)


def _flat(made):
    f, args = made
    return f, *args


def views(out, cap, large=False, small=False):
    """All verbs with their options, all questions, links."""
    for name, verb, options in looks(small):
        faces = "th" if large or name.endswith("-full") else "tfhj"
        out.view(name, lambda: getattr(jaxlens, verb)(cap, **options), faces)
    with contextlib.suppress(Exception):
        kernel = cap.kernels[0].name
        out.view("compile-kernel", lambda: jaxlens.compile(cap, kernel=kernel))
    for question in QUESTIONS:
        out.view(f"ask-{question}", lambda: getattr(jaxlens, question)(cap), "t" if large else "tj")
    out.view("links-coverage", lambda: cap.links.coverage(), "t")
    out.view("links-fates", lambda: "\n".join(map(str, cap.links.fates().items())), "t")


def watched(out, f, args):
    """A log of compiles, of one call twice and of another."""
    if any(isinstance(x, jax.ShapeDtypeStruct) for x in jax.tree.leaves(args)):
        return
    jitted = jax.jit(f)
    half = jax.tree.map(lambda x: (x + 0).astype("float16"), args)
    with jaxlens.recompiles() as log:
        for given in (args, args, half):
            jitted(*given)
    out.view("recompiles", lambda: log)
    out.view("key-after", lambda: jaxlens.key(jitted, *half))


def record(out, name):
    """One of the saved captures in `tests/records`."""
    views(out, jaxlens.load(RECORDS / f"{name}.jaxlens"))


SETUP = """
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
def refuses(x):
    return x if x.sum() > 0 else -x
def raises(x):
    raise ValueError("no luck")
def batch(n):
    return np.ones((n, 8), np.float32)
"""
CELLS = [
    "%%{m}\npredict(params, x)",
    "%%{m}\ny = predict(params, x)\nprint('shape', y.shape)",
    "%%{m}\njnp.tanh(x @ w).sum()",
    "%%{m} --grad --vmap None,0\nloss(params, x)",
    "%%{m} --jvp\nloss(params, x)",
    "%%{m} --in \"params={{'w': f32[8,4], 'b': f32[4]}}, x=f32[16,8]\"\ndef shaped(params, x):\n"
    "    return (x @ params['w'] + params['b']).sum()",
    "%{m} --full loss(params, x)",
    "%%{m}\nfor n in (1, 2):\n    out = step(params, batch(n))",
    "%%{m} --core\njnp.tanh(x @ w).sum()",
    # what goes wrong
    "%%{m}\nrefuses(x)",
    "%%{m}\nraises(x)",
    "%%{m}\n1 + 1",
    "%{m}",
    "%%{m} --fulll\npredict(params, x)",
    "%%{m} --target gpu:h999\npredict(params, x)",
    "%%{m} --in 'f32[8'\ndef shaped(x): return x",
    "%%{m} --grad y\npredict(params, x)",
    "%%{m}\npredict(params, x[:, :3])",
    "%{m} -h",
    "%{m} -hh",
]
WATCHES = [
    "%%recompiles\nfor n in (5, 4, 3):\n    step(params, batch(n))",
    "%%recompiles\njax.jit(lambda v: v * 2)(x)\njax.jit(lambda v: v * 2)(x)",
    "%%recompiles\nraises(x)",
    "%%recompiles --nothing\nx + 1",
    "%recompiles -h",
    "%jaxlens on",
    "step(params, batch(21))",
    "%explain",
    "%jaxlens off",
]


def cells(out, name):
    """The cells of one magic, or those that watch what compiles, in a real IPython shell."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.hist_file = ":memory:"
    shell = InteractiveShell.instance(config=config, colors="nocolor")
    shell.run_line_magic("load_ext", "jaxlens")
    asked = WATCHES if name == "watches" else [cell.format(m=name) for cell in CELLS]
    for number, code in enumerate([SETUP, *asked]):
        with capture_output() as captured:
            result = shell.run_cell(code, store_history=True)
        timed = any(word in code for word in ("compile", "recompile", "explain", "step"))
        error = result.error_in_exec or result.error_before_exec
        told = f">>> {code}\nout:\n{captured.stdout}\nerr:\n{captured.stderr}\nerror: {error!r}"
        for n, output in enumerate(captured.outputs):
            told += f"\ndisplay {n}: {sorted(output.data)}\n{output.data.get('text/plain', '')}"
            if "text/html" in output.data:
                out.html(f"cell{number:02}-{n}", output.data["text/html"], timed)
        out.write(f"cell{number:02}", "txt", told, timed)


def groups():
    """Every group by name: what writes it, and what that is called with."""
    found = {name: (program, name) for name in PROGRAMS}
    for path in sorted(RECORDS.glob("*.jaxlens")):
        name = path.name.removesuffix(".jaxlens")
        found[f"record.{name}"] = (record, name)
    for name in ("jaxpr", "hlo", "compile", "explore", "watches"):
        found[f"cells.{name}"] = (cells, name)
    return found


if __name__ == "__main__":
    folder, group = sys.argv[1:]
    start = time.perf_counter()
    write, name = groups()[group]
    with jitted_programs.surroundings(name):
        write(Out(Path(folder) / group), name)
    print(f"{time.perf_counter() - start:6.1f} s  {group}", flush=True)
