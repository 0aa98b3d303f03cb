"""Shardings and collectives of known programs on eight virtual devices."""

from functools import cache
from importlib.util import find_spec
from tempfile import TemporaryDirectory

import pytest

from tests.questions.sharding.in_a_process import answers, line


@cache
def _all() -> dict[str, dict]:
    """What one process sees of every program."""
    names = "column_then_row exchanges resharded looped alone left_to_xla of_the_core".split()
    if find_spec("equinox") and find_spec("optax"):
        names.append("of_a_library")
    with TemporaryDirectory() as folder:
        return answers(folder, *names)


def script_results(name: str) -> dict:
    return _all()[name]


def test_one_all_reduce_where_the_sum_is_cut() -> None:
    answer = script_results("column_then_row")
    assert answer["axes"] == [["data", 4], ["model", 2]]
    (one,) = answer["collectives"]
    assert one["opcode"] == "all-reduce"
    assert one["bytes"] == 64 * 32 * 4  # a quarter of 256 rows, all 32 columns
    assert one["groups"] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert one["over"] == ["model"]
    assert one["lines"] == [line("h @ w2")]
    assert answer["sent"] == 2 * (1 / 2) * 64 * 32 * 4
    words = " ".join(answer["text"].split())
    assert "8 devices (data 4 x model 2) sends 8.19 kB a run in 1 all-reduce" in words


def test_the_pieces_are_those_of_jax() -> None:
    answer = script_results("column_then_row")
    assert [spec for spec, _ in answer["inputs"]] == [
        "P(None, 'model')",
        "P('model', None)",
        "P('data', None)",
    ]
    assert answer["pieces"] == answer["truth"]
    between = {name.split(".")[0]: spec for name, spec in answer["values"]}
    assert between["dot_general"] == "P('data', 'model')"  # of x @ w1


def test_each_kind_of_exchange() -> None:
    found = {c["opcode"]: c for c in script_results("exchanges")["collectives"]}
    piece = 16 * 16 * 4
    columns, rows = [[0, 2, 4, 6], [1, 3, 5, 7]], [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert found["all-reduce"]["groups"] == columns
    assert found["all-reduce"]["sent"] == 2 * 3 / 4 * piece
    assert found["all-gather"]["groups"] == rows
    assert found["all-gather"]["bytes"] == 2 * piece
    assert found["all-gather"]["sent"] == piece
    assert found["reduce-scatter"]["sent"] == piece / 2
    ring = [[0, 2], [2, 4], [4, 6], [6, 0], [1, 3], [3, 5], [5, 7], [7, 1]]
    assert found["collective-permute"]["groups"] == ring
    assert found["collective-permute"]["sent"] == piece
    assert all(c["lines"] for c in found.values())
    assert script_results("exchanges")["pieces"] == script_results("exchanges")["truth"]
    specs = [spec for spec, _ in script_results("exchanges")["outputs"]]
    assert specs[2:] == ["P('data', 'model')", "P(('data', 'model'), None)"]


def test_what_a_device_gathers_is_the_whole_less_its_own_piece() -> None:
    """Groups of a mesh whose devices are in another order, or of parts of its axes."""
    answer = script_results("resharded")
    gathers = [c for c in answer["collectives"] if c["opcode"] == "all-gather"]
    assert gathers
    assert sum(c["sent"] for c in gathers) == 64 * 64 * 4 * 7 / 8
    for one in gathers:
        assert sorted(device for group in one["groups"] for device in group) == list(range(8))
        assert len(one["groups"][0]) > 1


def test_a_loop_counts_by_its_trips() -> None:
    (one,) = script_results("looped")["collectives"]
    assert one["trips"] == 10
    assert one["sent"] == 10 * 2 * 3 / 4 * 16 * 32 * 4


def test_one_device_sends_nothing() -> None:
    answer = script_results("alone")
    assert answer["devices"] == 1
    assert "runs on one device" in answer["text"]
    assert answer["sent"] == 0


def test_what_is_left_to_xla_is_read_off_the_program_of_one_device() -> None:
    answer = script_results("left_to_xla")
    (one,) = answer["collectives"]
    assert (one["opcode"], one["bytes"], one["over"]) == ("all-reduce", 64 * 128 * 4, ["data"])
    assert answer["sent"] == 2 * 3 / 4 * 64 * 128 * 4
    assert answer["inputs"] == [["P(None, None)", [1, 1]], ["P('data', None)", [4, 1]]]
    assert answer["pieces"] == answer["truth"]
    words = " ".join(answer["text"].split())
    assert "1 of 2 inputs is cut" in words
    assert "Every device holds 32.8 kB of inputs whole: w f32[64,128]" in words


@pytest.mark.models
def test_gradients_of_a_library_s_model_travel_once() -> None:
    pytest.importorskip("equinox")
    pytest.importorskip("optax")
    answer = script_results("of_a_library")
    weights = 16 * 4 + 16 + 16 * 16 + 16 + 16 + 1
    assert {c["opcode"] for c in answer["collectives"]} == {"all-reduce"}
    assert all(c["over"] == ["data"] and c["trips"] == 1 for c in answer["collectives"])
    # One for each weight, or several in one; the loss itself is not asked for.
    assert sum(c["bytes"] for c in answer["collectives"]) == weights * 4
    assert answer["sent"] == pytest.approx(2 * 3 / 4 * weights * 4)
    assert answer["pieces"] == answer["truth"]
    assert [tiles for _, tiles in answer["inputs"][-2:]] == [[4, 1], [4, 1]]


@pytest.mark.parametrize(
    ("name", "says"), [("looped", "on 8 x cpu"), ("of_the_core", "on 4 x cpu, by jaxlens.core")]
)
def test_the_first_line_counts_the_devices_of_a_shard_map(name: str, says: str) -> None:
    first = script_results(name)["text"].splitlines()[0]
    assert first.partition(", jitted for this look")[0].endswith(says)


def test_of_the_core() -> None:
    answer = script_results("of_the_core")
    assert answer["devices"] == 4
    (one,) = answer["collectives"]
    assert (one["opcode"], one["bytes"], one["over"]) == ("all-reduce", 2 * 4 * 4, ["i"])


@pytest.mark.parametrize("name", ["column_then_row", "exchanges", "looped"])
def test_saved_captures_say_the_same(name: str) -> None:
    answer = script_results(name)
    assert answer["saved"] == answer["text"]
    assert answer["counted"] == 8  # also where only a shard_map says so, not its inputs
    assert answer["html"] < 125_000
