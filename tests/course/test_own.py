"""The learner's own JAX: a file that cannot be used is named, and says what to do."""

import pytest

from jaxlens.course import own
from jaxlens.course.library import puzzle
from jaxlens.errors import OptionError


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\xff\xfe garbage", "my_jax.py, .* cannot be read .it is not UTF-8."),
        (b"# puzzle 2.1: x\ndef f(:\n", "my_jax.py, .* section of puzzle 2.1 raises SyntaxError"),
        (b"# puzzle 2.1: x\n1 / 0\n", "section of puzzle 2.1 raises ZeroDivisionError"),
    ],
)
def test_a_broken_file_is_named(tmp_path, data, says):
    (tmp_path / own.FILE).write_bytes(data)
    with pytest.raises(OptionError, match=says) as raised:
        own.names_before(puzzle("7.5"), tmp_path)
    assert "move it away" in str(raised.value)
