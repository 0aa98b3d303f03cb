"""The line of a magic: options, transforms, help, and one-line errors."""

import re
from dataclasses import fields

import pytest

from jaxlens.errors import OptionError, nearest
from jaxlens.notebook.magics.magic_line import TRANSFORMS, flags, read
from jaxlens.notebook.magics.magics import ProgramMagics
from jaxlens.options import flag, read_options
from jaxlens.viewer.panes import OPTIONS

# What %%jaxpr takes, in the order in which help lists it.
KNOWN = [
    *(flag(f.name) for f in fields(OPTIONS["jaxpr"])[:-1]),
    *(f"--{name}" for name in TRANSFORMS),
    "--in",
    "--target",
    "--core",
    "--full",
    "-o",
    "-h",
    "--help",
    "-hh",
]


def parsed(line, cell="f(x)", verb="hlo"):
    return read(getattr(ProgramMagics, verb), line, cell)


@pytest.mark.parametrize(
    ("line", "show"),
    [
        ("", {}),
        ("--stage optimized", {"stage": "optimized"}),
        ("--stage=optimized --full", {"stage": "optimized", "full": True}),
        ('--stage "optimized"', {"stage": "optimized"}),
        ("--diff hlo optimized", {"diff": ("hlo", "optimized")}),
        ("--pass 'algsimp'", {"pass_name": "algsimp"}),
    ],
)
def test_options_of_the_verb(line, show):
    assert parsed(line).show == show


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("--diff hlo rnn(w, xs)", "%hlo --diff A B rnn(...)"),
        ("--diff m.f[0](w)", "%hlo --diff A B m.f[0](...)"),
        ("--pass f(x, y)", "%hlo --pass NAME f(...)"),
    ],
)
def test_a_call_is_no_value_of_an_option(line, written):
    with pytest.raises(OptionError) as error:
        parsed(line, cell=None)
    assert f"before the call: {written}; see %hlo -h" in str(error.value)


def test_transforms_keep_the_order_of_the_line():
    take = parsed("--vmap 0,None --grad w --jit", verb="jaxpr").take
    assert take.transforms == (("vmap", "0,None"), ("grad", "w"), ("jit", ""))


@pytest.mark.parametrize(
    ("line", "expression", "transforms"),
    [
        ("f(x)", "f(x)", ()),
        ("--full  f(x, 'a  b')", "f(x, 'a  b')", ()),
        ("--grad f(x)", "f(x)", (("grad", ""),)),
        ("--grad 1 f(x)", "f(x)", (("grad", "1"),)),
        ("--grad=w f(x)", "f(x)", (("grad", "w"),)),
        ("--vmap 0,None --grad f(x)", "f(x)", (("vmap", "0,None"), ("grad", ""))),
        ("--vmap None,0 f(x)", "f(x)", (("vmap", "None,0"),)),
        ("-f(x)", "-f(x)", ()),
    ],
)
def test_an_expression_stands_behind_the_options(line, expression, transforms):
    result = parsed(line, None, "jaxpr")
    assert result.expression == expression
    assert result.take.transforms == transforms


@pytest.mark.parametrize(
    ("verb", "line", "says"),
    [
        ("hlo", "--stag hlo", "%%hlo has no option --stag; did you mean '--stage'?"),
        ("jaxpr", "--zzz", f"%%jaxpr has no option --zzz; {nearest('--zzz', KNOWN)}"),
        ("hlo", "--stage", "%%hlo: argument --stage: expected one argument; see %%hlo -h"),
        ("hlo", "--diff hlo", "%%hlo: argument --diff: expected 2 arguments; see %%hlo -h"),
        ("hlo", "--stage stablhlo", "no stage 'stablhlo'; did you mean 'stablehlo'?"),
        (
            "compile",
            "--run x",
            "%%compile: argument --run: invalid int value: 'x'; see %%compile -h",
        ),
        ("compile", "--run -3", "run takes a count of 1 or more, got -3"),
        ("jaxpr", "f(x)", "%%jaxpr takes options only, got 'f(x)'; the code goes on the next line"),
        ("jaxpr", "-o 3x", "-o takes a name to store the view under, got '3x'"),
        ("jaxpr", "-o class", "-o takes a name to store the view under, got 'class'"),
        ("jaxpr", '--in "f32[3]', "%%jaxpr: a quote is not closed in '\"f32[3]'"),
    ],
)
def test_a_wrong_line_is_answered_in_one(verb, line, says):
    with pytest.raises(OptionError) as error:
        parsed(line, verb=verb)
    assert str(error.value) == says


def test_a_wrong_keyword_is_answered_with_the_nearest():
    with pytest.raises(OptionError) as error:
        read_options(OPTIONS["hlo"], {"stagee": "hlo"})
    assert str(error.value) == "jaxlens.hlo has no option 'stagee'; did you mean 'stage'?"


def test_a_wrong_line_runs_nothing(run, shell):
    line = run("%%jaxpr --nope\ny = 1\ny").refused()
    assert line.startswith("OptionError: %%jaxpr has no option --nope;")
    assert "y" not in shell.user_ns


@pytest.mark.parametrize("verb", ["jaxpr", "hlo", "compile", "explore"])
def test_help_runs_nothing_and_is_worth_reading(run, shell, verb):
    ran = run(f"%%{verb} -h\ny = 1")
    assert "y" not in shell.user_ns
    assert f"jaxlens.{verb}(" in ran.out  # the Python that it stands for
    for option in ("--in SHAPES", "--target DEVICE", "-o NAME", "--grad [ARG]", "-h, --help"):
        assert option in ran.out
    assert ran.out.strip() in shell.object_inspect_text(f"%%{verb}")


@pytest.mark.parametrize("verb", OPTIONS)
def test_help_lists_at_most_twelve_options_and_all_if_asked(run, verb):
    def listed(text):
        return re.findall(r"^  (-[-\w]+)", text, re.MULTILINE)

    first, whole = (listed(run(f"%{verb} {word}").out) for word in ("-h", "-hh"))
    helps = ["-h", "-hh"]
    assert first[-2:] == whole[-2:] == helps
    assert len(first[:-2]) <= 12
    assert set(first) <= set(whole)
    assert {*whole, "--help"} == {*flags(OPTIONS[verb])}
    assert listed(run(f"%{verb} -h").out) == first


def test_braces_and_dollars_are_not_expanded(run, shell):
    run("import jax.numpy as jnp\nw = 3")
    run("%%jaxpr -o view --in \"p={'w': f32[2]}\"\ndef f(p):\n    return p['w']").well()
    assert [i.name for i in shell.user_ns["view"].capture.program.inputs] == ["p['w']"]
