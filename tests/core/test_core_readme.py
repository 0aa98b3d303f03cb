"""The code in `core/README.md` runs, and does what is said there."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxlens import core

README = Path(core.__file__).with_name("README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
pytestmark = pytest.mark.backend


def test_first_example(capsys: Any) -> None:
    names: dict[str, Any] = {}
    exec(BLOCKS[0], names)
    assert "dot_general" in capsys.readouterr().out
    assert names["step"](np.ones((3, 2), np.float32), np.ones((5, 3), np.float32)).shape == (
        5,
        3,
        2,
    )


def test_added_primitive() -> None:
    names: dict[str, Any] = {}
    exec(BLOCKS[1], names)
    twice = names["twice"]
    x = np.arange(3, dtype=np.float32)
    found = core.jit(core.vmap(core.grad(lambda x: twice(x) * x)))(x)
    np.testing.assert_allclose(found, 4 * x)
    closed = core.make_jaxpr(core.grad(lambda x: twice(x) * x))(1.0)
    core.check_jaxpr(closed)
    assert [eqn.primitive.name for eqn in closed.eqns].count("twice") == 2


def test_stream(capsys: Any) -> None:
    import jaxlens.core.numpy as cnp

    exec(BLOCKS[2], {"core": core, "cnp": cnp})
    kinds = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert {"bind", "rule", "record", "run"} <= kinds


@pytest.mark.parametrize("name", re.findall(r"`(\w+)(?:\.py|/)`", README))
def test_files_are_there(name: str) -> None:
    folder = Path(core.__file__).parent
    assert list(folder.rglob(f"{name}.py")) or (folder / name).is_dir()


def test_no_file_is_left_out() -> None:
    folder = Path(core.__file__).parent
    named = set(re.findall(r"`(\w+)\.py`", README))
    ours = {p.stem for p in folder.rglob("*.py") if p.parent.name not in ("numpy", "lesson")}
    assert ours - named <= {"__init__"}


def test_the_kernel_can_be_read_in_an_evening() -> None:
    """Ten files, in the order of their imports, with minutes that add up to some two hours."""
    rows = re.findall(r"\| (\d+) \| `(\w+)\.py` \| (\d+) \|", README)
    kernel = Path(core.__file__).parent / "kernel"
    assert [int(number) for number, *_ in rows] == list(range(1, len(rows) + 1))
    assert {name for _, name, _ in rows} == {p.stem for p in kernel.glob("*.py")} - {"__init__"}
    assert sum(int(minutes) for *_, minutes in rows) <= 120


def test_no_file_of_the_core_is_long() -> None:
    every = Path(core.__file__).parent.rglob("*.py")
    assert {p.name for p in every if len(p.read_text().splitlines()) > 400} == set()


def test_a_file_of_the_kernel_imports_only_from_files_above_it() -> None:
    order = re.findall(r"\| \d+ \| `(\w+)\.py`", README)
    kernel = Path(core.__file__).parent / "kernel"
    for path in map(kernel.joinpath, (f"{name}.py" for name in order)):
        imported = re.findall(r"from jaxlens\.core\.kernel\.(\w+) import", path.read_text())
        late = [name for name in imported if order.index(name) >= order.index(path.stem)]
        assert late == [], f"{path.name} imports {late}"
