"""Builds the site into a folder that git ignores: `python3 .dev site`.

    python -m notebooks.site.build [howto/PAGE gallery/PAGE ...]

The course is taken as it is saved. The pages of `howto/` and `gallery/` are run here, all of a
kernel's one after the other; with names only those are run again. Then Sphinx writes the pages,
its warnings being errors, and `check.py` follows every link.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from jaxlens.course.build import DRAWINGS
from notebooks.site import check, reference

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / ".venv" / "site"
SETUP = "%load_ext jaxlens\n\nimport jax\nimport jax.numpy as jnp\n\nimport jaxlens"
# Between two pages: nothing of the one is left for the other, and cells count from 1 again.
_AFRESH = """\
%reset -f
%unload_ext jaxlens
import gc, jax
jax.clear_caches()
gc.collect()
get_ipython().execution_count = 0
"""
_ASSETS = re.compile(r"<style data-jl=.*?</style>|<script>.*?</script>", re.DOTALL)
_LESSON = re.compile(r"""(href=[\\"']*)(\d\d_\w+|hlo_ops)\.ipynb""")
_PACKAGES = re.compile(r"\S*/site-packages/")


def executed(pages: dict[str, str], folder: Path) -> None:
    """Runs pages in one kernel and writes them as notebooks.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell failed.
    """
    books = {name: jupytext.reads(text, "md").cells for name, text in pages.items()}
    for name, cells in books.items():
        first = next(number for number, cell in enumerate(cells) if cell.cell_type == "code")
        tag = "remove-input" if name == "index" else "hide-input"
        cells.insert(first, new_code_cell(SETUP, metadata={"tags": [tag]}))
    cells: list[Any] = []
    for page in books.values():
        cells += [new_code_cell(_AFRESH), *page]
    NotebookClient(
        new_notebook(cells=cells),
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": ROOT / "notebooks" / "course"}},  # words link to lessons
    ).execute()
    for name, page in books.items():
        if name.startswith("gallery/"):
            page = folded(page)
        path = folder / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, page)


def folded(page: list[Any]) -> list[Any]:
    """Hides the cells without outputs, those in a row as one: the explorer below has their code."""
    kept: list[Any] = []
    for cell in page:
        hidden = cell.cell_type == "code" and not cell.outputs
        if hidden and kept and "hide-input" in kept[-1].metadata.get("tags", ()):
            kept[-1].source += f"\n\n\n{cell.source}"
            continue
        if hidden:
            cell.metadata["tags"] = ["hide-input"]
        kept.append(cell)
    return kept


def write(path: Path, cells: list[Any]) -> None:
    """Writes a notebook for Sphinx: assets once, and lessons by their pages."""
    known: set[str] = set()

    def once(found: re.Match[str]) -> str:
        return "" if found[0] in known else known.add(found[0]) or found[0]

    lessons = {"course": "", "source": "course/"}.get(path.parent.name, "../course/")
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
        for output in cell.get("outputs", []):
            if "text" in output:  # a warning names its file
                output["text"] = _PACKAGES.sub("", output["text"])
            data = output.get("data", {})
            if html := data.get("text/html"):
                data["text/html"] = _LESSON.sub(rf"\1{lessons}\2.html", _ASSETS.sub(once, html))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    language = {"name": "python", "pygments_lexer": "ipython3"}
    metadata = {"kernelspec": kernel, "language_info": language}
    nbformat.write(new_notebook(cells=cells, metadata=metadata), path)


def sources(folder: str) -> dict[str, str]:
    """The texts of a folder's pages by name: "howto/..."."""
    paths = sorted((HERE / folder).glob("*.md"))
    return {f"{folder}/{path.stem}": path.read_text("utf-8") for path in paths}


def course(folder: Path) -> None:
    """The saved lessons with their drawings, and the tour."""
    shutil.copytree(ROOT / "notebooks" / "course" / DRAWINGS, folder / DRAWINGS)
    saved = [ROOT / "notebooks" / "00_tour.ipynb", *(ROOT / "notebooks" / "course").glob("*.ipynb")]
    for path in saved:
        write(folder / path.name, nbformat.read(path, as_version=4).cells)


def main() -> None:
    chosen = sys.argv[1:]
    os.environ["JAX_PLATFORMS"] = "cpu"
    source = WORK / "source"
    if not chosen:
        shutil.rmtree(source, ignore_errors=True)
    (source / "course").mkdir(parents=True, exist_ok=True)
    course(source / "course")
    runnable = sources("howto") | sources("gallery")
    pages = reference.pages(runnable)
    for name, text in pages.items():
        path = source / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    runnable["index"] = reference.home(pages)
    run = {
        name: text for name, text in runnable.items() if not chosen or name in ("index", *chosen)
    }
    many = {name: text for name, text in run.items() if "jax_num_cpu_devices" in text}
    for kernel in ({name: run[name] for name in run if name not in many}, many):
        if kernel:
            executed(kernel, source)
    html = WORK / "html"
    shutil.rmtree(html, ignore_errors=True)
    sphinx = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    done = subprocess.run([*sphinx, "-c", HERE, "-d", WORK / "doctrees", source, html], check=False)
    if done.returncode:
        sys.exit(done.returncode)
    sys.exit(check.main(html))


if __name__ == "__main__":
    main()
