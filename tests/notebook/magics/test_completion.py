"""Completion of a magic's line, as IPython and ipykernel request it, with and without jedi."""

import pytest
from IPython.core.completer import provisionalcompleter

from jaxlens.notebook.magics import complete


@pytest.fixture(params=[True, False], ids=["jedi", "no jedi"])
def tab(request, shell):
    """The completions at the end of a text."""
    before = shell.Completer.use_jedi
    shell.Completer.use_jedi = request.param

    def tab(text):
        with provisionalcompleter():
            return [found.text for found in shell.Completer.completions(text, len(text))]

    yield tab
    shell.Completer.use_jedi = before


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("%%hlo --st", ["--stage"]),
        ("%hlo --st", ["--stage"]),
        ("v = %hlo --st", ["--stage"]),
        ("%%hlo --full --f", ["--fusion"]),
        ("%%hlo --stage opt", ["optimized"]),
        ("%%hlo --stage=st", ["stablehlo"]),
        ("%%hlo --stage ", ["jaxpr", "stablehlo", "hlo", "optimized", "llvm", "asm"]),
        ("%%hlo --diff hlo op", ["optimized"]),
        ("%%compile --target c", ["cpu"]),
        ("%%compile --kernel loop", ["loop_fusion"]),
        ("%%hlo --pass alg", ["algsimp"]),
    ],
)
def test_offers(tab, monkeypatch, text, offered):
    monkeypatch.setattr(complete, "_seen", {"kernel": ("loop_fusion",), "pass": ("algsimp", "dce")})
    assert sorted(tab(text)) == sorted(offered)


@pytest.mark.filterwarnings("ignore:`Completer.complete` is pending")
def test_ipykernels_older_request(shell, run):
    line = "%%compile --ker"
    assert shell.complete("", line, len(line)) == ("--ker", ["--kernel"])


@pytest.mark.parametrize(
    "text", ["%hlo --full jnp.", "%%timeit --st", "hlo --st", "--st", "%hlo f(x"]
)
def test_stays_out_of_the_way(text):
    assert complete.complete(text) == []


def test_names_of_the_last_program(run, tab):
    run("import jax.numpy as jnp\nx = jnp.ones(8)\ndef f(x):\n    return jnp.tanh(x) * 2")
    assert run("%%hlo\nf(x)").ok
    assert tab("%%hlo --pass fus") == ["fusion"]
    assert run("%%compile -o view\nf(x)").ok
    assert tab("%%compile --kernel ")


def test_no_program_is_compiled_to_complete_a_name(run, shell, monkeypatch):
    monkeypatch.setattr("jaxlens.stages.compile.xla_options._SMALL", 0)  # as for a large program
    run("import jax.numpy as jnp\nx = jnp.ones(8)\ndef f(x):\n    return jnp.tanh(x) * 2")
    assert run("%%hlo -o view\nf(x)").ok
    assert [t.step for t in shell.user_ns["view"].capture.times].count("compile") == 1
