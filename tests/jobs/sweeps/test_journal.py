"""The file of a sweep: unfinished lines, two writers, and full disks."""

import io
import threading

import pytest

from jaxlens.errors import OptionError
from jaxlens.jobs.sweeps import journal
from jaxlens.jobs.sweeps.journal import Journal

FIGURES = {"peak": 8, "flops": 1}


def test_an_unfinished_line_is_skipped_and_ended(tmp_path):
    path = tmp_path / "points"
    Journal(path).keep("a", {"x": "1"}, FIGURES)
    whole = path.read_bytes()
    for cut in range(1, len(whole)):  # killed after any byte
        path.write_bytes(whole + whole[:cut])
        found = Journal(path)
        assert found.figures("a", ["peak"]) == {"peak": 8}
        found.keep("b", {"x": "2"}, FIGURES)
        again = Journal(path)
        assert again.figures("a", ["peak"])
        assert again.figures("b", ["peak", "flops"])
        path.write_bytes(whole[:cut])
        Journal(path).keep("b", {"x": "2"}, FIGURES)
        assert Journal(path).figures("b", ["peak"])


def test_a_point_lacks_what_was_not_measured(tmp_path):
    path = tmp_path / "points"
    found = Journal(path)
    found.keep("a", {}, FIGURES)
    found = Journal(path)
    assert found.figures("a", ["compile"]) is None
    found.keep("a", {}, {"compile": 0.5})
    assert Journal(path).figures("a", ["compile", "peak"]) == {"peak": 8, "compile": 0.5}


def test_two_writers_keep_every_line(tmp_path):
    path = tmp_path / "points"
    writers = [Journal(path), Journal(path)]

    def write(which):
        for n in range(300):
            writers[which].keep(f"{which}-{n}", {"x": "y" * n}, FIGURES)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Journal(path)
    assert all(found.figures(f"{which}-{n}", ["peak"]) for which in range(2) for n in range(300))


def test_a_disk_that_is_full_in_the_middle_of_a_line(tmp_path, monkeypatch):
    path = tmp_path / "points"
    found = Journal(path)
    found.keep("a", {}, FIGURES)

    class Full(io.FileIO):
        def write(self, data):
            return super().write(data[:20])

    monkeypatch.setattr(journal, "open", lambda path, *_, **__: Full(path, "a"), raising=False)
    found.keep("b", {}, FIGURES)
    assert found.trouble == "the disk is full"
    monkeypatch.undo()
    found.keep("c", {}, FIGURES)
    known = Journal(path)
    assert [bool(known.figures(key, ["peak"])) for key in "abc"] == [True, False, True]


def test_a_file_that_cannot_be_read_is_one_line(tmp_path):
    with pytest.raises(OptionError, match="cannot be read"):
        Journal(tmp_path)  # a folder
