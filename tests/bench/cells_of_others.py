"""Runs notebooks that others wrote, plainly and with a magic above every cell, and compares.

    python -m tests.bench.cells_of_others --magics jaxpr,hlo,compile --seconds 60 a.ipynb b.ipynb

A magic must not change a cell: no new exception, the same printed output; and of the cells that
compute with JAX nine in ten are to show a program. Each notebook runs in a process of its own for
each magic, all cells in order. Cells that begin with a magic run as they are. A cell that calls the
shell, installs packages, starts a process or removes files is never run: notebooks of others begin
with `!pip install --upgrade`, which would change the machine. What cannot be downloaded here fails
in both, with the same exception.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

_ADDRESS = re.compile(r"0x[0-9a-fA-F]+|\d+(\.\d+)?(e-?\d+)?\s?(ns|µs|us|ms|s|it/s)\b")


def cells_of(path: Path) -> list[str]:
    """The code of a notebook, cell by cell; a .py or .md file is taken apart at its marks."""
    text = path.read_text()
    if path.suffix == ".ipynb":
        cells = [c for c in json.loads(text)["cells"] if c["cell_type"] == "code"]
        return ["".join(c["source"]) for c in cells]
    if path.suffix in (".md", ".rst"):
        return re.findall(r"```(?:\{code-cell\}[^\n]*|python|py)\n(.*?)```", text, re.S)
    return [part for part in re.split(r"^# ?%%.*$", text, flags=re.M) if part.strip()]


def same_text(text: str, failed: bool) -> str:
    """Printed text without what a cell more above it changes in a traceback: line numbers."""
    if not failed:
        return text
    lines = [line for line in text.splitlines() if "# %%" not in line]
    plain = [re.sub(r"^[-> ]*\d+ |, line \d+|:\d+", "", line) for line in lines]
    return "\n".join(line.rstrip() for line in plain)


def is_plain(code: str) -> bool:
    """Whether a magic can stand above a cell."""
    return bool(code.strip()) and not code.lstrip().startswith("%%") and not reaches_out(code)


_SHELLS = (
    "pip",
    "conda",
    "mamba",
    "micromamba",
    "uv",
    "sh",
    "bash",
    "script",
    "sx",
    "system",
    "cmd",
    "perl",
    "ruby",
    "pypy",
    "python",
    "python2",
    "python3",
    "js",
    "rehashx",
    "alias",
)
_REACHES_OUT = re.compile(
    rf"^\s*!|=\s*!|%%?(?:{'|'.join(_SHELLS)})\b|\b(?:subprocess|ensurepip|pip)\b"
    r"|\bos\.(?:system|popen|exec|spawn|remove|unlink|rmdir)|\bshutil\b|\.unlink\(",
    re.M,
)


def reaches_out(code: str) -> bool:
    """Whether a cell may change the machine: the shell, installers, processes, removed files."""
    return bool(_REACHES_OUT.search(code))


def without_shell(shell: Any) -> None:
    """Takes the ways out of a shell of IPython's, should a cell hide one from `reaches_out`.

    It is meant for a process of its own: the class of the shell is changed.
    """

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("a notebook of somebody else's calls no shell here")

    for name in ("system", "system_raw", "system_piped", "getoutput", "getoutput_or_system"):
        setattr(type(shell), name, refuse)
    for magics in shell.magics_manager.magics.values():
        for name in _SHELLS:
            magics.pop(name, None)


class _TimeoutError(BaseException):
    pass


def run(path: Path, magic: str, seconds: int) -> list[dict[str, Any]]:
    """Every cell of a notebook in a new shell: exception, printed text, programs shown."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.hist_file = ":memory:"
    shell = InteractiveShell.instance(config=config, colors="nocolor")
    for method in ("write_output_prompt", "write_format_data", "finish_displayhook"):
        setattr(type(shell.displayhook), method, lambda self, *_: None)  # results are not printed
    without_shell(shell)
    shell.run_line_magic("load_ext", "jaxlens")
    from jaxlens.listen.cell_calls import CellCalls
    from jaxlens.notebook.magics import magics

    shown: list[bool] = []
    bundle = magics.ProgramMagics._bundle

    def counting(self: Any, view: Any, full: bool) -> Any:
        shown.append(view.capture is not None)
        return bundle(self, view, full)

    magics.ProgramMagics._bundle = counting  # type: ignore[method-assign]

    def stop(*_: object) -> None:
        raise _TimeoutError

    signal.signal(signal.SIGALRM, stop)
    found: list[dict[str, Any]] = []
    for code in cells_of(path):
        if reaches_out(code):
            continue
        plain = is_plain(code)
        shown.clear()
        calls = None
        if not magic and plain and "jax" in sys.modules:
            calls = CellCalls().__enter__()
        signal.alarm(seconds)
        error = None
        try:
            with capture_output() as captured:
                above = f"%%{magic}\n" if magic and plain else ""
                result = shell.run_cell(above + code, store_history=True)
                error = result.error_in_exec or result.error_before_exec
        except _TimeoutError as late:
            error = late
        finally:
            signal.alarm(0)
            if calls is not None:
                calls.__exit__()
        found.append(
            {
                "code": code,
                "plain": plain,
                "error": type(error).__name__ if error else "",
                "said": str(error)[:300] if error else "",
                "out": _ADDRESS.sub("N", captured.stdout),
                "shown": any(shown),
                "answers": len(shown),
                "computes": bool(calls is not None and calls.programs),
                "results": [
                    _ADDRESS.sub("N", o.data.get("text/plain", "")) for o in captured.outputs
                ],
            }
        )
        if isinstance(error, _TimeoutError):
            break
    return found


def in_process(path: Path, magic: str, seconds: int) -> list[dict[str, Any]]:
    """`run` in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", magic or "-", "--seconds", str(seconds), str(path)],
        capture_output=True,
        text=True,
        cwd=path.parent,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "MPLBACKEND": "Agg"},
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("@@")]
    if not lines:
        print(f"{path.name} {magic}: {done.stderr[-500:]}")
    return json.loads(lines[-1][2:]) if lines else []


def compare(
    path: Path,
    magic: str,
    plain: list[dict[str, Any]],
    other: list[dict[str, Any]],
    total: Counter[str],
) -> None:
    """Adds a notebook's figures, and prints what differs."""
    for number, (was, now) in enumerate(zip(plain, other, strict=False), 1):
        if not was["plain"] or "_TimeoutError" in (was["error"], now["error"]):
            total["late"] += "_TimeoutError" == now["error"] != was["error"]
            continue
        total["cells"] += 1
        where = f"{path.name} cell {number} under {magic}"
        if now["error"] != was["error"]:
            total["other exception"] += 1
            print(
                f"{where}: {was['error'] or 'fine'} -> {now['error']}: {now['said']}",
                now["code"],
                sep="\n",
                end="\n\n",
            )
        elif same_text(now["out"], bool(now["error"])) != same_text(was["out"], bool(was["error"])):
            total["other output"] += 1
            print(
                f"{where} prints\n{now['out'][:800]!r}\nnot\n{was['out'][:800]!r}\n{now['code']}\n"
            )
        if was["computes"] and not was["error"]:
            total["compute"] += 1
            total["shown"] += now["shown"]
            if not now["shown"]:
                print(f"{where} shows no program: {now['results'][-1:]}\n{now['code']}\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--magics", default="jaxpr,hlo,compile")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--one", default="")
    given = parser.parse_args()
    if given.one:
        found = run(given.paths[0], given.one.strip("-"), given.seconds)
        print("\n@@" + json.dumps(found), flush=True)
        os._exit(0)
    totals = {magic: Counter[str]() for magic in given.magics.split(",")}
    for path in given.paths:
        plain = in_process(path.resolve(), "", given.seconds)
        for magic, total in totals.items():
            compare(path, magic, plain, in_process(path.resolve(), magic, given.seconds), total)
            print(f"== {path.name} {magic}: {dict(total)}", flush=True)


if __name__ == "__main__":
    main()
