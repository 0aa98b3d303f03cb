"""`jaxlens ask`: a question about a program, from the shell."""

import json
import re
import sys
import venv
from importlib import import_module
from pathlib import Path

import jaxlib
import jsonschema
import pytest

import jaxlens
from jaxlens.cli import main
from jaxlens.errors import OWN
from jaxlens.shell.questions import questions
from jaxlens.shell.watch import watch
from tests.support.paths import CAPTURES, python

STEP = '''"""A train step."""
import jax
import jax.numpy as jnp

w = jnp.ones((8, 4))
x = jnp.ones((16, 8))
print("imported")


def loss(w, x):
    return jnp.tanh(x @ w).sum()  # here


@jax.jit
def step(w, x):
    return w - 0.1 * jax.grad(loss)(w, x)


class Model:
    @staticmethod
    def log(x):
        return jnp.log(x - x)


def main():
    for size in (16, 12):
        step(w, x[:size])


def compares(x):
    return x if x.sum() > 0 else -x


def raises(x):
    raise ValueError("of the user")
'''
(SAVED,) = (path for path in CAPTURES if path.name == "mlp_step.cpu.jaxlens")
SCHEMA = json.loads(Path(OWN, "shell", "answer.schema.json").read_text())
VALUES = {
    "fits": "h100",
    "write": "wrong.py",
    "kernel": "no_such",
    "without": "fusion",
    "against": str(SAVED),
}


@pytest.fixture
def ask(tmp_path, monkeypatch, capfd):
    """`ask(words)`: asks in a folder with `ask_step.py`; returns status, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", ["jaxlens"])
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    (tmp_path / "ask_step.py").write_text(STEP)

    def asked(*words):
        monkeypatch.delitem(sys.modules, "ask_step", raising=False)
        status = main(["ask", *words])
        said = capfd.readouterr()
        return status, said.out, said.err

    yield asked
    sys.modules.pop("ask_step", None)


def valid(line):
    """An answer that was printed as one line, and follows the schema."""
    (only,) = line.splitlines()
    answer = json.loads(only)
    jsonschema.validate(answer, SCHEMA)
    return answer


def test_questions_are_listed_by_name(ask):
    status, out, _ = ask()
    assert status == 0
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert lines["memory"] == "Which line owns the memory peak?"
    assert lines["checkpoint"] == "Which checkpoint policy?"
    assert lines["fits=DEVICE"] == "Will it fit a device, and what would make it?"
    assert {*lines} == {asked.written for asked in questions().values()}


@pytest.mark.backend
def test_every_question_of_a_function_follows_the_schema(ask):
    program = ("ask_step.py:step", "--args", "w, x", "--json")
    unanswered = {}
    for name, asked in questions().items():
        value = f"={VALUES[name]}" if name in VALUES else ""
        status, out, err = ask(f"{name}{value}", *program)
        answer = valid(out)
        assert answer["question"] in (name, f"{name}{value}")
        assert "imported" in err
        if status:
            assert err.endswith(f"jaxlens: {answer['error']['message']}\n")
            unanswered[name] = answer["error"]["kind"]
        elif asked.verb and name != "asm":
            assert answer["sentences"][0]["text"], name
            assert answer["program"].startswith("step(w, x) with w f32[8,4], x f32[16,8] on cpu")
    assert unanswered == {"kernel": "OptionError"}


@pytest.mark.backend
def test_sentences_have_the_lines_and_nodes_to_follow(ask, tmp_path):
    answer = valid(ask("memory", "ask_step.py:step", "--args", "w, x", "--json")[1])
    (name,) = (n for n, path in answer["files"].items() if path == str(tmp_path / "ask_step.py"))
    line = f"{name}:{next(n for n, s in enumerate(STEP.splitlines(), 1) if '# here' in s)}"
    saved = next(s for s in answer["sentences"] if s["text"].startswith("Autodiff saves"))
    assert line in saved["lines"]
    assert line in answer["nodes"][saved["ids"][0]]["lines"]
    assert answer["nodes"][saved["ids"][0]]["stage"] == "jaxpr"
    inside = jaxlens.memory(jaxlens.load(SAVED))
    held = valid(ask("memory", str(SAVED), "--json")[1])
    assert held["facts"]["peak"] == inside.peak
    assert [s["text"] for s in held["sentences"]] == [f.measured for f in inside.findings]
    optimized = {node.id for node in jaxlens.load(SAVED).optimized.module.nodes()}
    places = {id: node["stage"] for id, node in held["nodes"].items()}
    assert {stage == "optimized" for id, stage in places.items() if id in optimized} == {True}


@pytest.mark.backend
@pytest.mark.parametrize(
    ("words", "first"),
    [
        (("nan", "ask_step.py:Model.log", "--args=x"), "- The first infinity is made by `log`"),
        (("first_nan", "ask_step:Model.log", "--args=x"), "- The first infinity is made by `log`"),
        (("recompiles", "ask_step.py:main"), "- step compiled 2 times, once because x's first"),
        (("timeline", "ask_step.py:main"), "- "),
        (("memory", "ask_step.py:step", "--args", "f32[8,4]", "--args", "x"), "- The peak is"),
    ],
)
def test_what_a_person_asks(ask, words, first):
    status, out, err = ask(*words)
    assert status == 0, err
    assert next(line for line in out.splitlines() if line.startswith("- ")).startswith(first), out
    assert "imported" not in out


@pytest.mark.backend
def test_a_record_is_asked_as_a_whole_and_by_function(ask, tmp_path):
    job = "import ask_step\nask_step.main()"
    (tmp_path / "job.py").write_text(job)
    words = "-m jaxlens record -o runs/a job.py".split()
    assert python(*words, folder=tmp_path).returncode == 0
    assert "step compiled 2 times" in ask("recompiles", "runs/a")[1]
    for program in ("runs/a", "runs/a:step"):
        answer = valid(ask("cost", program, "--json")[1])
        assert "x f32[12,8]" in answer["program"]  # the last one
    status, _, err = ask("cost", "runs/a:stpe")
    assert (status, err) == (
        2,
        "jaxlens: name a function of runs/a, as runs/a:step; did you mean 'step'?\n",
    )


CASES = [
    (["memroy", "ask_step.py:step"], "no question 'memroy'; did you mean 'memory'?"),
    (["memory"], "name the program: jaxlens ask memory train.py:step; or"),
    (["memory=3", "ask_step.py:step"], "the question is written memory, got 'memory=3'"),
    (["fits", "ask_step.py:step"], "the question is written fits=DEVICE, got 'fits'"),
    (["arrays", "ask_step.py:step"], "arrays is about a process that has run: ask jaxlens.arrays"),
    (["memory", "ask_step.py"], "ask_step.py has functions, of which none is named; choose from"),
    (["memory", "ask_step.py:stpe"], "ask_step.py has no 'stpe'; did you mean 'step'?"),
    (["memory", "nowhere"], "no file or folder 'nowhere' here; a function is written train.py:st"),
    (["memory", "nowhere.py:f"], "no file 'nowhere.py' here"),
    (
        ["memory", "ask_step.py:step"],
        "step takes w, x: give a shape for each, in this order, such "
        'as --args "f32[8,128], f32[8,128]"',
    ),
    (["memory", "ask_step.py:step", "--args", "w, f33[2]"], "no dtype 'f33' in --args; did you"),
    (
        ["memory", "ask_step.py:step", "--args", "w, xx"],
        '--args takes shapes such as "f32[8,128], '
        "params=f32[128,4]\", got 'xx' (no variable of the file; did you mean 'x'?)",
    ),
    (["memory", "ask_step.py:step", "--args", "w"], "the arguments do not fit step(w, x): missing"),
    (
        ["values", "ask_step.py:loss", "--args", "w, f32[2,8]"],
        "values needs arrays, got only the "
        'shape (2, 8) of x; give arrays of the file by name: --args "params, x"',
    ),
    (
        ["timeline", "ask_step.py:loss", "--args", "w, f32[2,8]"],
        "timeline needs arrays, got only the shape (2, 8) of x; give",
    ),
    (
        ["disagree", "ask_step.py:loss", "--args", "w, f32[2,8]"],
        "disagree needs arrays, got only the shape (2, 8) of x; give",
    ),
    (
        ["values", str(SAVED)],
        "a saved capture holds no program that could run with arguments; "
        "ask about its function: train.py:step",
    ),
    (["timeline", str(SAVED)], "timeline is about a run: name a function, train.py:main"),
    (["memory", str(SAVED), "--args", "f32[2]"], "--args and --target go with a function; "),
    (["memory", "ends.py:f"], "ends.py ends with 3 when it is imported; put what it runs under if"),
    (["memory", "a.py:f", "--python", "no/python"], "cannot run no/python: No such file or direc"),
]


@pytest.mark.backend
@pytest.mark.parametrize(("words", "message"), CASES)
def test_what_a_user_gets_wrong_is_one_line(ask, tmp_path, words, message):
    (tmp_path / "ends.py").write_text("import sys\nsys.exit(3)")
    status, out, err = ask(*words)
    (line,) = (line for line in err.splitlines() if line != "imported")
    assert (status, out) == (2, "")
    assert line.startswith(f"jaxlens: {message}")


@pytest.mark.backend
def test_an_error_of_the_users_code_has_its_line(ask, tmp_path):
    (tmp_path / "bad.py").write_text("def f(x):\n    return (x +\n")
    (tmp_path / "lacks.py").write_text("import no_such_module\n")
    cases = [
        ("bad.py:f", "SyntaxError", "was never closed", f"{tmp_path / 'bad.py'}:2"),
        ("lacks.py:f", "ModuleNotFoundError", "no_such_module", f"{tmp_path / 'lacks.py'}:1"),
        ("ask_step.py:raises", "ValueError", "of the user", "return ValueError"),
        ("ask_step.py:compares", "TracerBoolConversionError", "return jnp.where(x.sum() > 0", ""),
    ]
    for program, kind, message, line in cases:
        status, out, err = ask("memory", program, "--args", "f32[3]", "--json")
        error = valid(out)["error"]
        assert (status, error["kind"]) == (1, kind)
        assert message in error["message"]
        assert f"{kind}: " in err
        assert "jaxlens/shell" not in err
        (found,) = error["lines"]
        if line.startswith("/"):
            assert found == line
        else:
            number = int(found.removeprefix(f"{tmp_path / 'ask_step.py'}:"))
            assert STEP.splitlines()[number - 1].split()[0] in ("raise", "return")


def test_a_file_of_a_package_and_one_with_the_name_of_another_module(ask, tmp_path):
    package = tmp_path / "ask_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "sizes.py").write_text("n = 3")
    (package / "model.py").write_text("from .sizes import n\ndef f(x): return x * n")
    (tmp_path / "json.py").write_text("def f(x): return x * 2")
    for program in ("ask_package/model.py:f", "json.py:f"):
        assert ask("tree", program, "--args", "f32[2]")[0] == 0
    assert sys.modules["json"] is json
    for name in ("ask_package", "ask_package.sizes", "ask_package.model", "json.py"):
        del sys.modules[name]


def test_the_schema_is_printed_and_refuses_other_forms(ask):
    assert json.loads(ask("--schema")[1]) == SCHEMA
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    answer = valid(ask("sharding", str(SAVED), "--json")[1])
    del answer["sentences"][0]["trust"]
    with pytest.raises(jsonschema.ValidationError, match="trust"):
        jsonschema.validate(answer, SCHEMA)


def test_help_fits_a_screen(ask, capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit, match="0"):
        ask("-h")
    assert len(capfd.readouterr().out.splitlines()) <= 30


@pytest.mark.backend
def test_a_file_that_is_watched_is_answered_anew_at_each_save(ask, tmp_path, capfd, monkeypatch):
    """Also where it is saved while the answer is made, and where it has a mistake meanwhile."""
    monkeypatch.setattr(sys, "dont_write_bytecode", sys.dont_write_bytecode)
    file, helper = tmp_path / "ask_live.py", tmp_path / "ask_helper.py"
    text = "import ask_helper\ndef f(x):\n    return (x + 1) * ask_helper.by"
    file.write_text(text)
    helper.write_text("by = 1")
    saves = [
        lambda: file.write_text(text.replace("+ 1", "+ 1 + x * x * x")),
        lambda: helper.write_text("import jax.numpy as jnp\nby = 3 * jnp.ones((4, 4))"),
        lambda: file.write_text("def f(x:"),
        lambda: file.write_text("print('again')\ndef f(x): return x * x, x - 1"),
    ]
    program = ("tree", "ask_live.py:f", "--args", "f32[4]", "--json")
    statuses, jax = [], import_module("jax")

    def answer():
        statuses.append(main(["ask", *program]))
        if not saves:
            raise KeyboardInterrupt
        saves.pop(0)()

    assert watch(answer, file) == 130
    said = capfd.readouterr()
    answers = [valid(line) for line in said.out.splitlines()]
    assert statuses == [0, 0, 0, 1, 0]
    works = [answer["facts"]["work"] if "facts" in answer else None for answer in answers]
    assert works == [8, 20, 32, None, 8]
    assert answers[3]["error"]["lines"] == [f"{file}:1"]
    assert said.err.count("waits until") == 4
    assert said.err.count("again\n") == 1
    assert sys.modules["jax"] is jax
    for name in ("ask_live", "ask_helper"):
        sys.modules.pop(name, None)


@pytest.mark.backend
def test_another_interpreter_needs_jax_alone(ask, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    venv.create(tmp_path / "own", with_pip=False, symlinks=True)
    python = tmp_path / "own" / "bin" / "python"
    program = ("cost", "ask_step.py:step", "--args", "f32[8,4], x", "--python", str(python))
    status, _, err = ask(*program)
    assert (status, err) == (2, f"jaxlens: {python} needs jax: name the interpreter of your file\n")
    (packages,) = (tmp_path / "own" / "lib").glob("python3*/site-packages")
    needed = {"jax", "jaxlib", "numpy", "ml_dtypes", "opt_einsum", "scipy"}
    for path in Path(jaxlib.__file__).parents[1].iterdir():
        if re.split(r"[-.]", path.name)[0] in needed:
            (packages / path.name).symlink_to(path)
    answer = valid(ask(*program, "--json")[1])
    assert answer["program"].startswith("step(w, x) with w f32[8,4], x f32[16,8] on cpu")
    assert not [*packages.glob("jaxlens*")]
