"""Forged saved files: memory is bounded, and the error is one line.

Each bomb is a record with one part forged; it stands for gigabytes, or for work without end. The
bound on memory is that of the promise: ten times the file and 64 MiB.
"""

import io
import json
import random
import re
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jaxlens.captures import load
from jaxlens.errors import CaptureFileError, UnavailableError
from jaxlens.ir.text_store import from_bytes, to_bytes
from tests.ir.saved.forged import CPU, Parts, parts, read_all, written
from tests.support.paths import RECORDS


def bounded(path: Path) -> str:
    """The error of reading a file, after a check of the time and memory used."""
    tracemalloc.start()
    try:
        error = read_all(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(error) < 400
    assert peak <= 10 * path.stat().st_size + (64 << 20), (peak, error)
    return error


# ---- parts that stand for more than they are ----------------------------------------------------


def packed(lines: list[bytes], rows: list[list[int]]) -> bytes:
    head = f"{len(lines)} {' '.join(str(len(row)) for row in rows)}".encode()
    body = b"\n".join([head, *lines])
    words = b"".join(b"".join(n.to_bytes(4, "little") for n in row) for row in rows)
    return len(body).to_bytes(8, "little") + body + words


def columns(**changed: Any) -> bytes:
    return json.dumps(json.loads(parts()["jaxpr.json"]) | changed).encode()


def nested_types(levels: int, width: int = 1) -> list[Any]:
    """Types of a tuple in a tuple, each of `width` equal ones."""
    types = json.loads(columns())["types"]
    types.append(["f32", [], "", [], False])
    for _ in range(levels):
        types.append(["", [], "", [len(types) - 1] * width, False])
    return types


def long_names() -> bytes:
    data = json.loads(parts()["jaxpr.json"])
    data["strings"].append("x" * 1_000_000)
    nodes = data["regions"][0]["nodes"]
    for name in nodes:
        nodes[name] = [nodes[name][0]] * 20_000
    nodes["text"] = [len(data["strings"]) - 1] * 20_000
    return json.dumps(data).encode()


def manifest(**changed: Any) -> bytes:
    return json.dumps(json.loads(parts()["manifest.json"]) | changed).encode()


MB = 1_000_000
BOMBS: dict[str, Callable[[], Parts]] = {
    "zeros": lambda: {"early.bin": bytes(400 * MB)},
    "zeros in JSON": lambda: {"jaxpr.json": b" " * (400 * MB)},
    "empty lists": lambda: {"jaxpr.json": b"[" + b"[]," * (8 * MB) + b"[]]"},
    "empty objects": lambda: {"manifest.json": b"[" + b"{}," * (8 * MB) + b"{}]"},
    "nested lists": lambda: {"sources.json": b"[" * (20 * MB)},
    "numbers": lambda: {"stablehlo.json": b"[" + b"999," * (6 * MB) + b"1]"},
    "strings": lambda: {"stablehlo.json": b"[" + b'"ab",' * (5 * MB) + b"1]"},
    "one wide letter": lambda: {"sources.json": b'["' + b"a" * (24 * MB) + b'\\ud83d\\ude00"]'},
    "wide letters": lambda: {"sources.json": '["😀'.encode() + b"a" * (24 * MB) + b'"]'},
    "long number": lambda: {"jaxpr.json": columns(spans=[[0, 0, 0, 10**4000, 1, 1, 1, False]])},
    "doubling types": lambda: {"jaxpr.json": columns(types=nested_types(400, 2))},
    "nested types": lambda: {"jaxpr.json": columns(types=nested_types(5_000))},
    "long names": lambda: {"jaxpr.json": long_names()},
    "empty lines": lambda: {"hlo.bin": packed([b""] * (20 * MB), [[0]])},
    "short lines": lambda: {"hlo.bin": packed([b"ab"] * (8 * MB), [[0]])},
    "lines beyond ASCII": lambda: {
        "hlo.bin": packed(["😀".encode() + b"a" * 100] * 200_000, [[0]])
    },
    "many texts": lambda: {"code.bin": packed([b"a"], [[0]] * (2 * MB))},
    "a long text": lambda: {"early.bin": packed([b"a" * 1_000], [[0] * MB] * 2)},
    "long texts": lambda: {"code.bin": packed([b"a" * 1_000], [[0] * 10_000] * 300)},
    "a text of a length": lambda: {"code.bin": packed([b"a"], [])[:-1] + b" " + b"9" * (4 * MB)},
    "passes": lambda: {"manifest.json": manifest(passes=[{}] * (2 * MB))},
    "version": lambda: {"manifest.json": manifest(version=["x" * MB] * 5)},
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_stands_for_much_is_refused_within_the_bound(name, tmp_path) -> None:
    path = written(tmp_path / "a", parts() | BOMBS[name]())
    assert path.stat().st_size < 1.2 * MB
    error = bounded(path)
    assert error.startswith("expected a file that jaxlens.Capture.save wrote"), error
    begin = time.process_time()
    read_all(path)
    assert time.process_time() - begin < 2


def test_many_entries_and_other_ways_to_pack(tmp_path) -> None:
    with zipfile.ZipFile(tmp_path / "a", "w") as archive:
        for n in range(20_000):
            archive.writestr(f"{n}", b"")
    assert "more parts than a capture has" in bounded(tmp_path / "a")
    for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        assert "packed in a way" in bounded(written(tmp_path / "a", parts(), method))
    long = io.BytesIO()
    with zipfile.ZipFile(long, "w") as archive:
        archive.writestr("x" * 60_000, b"")
    (tmp_path / "a").write_bytes(long.getvalue())
    assert "more parts" in bounded(tmp_path / "a")


def test_a_text_that_many_kernels_name_is_held_once(tmp_path) -> None:
    contents = parts()
    kernels = json.loads(contents["manifest.json"])["kernels"]
    first = next(kernel for kernel in kernels if "asm" in kernel)
    contents["manifest.json"] = manifest(kernels=[first] * 1_000)
    contents["code.bin"] = packed([b"a" * 1_000], [[0] * 1_000] * (1 + max(first.values(), key=_n)))
    path = written(tmp_path / "a", contents)
    tracemalloc.start()
    texts = [kernel.asm for kernel in load(path).kernels]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(texts), {len(text) for text in texts}) == (1_000, {1_000_999})
    assert peak < 64 << 20


def _n(value: Any) -> int:
    return value if isinstance(value, int) else -1


# ---- regions that are not there -----------------------------------------------------------------


@pytest.mark.parametrize("called", ["gone", "itself"])
@pytest.mark.parametrize("name", ["jaxpr", "stablehlo"])
def test_regions_of_columns(name, called, tmp_path) -> None:
    data = json.loads(parts()[f"{name}.json"])
    data["strings"].append("nowhere" if called == "gone" else data["entry"])
    data["regions"][-1]["nodes"]["regions"][0] = [len(data["strings"]) - 1]
    path = written(tmp_path / "a", parts() | {f"{name}.json": json.dumps(data).encode()})
    cap = load(path)
    with pytest.raises(CaptureFileError, match=f"its {name} is damaged"):
        _ = cap.stage(name).module


@pytest.mark.parametrize("called", [b"nowhere", b"main"])
def test_computations_of_texts(called, tmp_path) -> None:
    text = (
        b"HloModule m\n\nENTRY %main (p: f32[]) -> f32[] {\n  %p = f32[] parameter(0)\n"
        b"  ROOT %c = f32[] call(%p), to_apply=%" + called + b"\n}\n"
    ).split(b"\n")
    contents = parts()
    number = json.loads(contents["manifest.json"])["stages"]["optimized"]
    rows = [[*range(len(text))]] * (number + 1)
    cap = load(written(tmp_path / "a", contents | {"hlo.bin": packed(text, rows)}))
    with pytest.raises(CaptureFileError, match="its optimized is damaged"):
        _ = cap.optimized.module


def test_a_text_that_is_no_program(tmp_path) -> None:
    contents = parts()
    cap = load(written(tmp_path / "a", contents | {"hlo.bin": packed([b"hello"], [[0]] * 200)}))
    with pytest.raises(CaptureFileError, match="its optimized is damaged"):
        _ = cap.optimized.module


# ---- parts that disagree ------------------------------------------------------------------------

_SCAN = parts(RECORDS / "scan_rnn.cpu.jaxlens")
_OTHER = parts(RECORDS / "attention.cpu.jaxlens")


def jaxpr(change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Callable[[Parts], None]:
    """A change of the columns and of those of the entry's equations."""

    def changed(found: Parts) -> None:
        data = json.loads(found["jaxpr.json"])
        change(data, data["regions"][0]["nodes"])
        found["jaxpr.json"] = json.dumps(data).encode()

    return changed


def facts(change: Callable[[dict[str, Any]], None]) -> Callable[[Parts], None]:
    def changed(found: Parts) -> None:
        data = json.loads(found["manifest.json"])
        change(data)
        found["manifest.json"] = json.dumps(data).encode()

    return changed


def optimized(pattern: str, by: str) -> Callable[[Parts], None]:
    def changed(found: Parts) -> None:
        texts = from_bytes(found["hlo.bin"])
        whole = texts.mapped(lambda text: re.sub(pattern, by, text))
        assert whole != texts
        found["hlo.bin"] = to_bytes(whole)

    return changed


DISAGREEING = {
    "a negative size": jaxpr(lambda data, _: data["types"][0][1].append(-1)),
    "StableHLO of other functions": lambda found: found.update(
        {"stablehlo.json": found["stablehlo.json"].replace(b'"closed_call"', b'"gone"')}
    ),
    "one id for all": jaxpr(lambda _, nodes: nodes.update(id=nodes["id"][:1] * len(nodes["id"]))),
    "no results": jaxpr(lambda _, nodes: nodes.update(results=[[] for _ in nodes["results"]])),
    "more operands than the body has": jaxpr(
        lambda _, nodes: nodes.update(operands=[names * 5 for names in nodes["operands"]])
    ),
    "a scan without a length": jaxpr(
        lambda _, nodes: nodes.update(attrs=[[] for _ in nodes["attrs"]])
    ),
    "columns of another program": lambda found: found.update({"jaxpr.json": _OTHER["jaxpr.json"]}),
    "more arguments": facts(lambda data: data["program"].update(inputs=[])),
    "a profile of loose parts": facts(
        lambda data: data["facts"].update(
            profile={"seconds": 1.0, "parts": [{**_PART, "inside": -1}, {**_PART, "inside": 7}]}
        )
    ),
    "a fusion without a computation": optimized(r", calls=%[\w.]+", ""),
    "instructions without operands": optimized(r"\((%[^()]*)\)", "()"),
    "elements without an index": optimized(r", index=\d+", ""),
}
_PART = {"name": "a", "kind": "pass", "seconds": 1.0}


@pytest.mark.parametrize("name", DISAGREEING)
def test_parts_that_disagree_are_refused_where_they_are_read(name, tmp_path) -> None:
    found = dict(_SCAN)
    DISAGREEING[name](found)
    said = read_all(written(tmp_path / "a", found))
    reason = "(damaged|its program|than the text)"
    assert re.fullmatch(rf"expected a file that .*{reason}; save .*", said), said


def test_a_stage_that_was_not_saved_has_no_links(tmp_path) -> None:
    cap = load(RECORDS / "scan_rnn.cpu.jaxlens")
    cap.save(tmp_path / "a", stages=["jaxpr", "stablehlo", "optimized"])
    links = load(tmp_path / "a").links
    assert not links.forward("e0", "kernels")
    with pytest.raises(UnavailableError, match="hlo is not in this file"):
        links.forward("e0", "hlo")


# ---- fuzz ---------------------------------------------------------------------------------------

_ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**6,
    2**63,
    10**400,
    1e999,
    "",
    "x" * 10_000,
    "\ud800",
    "\x00",
    [],
    {},
    [[]] * 1_000,
    {"a": [1]},
    "%gone",
    0.5,
    [0],
    "HloModule m",
)


def _mutate(value: Any, chance: random.Random) -> Any:
    """The same JSON with one thing in it changed, left out, doubled or exchanged."""
    place, depth = value, 0
    while isinstance(place, dict | list) and place:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = chance.choice(keys)
        inner = place[key]
        if depth > 5 or not isinstance(inner, dict | list) or not inner or chance.random() < 0.15:
            what = chance.randrange(4)
            if what == 0 or (what == 2 and isinstance(place, dict)):
                place[key] = chance.choice(_ODD)
            elif what == 1:
                del place[key]
            elif what == 2:
                place[key:key] = [inner] * chance.choice([1, 50])
            else:
                place[key] = place[chance.choice(keys)]
            return value
        place, depth = inner, depth + 1
    return chance.choice(_ODD)


def _changed_bytes(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice([1, 3, 30])):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed[: chance.choice([None, None, chance.randrange(len(data))])])


@pytest.mark.parametrize("seed", range(3))
def test_mutated_files_are_refused_in_one_line_or_read(seed, tmp_path) -> None:
    chance = random.Random(seed)
    paths = [CPU, RECORDS / "scan_rnn.tpu-v5e-2x2.jaxlens"]
    originals = [parts(path) for path in paths]
    refused = 0
    for _ in range(25):
        found = dict(chance.choice(originals))
        for _ in range(chance.choice([1, 1, 3])):
            name = chance.choice(sorted(found))
            if name.endswith(".json"):
                data = _mutate(json.loads(found[name]), chance)
                found[name] = json.dumps(data).encode()
            else:
                found[name] = _changed_bytes(found[name], chance)
            if found[name] == b"":
                break
        refused += bool(bounded(written(tmp_path / "a", found)))
    assert refused > 5
