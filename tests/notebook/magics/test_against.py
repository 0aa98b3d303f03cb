"""`--against NAME`: changes since a view was stored; NAME is looked up, not evaluated."""

import pytest

from jaxlens.errors import OptionError

SETUP = """
import jax.numpy as jnp
x = jnp.ones((8, 4))
def f(x):
    return jnp.sin(x).sum()
"""


@pytest.fixture
def edited(shell):
    shell.run_cell("%%compile -o old\nf(x)").raise_error()
    shell.run_cell("def f(x):\n    return jnp.sin(x * 3.0).sum()").raise_error()
    return shell


@pytest.mark.parametrize("verb", ["compile", "jaxpr"])
def test_the_first_sentence_says_what_changed(edited, verb):
    edited.run_cell(f"%%{verb} --against old -o new\nf(x)").raise_error()
    text = " ".join(str(edited.user_ns["new"]).split())
    assert "- The edit: " in text
    assert "1 equation is new" in text
    assert "What differs (1)" in text


def test_a_view_may_be_compared_with_what_replaces_it(edited):
    edited.run_cell("%%compile --against old -o old\nf(x)").raise_error()
    edited.run_cell("%%jaxpr --against old\nf(x)").raise_error()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("odl", "no variable 'odl'; did you mean 'old'?"),
        ("x", "x holds ArrayImpl; choose from old"),
        ("old.capture", "no variable 'old.capture'; choose from old"),
        ("hit()", "no variable 'hit()'; choose from old"),
    ],
)
def test_a_name_that_holds_no_view_is_told_in_one_line(edited, name, says):
    edited.run_cell("seen = []\ndef hit():\n    seen.append(1)").raise_error()
    with pytest.raises(OptionError) as error:
        edited.run_cell(f"%%compile --against {name}\nseen.append(2)\nf(x)").raise_error()
    assert str(error.value) == f"--against takes what -o NAME stored; {says}"
    assert edited.user_ns["seen"] == []


@pytest.mark.parametrize("line", ["--fits -h", "-h --fits", "--fits h100 -h", "--fits --help"])
def test_help_on_an_option_needs_no_value_of_it(edited, capsys, line):
    edited.run_line_magic("compile", line)
    assert capsys.readouterr().out.startswith("Will it fit a device")


def test_a_pass_is_left_out_and_what_comes_out_is_stored(edited):
    edited.run_cell("%%compile --without fusion -o apart\nf(x)").raise_error()
    text = " ".join(str(edited.user_ns["apart"]).split())
    assert "- Without fusion: " in text
    assert edited.user_ns["apart"].capture.program.flags == ("without fusion",)
    edited.run_cell("%%compile --against apart\nf(x)").raise_error()
    with pytest.raises(OptionError, match="did you mean 'fusion'"):
        edited.run_cell("%%hlo --without fusin\nf(x)").raise_error()
