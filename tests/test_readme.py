"""What the README and the page for contributors name exists, and the first code runs as pasted."""

import re

import jaxlens
from jaxlens.views.view import View
from tests.support.paths import ROOT

README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / ".github" / "CONTRIBUTING.md").read_text()


def test_the_first_code_runs_as_pasted():
    first = re.findall(r"```python\n(.*?)```", README, re.S)[0]
    *lines, last = first.strip().splitlines()
    names: dict[str, object] = {}
    exec("\n".join(lines), names)
    assert names["jaxlens"] is jaxlens
    assert isinstance(eval(last, names), View)


def test_it_is_one_screen_and_a_half():
    assert len(README.splitlines()) <= 100


def test_paths_that_are_named_exist():
    text = README + CONTRIBUTING
    paths = re.findall(r"(?<![\w/.])(?:tests|jaxlens|notebooks|binder)/[\w./-]*\w", text)
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_modules_that_are_to_be_run_exist():
    modules = re.findall(r"-m (tests\.[\w.]+)|`(bench_\w+)`", CONTRIBUTING)
    assert len(modules) == 4  # with those of outputs
    files = [(whole or f"tests.bench.{name}").replace(".", "/") for whole, name in modules]
    assert [file for file in files if not (ROOT / f"{file}.py").exists()] == []


def test_the_moving_picture_is_small_and_there():
    [picture] = re.findall(r"!\[[^]]+\]\((\.readme/[^)]+)\)", README)
    data = (ROOT / picture).read_bytes()
    assert data[8:12] == b"WEBP"
    assert data.count(b"ANMF") > 20  # frames
    assert len(data) <= 1_000_000
