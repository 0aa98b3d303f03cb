"""`%%timeline` in a real shell."""

from jaxlens.notebook.magics.complete import complete
from tests.support.paths import without_folders

SETUP = """
import jax, jax.numpy as jnp
@jax.jit
def step(w):
    w = jax.lax.fori_loop(0, 8, lambda _, y: y @ w, w)
    return w, w.sum()
w = jnp.eye(700) * 0.5
jax.block_until_ready(step(w));
"""


def test_the_first_sentence_names_the_line(run, shell):
    ran = run(
        "%%timeline -o t\nran = 0\nfor _ in range(3):\n    w, loss = step(w)\n    "
        "value = float(loss)\n    ran += 1\nran"
    ).well()
    assert "Out[2]: 3" in ran.out  # the cell's own result, made once
    assert shell.user_ns["t"].findings[0].text == (
        "The loop waits for the device 3 times, at cell 2:5, `value = float(loss)`, for step, "
        "which cell 2:4 dispatches."
    )
    assert ran.shown.startswith("timeline of the cell: 3 dispatches, 3 waits\n\n- The loop waits")
    # Times change from run to run: the text that notebooks compare has none.
    assert "device is idle" not in ran.shown
    assert "device is idle" in shell.user_ns["t"].text(times=True)


def test_the_line_magic_gives_the_value(run, shell):
    run("y = %timeline -o t float(step(w)[1])").well()
    assert isinstance(shell.user_ns["y"], float)
    assert shell.user_ns["t"].waits == 1


def test_an_error_is_the_users_and_the_run_is_shown(run, shell):
    ran = run("%%timeline -o t\nfloat(step(w)[1])\n1 / 0")
    assert isinstance(ran.error, ZeroDivisionError)
    assert "jaxlens" not in without_folders(ran.out)
    assert "----> 3 1 / 0" in ran.out
    assert shell.user_ns["t"].waits == 1


def test_what_records_a_read_is_not_in_its_traceback(run):
    for code in ("np.asarray('a', dtype=int)", "np.asarray(gone)", "float(gone.sum())"):
        setup = "import numpy as np\ngone = jnp.ones(3)\ngone.delete()\n"
        ran = run(f"%%timeline\n{setup}{code}")
        assert not ran.ok
        assert "jaxlens" not in without_folders(ran.out), ran.out
        assert f"----> 5 {code}" in ran.out


def test_help_says_what_is_measured(run):
    ran = run("%timeline -h")
    assert ran.out.startswith("Who waits for whom, at which line?\n  measured:")
    assert complete("%%timeline -") == ["-o", "-h", "--help"]


def test_arrays_names_the_notebooks_variables(run, shell):
    assert run("history = []\nx = jnp.ones((10, 10))").ok
    ran = run("%arrays -o a").well()
    assert "x" in {array.name for array in shell.user_ns["a"].named}
    assert run("for n in range(3):\n    history.append(x + n)").ok
    ran = run("%arrays -o a")
    assert "new in history: 3 arrays, 1.2 kB" in ran.shown
    assert "history[*]" in ran.shown


def test_arrays_takes_no_code(run):
    ran = run("%arrays x")
    assert "OptionError: %arrays takes no code, got 'x': %arrays alone looks" in ran.out
    assert run("%arrays -h").out.startswith("What lives on each device, and what grew?")
    assert complete("%arrays -") == ["-o", "-h", "--help"]
