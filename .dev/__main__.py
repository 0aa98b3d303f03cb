"""Sets up an environment of its own and runs one thing in it: the tour, the tests, the checks.

    python3 .dev tour               open the tour in JupyterLab
    python3 .dev tour --headless    run the tour and write it as a page, no browser needed
    python3 .dev try                open a scratch notebook; it follows what you change in jaxlens/
    python3 .dev try --headless     run the scratch notebook and write it as a page
    python3 .dev test --quick       pass the tests of what you changed, in a minute or two
    python3 .dev test [ARGS]        pass the tests; ARGS go to pytest
    python3 .dev lint               ruff and mypy
    python3 .dev lessons            run every lesson again and write its outputs
    python3 .dev site [PAGE ...]    build the site, and check its links and how it reads
    python3 .dev release [TAG]      build wheel and source archive, check, install and try them
    python3 .dev index              write README's table and the package's names from the rows
    python3 .dev links              write the README's links from the address in pyproject.toml
    python3 .dev film               film the README's moving picture in JupyterLab
    python3 .dev pin                resolve the constraints file anew

Needs Python 3.11 or later and pip, and nothing else; only the standard library is used
here. What is installed is pinned by binder/constraints.txt, and lies in .venv/, one folder
for each Python version; `--newest` installs the newest releases instead, in a folder of
their own, and there `test` passes what depends on them. A second call installs nothing that
is there already.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import links
import quick
import release
import share

ROOT = Path(__file__).resolve().parent.parent
ENVS = ROOT / ".venv"
CONSTRAINTS = ROOT / "binder" / "constraints.txt"
GROUPS = {
    "tour": [],
    "try": [],
    "lessons": ["test"],
    "index": ["test"],
    "test": ["test", "models", "browser"],
    "lint": ["test", "models", "browser", "lint"],
    "site": ["test", "models", "browser", "site"],  # a page of it runs a test
    "release": ["release"],
    "film": ["browser", "film"],
}
BIN = "Scripts" if os.name == "nt" else "bin"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(*command: str | Path, **variables: str) -> None:
    """Runs a command in the checkout; its failure is ours."""
    env = {**os.environ, **variables}
    done = subprocess.run([str(part) for part in command], cwd=ROOT, check=False, env=env)
    if done.returncode:
        sys.exit(done.returncode)


def uv() -> Path:
    """Installs uv beside the environments: it needs no `ensurepip`, which Debian leaves out."""
    tool = ENVS / "uv" / BIN / "uv"
    if not tool.exists() and not tool.with_suffix(".exe").exists():
        say("jaxlens: fetching uv, the installer")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        run(*pip, "--target", ENVS / "uv", "--requirement", ROOT / "binder" / "requirements.txt")
    return tool


def environment(task: str, newest: bool) -> Path:
    """Makes or completes the environment for a task and returns its folder of programs."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    env = ENVS / (f"{version}-newest" if newest else version)
    if not env.exists():
        run(uv(), "venv", "--quiet", "--python", sys.executable, env)
    say(f"jaxlens: installing into {env.relative_to(ROOT)}")
    groups = [word for group in GROUPS[task] for word in ("--group", group)]
    pins = ["--upgrade"] if newest else ["--constraints", CONSTRAINTS]
    pip = [uv(), "pip", "install", "--quiet", "--python", env]
    run(*pip, *pins, "--editable", ".[lab]", *groups)
    return env / BIN


def notebook(programs: Path, path: Path, headless: bool, **variables: str) -> None:
    """Opens a notebook in JupyterLab, or runs it and writes the page."""
    if not headless:
        # In a container everybody is root, whom Jupyter turns away unless told.
        root = ["--allow-root"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
        run(programs / "jupyter", "lab", *root, path, **variables)
        return
    page = ENVS / f"{path.stem}.html"
    convert = [programs / "jupyter", "nbconvert", "--log-level=WARN", "--execute"]
    run(*convert, "--to=html", f"--output={page}", path, **variables)
    say(f"jaxlens: ran {path.name}; read {page.relative_to(ROOT)} in a browser")


def tour(programs: Path, headless: bool) -> None:
    notebook(programs, ROOT / "notebooks" / "00_tour.ipynb", headless)


SCRATCH = [
    "# Edit a file in jaxlens/, save it, and run a cell again: it runs with the new code.\n"
    "%load_ext jaxlens_reload",
    "import jax\nimport jax.numpy as jnp\n\n\n"
    "def f(x, w):\n    return jnp.tanh(x @ w).sum()\n\n\n"
    "x, w = jnp.ones((8, 128)), jnp.ones((128, 4))",
    "%%jaxpr\nf(x, w)",
    "%%compile\njax.grad(f)(x, w)",
]


def scratch() -> Path:
    """The notebook of `try`: the developer's own once it is there, and ignored by git."""
    path = ENVS / "try" / "scratch.ipynb"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        empty: dict[str, object] = {"metadata": {}, "execution_count": None, "outputs": []}
        cells = [
            {"cell_type": "code", "id": f"cell{number}", "source": source, **empty}
            for number, source in enumerate(SCRATCH)
        ]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        book = {"cells": cells, "metadata": {"kernelspec": kernel}}
        path.write_text(json.dumps({**book, "nbformat": 4, "nbformat_minor": 5}, indent=1))
    return path


def try_changes(programs: Path, headless: bool) -> None:
    """Opens the scratch notebook; its kernel finds `jaxlens_reload` beside this file."""
    paths = [str(Path(__file__).resolve().parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    notebook(programs, scratch(), headless, PYTHONPATH=os.pathsep.join(paths))


def tests(programs: Path, extra: list[str], newest: bool) -> None:
    """The tests and the lessons under strict nbval; or what the arguments choose.

    On the newest releases without arguments: what depends on them, and the solved lessons, which
    are run there alone.
    """
    if extra:
        run(programs / "python", "-m", "pytest", *extra)
        return
    # The lessons first: what takes long begins early, so that no process waits for another's end.
    chosen = ["--nbval", "--nbval-sanitize-with=notebooks/sanitize.cfg", "notebooks", "tests"]
    kind = ["-m", "reads_jax"] if newest else ["--ignore=tests/course/test_solved.py"]
    sys.exit(share.run(ROOT, programs / "python", [*kind, *chosen]))


def pin() -> None:
    """Resolves names, versions and hashes for every Python from 3.11 on, without addresses."""
    groups = [
        word
        for group in [*GROUPS["lint"], "site", "release", "film"]
        for word in ("--group", group)
    ]
    quiet = ["--quiet", "--no-header", "--no-annotate", "--no-emit-index-url"]
    every = ["--universal", "--python-version=3.11", "--generate-hashes", "--upgrade"]
    compiled = [*every, *quiet, "--extra=lab", *groups, "pyproject.toml"]
    run(uv(), "pip", "compile", *compiled, "--output-file", CONSTRAINTS)


def main() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - whoever runs this has not installed anything yet
        sys.exit(f"jaxlens needs Python 3.11 or later; this is {sys.version.split()[0]}")
    parser = argparse.ArgumentParser(
        prog="python3 .dev", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("task", choices=[*GROUPS, "links", "pin"])
    parser.add_argument("--headless", action="store_true", help="tour, try: run without a browser")
    parser.add_argument("--newest", action="store_true", help="install the newest releases")
    parser.add_argument("--quick", action="store_true", help="test: what you changed, alone")
    options, extra = parser.parse_known_args()
    # Some containers forbid bytecode, and then each process compiles JAX and all the rest anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if extra and options.task not in ("test", "site", "release"):
        parser.error(f"{options.task} takes no {extra[0]}")
    if options.task in ("links", "pin"):
        links.write(ROOT) if options.task == "links" else pin()
        return
    programs = environment(options.task, options.newest)
    if options.task == "tour":
        tour(programs, options.headless)
    elif options.task == "try":
        try_changes(programs, options.headless)
    elif options.task == "test" and options.quick:
        sys.exit(quick.run(ROOT, programs / "python"))
    elif options.task == "test":
        tests(programs, extra, options.newest)
    elif options.task == "lessons":
        run(programs / "python", "notebooks/regenerate.py")
    elif options.task == "index":
        run(programs / "python", ".dev/index.py")
    elif options.task == "release":
        release.release(ROOT, uv(), programs, *extra[:1] or [""])
    elif options.task == "film":
        run(programs / "python", ".dev/film.py")
    elif options.task == "site":
        run(programs / "python", "-m", "notebooks.site.build", *extra)
    else:
        run(programs / "ruff", "check", ".")
        run(programs / "ruff", "format", "--check", ".")
        run(programs / "mypy")


if __name__ == "__main__":
    main()
