"""`%jaxlens on` and `%explain` in a real shell."""

import itertools
import re

import pytest
from traitlets.config import Config

from jaxlens.notebook.magics import session_magics
from jaxlens.notebook.magics.complete import complete
from jaxlens.notebook.magics.session_magics import JaxLens

NAMES = """
import jax, jax.numpy as jnp, numpy as np
@jax.jit
def step(w, x):
    return (x @ w).sum()
w = np.ones((4, 2), np.float32)
def batch(n):
    return np.ones((n, 4), np.float32)
"""
CELLS = itertools.count()


def watches():
    """The watches that JAX's events go to; the last one to end removes the listeners."""
    from jaxlens.listen import listen

    return list(listen._recorder._watches)


@pytest.fixture(autouse=True)
def _on(run):
    # IPython names a cell by its text too, and another `step` of that name may be alive
    assert run(f"{NAMES}# {next(CELLS)}").ok
    assert run("%jaxlens on").out == "jaxlens is on: 0 programs compiled in 0 cells\n"


def test_one_line_after_a_cell_that_compiled(run):
    ran = run("y = step(w, batch(8))")
    assert (ran.out, ran.shown) == ("", "Compiled `step`.")
    assert run("y = step(w, batch(16))").shown == (
        "Compiled `step` for the second time, because x's first axis changed: 8, 16."
    )


def test_the_line_names_transforms_and_the_fold_has_a_cure(run, monkeypatch):
    assert (
        run("jax.vmap(step, (None, 0))(w, batch(8)[None]);").shown == "Compiled `step` under vmap."
    )
    assert run("g = jax.jit(jax.vmap(step, (None, 0)))\ng(w, batch(8)[None]);").shown == (
        "Compiled `vmap(step)`."
    )
    pages = []
    monkeypatch.setattr(JaxLens, "in_html", True)
    monkeypatch.setattr(session_magics, "display", lambda bundle, raw: pages.append(bundle))
    run("for _ in range(2): jax.jit(lambda x: x)(w)\nfor n in 2, 1: g(w, batch(n)[None])")
    assert "Cure: make the jitted function only once" in pages[0]["text/html"]
    assert "Cure: pad x along axis 1 to " in pages[0]["text/html"]


def test_nothing_after_others(run):
    assert run("step(w, batch(8))").shown
    for code in ("step(w, batch(8));", "1 + 1", "y = batch(3)", "jnp.arange(77).sum();", "1 / 0"):
        assert run(code).shown == "", code


def test_the_line_is_not_among_what_the_user_captures(run):
    ran = run("%%capture cap\nstep(w, batch(8))")
    assert ran.shown == "Compiled `step`."
    assert run("assert len(cap.outputs) == 1").ok  # the value of the call


def test_a_line_also_after_an_error(run):
    ran = run("step(w, batch(9))\n1 / 0")
    assert isinstance(ran.error, ZeroDivisionError)
    assert ran.shown == "Compiled `step`."


def test_the_cell_that_defines_a_function_again(run):
    """A function of another cell is another function."""
    assert run("step(w, batch(8));").shown == "Compiled `step`."
    assert run("@jax.jit\ndef step(w, x):\n    return (x @ w).max()\nstep(w, batch(8));").shown == (
        "Compiled `step`."
    )


def test_lowered_in_one_cell_and_compiled_in_the_next(run):
    assert run("low = step.lower(w, batch(8))").shown == ""
    assert run("c = low.compile()").shown == "Compiled `step`."


def test_too_many_recompiles(run):
    ran = run("for n in (5, 6, 7, 8):\n    step(w, batch(n))")
    assert ran.shown.splitlines() == [
        "Compiled `step` 4 times, because x's first axis changed: 5, 6, 7, 8.",
        "Warning: `step` was recompiled 3 times because x's first axis changed; "
        "`%explain` tries what would avoid it.",
    ]
    assert "Warning" not in run("step(w, batch(9))").shown


def test_what_html_adds(shell, run, monkeypatch):
    shown = []
    monkeypatch.setattr(
        "jaxlens.notebook.magics.session_magics.display", lambda data, raw: shown.append(data)
    )
    run("step(w, batch(8))")
    (bundle,) = shown
    assert bundle["text/plain"] == "Compiled `step`."
    page = bundle["text/html"]
    assert re.search(
        r"<summary>Compiled <code>step</code> \([\d.]+ m?s, peak \d+ B\)\.</summary>", page
    )
    assert "Time of each step" in page
    assert len(page) < 4_000  # each such cell is saved with the notebook
    assert "<script" not in page
    assert "<style" not in page


def test_a_captured_array(run):
    ran = run(
        "W = jnp.ones((2000, 2000))\n@jax.jit\ndef big(x):\n    return x @ W\n"
        "big(np.ones((2, 2000)));"
    )
    assert ran.shown.splitlines()[1] == (
        "Warning: In the program of `big`, one array is closed over, `W` (f32[2000,2000], 16 MB), "
        "a global of `big` (cell 3:2), first read at cell 3:4: pass it as an argument, and its "
        "values are no part of the program."
    )


def test_looks_of_jaxlens_are_not_the_users(run):
    assert run("%%compile\nstep(w, batch(12))").shown.count("Compiled `") == 0


def test_explain(run, shell):
    run("step(w, batch(8))")
    run("step(w, batch(10))")
    run("1 + 1")
    said = run("%explain -o why").shown
    assert "- step compiled again: x's first axis changed: 8, 10." in said
    assert "- Cure: pad x along axis 0 to 10" in said
    assert "x: f32[10,4], was f32[8,4]" in shell.user_ns["why"].text()
    assert "This is about an earlier cell: there is nothing to explain in the last cell." in said
    assert run("%explain").shown == said
    run("step(w, batch(11))")
    assert "earlier cell" not in run("%explain").shown


def test_explain_an_error_of_tracing_that_came_later(run):
    run("step(w, batch(8))")
    assert not run("jax.jit(lambda x: 1 if x > 0 else 2)(1.0)").ok
    assert "TracerBoolConversionError" in run("%explain").shown
    assert "TracerBoolConversionError" in run("%explain").shown
    run("step(w, batch(9))")
    assert "step compiled again" in run("%explain").shown
    assert isinstance(run("1 / 0").error, ZeroDivisionError)
    said = run("%explain").shown
    assert "step compiled again" in said
    assert "This is about an earlier cell" in said


def test_nothing_to_explain(run):
    assert run("%explain").out == (
        "CellError: no cell has compiled a function while jaxlens watched\n"
    )
    run("%jaxlens off")
    assert run("%explain").out == (
        "CellError: %jaxlens on, run the cell, then %explain: "
        "no cell has compiled a function while jaxlens watched\n"
    )


def test_off_leaves_nothing(run):
    run("step(w, batch(8))")
    assert run("%jaxlens").out == "jaxlens is on: 1 program compiled in 2 cells\n"
    assert run("%jaxlens off").out == "jaxlens is off: %jaxlens on watches every cell\n"
    before = watches()
    assert run("step(w, batch(9));").shown == ""
    run("%jaxlens on")
    assert len(watches()) == len(before) + 1
    run("%unload_ext jaxlens")
    assert watches() == before
    run("%load_ext jaxlens")


def test_the_setting_of_ipython(run, shell):
    run("%jaxlens off")
    assert run("%config JaxLens.watch = True").ok
    assert run("step(w, batch(8))").shown == "Compiled `step`."
    run("%unload_ext jaxlens")
    config = shell.config
    shell.config = Config({"JaxLens": {"watch": True}}, **config)
    run("%load_ext jaxlens")
    assert run("step(w, batch(9))").shown.startswith("Compiled `step`")
    shell.config = config


def test_one_line_for_a_wrong_word(run):
    assert (
        run("%jaxlens of").out
        == "OptionError: %jaxlens takes on or off, got 'of'; did you mean 'off'?\n"
    )
    assert "%explain takes no code" in run("%explain step").out
    assert "has no option --all" in run("%explain --all").out


def test_a_fault_of_jaxlens_is_not_the_users(run, shell, monkeypatch):
    cell_done = "jaxlens.questions.session.verbs.SessionWatch.cell_done"
    monkeypatch.setattr(cell_done, lambda self: 1 / 0)
    ran = run("x = 3").well()
    assert "jaxlens is off: ZeroDivisionError: division by zero" in ran.out
    assert run("%jaxlens").out == "jaxlens is off: %jaxlens on watches every cell\n"


def test_help_and_tab(run):
    assert "c.JaxLens.watch = True" in run("%jaxlens -h").out
    assert "what would avoid the recompile" in run("%explain -h").out
    assert complete("%explain -") == ["-o", "-h", "--help"]
    assert complete("%jaxlens o") == ["on", "off"]


def test_a_transform_of_a_function_is_compiled_for_the_first_time(run):
    run("def half(x):\n    return x / 2")
    assert run("jax.jit(half)(np.ones(3));").shown == "Compiled `half`."
    assert run("jax.jit(jax.vmap(half))(np.ones(3));").shown == "Compiled `vmap(half)`."
    assert "Nothing recompiled; 1 function was compiled" in run("%explain").shown
    assert run("jax.jit(half)(np.ones(4));").shown == (
        "Compiled `half` for the second time, because x's length changed: 3, 4."
    )


RAISES = "@jax.jit\ndef f(x):\n    if x > 0:\n        return x\n    return -x\nf(1.0)"


def test_a_plain_cells_failed_trace_is_explained_above_its_traceback(run, shell, monkeypatch):
    run("%jaxlens off")
    plain = run(RAISES)
    assert plain.shown == ""  # in a terminal, and without the watch
    monkeypatch.setattr(shell.display_formatter, "active_types", ["text/plain", "text/html"])
    run("%jaxlens on")
    ran = run(RAISES)
    assert "jnp.where(x > 0, x, -x)" in ran.shown
    cell = re.compile(r"\[\d+\]|input-\d+")
    assert cell.sub("", ran.out) == cell.sub("", plain.out)
    assert not any(note.startswith("jaxlens") for note in getattr(ran.error, "__notes__", ()))
    assert "jnp.where" in run("%explain").shown
    assert "jnp.where(x > 0, x, -x)" in run("%%jaxpr\nf(1.0)").shown
    assert run("1 / 0").shown == ""
    run("%jaxlens off")
    assert shell.custom_exceptions == ()
    assert run(RAISES).shown == ""


def test_a_handler_of_the_users_stays(run, shell, monkeypatch):
    monkeypatch.setattr(shell.display_formatter, "active_types", ["text/plain", "text/html"])
    run("%jaxlens off")
    shell.set_custom_exc((ZeroDivisionError,), lambda *_, **__: print("mine"))
    try:
        run("%jaxlens on")
        assert run("1 / 0").out == "mine\n"
        run("%jaxlens off")
        assert shell.custom_exceptions == (ZeroDivisionError,)
    finally:
        shell.set_custom_exc((), None)
