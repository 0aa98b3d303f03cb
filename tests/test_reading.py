"""No file makes jaxlens wait or take memory without end: no pipe, device, or link to one."""

import json
import os
import tracemalloc

import pytest

import jaxlens
from jaxlens.course import own, progress_file
from jaxlens.course.class_report import answers_in
from jaxlens.errors import LensError
from jaxlens.ir.saved.job_files import ProcessFolder, read_job
from jaxlens.jobs.record.program_file import opened
from jaxlens.jobs.sweeps.journal import Journal
from jaxlens.pytest_plugin import files as receipts
from jaxlens.reading import parsed, read_file, read_json
from jaxlens.stages.trace.sources import source_text
from tests.jobs.record.job_records import compiled, process

MB = 1_000_000


def pipe(path):
    os.mkfifo(path)


def endless(path):
    path.symlink_to("/dev/zero")


def link_to_a_pipe(path):
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


def folder(path):
    path.mkdir()


def link_to_itself(path):
    path.symlink_to(path.name)


def sparse(path):
    with path.open("wb") as file:
        file.truncate(1 << 40)


ODD = [pipe, endless, link_to_a_pipe, folder, link_to_itself, sparse]


@pytest.mark.parametrize("make", ODD)
def test_what_is_no_file_is_an_error_at_once(make, tmp_path):
    make(tmp_path / "a")
    descriptors = len(os.listdir("/dev/fd"))
    with pytest.raises(OSError, match=r"pipe or a device|larger than|symbolic links"):
        read_file(tmp_path / "a", MB)
    assert len(os.listdir("/dev/fd")) == descriptors


def test_a_file_is_read_up_to_the_limit(tmp_path):
    path = tmp_path / "a b é"
    path.write_bytes(b"x" * 100)
    assert read_file(path, 100) == b"x" * 100
    with pytest.raises(OSError, match="larger than 99 bytes"):
        read_file(path, 99)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "none", 1)


@pytest.mark.parametrize(
    "data",
    [
        b"[" + b"[]," * (2 * MB) + b"[]]",
        b"[" + b"{}," * (2 * MB) + b"{}]",
        b'["' + b'","' * MB + b'"]',
        "[" * MB,
        b"[" + b"1," * (3 * MB) + b"1]",
        '["\N{PILE OF POO}' + "a" * (8 * MB) + '"]',
        b"[",
        b"\xff\xfe\x00",
    ],
    ids=["lists", "objects", "strings", "nested", "numbers", "wide letters", "cut", "no text"],
)
def test_json_that_is_damaged_or_stands_for_much_is_refused_first(data, tmp_path):
    (tmp_path / "a").write_bytes(data.encode() if isinstance(data, str) else data)
    tracemalloc.start()
    with pytest.raises((OSError, ValueError)):
        read_json(tmp_path / "a", 24 * MB)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * MB
    assert parsed(b'{"a": [1]}', 1000) == {"a": [1]}


DOORS = {
    "load": (jaxlens.load, "a.jaxlens"),
    "opened": (opened, "a.hlo"),
    "receipts": (lambda path: receipts.read(path, {}), "a.json"),
    "sweep": (Journal, "a.json"),
    "my_jax": (lambda path: own.sections(path), "my_jax.py"),
}


@pytest.mark.parametrize("make", [pipe, endless])
@pytest.mark.parametrize("name", DOORS)
def test_every_door_answers_in_one_line(name, make, tmp_path):
    read, file = DOORS[name]
    make(tmp_path / file)
    with pytest.raises(LensError) as caught:
        read(tmp_path / file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("make", ODD)
def test_doors_that_go_on_without_a_file(make, tmp_path):
    make(tmp_path / "a")
    assert source_text(str(tmp_path / "a")) == ""  # a program's text can name any file
    assert progress_file.is_damaged(tmp_path / "a")
    assert not any(progress_file.read(tmp_path / "a").values())
    with pytest.raises((OSError, ValueError)):  # as `class_report` expects
        list(answers_in(tmp_path / "a"))


@pytest.mark.parametrize("make", [pipe, endless])
def test_a_folder_of_dumps(make, tmp_path):
    make(tmp_path / "module_0001.jit_f.before_optimizations.txt")
    with pytest.raises(LensError, match=r"cannot read module_0001.*dump it again"):
        jaxlens.capture(str(tmp_path))


NAMED = {
    "HLO": """HloModule m

FileNames
1 "FILE"

FileLocations
1 {file_name_id=1 function_name_id=1 line=1 end_line=1 column=1 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY %main (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  ROOT %c = f32[4]{0} cosine(%p), metadata={op_name="cos" stack_frame_id=1}
}
""",
    "HLO before jax 0.8": """HloModule m

ENTRY %main (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  ROOT %c = f32[4]{0} cosine(%p), metadata={op_name="cos" source_file="FILE" source_line=1}
}
""",
    "StableHLO": """module @m {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.cosine %arg0 : tensor<4xf32> loc("FILE":1:1)
    return %0 : tensor<4xf32>
  }
}
""",
}
FILES = ("id_rsa", "passwd.txt", ".env", "a.ipynb", "key.pem", "a.py.bak", "link.py", "a.py")


@pytest.mark.parametrize("program", NAMED)
def test_a_program_that_others_wrote_shows_python_files_alone(program, tmp_path):
    shown = []
    for name in FILES:
        file = tmp_path / name
        if name == "link.py":
            file.symlink_to("id_rsa")
        else:
            file.write_text("HELD = 1\n")
        cap = jaxlens.capture(NAMED[program].replace("FILE", str(file)))
        shown += [name] * ("HELD" in str(cap.sources))  # where views take the text from
    assert shown == ["a.py"]


# ---- records ------------------------------------------------------------------------------------


def much(path):
    path.write_bytes(b"[" + b"[]," * (2 * MB) + b"[]]")


def nested(path):
    path.write_bytes(b"[" * MB)


@pytest.mark.parametrize("make", [*ODD, much, nested])
@pytest.mark.parametrize("name", ["compiles.jsonl", "process.json"])
def test_a_record_with_an_odd_file_has_the_rest(make, name, tmp_path):
    written, odd = (ProcessFolder(tmp_path, n, "host", 1) for n in range(2))
    written.write_compile(compiled(1))
    make(odd.path / name)
    first, second = read_job(tmp_path).processes
    assert (first.damaged, second.compiles) == ((), ())
    assert {part.partition(":")[0] for part in second.damaged} <= {name}
    assert [compile.number for compile in first.compiles] == [1]


@pytest.mark.parametrize("make", [pipe, endless, link_to_itself, lambda p: p.write_text("text")])
def test_a_record_with_a_file_in_the_place_of_a_folder(make, tmp_path):
    written = ProcessFolder(tmp_path, 0, "host", 1)
    written.write_process(process(0).process)
    make(tmp_path / "process-1-host-2")
    first, second = read_job(tmp_path).processes
    assert (first.damaged, second.damaged) == ((), ("process-1-host-2",))
    assert json.loads(json.dumps(str(jaxlens.runs(tmp_path))))
