"""`%%check` in a real shell: all checks at once, or one."""

import pytest

SETUP = """
import jax, jax.numpy as jnp
x = jnp.array([1.0, 0.0, 2.0])
key = jax.random.key(0)
def f(x, i):
    y = jnp.log(x)
    return (y[i] + 1e5 - 1e5).sum()
def twice(key):
    a = jax.random.normal(key)
    return a + jax.random.normal(key)
def g(key): return jax.random.normal(key)
"""
SENTENCES = {
    "nan": "No NaN and no infinity in the results.",
    "numerics": "`sub` in cell 1:6 (`return (y[i] + 1e5 - 1e5).sum()`) loses 5 of the 7 digits",
    "silent": "cell 1:6 (`return (y[i] + 1e5 - 1e5).sum()`) reads index 7 of an axis with 3",
    "values": "finite, and on the way 1 equation has NaN or infinities, first `log`",
}


def words(text):
    return " ".join(text.split())


def test_each_check_has_a_sentence_and_its_answer_in_a_fold(run, shell):
    ran = run("%%check -o found\nf(x, 7)").well()
    places = [words(ran.shown).index(sentence) for sentence in SENTENCES.values()]
    assert places == sorted(places)
    assert "[+] more: %check --silent" in ran.shown
    assert "Values by line" not in ran.shown
    whole = shell.user_ns["found"].text(full=True)
    assert "Values by line" in whole
    assert words(whole).count(SENTENCES["numerics"]) == 1


@pytest.mark.parametrize("name", SENTENCES)
def test_one_check_alone(run, shell, name):
    ran = run(f"%%check --{name} -o found\nf(x, 7)")
    shown = words(ran.shown)
    assert [check for check, text in SENTENCES.items() if text in shown] == [name]
    assert shell.user_ns["found"].document is not None


def test_nan_is_the_option_of_check(run):
    assert run("%check --nan f(x, 7)").shown == run("%nan f(x, 7)").shown


@pytest.mark.parametrize("name", ["nan", "numerics", "values"])
def test_shapes_without_data_are_refused_in_one_line(run, name):
    ran = run(f"%%check --{name} --in f32[3]\ndef g(x):\n    return x + 1")
    assert f"--{name} needs arrays, got only the shape (3,) of x" in ran.out
    assert "Traceback" not in ran.out


def test_a_check_that_cannot_be_made_says_so_and_the_others_stand(run):
    ran = run("%%check --in f32[3]\ndef g(x):\n    return x + 1")
    assert "--numerics needs arrays, got only the shape (3,) of x" in words(ran.shown)
    assert "In `g` no key is used twice" in words(ran.shown)


def test_the_checks_are_not_options_of_jaxpr(run):
    assert "no option --silent" in run("%jaxpr --silent f(x, 1)").out


BESIDE = "Only `g(key)` is looked at. Also called in this cell, and not looked at: "


@pytest.mark.parametrize(
    ("cell", "named"),
    [
        ("%%check --silent\ntwice(key)\ng(key)", "`twice(key)`"),
        ("%%check\na = jax.random.normal(key)\ng(key)", "`jax.random.normal(key)`"),
        ("%%nan\na = twice(key)\nb = twice(key + 1) if False else a\ng(key)", "`twice(key)`"),
        ("%%jaxpr\nprint(g(key), twice(key))", "`twice(key)`"),
    ],
)
def test_the_calls_that_are_not_looked_at_are_named(run, cell, named):
    shown = words(run(cell).shown)
    assert BESIDE in shown
    assert named in shown.partition(BESIDE)[2].partition("Make the calls")[0]


def test_calls_of_one_program_are_not_named(run):
    assert "not looked at" not in run("%%jaxpr\nprint(twice(jax.random.split(key)[0]))").shown
    assert "not looked at" not in run("%%jaxpr\na = twice(key)\njax.vmap(twice)(key[None])").shown
