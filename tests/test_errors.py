"""Lines of errors of other libraries, as messages quote them."""

from jaxlens.errors import first_line


def test_a_long_line_ends_in_dots():
    assert first_line(ValueError("short\nmore")) == "short"
    assert first_line(ValueError("")) == "ValueError"
    line = first_line(ValueError("word " * 100), 60)
    assert len(line) <= 60
    assert line.endswith("word wo...")
