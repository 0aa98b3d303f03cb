"""The solved course: every lesson runs, every puzzle is solved, and a small machine suffices."""

import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from jaxlens.course.build import build, sources
from jaxlens.ir.lessons import LESSONS

WRITTEN = [lesson for lesson in LESSONS if (sources() / f"{lesson.file}.md").exists()]
SECONDS = 60  # of one CPU
MEMORY = 1.5e9  # bytes

# Run on the newest jax alone; blank lessons and all answers run on both ends.
pytestmark = [pytest.mark.backend, pytest.mark.notebook, pytest.mark.reads_jax]


def used(pid):
    """CPU seconds and peak resident bytes of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return (int(fields[11]) + int(fields[12])) / ticks, int(peak[1]) * 1000


def shown(cell):
    return "".join(
        output.get("text", "") + output.get("data", {}).get("text/plain", "")
        for output in cell.outputs
    )


@pytest.mark.parametrize("lesson", WRITTEN, ids=lambda lesson: lesson.file)
def test_a_solved_lesson(lesson, tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    (path,) = build(tmp_path, solved=True, lessons=(lesson.number,))
    book = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(tmp_path)}}
    client = NotebookClient(book, timeout=300, kernel_name="python3", resources=where)
    with client.setup_kernel():
        for index, cell in enumerate(book.cells):
            client.execute_cell(cell, index)
        seconds, memory = used(client.km.provisioner.pid)
    for cell in book.cells:
        magic, _, rest = cell.source.partition(" ")
        if magic == "%%puzzle":
            assert f"Puzzle {rest.split()[0]} is solved." in shown(cell)
        if magic == "%%predict":
            assert shown(cell).startswith("Right:"), shown(cell)
    assert seconds < SECONDS
    assert memory < MEMORY
