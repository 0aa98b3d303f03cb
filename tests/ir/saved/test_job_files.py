"""The files of a record are read up to where they are whole, whatever ended who wrote them."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from jaxlens.errors import CaptureFileError
from jaxlens.ir.saved.job_files import ProcessFolder, read_job, read_program
from tests.jobs.record.job_records import compiled, process
from tests.support.paths import environment

KILLS = 100
# Writes compiles and programs until it is killed; says which are finished.
WRITER = """
import os, select, sys
from dataclasses import replace
from pathlib import Path
from jaxlens.ir.saved.job_files import ProcessFolder
from tests.jobs.record.job_records import compiled, process

def write(root, said):
    folder = ProcessFolder(Path(root), 0, "host", os.getpid())
    folder.write_process(process(0).process)
    for number in range(1, 10_000):
        place = folder.write_program({"manifest.json": b"[" + b"1," * 5000 + b"1]"})
        one = replace(compiled(number), program=f"{number:024}", place=place)
        folder.write_compile(one)
        os.write(said, f"{number}\\n".encode())

for line in sys.stdin:
    root = line.strip()
    ready, said = os.pipe()
    child = os.fork()
    if not child:
        write(root, said)
    os.close(said)
    if os.path.basename(root) > "2":  # the others are killed before anything is written, or after
        select.select([ready], [], [])
    print(child, flush=True)
    text = b""
    while part := os.read(ready, 65536):
        text += part
    os.close(ready)
    os.waitpid(child, 0)
    print(text.count(b"\\n"), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked to start fast")
def test_a_hundred_kills_lose_no_finished_record_and_leave_no_half_file(tmp_path):
    chance = random.Random(1)
    with subprocess.Popen(
        [sys.executable, "-c", WRITER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as writers:
        some = 0
        for number in range(KILLS):
            root = tmp_path / str(number)
            print(root, file=writers.stdin, flush=True)
            child = int(writers.stdout.readline())
            time.sleep(chance.uniform(0.0, 0.03))
            os.kill(child, signal.SIGKILL)
            finished = int(writers.stdout.readline())
            if not finished:
                continue
            some += 1
            job = read_job(root)
            (own,) = job.processes
            assert own.damaged == ()
            assert [c.number for c in own.compiles][:finished] == list(range(1, finished + 1))
            assert len(own.compiles) - finished in (0, 1)
            for name in list(job.programs)[:50]:
                with read_program(job, name).json("manifest.json") as data:
                    assert len(data) == 5001
        assert some > KILLS // 2
        writers.stdin.close()


def test_a_record_is_read_as_it_was_written(tmp_path):
    folder = ProcessFolder(tmp_path, 3, "a host/x", 42)
    written = process(3, compiled(1), compiled(2, "other", x="f32[2]"))
    folder.write_process(written.process)
    for one in written.compiles:
        folder.write_compile(one)
    (read,) = read_job(tmp_path).processes
    assert read.process == written.process
    assert read.compiles == written.compiles
    assert read.folder == "process-3-a_host_x-42"


def test_two_processes_of_one_name_write_into_two_folders(tmp_path):
    folders = [ProcessFolder(tmp_path, 0, "host", 1) for _ in range(3)]
    for number, folder in enumerate(folders):
        folder.write_process(process(0, started=float(number)).process)
        folder.write_compile(compiled(1, function=f"f{number}"))
    read = read_job(tmp_path).processes
    assert [p.compiles[0].call.function for p in read] == ["f0", "f1", "f2"]


def test_writers_of_one_program_leave_it_whole(tmp_path):
    code = (
        "import sys; from pathlib import Path; from jaxlens.ir.saved.job_files import *;"
        "from tests.jobs.record.job_records import compiled; from dataclasses import replace;"
        "f = ProcessFolder(Path(sys.argv[1]), 0, 'h', 1);"
        "parts = {'manifest.json': b'x' * 100_000};"
        "[f.write_compile(replace(compiled(n), program='same', place=f.write_program(parts)))"
        " for n in range(100)]"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    writers = [subprocess.Popen(command, env=environment()) for _ in range(2)]
    going, read = True, 0
    while going:
        going = any(writer.poll() is None for writer in writers)
        if not any(tmp_path.glob("process-*/compiles.jsonl")):
            continue
        job = read_job(tmp_path)
        for name in job.programs:
            with read_program(job, name).part("manifest.json") as data:
                assert data == b"x" * 100_000
            read += 1
    assert [writer.returncode for writer in writers] == [0, 0]
    assert read > 0
    assert [len(process.compiles) for process in job.processes] == [100, 100]


def test_sources_are_written_once_and_large_programs_are_compressed(tmp_path):
    folder = ProcessFolder(tmp_path, 0, "host", 1)
    source = {"file": "a.py", "text": folder.write_source("x = 'é'\n"), "library": False}
    parts = {"sources.json": json.dumps({"a.py": source}).encode(), "hlo.bin": b"add " * 100_000}
    for number in (1, 2):
        place = folder.write_program(parts)
        folder.write_compile(replace(compiled(number), program=str(number), place=place))
    assert (folder.path / "programs.bin").stat().st_size < 10_000
    job = read_job(tmp_path)
    for name in "12":
        with read_program(job, name).json("sources.json") as sources:
            assert sources["a.py"]["text"] == "x = 'é'\n"
    with pytest.raises(CaptureFileError, match="cannot read the program '3'"):
        read_program(job, "3")


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    folder = ProcessFolder(tmp_path, 0, "host", 1)
    folder.write_compile(compiled(1))

    class Full:
        """A stream whose disk takes no more than half of what is written."""

        def __init__(self, stream):
            self.seek, self._write, self.close = stream.seek, stream.write, stream.close

        def write(self, data):
            return self._write(data[: len(data) // 2])

    true = dict(folder._streams)
    folder._streams.update({name: Full(stream) for name, stream in true.items()})
    with pytest.raises(OSError, match="No space"):
        folder.write_compile(compiled(2, function="later"))
    (read,) = read_job(tmp_path).processes  # without process.json, which did not fit
    assert [c.call.function for c in read.compiles] == ["step"]
    assert (read.process.pid, read.damaged) == (1, ())
    folder._streams.update(true)  # there is space again
    folder.write_compile(compiled(3, function="last"))
    (read,) = read_job(tmp_path).processes
    assert [c.call.function for c in read.compiles] == ["step", "last"]
    assert read.damaged == ("compiles.jsonl:3",)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"number": "1"}', "null", '{"number":1,"call":{},"start":0}', "[" * 9999],
)
def test_a_damaged_line_is_named_and_the_others_are_read(tmp_path, text):
    folder = ProcessFolder(tmp_path, 0, "host", 1)
    folder.write_compile(compiled(1))
    folder._append("compiles.jsonl", f"\n{text}".encode())
    folder.write_compile(compiled(3))
    (read,) = read_job(tmp_path).processes
    assert [c.number for c in read.compiles] == [1, 3]
    assert read.damaged == ("compiles.jsonl:3",)


def test_a_file_of_a_later_version_is_damaged_and_no_crash(tmp_path):
    folder = ProcessFolder(tmp_path, 0, "host", 1)
    folder.write_process(process(0).process)
    path = folder.path / "process.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "new": 1}))
    (read,) = read_job(tmp_path).processes
    assert read.damaged == ("process.json",)


def test_an_older_record_is_refused_in_one_line(tmp_path):
    folder = ProcessFolder(tmp_path, 0, "host", 1)
    folder.write_process(process(0).process)
    (folder.path / "000001.json").write_text("{}")
    with pytest.raises(CaptureFileError, match="of an older one: record the job again") as raised:
        read_job(tmp_path)
    assert "\n" not in str(raised.value)


def test_what_is_no_record_says_how_to_make_one(tmp_path):
    with pytest.raises(CaptureFileError, match="jaxlens record -o"):
        read_job(tmp_path)
    with pytest.raises(CaptureFileError, match="no such folder"):
        read_job(tmp_path / "none")
