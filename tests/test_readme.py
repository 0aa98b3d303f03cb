"""Paths and modules that the README names exist; `test_architecture.py` holds the map's."""

import re

from tests.support.paths import ROOT

README = (ROOT / "README.md").read_text()


def test_paths_that_are_named_exist() -> None:
    paths = re.findall(r"(?<![\w/.])(?:tests|jaxlens|notebooks|binder)/[\w./-]*\w", README)
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_modules_that_are_to_be_run_exist() -> None:
    modules = re.findall(r"-m (tests\.[\w.]+)|`(bench_\w+)`", README)
    files = [(whole or f"tests.bench.{name}").replace(".", "/") for whole, name in modules]
    assert [file for file in files if not (ROOT / f"{file}.py").exists()] == []


def test_the_moving_picture_is_small_and_there() -> None:
    [picture] = re.findall(r"!\[[^]]+\]\((\.readme/[^)]+)\)", README)
    data = (ROOT / picture).read_bytes()
    assert data[8:12] == b"WEBP"
    assert data.count(b"ANMF") > 20  # frames
    assert len(data) <= 1_000_000
