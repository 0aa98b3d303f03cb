"""The cache verdict in sentences, and times in a table that the stable text leaves out."""

import pytest

from jaxlens.ir.facts import Verdict
from jaxlens.program.call_key import sentence, verdict_report
from jaxlens.report import duration


@pytest.mark.parametrize(
    ("verdict", "start"),
    [
        (Verdict(True, earlier=1), "Cache: this call would hit; nothing would be traced"),
        (
            Verdict(False, "trace", earlier=0),
            "Cache: this call would miss; this function was never",
        ),
        (Verdict(False, "trace", earlier=2), "Cache: this call would miss: it is traced, lowered"),
        (
            Verdict(False, "compile", earlier=2),
            "Cache: this call would miss: it is lowered and compiled again; tracing is served",
        ),
        (Verdict(None), "Cache: not known for this call."),
        (Verdict(None, reasons=("f is not jitted",)), "Cache: f is not jitted."),
    ],
)
def test_a_verdict_is_one_sentence(verdict: Verdict, start: str) -> None:
    assert sentence(verdict).startswith(start)
    assert sentence(verdict).endswith(".")


def test_a_single_earlier_signature_is_singular() -> None:
    assert "has 1 earlier call signature)" in sentence(Verdict(True, earlier=1))


def test_the_verdict_and_one_reason_lead() -> None:
    found = verdict_report(Verdict(False, "trace", ("x: a", "y: b"), 1)).findings
    assert [f.weight for f in found] == [1, 1, 0]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, "0 s"),
        (1.25, "1.25 s"),
        (0.0123, "12.3 ms"),
        (8.4e-4, "840 µs"),
        (5e-9, "5 ns"),
        (999.4, "999 s"),
        (999.9, "16.7 min"),
        (3599.0, "1 h"),
    ],
)
def test_durations_have_three_digits(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected
