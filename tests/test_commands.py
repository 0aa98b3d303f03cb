"""The commands that record scripts, show and compare records, and write pages."""

import os
import sys

import pytest

import jaxlens
from jaxlens.cli import main
from tests.support.paths import CAPTURES, environment, python

SCRIPT = """
import os, sys
assert "jax" not in sys.modules          # what it sets for JAX must count
os.environ["JAX_ENABLE_X64"] = "1"
import jax, numpy as np
assert jax.config.jax_enable_x64
assert __name__ == "__main__" and sys.argv[1:] == ["--n", "4"]
import beside                            # from the script's own folder

@jax.jit
def step(x):
    return (x * 2).sum()

step(np.ones(4))
step(np.ones(5))
"""
# Compiles a function in itself, at its end, and in each kind of process that it can start.
FAMILY = """
import atexit, multiprocessing, os, subprocess, sys, threading, time

def compiled(name):
    import jax, numpy as np
    def f(x): return x + 1
    f.__name__ = name
    return jax.jit(f)(np.ones(3))[0]

def late():
    threading.main_thread().join()
    compiled("late")

if __name__ == "__main__":
    print(sys.argv[0], __file__, [folder for folder in sys.path if "children" in folder])
    if sys.argv[1:]:
        compiled("started")
        sys.exit()
    for way in ("fork", "spawn", "forkserver"):
        child = multiprocessing.get_context(way).Process(target=compiled, args=(way,))
        child.start()
        child.join()
    subprocess.run([sys.executable, sys.argv[0], "child"], check=True)
    compiled("main")
    if os.fork():
        os.wait()
    else:
        sys.exit(3)
    atexit.register(compiled, "last")
    threading.Thread(target=late).start()
"""
ENDS = {
    "exit": ("sys.exit(3)", 3, ""),
    "words": ("sys.exit('no data')", 1, "no data\n"),
    "error": ("def f():\n    return 1 / 0\nf()", 1, ""),
}


@pytest.fixture
def script(tmp_path, request):
    (tmp_path / "train.py").write_text(SCRIPT + ENDS[request.param][0])
    (tmp_path / "beside.py").write_text("")
    return tmp_path, *ENDS[request.param][1:]


def run(folder, *words, PYTHONPATH=""):
    paths = filter(None, [PYTHONPATH, environment()["PYTHONPATH"]])
    return python(*words, folder=folder, timeout=200, PYTHONPATH=os.pathsep.join(paths))


@pytest.mark.backend
@pytest.mark.parametrize("script", ["error"], indirect=True)
def test_a_recorded_script_runs_as_it_would(script, capsys):
    folder, status, _ = script
    plain = run(folder, "train.py", "--n", "4")
    words = ("-m", "jaxlens", "record", "-o", "runs/a", "train.py", "--n", "4")
    recorded = run(folder, *words)
    assert recorded.stdout == plain.stdout
    last = "jaxlens: 2 compiles recorded; jaxlens show runs/a\n"
    assert recorded.stderr == plain.stderr + last
    assert recorded.returncode == plain.returncode == status
    assert main(["show", str(folder / "runs" / "a")]) == 0
    text = capsys.readouterr().out
    assert "step compiled 2 times, once because x's length changed: 4, 5." in text
    assert "f64[5], was f64[4]" in text
    assert main(["diff", str(folder / "runs" / "a"), str(folder / "runs" / "a")]) == 0
    assert "Both compiled the same programs, equally often." in capsys.readouterr().out
    page = folder / "page.html"
    assert main(["show", str(folder / "runs" / "a"), "-o", str(page)]) == 0
    linked, other = (folder / "page-programs").iterdir()
    assert f"page-programs/{linked.name}" in page.read_text()
    assert f"page-programs/{other.name}" in page.read_text()
    assert "step" in linked.read_text()
    program = folder / "runs" / "a" / linked.stem[:8]
    assert main(["explore", str(program), "-o", str(folder / "program.html")]) == 0
    assert "step" in (folder / "program.html").read_text()


@pytest.mark.backend
def test_the_whole_process_and_those_that_it_starts_are_recorded(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('own')")  # of the user
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "family.py").write_text(FAMILY)
    words = ("record", "-o", "a", "jobs/family.py")
    recorded = run(tmp_path, "-W", "ignore", "-m", "jaxlens", *words, PYTHONPATH=str(tmp_path))
    path = tmp_path / "jobs" / "family.py"
    assert recorded.returncode == 0
    assert recorded.stdout.replace("own\n", "").split("\n")[0] == f"jobs/family.py {path} []"
    assert recorded.stdout.count("own") >= 4
    assert recorded.stderr == "jaxlens: 7 compiles recorded; jaxlens show a\n"
    runs = jaxlens.runs(tmp_path / "a")
    names = {run.function: run.process.process for run in runs}
    assert {name for name, process in names.items() if not process.parent} == {
        "main",
        "late",
        "last",
    }
    assert {process.parent for process in names.values()} == {0, names["main"].pid}
    assert {*names} == {"main", "late", "last", "fork", "spawn", "forkserver", "started"}
    assert all(process.ended for process in names.values())
    assert all(run.capture.optimized.text for run in runs)


@pytest.mark.parametrize(
    "raising", ["def f(x):\n    return 1 / 0", "1 / 0"], ids=["call", "import"]
)
def test_an_error_of_an_explored_function_is_its_own(raising, tmp_path, monkeypatch, capsys):
    (tmp_path / "raising.py").write_text(raising)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "raising", raising=False)
    monkeypatch.setattr(sys, "argv", ["jaxlens"])
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    assert main(["explore", "raising:f", "--in", "f32[2]"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert "ZeroDivisionError: division by zero" in lines
    frames = [line for line in lines if line.startswith("  File ")]
    assert len(frames) == 1
    assert "raising.py" in frames[0]


@pytest.mark.parametrize("script", ["exit", "words"], indirect=True)
def test_a_script_that_exits(script):
    folder, status, said = script
    text = (folder / "train.py").read_text().replace(SCRIPT, "import sys\n")
    (folder / "train.py").write_text(text)
    recorded = run(folder, "-m", "jaxlens", "record", "-o", "a", "-m", "train")
    assert recorded.returncode == status
    assert recorded.stderr.startswith(f"{said}jaxlens: nothing was recorded: no function of yours")
    assert not (folder / "a").exists()


def test_what_a_user_gets_wrong(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "of_command.py").write_text("def train(x): ...\nsize = 3")
    (tmp_path / "a" / "process-0-host-1").mkdir(parents=True)
    (tmp_path / "a" / "process-0-host-1" / "process.json").touch()
    (tmp_path / "dumps").mkdir()
    for name in ("log.json", "m.hlo.pb", "dumps/module_0001.jit_f.before_optimizations.hlo.pb"):
        (tmp_path / name).write_text("{}")
    cases = [
        (["record", "-o", "a", "no.py"], "no script 'no.py' here; a module is -m no"),
        (["show", "none"], "expected the folder of a record, got 'none', no such folder"),
        (["show", "of_command.py"], "expected the folder of a record, got 'of_command.py', a file"),
        (
            ["diff", "dumps", "a"],
            "expected the folder of a record, got 'dumps', a folder of XLA's dumps: "
            "jaxlens explore dumps opens its largest program",
        ),
        (["explore", "of_command.py"], "of_command.py is a script, not a program: jaxlens record"),
        (["explore", "of_command"], "expected a file or MODULE:FUNCTION, got 'of_command'"),
        (["explore", "of_command:trian"], "of_command has no 'trian'; did you mean 'train'?"),
        (["explore", "of_command:size"], "of_command:size is no function, but a int"),
        (["explore", "nowhere:f"], "no module 'nowhere' here"),
        (["explore", "of_command.py:train"], "expected a file or MODULE:FUNCTION, got 'of_com"),
        (["explore", "of_command:train"], "train takes x: give a shape for each"),
        (["explore", str(CAPTURES[0]), "--in", "f32[8]"], "--in and --target go with MODULE:"),
        (["explroe", "a"], "no command 'explroe'; did you mean 'explore'?"),
        (["explore", "a"], "'a' is the record of a job: jaxlens show a -o page.html"),
        (["explore", "log.json"], "log.json is no program: give the text of an HLO"),
        (["explore", "m.hlo.pb"], "m.hlo.pb is no program: give the text of an HLO"),
        (["explore", "dumps"], "'dumps' has XLA's dumps as protos only: add --xla_dump_hlo_as"),
        (["explore", "of_command:train", "--in", "8xf32"], '--in takes shapes such as "f32[8,128]'),
        (["explore", "none.jaxlens"], "cannot read none.jaxlens: No such file"),
        (["explore", str(CAPTURES[0]), "-o", "a.pdf"], "a view is saved as .html"),
        (["explore", str(CAPTURES[0]), "-o", "no/a.html"], "cannot write no/a.html"),
    ]
    monkeypatch.setattr(sys, "argv", ["jaxlens"])
    for words, message in cases:
        assert main(words) == 2, words
        assert capsys.readouterr().err.startswith(f"jaxlens: {message}")


@pytest.mark.backend
def test_a_function_on_shapes_and_a_saved_capture_become_pages(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "argv", ["jaxlens"])
    (tmp_path / "of_pages.py").write_text(
        "class M:\n    @staticmethod\n    def f(x): return x * 41"
    )
    assert main(["explore", "of_pages:M.f", "--in", "f32[8,2]"]) == 0
    assert capsys.readouterr().out == "M.f.html\n"
    assert "f32[8,2]" in (tmp_path / "M.f.html").read_text()
    targets = ["--target", "cpu", "--target", "gpu:none"]
    assert main(["explore", "of_pages:M.f", "--in", "f32[8,2]", *targets, "-o", "two.html"]) == 0
    shown = (tmp_path / "two.html").read_text()
    assert "side by side for" in shown
    assert "no description of" in shown
    assert main(["explore", "of_pages:M.f", "--in", "f32[8,2]", *targets[2:]]) == 2
    capsys.readouterr()
    (tmp_path / "of_two.py").write_text("def g(x, w): return x @ w")
    assert main(["explore", "of_two:g", "--in", "f32[3,2]", "--in", "f32[2,5]"]) == 0
    assert "f32[2,5]" in (tmp_path / "g.html").read_text()
    assert main(["explore", str(CAPTURES[0])]) == 0
    assert (tmp_path / f"{CAPTURES[0].stem}.html").stat().st_size > 10_000


@pytest.mark.parametrize("module", ["no_such_package.x", "json"])
def test_a_module_that_cannot_run_is_one_line(tmp_path, module):
    recorded = run(tmp_path, "-m", "jaxlens", "record", "-o", "a", "-m", module)
    assert recorded.returncode == 1
    first, second = recorded.stderr.splitlines()
    assert first.startswith("jaxlens: ")
    assert module.partition(".")[0] in first
    assert second.startswith("jaxlens: nothing was recorded")
