"""Saved captures: everything comes back, the same bytes again, and bad files are refused."""

import json
import random
from dataclasses import replace

import pytest

from jaxlens.captures import Capture, load
from jaxlens.errors import CaptureFileError, UnavailableError
from jaxlens.ir.facts import Kernel, Memory
from jaxlens.ir.graph import Module, Node, Region, Span, Type, Value
from jaxlens.ir.saved.columns import from_columns, to_columns
from jaxlens.ir.saved.facts import from_json, to_json
from tests.ir.check import check
from tests.ir.saved.forged import CPU, parts, read_all, written
from tests.support.paths import CAPTURES
from tests.support.wrapped import Wrapped

TPU = next(path for path in CAPTURES if path.name == "mlp_step.tpu-v5e-2x2.jaxlens")


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_saved_again_is_the_same_file(path, tmp_path):
    load(path).save(tmp_path / "again")
    assert parts(tmp_path / "again") == parts(path)
    load(path).save(tmp_path / "once more")
    assert (tmp_path / "once more").read_bytes() == (tmp_path / "again").read_bytes()


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_every_stage_reads(path):
    cap = load(path)
    for name in ("jaxpr", "stablehlo", "hlo", "optimized"):
        assert cap.stage(name).text
        assert not check(cap.stage(name).module), name
    assert cap.jaxpr.module.stage == "jaxpr"
    assert any(node.spans for node in cap.jaxpr.module.nodes())
    assert any(node.spans for node in cap.optimized.module.nodes())
    assert len(cap.passes) > 10
    assert cap.passes[0].stage.text.startswith("HloModule")
    assert cap.memory.arguments
    if cap.program.target.platform != "gpu":  # none for a GPU that is not here
        assert cap.cost["flops"] > 0
    assert {kernel.instruction for kernel in cap.kernels} <= {
        node.id for node in cap.optimized.module.nodes()
    }
    assert cap.times
    assert cap.outputs
    assert {span.key for node in cap.jaxpr.module.nodes() for span in node.spans} <= set(
        cap.sources
    )


def test_cpu_has_code_and_tpu_says_why_not():
    cpu, tpu = load(CPU), load(TPU)
    kernel = next(kernel for kernel in cpu.kernels if kernel.kind == "kernel")
    assert kernel.llvm_before
    assert kernel.llvm_after
    assert kernel.asm.startswith(f"{kernel.name}:")
    assert kernel.asm in cpu.asm.text
    assert kernel.llvm_after in cpu.llvm.text
    for name in ("llvm", "asm"):
        with pytest.raises(UnavailableError, match="it shows no machine code for TPUs"):
            tpu.stage(name)
    assert tpu.program.target.absent


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_records_are_small_and_hold_no_place_of_a_machine(path):
    assert path.stat().st_size < 200_000
    for name, data in parts(path).items():
        for place in (b"/tmp", b"/home", b"/root", b"/work", b"site-packages"):
            assert place not in data, name
    programs = {"tests/programs.py", "tests/support/programs.py"}  # where it was, and is
    assert len(programs & load(path).sources.keys()) == 1


def test_answers_are_the_same_object():
    cap = load(CPU)
    assert cap.optimized is cap.optimized
    assert cap.kernels is cap.kernels
    assert cap.passes is cap.passes
    assert cap.optimized.module is cap.optimized.module


def test_passes_of_equal_text_share_a_module():
    cap = load(CPU)
    index = next(i for i, p in enumerate(cap.passes) if i and not p.changed)
    assert cap.passes[index].stage.module is cap.passes[index - 1].stage.module


def test_only_what_is_asked_for(tmp_path):
    cap = load(CPU)
    watched = Wrapped(cap.driver)
    replace(cap, driver=watched).save(tmp_path / "a", stages=["jaxpr"])
    assert not {"kernels", "passes", "memory", "cost", "buffers"} & set(watched.asked)
    small = load(tmp_path / "a")
    assert small.jaxpr.text == cap.jaxpr.text
    for name in ("optimized", "stablehlo"):
        with pytest.raises(UnavailableError, match=f"{name} is not in this file"):
            small.stage(name)
    for name in ("kernels", "passes", "memory", "cost", "buffers"):
        with pytest.raises(UnavailableError, match=f"{name} is not in this file"):
            getattr(small, name)
    with pytest.raises(UnavailableError, match="did you mean 'jaxpr'"):
        cap.save(tmp_path / "a", stages=["jaxrp"])


def test_files_keep_the_names_they_had(tmp_path):
    """A file saved as cell 3 is loaded as cell 3, whatever its name in this process."""
    contents = parts(CPU)
    sources = json.loads(contents["sources.json"])
    key = next(k for k in sources if "programs" in k)
    sources[key]["file"] = "cell 3"
    cap = load(written(tmp_path / "a", contents | {"sources.json": json.dumps(sources).encode()}))
    for stage in (cap.optimized, cap.passes[2].stage):
        files = {span.file for node in stage.module.nodes() for span in node.spans}
        assert "cell 3" in files
        assert "programs.py" not in files


def test_unavailable_keeps_its_sentence(tmp_path):
    def none(_):
        raise UnavailableError("no cost here: <why> & so on")

    cap = load(CPU)
    Capture(cap.program, Wrapped(cap.driver, facts={"cost": none})).save(tmp_path / "a")
    with pytest.raises(UnavailableError) as caught:
        _ = load(tmp_path / "a").cost
    assert str(caught.value) == "no cost here: <why> & so on"


def test_no_file_and_other_files(tmp_path):
    assert "cannot read gone" in read_all(tmp_path / "gone")
    assert "cannot read" in read_all(tmp_path)
    for content in (b"", b"PK\x03\x04", b"hello" * 100, b"PK\x05\x06" + bytes(18)):
        (tmp_path / "a").write_bytes(content)
        assert read_all(tmp_path / "a")


def test_other_archives(tmp_path):
    assert "parts that no capture has" in read_all(
        written(tmp_path / "a", parts(CPU) | {"../../evil": b""})
    )
    for name in parts(CPU):
        contents = parts(CPU)
        del contents[name]
        assert f"{name} is missing" in read_all(written(tmp_path / "a", contents))


def test_later_version(tmp_path):
    contents = parts(CPU)
    manifest = json.loads(contents["manifest.json"]) | {"version": 99}
    contents["manifest.json"] = json.dumps(manifest).encode()
    assert "got 99" in read_all(written(tmp_path / "a", contents))


@pytest.mark.parametrize("data", [b"null", b"[]", b"{}", b"[" * 100_000, b"\xff\xfe", b"1e999"])
def test_json_of_another_kind(tmp_path, data):
    for name in ("manifest.json", "sources.json", "jaxpr.json", "stablehlo.json"):
        if name == "sources.json" and data == b"{}":
            continue  # a program without sources
        assert read_all(written(tmp_path / "a", parts(CPU) | {name: data})), name


def test_damaged_manifest(tmp_path):
    """Every field replaced by something else is refused or harmless, and never an accident."""
    original = json.loads(parts(CPU)["manifest.json"])
    for key in original:
        for other in (None, [], {}, 7, "x", [[1]], {"a": {"b": 1}}, -1):
            manifest = json.dumps(original | {key: other}).encode()
            read_all(written(tmp_path / "a", parts(CPU) | {"manifest.json": manifest}))
    del original["program"]["target"]
    manifest = json.dumps(original).encode()
    path = written(tmp_path / "a", parts(CPU) | {"manifest.json": manifest})
    assert "manifest is damaged" in read_all(path)


def test_damaged_numbers(tmp_path):
    """References to texts that are not there."""
    original = json.loads(parts(CPU)["manifest.json"])
    original["stages"]["jaxpr"] = 10**6
    manifest = json.dumps(original).encode()
    path = written(tmp_path / "a", parts(CPU) | {"manifest.json": manifest})
    assert "no text 1000000" in read_all(path)


def test_damaged_bytes(tmp_path):
    """Bytes changed or cut off anywhere: refused, or harmless."""
    data, chance = CPU.read_bytes(), random.Random(0)
    path = tmp_path / "a"
    outcomes = set()
    for _ in range(150):
        changed = bytearray(data)
        for _ in range(chance.choice([1, 4, 40])):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        path.write_bytes(bytes(changed)[: chance.choice([None, chance.randrange(len(data))])])
        outcomes.add(not read_all(path))
    assert False in outcomes


def test_parts_beyond_the_bound(tmp_path, monkeypatch):
    from jaxlens.ir.saved import file as saved_file

    monkeypatch.setattr(saved_file, "LARGEST_PART", 1000)
    assert "larger than" in read_all(CPU)
    monkeypatch.setattr(saved_file, "LARGEST_PART", 512 << 20)
    monkeypatch.setattr(saved_file, "LARGEST_FILE", 1000)
    assert "larger than" in read_all(CPU)


def test_a_place_that_cannot_be_written(tmp_path):
    with pytest.raises(CaptureFileError, match="cannot write"):
        load(CPU).save(tmp_path / "no" / "folder")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    from jaxlens.ir.saved import file as saved_file

    path = tmp_path / "a"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saved_file.os, "replace", fail)
    with pytest.raises(CaptureFileError, match="No space left"):
        load(CPU).save(path)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_columns_of_odd_modules():
    """Names of any kind, tuples in tuples, dynamic dimensions, 5,000 nested regions."""
    odd = Type("", parts=(Type("f32", (2, "a+1"), "{1,0}"), Type("", parts=(Type("pred"),))))
    span = Span("<b>&\"'", 1, 2, 3, 4, "f.<locals>.g", "/k\u2028", True)
    value = Value("é'\"", odd)
    regions = {}
    for i in range(5000):
        inner = (f"r{i + 1}",) if i < 4999 else ()
        node = Node(f"e{i}", "call", ("x",), (value,), {"k": "v\n"}, inner, "s/t", (span, span))
        regions[f"r{i}"] = Region(f"r{i}", (value,), (node,), ("é'\"",), "jaxpr")
    module = Module("m", "jaxpr", "r0", regions, {"a": "b"}, ("??",))
    assert from_columns(json.loads(json.dumps(to_columns(module)))) == module


def test_facts_of_the_wrong_kind():
    memory = Memory(1, None, 3, 4, note="n")
    assert from_json(Memory, to_json(memory)) == memory
    assert from_json(tuple[Kernel, ...], to_json((Kernel("a", "b", "thunk"),))) == (
        Kernel("a", "b", "thunk"),
    )
    for data in ({"arguments": "1"}, {"arguments": True}, {"other": 1}, [], None):
        with pytest.raises((TypeError, ValueError)):
            from_json(Memory, data)
    with pytest.raises(ValueError, match="none of"):
        from_json(Kernel, {"name": "a", "instruction": "b", "kind": "spell"})


def test_a_saved_file_may_be_read_by_whom_other_files_may(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    load(CPU).save(tmp_path / "a")
    modes = {(tmp_path / name).stat().st_mode for name in ("plain", "a")}
    assert len(modes) == 1
