"""Answers in a process of their own: each gets a verdict, and none hangs or ends this process."""

import _thread
import threading
import time
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlens.course import judge_process
from jaxlens.course.judge_process import judge_cell
from jaxlens.course.library import puzzle
from jaxlens.course.limits import Beginning, Limit, LimitError
from jaxlens.course.namespace import needed

pytestmark = pytest.mark.backend

SOLUTION = puzzle("7.2").solution
ENDLESS = SOLUTION.replace("(state[0] != 1) & (state[1] < 99)", "state[0] > -99")


@pytest.fixture(scope="module", autouse=True)
def _process():
    yield
    judge_process.forget()


def judged(code, earlier=(), names=(), id="7.2"):
    return judge_cell(id, code, earlier, dict(names), 3)


@pytest.fixture
def quick(monkeypatch):
    """Gives an answer one second."""
    entry = replace(puzzle("7.2"), seconds=1.0)
    monkeypatch.setattr(judge_process, "puzzle", lambda _: entry)
    judged(SOLUTION)  # it is started


def test_a_right_answer_with_its_evidence():
    verdict = judged(puzzle("4.2").solution, id="4.2")
    assert verdict.solved
    assert verdict.ends
    assert "The evidence: gram(x, y)" in verdict.text(full=True)
    assert 'data-line="cell 3:3"' in verdict._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize(
    "code", [ENDLESS, "while True: pass", "import time\ntime.sleep(99)", "10 ** 10 ** 10"]
)
def test_what_does_not_end_is_stopped(quick, code):
    start = time.monotonic()
    verdict = judged(code)
    assert time.monotonic() - start < 1 + 3
    assert "it was stopped as it took more than 1 s" in verdict.sentence
    assert not verdict.ends


def test_memory_is_limited():
    verdict = judged("kept = [jnp.ones(10**8) * i for i in range(25)]")
    assert "it was stopped as it took more than 1.5 GB of memory" in verdict.sentence
    assert not verdict.ends


@pytest.mark.parametrize(
    ("code", "says", "ends"),
    [
        ("import sys\nsys.exit()", "SystemExit in line 3", False),
        ("import os\nos._exit(3)", "it ended the process that judged it (exit code 3)", False),
        ("def f(n): return f(n)\nf(1)", "RecursionError in line 2, `def f(n)", False),
        ("1 / 0", "ZeroDivisionError in line 2, `1 / 0`", True),
    ],
)
def test_an_answer_that_does_not_come_to_its_end(code, says, ends):
    verdict = judged(code)
    assert says in verdict.sentence
    assert verdict.ends == ends
    assert len(verdict.text(full=True)) < 3000


def test_what_is_printed_is_cut():
    verdict = judged(f"for i in range(200_000): print(i)\n{SOLUTION}")
    assert verdict.solved
    assert verdict.printed == ""  # by the cell itself, which shows it where it runs again
    head = "def all_steps(numbers):\n"
    printing = f"{head}    for i in range(200_000): print(i)\n"
    verdict = judged(SOLUTION.replace(head, printing))
    assert verdict.solved
    assert verdict.printed.startswith("0\n1\n2\n")
    assert verdict.printed.endswith("only the first 4,000 characters are shown\n")
    assert len(verdict.printed) < 4100


def test_names_of_the_notebook_are_there():
    earlier = [
        "%load_ext jaxlens\nfrom functools import partial",
        "%%time\nclass Count:\n    def __init__(self): self.n = 0\n    def add(self): self.n += 1",
        "count = Count()\ncount.add()\nraise ValueError('not needed')",
        "def half(n): return n >> shift\nhalf = partial(half)\n%time 1",
    ]
    names = {"shift": jnp.int32(1), "key": jax.random.key(0), "large": np.ones(3)}
    names["count"] = names["half"] = lambda: None  # these cannot be pickled as they are
    code = SOLUTION.replace("lambda n: n >> 1", "half")
    assert judged(f"assert count.n == 1\n{code}", earlier, names).solved
    assert judged(f"assert (large == 1).all()\n%time key\n{code}", earlier, names).solved
    assert "name 'halves' is not defined" in judged("halves(1)", earlier, names).sentence


def test_only_the_statements_that_are_needed():
    cells = ["a = 1\nb = slow()", "a = []\na.append(c)\na[0] = 2\nc = 3", "d = a.x"]
    found = [statement.lineno for _, statement in needed("f = a", cells, lambda name: False)]
    assert found == [1, 2, 3, 4]
    assert not list(needed("f = a", cells, lambda name: name == "a"))


def test_an_answer_leaves_nothing_for_the_next():
    assert "replaces `jax.jit`" in judged(f"jax.jit = 1\n{SOLUTION}").sentence
    assert judged(SOLUTION).solved


def test_an_interrupt_ends_the_process():
    judged(SOLUTION)
    child = judge_process._judge
    timer = threading.Timer(0.5, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        judged("while True: pass")
    timer.join()
    assert child.code is not None
    assert judged(SOLUTION).solved


def test_the_limit_of_a_busy_process_is_a_little_longer(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("jaxlens.course.limits.time.monotonic", lambda: now[0])
    monkeypatch.setattr("jaxlens.course.limits.used", lambda pid: (10, 1.0 + now[0] / 2))
    limit = Limit(1, seconds=10)
    now[0] = 12.0
    limit()
    now[0] = 13.0
    with pytest.raises(LimitError, match="more than 10 s"):
        limit()


def test_the_beginning_of_what_is_printed():
    import io

    to = io.StringIO()
    beginning = Beginning(to)
    for _ in range(5_000):
        print("x", file=beginning)
    assert to.getvalue().count("x\n") == 2_000
    assert to.getvalue().count("are shown") == 1
