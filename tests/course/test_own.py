"""The learner's own JAX: a file that cannot be used is named, and says what to do."""

import re

import pytest

from jaxlens.cli import main
from jaxlens.course import own
from jaxlens.course.check import judged
from jaxlens.course.library import puzzle
from jaxlens.course.trial import run_answer
from jaxlens.errors import OptionError

# What is right for the examples of a check, and wrong for other programs.
FAULTS = {
    "3.1": ('f"v{len(eqns)}", np.shape', 'f"v{len(eqns) % 4}", np.shape'),
    "9.5": ("    programs = {}\n\n    def call", "    programs = jit.__dict__\n\n    def call"),
    "12.2": ('"exp": lambda x, dx: dx * exp(x)', '"exp": lambda x, dx: dx * (x + 1.0)'),
    "12.3": ("(ct * (sin(x) * -1.0),)", "(ct * sin(x),)"),
    "15.3": (
        "                with_axis.add(eqn.output)\n",
        "                with_axis.add(eqn.output)\n"
        "                inputs = inputs[:1] * len(inputs) if eqn.op == 'add' else inputs\n",
    ),
    "16.2": (
        "0.5 * (1.0 + np.tanh(0.5 * x))",
        "np.where(np.abs(x) < 0.5, 0.5, np.where(x > 0, 1.0, 0.0))",
    ),
    "18.3": ("carries.append(carry)", "carries.append(np.abs(carry))"),
    "26.4": ('"cos": "cosine"', '"cos": "sine"'),
    "28.3": ("total_ = sum(row[0] for row in rows)", "total_ = sum(row[0] for row in rows[:4])"),
    "30.2": ("return total(y * y)", "return total(y * y * 1.01)"),
}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\xff\xfe garbage", "my_jax.py, .* cannot be read .it is not UTF-8."),
        (b"# puzzle 3.1: x\ndef f(:\n", "my_jax.py, .* section of puzzle 3.1 raises SyntaxError"),
        (b"# puzzle 3.1: x\n1 / 0\n", "section of puzzle 3.1 raises ZeroDivisionError"),
    ],
)
def test_a_broken_file_is_named(tmp_path, data, says):
    (tmp_path / own.FILE).write_bytes(data)
    with pytest.raises(OptionError, match=says) as raised:
        own.names_before(puzzle("9.5"), tmp_path)
    assert "move it away" in str(raised.value)


@pytest.mark.backend
def test_all_parts_are_judged_again(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["mine"]) == 2
    assert "has no my_jax.py; puzzle 3.1 begins it" in capsys.readouterr().err
    for entry in own.track()[:3]:
        own.save(entry, entry.solution)
    assert main(["mine"]) == 0
    out = capsys.readouterr().out
    assert "ok  12.2  jvp" in out
    assert re.search(r"my_jax.py: 3 of 10 parts in \d+ lines, 0 of them wrong", out)
    own.save(puzzle("9.5"), puzzle("9.5").solution.replace("np.shape(x), get", "0, get"))
    assert main(["mine"]) == 1
    assert "BAD 9.5   Puzzle 9.5 is not solved: traces in five calls" in capsys.readouterr().out


@pytest.mark.backend
@pytest.mark.parametrize("id", [entry.id for entry in own.track()])
def test_a_part_is_tried_on_random_programs(id):
    """A part that is off in one place that no example of its check shows is refused."""
    entry = puzzle(id)
    before, after = FAULTS[id]
    assert entry.solution.count(before) == 1
    outcome = judged(entry, lambda: run_answer(entry, entry.solution.replace(before, after)))
    assert not outcome.solved
    assert outcome.facts
