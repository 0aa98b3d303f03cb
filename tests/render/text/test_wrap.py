"""Wrapping does not break `file:line` names."""

from jaxlens.render.text.lines import wrap
from jaxlens.render.text.table import table_lines
from jaxlens.report import Table, cells


def test_a_place_stays_in_one_line():
    for width in range(10, 40):
        lines = wrap("made at cell 3:4 and cell 12:30 of them, a cell or two", width)
        assert all(len(line) <= width for line in lines)
        assert any("cell 3:4" in line for line in lines)
        assert any("cell 12:30" in line for line in lines)


def test_in_tables_too():
    table = Table("T", ("a", "from lines"), (cells("x" * 60, "cell 1:2, cell 3:4 and cell 5:6"),))
    lines = table_lines(table, 80)
    assert sum(line.count("cell ") for line in lines) == 3
    assert not any(line.endswith("cell") for line in lines)


def test_a_long_heading_of_numbers_is_wrapped_between_words():
    names = ("", "NVIDIA H100 80GB HBM3", "bytes a device")
    row = cells("memory at the peak, one device", "103 kB", "7 kB")
    table = Table("T", names, (row,), right=(1, 2))
    _, first, second, _, *rows = table_lines(table, 60)
    assert first.split() == ["NVIDIA", "H100", "80GB", "bytes", "a", "device"]
    assert second.split() == ["HBM3"]
    assert max(map(len, rows)) <= 60


def test_a_long_heading_of_numbers_is_folded_and_a_short_one_is_not():
    heads = ("f", "in a run", "layers=12, act='tanh', " * 3, "layers=24, act='tanh', " * 3)
    lines = table_lines(Table("", heads, (cells("step", 1, 1_000, 20),), right=(1, 2, 3)), 100)
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("  f     in a run  ")
    assert lines[-1].startswith("  step         1  ")
