"""The files of `binder/hub/`: they load, and no learner's work is ever written over.

The last test starts a real hub; it needs `binder/hub/requirements.txt` and, on the PATH,
configurable-http-proxy.
"""

import asyncio
import importlib.util
import os
import resource
import shutil
import sys
from pathlib import Path

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
    assert {"index.ipynb", "01_one_line_five_programs.ipynb"} <= names
    (folder / "index.ipynb").unlink()
    for name in ("07_when_it_compiles.ipynb", ".jaxlens-progress.json", "my_jax.py"):
        (folder / name).write_text("mine")
    start_learner.put_course(folder)
    assert (folder / "index.ipynb").exists()
    for name in ("07_when_it_compiles.ipynb", ".jaxlens-progress.json", "my_jax.py"):
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


def test_two_learners_open_a_lesson_in_a_real_hub(tmp_path):
    pytest.importorskip("jupyterhub")
    if shutil.which("configurable-http-proxy") is None:
        pytest.skip("configurable-http-proxy is not on the PATH")
    from tests.bench.hub import Learner, running

    lesson = "01_one_line_five_programs.ipynb"

    async def lesson_of(learner):
        await learner.log_in()
        page = await learner.fetch(f"/user/{learner.name}/lab/tree/{lesson}")
        await learner.run_lesson(cells=4)
        return page

    async def use(hub):
        ada, bob = (Learner(hub, name, lesson) for name in ("ada", "bob"))
        await ada.hub_is_there()
        pages = await asyncio.gather(lesson_of(ada), lesson_of(bob))
        mine = {"type": "file", "format": "text", "content": "mine"}
        await ada.ask("/user/ada/api/contents/index.ipynb", "PUT", mine)
        await ada.log_out()
        await ada.log_in()
        return ada, bob, pages

    with running(tmp_path) as hub:
        ada, bob, pages = asyncio.run(use(hub))
        folder = Path(hub.folder) / "learners"
        allowed = [os.sched_getaffinity(pid) for pid in servers(hub.pid)]
        limits = [Path(f"/proc/{pid}/limits").read_text() for pid in servers(hub.pid)]
    for learner, page in zip((ada, bob), pages, strict=True):
        assert learner.errors == []
        assert b"jupyter-config-data" in page
        shown = [data["text/html"] for data in learner.outputs if "text/html" in data]
        assert any("class=jaxlens" in html for html in shown)
    assert (folder / "ada" / "jaxlens-course" / "index.ipynb").read_text() == "mine"
    assert (folder / "bob" / "jaxlens-course" / "index.ipynb").read_text() != "mine"
    assert len(limits) == 2
    assert all(len(cores) <= 4 for cores in allowed)
    assert all(f"{2 * 2**30}" in text.partition("Max data size")[2][:60] for text in limits)


def servers(pid):
    """The servers of learners, which a hub started."""
    from tests.bench.hub import descendants

    commands = ((p, Path(f"/proc/{p}/cmdline").read_bytes()) for p in descendants(pid))
    return [p for p, command in commands if b"jupyterhub.singleuser" in command]
