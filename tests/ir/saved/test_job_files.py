"""The files of a record are whole or not there, whatever ends the process that writes them."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from jaxlens.errors import CaptureFileError
from jaxlens.ir.saved import file as saved_file
from jaxlens.ir.saved.job_files import ProcessFolder, program_path, read_job
from tests.jobs.record.job_records import compiled, process
from tests.support.paths import environment

KILLS = 100
# Writes compiles and programs until it is killed; says which are finished.
WRITER = """
import os, select, sys
from pathlib import Path
from jaxlens.ir.saved.file import packed
from jaxlens.ir.saved.job_files import ProcessFolder
from tests.jobs.record.job_records import compiled, process

def write(root, said):
    folder = ProcessFolder(Path(root), 0, "host", os.getpid())
    folder.write_process(process(0).process)
    for number in range(1, 10_000):
        name = f"{number % 50:024}"
        data = packed({"manifest.json": b"[" + b"1," * 5000 + b"1]"})
        folder.write_program(name, data)
        folder.write_compile(compiled(number, program=name))
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
            for name in job.programs:
                with saved_file.read(program_path(root, name)).json("manifest.json") as data:
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
        "f = ProcessFolder(Path(sys.argv[1]), 0, 'h', 1);"
        "[f.write_program('same', b'x' * 100_000) for _ in range(100)]"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    writers = [subprocess.Popen(command, env=environment()) for _ in range(2)]
    path = program_path(tmp_path, "same")
    while any(writer.poll() is None for writer in writers):
        assert not path.exists() or path.read_bytes() == b"x" * 100_000
    assert [writer.returncode for writer in writers] == [0, 0]
    assert [file.name for file in (tmp_path / "programs").iterdir()] == [path.name]


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    folder = ProcessFolder(tmp_path, 0, "host", 1)
    folder.write_compile(compiled(1))

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("jaxlens.ir.saved.file.os.fsync", full)
    for number in (1, 2):
        with pytest.raises(OSError, match="No space"):
            folder.write_compile(compiled(number, function="later"))
    (read,) = read_job(tmp_path).processes  # without process.json, which did not fit
    assert [c.call.function for c in read.compiles] == ["step"]
    assert read.process.pid == 1
    assert [file.name for file in folder.path.iterdir()] == ["000001.json"]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"number": "1"}', "null", '{"number":1,"call":{},"start":0}', "[" * 9999],
)
def test_a_damaged_file_is_named_and_the_others_are_read(tmp_path, text):
    folder = ProcessFolder(tmp_path, 0, "host", 1)
    folder.write_compile(compiled(1))
    (folder.path / "000002.json").write_text(text)
    (folder.path / ".000003.json.1.aa").write_text("half")
    (read,) = read_job(tmp_path).processes
    assert [c.number for c in read.compiles] == [1]
    assert read.damaged == ("000002.json",)


def test_a_file_of_a_later_version_is_damaged_and_no_crash(tmp_path):
    folder = ProcessFolder(tmp_path, 0, "host", 1)
    folder.write_process(process(0).process)
    path = folder.path / "process.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "new": 1}))
    (read,) = read_job(tmp_path).processes
    assert read.damaged == ("process.json",)


def test_an_older_record_opens_without_what_is_no_longer_read(tmp_path):
    folder = ProcessFolder(tmp_path, 0, "host", 1)
    folder.write_process(process(0).process)
    path = folder.path / "process.json"
    older = {"delays": {"1": 0.5}, "gone": True, "operations": {}}
    path.write_text(json.dumps({**json.loads(path.read_text()), **older}))
    (read,) = read_job(tmp_path).processes
    assert (read.process, read.damaged) == (process(0).process, ())


def test_what_is_no_record_says_how_to_make_one(tmp_path):
    with pytest.raises(CaptureFileError, match="jaxlens record -o"):
        read_job(tmp_path)
    with pytest.raises(CaptureFileError, match="no such folder"):
        read_job(tmp_path / "none")
