"""Files get short, stable, distinct names, and only the frames that count become spans."""

import functools

import pytest

from jaxlens.ir import spans


@pytest.fixture(autouse=True)
def fresh_names(monkeypatch):
    monkeypatch.setattr(spans, "_CELLS", {})
    monkeypatch.setattr(spans, "_TAKEN", {})
    spans._describe.cache_clear()
    yield
    spans._describe.cache_clear()


@pytest.mark.parametrize(
    ("key", "name", "library", "own"),
    [
        ("<ipython-input-7-0123abcd>", "cell 7", False, False),
        ("/tmp/ipykernel_12/3456.py", "cell", False, False),
        ("/tmp/marimo_12/__marimo__cell_Hbol_.py", "cell Hbol", False, False),
        ("/home/me/model.py", "model.py", False, False),
        ("/v/lib/python3.11/site-packages/flax/nnx/nn/linear.py", "flax/nnx/nn/linear.py", 1, 0),
        ("/v/lib/python3.11/site-packages/jax/_src/numpy/ufuncs.py", None, True, True),
        ("C:\\v\\Lib\\site-packages\\jaxlib\\xla.py", "jaxlib/xla.py", True, True),
        ("/usr/lib/python3.12/asyncio/events.py", "asyncio/events.py", True, False),
        (functools.__file__, "functools.py", True, False),
        (spans.__file__, "jaxlens/ir/spans.py", True, True),
        ("<frozen runpy>", "<frozen runpy>", True, False),
        ("<stdin>", "<stdin>", False, False),
    ],
)
def test_describe(key, name, library, own):
    file = spans.describe(key)
    assert name is None or file.name == name
    assert (file.key, file.library, file.own) == (key, library, own)


def test_a_registered_cell_is_named_by_its_number():
    key = "/tmp/ipykernel_12/3456.py"
    assert spans.describe(key).name == "cell"
    spans.register_cell(key, 3)
    assert spans.describe(key).name == "cell 3"


def test_two_files_of_one_base_name_stay_apart():
    assert spans.describe("/a/one/net.py").name == "net.py"
    assert spans.describe("/a/two/net.py").name == "two/net.py"
    assert spans.describe("/b/two/net.py").name == "b/two/net.py"
    assert spans.describe("/a/one/net.py").name == "net.py"


def test_spans_leave_out_jax_and_what_launched_the_user():
    site = "/v/lib/python3.11/site-packages"
    stack = [
        (f"{site}/jax/_src/lax/lax.py", 1, 1, 0, 1, "add"),
        (f"{site}/flax/linear.py", 2, 2, 0, 1, "Linear.__call__"),
        ("/home/me/model.py", 3, 0, 4, 9, "step"),
        ("/home/me/train.py", 4, 5, -1, -1, "main"),
        (f"{site}/IPython/core/interactiveshell.py", 5, 5, 0, 1, "run_code"),
    ]
    answer = spans.spans(stack)
    assert [str(span) for span in answer] == ["flax/linear.py:2", "model.py:3", "train.py:4"]
    assert [span.library for span in answer] == [True, False, False]
    assert (answer[1].end_line, answer[1].column, answer[1].end_column) == (3, 4, 9)
    assert answer[1].key == "/home/me/model.py"


def test_a_stack_of_libraries_alone_is_kept():
    assert [s.file for s in spans.spans([("/v/site-packages/x/y.py", 1, 1, 0, 1, "f")])] == [
        "x/y.py"
    ]
