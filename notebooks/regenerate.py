"""Builds and runs every lesson and writes its outputs, so that all of them are made the same way.

    python notebooks/regenerate.py [7 00_tour.ipynb course/index.ipynb ...]

A number stands for a lesson. All are built from their text first: in `source/`, for the map in
`jaxlens/course/build.py`.

Nothing of this machine or moment is kept: no times, no widget state, no versions.
"""

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbconvert.preprocessors import CoalesceStreamsPreprocessor

from jaxlens.course.build import build, hlo_ops_page, index, tour, write
from jaxlens.ir.lessons import BY_NUMBER, LESSONS

HERE = Path(__file__).resolve().parent


def run(path: Path) -> None:
    """Executes one lesson in place.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell failed.
    """
    book = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:  # a lesson writes its progress beside it
        for lesson in LESSONS if path.parent.name == "course" else ():
            # Outputs link to lessons that lie beside the notebook.
            (Path(folder) / f"{lesson.file}.ipynb").touch()
        where = {"metadata": {"path": folder}}
        NotebookClient(book, timeout=300, kernel_name="python3", resources=where).execute()
    book, _ = CoalesceStreamsPreprocessor().preprocess(book, {})  # a busy machine prints in pieces
    book.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    for number, cell in enumerate(book.cells):
        cell.id = f"{path.stem[:2]}-{number:02}"
        tags = cell.metadata.get("tags")
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
    nbformat.validate(book)
    nbformat.write(book, path)
    print(path.name)


def main() -> None:
    os.environ["JAX_PLATFORMS"] = "cpu"
    names = sys.argv[1:]
    numbers = tuple(int(name) for name in names if name.isdigit())
    chosen = []
    pages = {
        "00_tour.ipynb": tour,
        "course/index.ipynb": index,
        "course/hlo_ops.ipynb": hlo_ops_page,
    }
    for name, book in pages.items():
        if name in names or not names:
            chosen += write((HERE / name).parent, {Path(name).name: book}, keep=False)
    if numbers or not names:
        chosen += build(HERE / "course", lessons=numbers or tuple(BY_NUMBER))
    with tempfile.TemporaryDirectory() as private:
        os.environ["IPYTHONDIR"] = private
        os.chdir(HERE)
        for path in chosen:
            run(path)


if __name__ == "__main__":
    main()
