"""Writes what one group of programs says: a process of `outputs.py`, not called by hand."""

# ruff: noqa: B023 - what is asked in a loop is asked at once

import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from output_forms import html_forms, markup, masked, pretty, timeless

STAGES = ("jaxpr", "stablehlo", "hlo", "optimized", "llvm", "asm")
QUESTIONS = (
    "captured",
    "cost",
    "fusion",
    "ladder",
    "memory",
    "receipt",
    "sharding",
    "tape",
    "times",
)
JAXPR: dict[str, dict[str, Any]] = {
    "jaxpr": {},
    "jaxpr-text": {"text": True},
    "jaxpr-graph": {"graph": True},
    "jaxpr-depth": {"depth": 3},
    "jaxpr-full": {"full": True},
    "jaxpr-captured": {"captured": True},
    "jaxpr-tape": {"tape": True},
    "jaxpr-ladder": {"ladder": True},
}
HLO: dict[str, dict[str, Any]] = {
    "hlo": {},
    "hlo-full": {"full": True},
    "hlo-fusion": {"fusion": True},
    **{f"hlo-stage-{name}": {"stage": name} for name in STAGES},
    "hlo-diff": {"diff": ("hlo", "optimized")},
    "hlo-passes": {"passes": True},
    "hlo-pass-fusion": {"pass_name": "fusion"},
    "hlo-pass-algsimp": {"pass_name": "algsimp"},
}
COMPILE: dict[str, dict[str, Any]] = {
    "compile": {},
    "compile-full": {"full": True},
    "compile-why": {"why": True},
    "compile-cost": {"cost": True},
    "compile-roofline": {"roofline": "h100"},
    "compile-memory": {"memory": True},
    "compile-asm": {"asm": True},
    "compile-sharding": {"sharding": True},
    "compile-captured": {"captured": True},
    "compile-times": {"times": True},
}
EXPLORE: dict[str, dict[str, Any]] = {"explore": {}, "explore-full": {"full": True}}
VERBS = {"jaxpr": JAXPR, "hlo": HLO, "compile": COMPILE, "explore": EXPLORE}
TRIED: dict[str, tuple[str, dict[str, Any]]] = {  # compile more, or run
    "hlo-without": ("hlo", {"without": "fusion"}),
    "compile-checkpoint": ("compile", {"checkpoint": True}),
    "compile-scan": ("compile", {"scan": True}),
    "compile-run": ("compile", {"run": 2}),
}
# Views whose very rows and order are of the clock: only that they were said is held.
CLOCK = ("-times", "-scan", "-run")


class Out:
    """A folder of outputs.

    Args:
        folder: Where to.
        paths: Folders with the names that stand for them.
    """

    def __init__(self, folder, paths):
        self.folder, self.paths = folder, paths
        folder.mkdir(parents=True, exist_ok=True)

    def timed(self, name):
        """Whether figures of the clock are masked: not those of saved captures."""
        plain = name.startswith(("jaxpr", "hlo")) and "without" not in name
        return not plain and "record" not in self.folder.name

    def write(self, name, face, text, timed=False):
        """One file."""
        file = re.sub(r"[^\w.@+-]+", "_", name)[:120]
        clock = self.timed(name) and any(word in name for word in CLOCK)
        if clock and not text.startswith("! "):
            text = f"said, with {len(text.split()) > 20} words"
        text = masked(text, self.paths, timed, prose=face.endswith("txt"))
        (self.folder / f"{file}.{face}").write_text(text + "\n", errors="surrogatepass")

    def said(self, name, face, ask, timed=False):
        """One face, or the error in its place."""
        try:
            text = ask()
        except Exception as error:
            text = error_text(error)
        self.write(name, face, text, timed)

    def html(self, name, html, timed=False):
        """HTML and its data as two files."""
        shown, data = html_forms(html)
        self.write(name, "html", shown, timed)
        if data:
            self.write(name, "html-data", data, timed)

    def view(self, name, ask, faces="tfhjs"):
        """All faces of a view: t(ext), f(ull text), h(tml), j(son) and s(vg)."""
        timed = self.timed(name)
        try:
            view = ask()
            self.write(name, "txt", str(view), timed)
            if "f" in faces:
                self.write(name, "full.txt", view.text(full=True), timed)
            if "h" in faces:
                self.html(name, view.html(), timed)
            if "j" in faces:
                data = timeless(view.json()) if timed else view.json()
                self.write(name, "json", pretty(data), timed)
        except Exception as error:
            self.write(name, "txt", error_text(error), timed)
            return
        if "s" in faces:
            self.said(name, "svg", lambda: markup(view.svg()), timed)


def error_text(error):
    """An error as a user reads it."""
    notes = "\n".join(getattr(error, "__notes__", ()))
    return f"! {type(error).__name__}: {error}\n{notes}".rstrip()


def program(out, name):
    """One program under every verb and question."""
    from output_programs import PROGRAMS

    import jaxlens

    f, args, kwargs = PROGRAMS[name]()
    if callable(f) and not hasattr(f, "as_text"):
        out.view("key-before", lambda: jaxlens.key(f, *args, **kwargs))
    take = lambda: jaxlens.capture(f, *args, **kwargs)  # noqa: E731
    cap = take()
    views(out, cap, large=name in ("many_equations", "gpt_step"))
    out.view("compare-itself", lambda: jaxlens.compare(cap, take()))
    if name in ("matmul", "mlp_step"):
        for option, (verb, options) in TRIED.items():
            out.view(option, lambda: getattr(jaxlens, verb)(take(), **options))
    if name in ("matmul", "mlp_step", "scan_rnn", "sharded_step"):
        other = PROGRAMS["vmap_grad" if name == "matmul" else "matmul"]()
        before = jaxlens.capture(other[0], *other[1], **other[2])
        out.view("compare-other", lambda: jaxlens.compare(before, cap))
        out.view("jaxpr-against", lambda: jaxlens.jaxpr(cap, against=before))
        receipt = jaxlens.receipt(f, *args, **kwargs)
        out.said("receipt-wrong", "txt", lambda: str(receipt.expect(equations=1, fusions=99)))
    if name in ("matmul", "static_args", "pytrees", "scan_rnn"):
        watched(out, f, args, kwargs)


def views(out, cap, large=False):
    """All verbs with their options, all questions, links."""
    import jaxlens

    for verb, variants in VERBS.items():
        for name, options in variants.items():
            faces = "th" if large or name.endswith("-full") else "tfhjs"
            out.view(name, lambda: getattr(jaxlens, verb)(cap, **options), faces)
    with contextlib.suppress(Exception):
        kernel = cap.kernels[0].name
        out.view("compile-kernel", lambda: jaxlens.compile(cap, kernel=kernel))
    for question in QUESTIONS:
        out.view(f"ask-{question}", lambda: getattr(jaxlens, question)(cap), "t" if large else "tj")
    out.said("links-coverage", "txt", lambda: str(cap.links.coverage()))
    out.said("links-fates", "txt", lambda: "\n".join(map(str, cap.links.fates().items())))


def watched(out, f, args, kwargs):
    """A log of compiles, of one call twice and of another."""
    import jax

    import jaxlens

    jitted = f if hasattr(f, "trace") else jax.jit(f)
    half = jax.tree.map(lambda x: (x + 0).astype("float16") if hasattr(x, "astype") else x, args)
    with jaxlens.recompiles() as log:
        for given in (args, args, half):
            jitted(*given, **kwargs)
    out.view("recompiles", lambda: log)
    out.view("key-after", lambda: jaxlens.key(jitted, *half, **kwargs))


def record(out, name):
    """One of the saved captures in `tests/records`."""
    import jaxlens

    views(out, jaxlens.load(Path(os.environ["OUTPUTS_RECORDS"]) / f"{name}.jaxlens"))


def main():
    import output_shell

    folder, kind, name = sys.argv[1:]
    paths = json.loads(os.environ["OUTPUTS_PATHS"])
    out = Out(Path(folder) / (f"{kind}.{name}" if kind != "program" else name), paths)
    start = time.perf_counter()
    kinds: dict[str, Callable[[Out, str], None]] = {
        "program": program,
        "record": record,
        **output_shell.KINDS,
    }
    kinds[kind](out, name)
    print(f"{time.perf_counter() - start:6.1f} s  {kind} {name}", flush=True)


if __name__ == "__main__":
    main()
