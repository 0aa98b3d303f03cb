"""Builds what is released, from nothing, and tries it as a user would.

`dist/` then holds the wheel, the source archive and the section of the changelog as notes.
"""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import links

# What a user needs: code, what outputs are made of, words of the glossary, lessons, and what
# describes the package.
NEEDED = (
    r"jaxlens/.*\.(py|js|css|tsv)|jaxlens/py\.typed|jaxlens/lessons/source/\w+\.md"
    r"|jaxlens/course/puzzles/references\.json|jaxlens/shell/answer\.schema\.json"
    r"|jaxlens-[\w.]+\.dist-info/.*"
)
MOST = 1_950_000  # bytes of the wheel, whose many small files take 0.2 kB each for their names
TRIAL = """
import pathlib, sys
import jax, jax.numpy as jnp, jaxlens
assert sys.prefix in jaxlens.__file__, jaxlens.__file__
def f(x):
    return jnp.tanh(x @ x).sum()
view = jaxlens.explore(jax.grad(f), jnp.ones((4, 4)))
page = view.save("page.html").read_text()
assert "dot_general" in view.text() and len(page) > 50_000
print(f"jaxlens {jaxlens.__version__} answers from its wheel")
"""


def notes(changelog: str, version: str) -> str:
    """The section of a version in the changelog, without its heading.

    Raises:
        SystemExit: There is none, or it is empty.
    """
    found = re.search(
        rf"^## {re.escape(version)}(?: [^\n]*)?\n(.*?)(?=^## |\Z)", changelog, re.M | re.S
    )
    if not found or not found[1].strip():
        sys.exit(f"CHANGELOG.md has no section {version}: write one")
    return found[1].strip() + "\n"


def needless(names: list[str]) -> list[str]:
    """The files of a wheel that no user needs."""
    return [name for name in names if not re.fullmatch(NEEDED, name)]


def check_wheel(path: Path) -> None:
    """Ends the program with a sentence where the wheel is too large or holds too much."""
    if (size := path.stat().st_size) > MOST:
        sys.exit(f"{path.name} has {size:,} bytes; at most {MOST:,}")
    if left := needless(zipfile.ZipFile(path).namelist()):
        sys.exit(f"{path.name} holds what no user needs: {', '.join(left)}")


def check_tag(tag: str, version: str, root: Path) -> None:
    """Ends the program where a tag is not to be released."""
    if tag != f"v{version}":
        sys.exit(f"the tag is {tag}, the version {version}: jaxlens/__init__.py has the version")
    if re.search(
        rf"^## {re.escape(version)}.*unreleased", (root / "CHANGELOG.md").read_text(), re.M
    ):
        sys.exit(f"CHANGELOG.md calls {version} unreleased: write the date there")
    if links.is_placeholder(links.repository(root)):
        sys.exit("pyproject.toml has no address yet: fill in project.urls, then python3 .dev links")


def release(root: Path, uv: Path, programs: Path, tag: str) -> None:
    """Builds, checks, installs and tries.

    Args:
        root: The checkout.
        uv: The installer.
        programs: The folder of programs of an environment that has twine.
        tag: The tag to release, which must fit; "" for none.
    """
    version = re.search(r'__version__ = "(.+)"', (root / "jaxlens/__init__.py").read_text())[1]
    if tag:
        check_tag(tag, version, root)
    dist = root / "dist"
    for old in dist.glob("jaxlens-*"):
        old.unlink()
    run(uv, "build", "--quiet", "--out-dir", dist, root)  # the wheel from the source archive
    [wheel], [source] = dist.glob("*.whl"), dist.glob("*.tar.gz")
    check_wheel(wheel)
    run(programs / "twine", "--no-color", "check", "--strict", wheel, source)
    (dist / f"jaxlens-{version}.md").write_text(notes((root / "CHANGELOG.md").read_text(), version))

    env = root / ".venv" / "release"
    run(uv, "venv", "--quiet", "--clear", "--python", sys.executable, env)
    pinned = ["--constraints", root / "binder" / "constraints.txt"]
    run(uv, "pip", "install", "--quiet", "--python", env, *pinned, wheel)
    python = env / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(python, "-I", "-c", TRIAL, at=env)
    run(python, "-I", "-m", "jaxlens", "doctor", at=env)


def run(*command: str | Path, at: Path | None = None) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(part) for part in command], cwd=at, check=False, env=env)
    if done.returncode:
        sys.exit(done.returncode)
