"""`%%recompiles` in a real shell."""

import pytest

from tests.notebook.magics.test_session_magics import NAMES as SETUP  # noqa: F401 - run first


def test_the_first_sentence_is_the_answer(run, shell):
    ran = run("%%recompiles -o log\nfor n in (32, 31, 30):\n    step(w, batch(n))\nn + 1").well()
    log = shell.user_ns["log"]
    assert log.findings[0].text == (
        "step compiled 3 times in this cell, twice because x's first axis changed: 32, 31, 30."
    )
    assert ran.shown.splitlines()[2].startswith("- step compiled 3 times in this cell, twice")
    assert "Out[2]: 31" in ran.out  # the cell's own result
    assert shell.user_ns["log"].compiles == 3
    assert shell.user_ns["n"] == 30
    assert {call.line.file for call in shell.user_ns["log"].log.calls} == {"cell 2"}
    assert {call.line.line for call in shell.user_ns["log"].log.calls} == {3}
    assert [call.defined.line for call in shell.user_ns["log"].log.calls] == [2, 2, 2]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("%%recompiles --out x\nx = 1", "%%recompiles has no option --out"),
        ("%%recompiles -o 3x\nx = 1", "-o takes a name to store the answer under, got '3x'"),
        ("%recompiles --out x step(w, w)", "%recompiles has no option --out"),
        ("%recompiles -o 3x step(w, w)", "-o takes a name to store the answer under, got '3x'"),
        ("%recompiles -o", "%recompiles: argument -o: expected one argument; see %recompiles -h"),
        ("%recompiles", "%recompiles has nothing to look at: put a call behind it"),
    ],
)
def test_a_wrong_use_gets_one_line(run, line, says):
    ran = run(line)
    assert says in ran.refused()
    assert not ran.shown


@pytest.mark.parametrize("code", ["%recompiles step(w,", "%%recompiles\nx = 1\nstep(w,"])
def test_what_is_no_python_is_told_by_python_alone(run, code):
    ran = run(code)
    assert isinstance(ran.error, SyntaxError)
    assert not ran.shown


def test_help(run):
    assert "Why did it recompile?" in run("%recompiles -h").out
    assert "measured: seconds of each trace" in run("%%recompiles -h\nx").out
