"""The files of `binder/hub/`: they load, and no learner's work is ever written over."""

import importlib.util
import os
import resource
import sys

import pytest
from traitlets.config.loader import PyFileConfigLoader

from tests.support.paths import ROOT, run_python

HUB = ROOT / "binder" / "hub"
PATHS = os.pathsep.join([str(HUB), str(ROOT)])


def load(name):
    return PyFileConfigLoader(name, path=str(HUB)).load_config()


@pytest.fixture
def start_learner():
    spec = importlib.util.spec_from_file_location("start_learner", HUB / "start_learner.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_config_gives_each_learner_a_folder_and_a_limit():
    config = load("jupyterhub_config.py")
    assert config.Spawner.notebook_dir == "~/jaxlens-course"
    assert config.Spawner.mem_limit == "2G"
    assert config.Spawner.cpu_limit == 4
    assert config.Spawner.cmd[0] == sys.executable
    assert os.path.isfile(config.Spawner.cmd[1])
    assert config.Authenticator.allowed_users == set()  # a teacher names them
    assert "allow_all" not in config.Authenticator


def test_the_config_for_a_try_differs_in_who_comes_in(monkeypatch, tmp_path):
    monkeypatch.setenv("HUB_PASSWORD", "a long secret")
    monkeypatch.chdir(tmp_path)
    config = load("try_config.py")
    assert config.JupyterHub.authenticator_class == "shared-password"
    assert config.Spawner.mem_limit == load("jupyterhub_config.py").Spawner.mem_limit
    assert config.Spawner.notebook_dir == str(tmp_path / "learners/{username}/jaxlens-course")


def test_the_hub_knows_every_setting(monkeypatch, tmp_path):
    app = pytest.importorskip("jupyterhub.app")
    monkeypatch.setenv("HUB_PASSWORD", "a long secret")
    monkeypatch.chdir(tmp_path)
    hub = app.JupyterHub()
    hub.load_config_file(str(HUB / "try_config.py"))
    spawner = hub.spawner_class(config=hub.config)
    assert spawner.mem_limit == 2 * 2**30
    assert spawner.default_url == "/lab/tree/index.ipynb"


def test_a_login_writes_what_is_missing_and_nothing_else(start_learner, tmp_path, capsys):
    folder = tmp_path / "jaxlens-course"
    start_learner.put_course(folder)
    names = {path.name for path in folder.iterdir()}
    assert {"index.ipynb", "01_one_line_two_programs.ipynb"} <= names
    (folder / "index.ipynb").unlink()
    for name in ("09_when_it_compiles.ipynb", ".jaxlens-progress.json", "my_jax.py"):
        (folder / name).write_text("mine")
    start_learner.put_course(folder)
    assert (folder / "index.ipynb").exists()
    for name in ("09_when_it_compiles.ipynb", ".jaxlens-progress.json", "my_jax.py"):
        assert (folder / name).read_text() == "mine"


def test_a_folder_that_cannot_be_written_keeps_no_one_out(start_learner, tmp_path, capsys):
    path = tmp_path / "file"
    path.write_text("")
    start_learner.put_course(path)
    assert "may lack lessons" in capsys.readouterr().err


def test_a_process_that_takes_more_than_the_limit_ends_alone():
    script = (
        "import start_learner\n"
        "start_learner.limit_memory(2**30)\n"
        "b = bytearray(2**28); print('small')\n"
        "try:\n    bytearray(2**31); print('large')\n"
        "except MemoryError:\n    print('too large')\n"
    )
    assert run_python(script, PYTHONPATH=PATHS).split("\n")[:2] == ["small", "too large"]
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY


def test_a_process_uses_no_more_cores_than_the_limit():
    script = (
        "import os, start_learner\n"
        "start_learner.limit_cores(10_000); print(len(os.sched_getaffinity(0)))\n"
        "start_learner.limit_cores(1); print(len(os.sched_getaffinity(0)))\n"
    )
    cores = [str(len(os.sched_getaffinity(0))), "1"]
    assert run_python(script, PYTHONPATH=PATHS).split() == cores
