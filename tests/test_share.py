"""`python3 .dev test` runs each file of tests in one of its processes, and fails if one does."""

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from tests.support.paths import ROOT

TEST = "from pathlib import Path\ndef test():\n    with Path('ran').open('a') as ran:\n"


def test_each_file_runs_once_and_a_failure_of_any_process_is_the_runs(tmp_path, monkeypatch, capfd):
    spec = spec_from_file_location("share", ROOT / ".dev" / "share.py")
    share = module_from_spec(spec)
    spec.loader.exec_module(share)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    names = [f"test_{n}.py" for n in range(6)]
    for name in names:
        (tmp_path / name).write_text(f"{TEST}        ran.write('{name} ')\n")
    assert share.run(tmp_path, Path(sys.executable), ["-q"]) == 0
    assert sorted((tmp_path / "ran").read_text().split()) == names
    (tmp_path / names[3]).write_text("def test():\n    raise KeyError('planted')\n")
    assert share.run(tmp_path, Path(sys.executable), ["-q"]) == 1
    assert capfd.readouterr().out.count("1 failed") == 1
