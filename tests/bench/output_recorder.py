"""Writes what one group of programs says: a process of `outputs.py`, not called by hand."""

# ruff: noqa: B023 - what is asked in a loop is asked at once

import contextlib
import hashlib
import json
import os
import re
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from output_forms import facts, fixed_times, html_forms, markup, masked, pretty, timeless

STAGES = ("jaxpr", "stablehlo", "hlo", "optimized", "llvm", "asm")
QUESTIONS = tuple("captured cost fusion ladder memory receipt sharding tape times".split())
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
    "compile-without": ("compile", {"without": "xla_cpu_enable_fast_math=true"}),
    "compile-checkpoint": ("compile", {"checkpoint": True}),
    "compile-scan": ("compile", {"scan": True}),
    "compile-run": ("compile", {"run": 2}),
    "compile-run-cost": ("compile", {"run": 2, "cost": True}),
    "compile-roofline-here": ("compile", {"roofline": "here"}),
}
# Views with figures of the clock: these are masked in them, unless the capture was loaded (whose
# seconds are set by `fixed_times`).
TIMED = tuple(
    "compile compile-full compile-why compile-captured compile-sharding compile-memory "
    "compile-cost compile-checkpoint compile-without hlo-without compile-against compare- "
    "ask-captured ask-without ask-compare ask-memory-checkpoint recompiles function- cell "
    "lenses".split()
)
# Views whose very rows and order are of the clock: only that they were said is held.
CLOCK = ("-times", "-scan", "-run", "roofline-here")


class Out:
    """A folder of outputs.

    Args:
        folder: Where to.
        paths: Folders with the names that stand for them.
    """

    def __init__(self, folder: Path, paths: dict[str, str]) -> None:
        self.folder, self.paths = folder, paths
        self.prefix = ""
        folder.mkdir(parents=True, exist_ok=True)

    def timed(self, name: str) -> bool:
        """Whether figures of the clock are masked."""
        fixed = "loaded-" in self.prefix or "record" in self.folder.name
        return not fixed and any(
            name == word or (word[-1] == "-" and name.startswith(word)) for word in TIMED
        )

    def clock(self, name: str) -> bool:
        """Whether a view is of the clock alone."""
        fixed = "loaded-" in self.prefix or "record" in self.folder.name
        return not fixed and any(word in name for word in CLOCK)

    def write(self, name: str, face: str, text: str, timed: bool = False) -> None:
        """One file."""
        file = re.sub(r"[^\w.@+-]+", "_", f"{self.prefix}{name}")[:120]
        if self.clock(name) and not text.startswith("! "):
            text = f"said, with {len(text.split()) > 20} words"
        text = masked(text, self.paths, timed, prose=face.endswith("txt"))
        (self.folder / f"{file}.{face}").write_text(text + "\n", errors="surrogatepass")

    def said(self, name: str, face: str, ask: Callable[[], str], timed: bool = False) -> bool:
        """One face, or the error in its place; says whether it was said."""
        try:
            text, fine = ask(), True
        except Exception as error:
            text, fine = error_text(error), False
        self.write(name, face, text, timed)
        return fine

    def html(self, name: str, html: str, timed: bool = False, assets: bool = False) -> None:
        """HTML and its data as two files."""

        def asset(kind: str, text: str) -> None:
            self.write(name, kind, text.replace(";", ";\n"))

        shown, data = html_forms(html, asset if assets else None)
        self.write(name, "html", shown, timed)
        if data:
            self.write(name, "html-data", data, timed)

    def view(
        self, name: str, ask: Callable[[], Any], faces: str = "tfhjsd", assets: bool = False
    ) -> Any:
        """All faces of a view: t(ext), f(ull text), h(tml), j(son), s(vg), d(ot), and its facts."""
        timed = self.timed(name)
        try:
            view = ask()
            text = str(view)
        except Exception as error:
            self.write(name, "txt", error_text(error), timed)
            return None
        self.write(name, "txt", text, timed and "roofline" in name)  # no times but those asked for
        if "f" in faces:
            self.said(name, "full.txt", lambda: view.text(full=True), timed)
        if "h" in faces:
            try:
                self.html(name, view.html(), timed, assets)
            except Exception as error:
                self.write(name, "html", error_text(error), timed)
        if "j" in faces:
            self.said(name, "json", lambda: pretty(_data(view, timed)), timed)
        drawn = "s" in faces and self.said(name, "svg", lambda: markup(view.svg()), timed)
        if drawn and "d" in faces:
            self.said(name, "dot", view.dot, timed)
        if "facts" in dir(type(view)):
            self.said(name, "facts", lambda: facts(view.facts, timed), timed)
            self.said(name, "report", lambda: facts(view.report, timed), timed)
        return view


def _data(view: Any, timed: bool) -> Any:
    return timeless(view.json()) if timed else view.json()


def error_text(error: BaseException) -> str:
    """An error as a user reads it."""
    notes = "\n".join(getattr(error, "__notes__", ()))
    return f"! {type(error).__name__}: {error}\n{notes}".rstrip()


def program(out: Out, name: str, options: list[str]) -> None:
    """One program under every verb and question."""
    import output_programs as programs

    import jaxlens

    f, args, kwargs = programs.PROGRAMS[name]()
    if callable(f) and not hasattr(f, "as_text"):
        out.view("key-before", lambda: jaxlens.key(f, *args, **kwargs))
    take = lambda: jaxlens.capture(f, *args, **kwargs)  # noqa: E731
    try:
        cap = take()
    except Exception as error:
        out.write("capture", "txt", error_text(error))
        return
    views(out, cap, large=name in ("many_equations", "gpt_layers"))
    out.view("compare-itself", lambda: jaxlens.compare(cap, take()))
    out.view("compare-traced", lambda: jaxlens.compare(cap, take(), compiled=False))
    saved(out, cap)
    out.prefix = ""
    if name in ("matmul", "mlp_step", "unrolled_loop"):
        tried(out, take)
    if name in ("matmul", "mlp_step", "scan_rnn", "unrolled_loop", "sharded_step"):
        other = programs.PROGRAMS["vmap_grad" if name == "matmul" else "matmul"]()
        before = jaxlens.capture(other[0], *other[1], **other[2])
        out.view("compare-other", lambda: jaxlens.compare(before, cap))
        out.view("jaxpr-against", lambda: jaxlens.jaxpr(cap, against=before))
        out.view("compile-against", lambda: jaxlens.compile(cap, against=before))
        asked_of_functions(out, f, args, kwargs)
    if name in ("matmul", "static_args", "pytrees", "donation", "scan_rnn"):
        with contextlib.suppress(Exception):
            watched(out, f, args, kwargs)


def views(out: Out, cap: Any, large: bool = False, faces: str = "tfhjsd") -> None:
    """All verbs with their options, all questions, links."""
    import jaxlens

    for verb, variants in VERBS.items():
        for name, options in variants.items():
            if large and ("full" in name or name in ("hlo-stage-llvm", "jaxpr-text")):
                chosen = "t"
            elif large:
                chosen = faces.replace("j", "")
            elif name.endswith("-full"):
                chosen = "th"
            else:
                chosen = faces
            out.view(name, lambda: getattr(jaxlens, verb)(cap, **options), chosen)
    with contextlib.suppress(Exception):
        names = [kernel.name for kernel in cap.kernels]
        for n, kernel in enumerate(names[:2]):
            out.view(f"compile-kernel{n}", lambda: jaxlens.compile(cap, kernel=kernel))
        out.view("compile-kernel-asm", lambda: jaxlens.compile(cap, kernel=names[0], asm=True))
    for question in QUESTIONS:
        if question == "receipt":
            out.said("receipt", "facts", lambda: facts(jaxlens.receipt(cap)))
        else:
            out.view(
                f"ask-{question}", lambda: getattr(jaxlens, question)(cap), "t" if large else "tj"
            )
    out.view("ask-cost-h100", lambda: jaxlens.cost(cap, roofline="h100"), "t")
    out.said("links-coverage", "txt", lambda: facts(cap.links.coverage()))
    out.said("links-fates", "txt", lambda: facts(dict(cap.links.fates())))
    properties(out, cap)


def properties(out: Out, cap: Any) -> None:
    """What a capture holds."""
    for stage in STAGES:
        out.said(f"stage-{stage}", "txt", lambda: cap.stage(stage).text)
    for name in ("program", "outputs", "constants", "memory", "cost", "deviations", "verdict"):
        out.said(f"capture-{name}", "txt", lambda: facts(getattr(cap, name)))
    out.said("capture-kernels", "txt", lambda: facts([(k.name, str(k)) for k in cap.kernels]))
    out.said("capture-passes", "txt", lambda: "\n".join(p.name for p in cap.passes))
    for name in ("buffers", "fusion_log"):
        out.said(f"capture-{name}", "txt", lambda: getattr(cap, name))


def saved(out: Out, cap: Any) -> None:
    """A capture in a file, and what it says when it was loaded."""
    import jaxlens

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "capture.jaxlens"
        if not out.said("saved", "txt", lambda: str(cap.save(path))):
            return
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        manifest = fixed_times(json.loads(parts["manifest.json"]))
        parts["manifest.json"] = json.dumps(manifest).encode()
        for name, data in parts.items():
            if name.endswith(".json"):
                out.write(f"saved-{name}", "txt", pretty(json.loads(data)))
            else:
                digest = hashlib.sha256(data).hexdigest()
                out.write(f"saved-{name}", "txt", f"{len(data)} bytes, sha256 {digest[:16]}")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in parts.items():
                archive.writestr(name, data)
        loaded = jaxlens.load(path)
        out.prefix = "loaded-"
        views(out, loaded, faces="th", large=True)


def tried(out: Out, take: Callable[[], Any]) -> None:
    """What compiles again or runs."""
    import jaxlens

    for name, (verb, options) in TRIED.items():
        out.view(name, lambda: getattr(jaxlens, verb)(take(), **options))
    out.view("ask-memory-checkpoint", lambda: jaxlens.memory(take(), checkpoint=True), "t")
    out.view("ask-without", lambda: jaxlens.compare(c := take(), jaxlens.without(c, "fusion")), "t")


def asked_of_functions(out: Out, f: Any, args: Any, kwargs: Any) -> None:
    """Verbs that take the function itself; full text of times."""
    import jaxlens

    for name in ("jaxpr", "hlo", "compile", "explore", *QUESTIONS):
        if name != "receipt":
            out.view(f"function-{name}", lambda: getattr(jaxlens, name)(f, *args, **kwargs), "t")
    receipt = jaxlens.receipt(f, *args, **kwargs)
    for name in ("stable", "fingerprint", "primitives"):
        out.said(f"receipt-{name}", "txt", lambda: facts(getattr(receipt, name)))
    out.said("receipt-wrong", "txt", lambda: str(receipt.expect(equations=1, fusions=99)))
    out.said("receipt-unknown", "txt", lambda: str(receipt.expect(equation=1)))


def watched(out: Out, f: Any, args: Any, kwargs: Any) -> None:
    """Logs of compiles."""
    import jax

    import jaxlens

    jitted = f if hasattr(f, "trace") else jax.jit(f)
    with jaxlens.recompiles() as log:
        for _ in range(2):
            jitted(*jax.tree.map(lambda x: x + 0 if hasattr(x, "dtype") else x, args), **kwargs)
        jitted(*_halved(args), **kwargs)
    out.view("recompiles", lambda: log)
    jitted(*_halved(args), **kwargs)
    out.view("key-after", lambda: jaxlens.key(jitted, *_halved(args), **kwargs))

    def limited() -> str:
        with jaxlens.assert_compiles(0):
            jax.jit(lambda x: x * 3)(2.0)
        return "nothing"

    out.said("assert-compiles", "txt", limited)


def _halved(args: Any) -> Any:
    """The arguments in half precision, in buffers of their own, as some calls donate them."""
    import jax

    return jax.tree.map(lambda x: (x + 0).astype("float16") if hasattr(x, "astype") else x, args)


def record(out: Out, name: str, options: list[str]) -> None:
    """One of the saved captures in `tests/records`."""
    import jaxlens

    views(out, jaxlens.load(Path(os.environ["OUTPUTS_RECORDS"]) / f"{name}.jaxlens"))


def assets(out: Out, name: str, options: list[str]) -> None:
    """CSS and scripts that outputs carry, by one view for each kit."""
    import output_programs as programs

    import jaxlens

    f, args, kwargs = programs.PROGRAMS["matmul"]()
    cap = jaxlens.capture(f, *args, **kwargs)
    for name, view in {
        "lens": lambda: jaxlens.cost(cap),
        "graph": lambda: jaxlens.jaxpr(cap, graph=True),
        "tape": lambda: jaxlens.tape(cap),
        "passes": lambda: jaxlens.hlo(cap, passes=True),
        "chart-times": lambda: jaxlens.times(cap),
        "jaxpr-many": lambda: jaxlens.jaxpr(
            jaxlens.capture(*_flat(programs.PROGRAMS["many_equations"]()))
        ),
    }.items():
        out.view(name, view, "h", assets=True)


def _flat(call: Any) -> tuple[Any, ...]:
    return call[0], *call[1]


def main() -> None:
    folder, kind, name, *options = sys.argv[1:]
    paths = json.loads(os.environ["OUTPUTS_PATHS"])
    out = Out(Path(folder) / (f"{kind}.{name}" if kind != "program" else name), paths)
    start = time.perf_counter()
    import output_shell

    kinds: dict[str, Callable[[Out, str, list[str]], None]] = {
        "program": program,
        "record": record,
        "assets": assets,
        **output_shell.KINDS,
    }
    try:
        kinds[kind](out, name, options)
    except Exception as error:
        out.write("GROUP_FAILED", "txt", error_text(error))
        traceback.print_exc()
    print(f"{time.perf_counter() - start:6.1f} s  {kind} {name}", flush=True)


if __name__ == "__main__":
    main()
