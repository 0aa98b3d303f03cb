"""Hosts whose clocks differ, and what the messages between their processes say of it."""

import pytest

from jaxlens.lenses.record.facts import facts
from jaxlens.lenses.record.report import report
from jaxlens.views.records.job import picture
from tests.lenses.record.job_records import compiled, job, process

LATER = 0.5  # seconds from the start of process 0's record to that of process 1's


def two(ahead, there=0.2, back=0.3, **changes):
    """Two processes of which the second has a clock that is ahead, and the times of messages."""
    first = process(0, compiled(1), delays={"0": 0.01, "1": LATER + there})
    own = {"started": 1000.0 + LATER + ahead, "delays": {"0": back - LATER}, **changes}
    return facts(job(first, process(1, compiled(1), **own)), lambda *_: None)


def said(known):
    return [f"{f.text} / {f.tail}" for f in report(known).findings if "clock" in f.text]


@pytest.mark.parametrize("ahead", [7.0, -7.0, 0.5])
def test_a_clock_that_differs(ahead):
    known = two(ahead)
    (clock,) = known.clocks
    assert abs(clock.ahead - ahead) <= clock.within == pytest.approx(0.3)
    starts = [row.start for row in known.rows]
    assert starts == pytest.approx([1.0, 1.0 + LATER], abs=clock.within)
    side = "ahead" if ahead > 0 else "behind"
    (text,) = said(known)
    assert text.startswith(
        f"Times of process 1 are by process 0's clock, as its own is {side}. /  by "
    )
    assert text.endswith("s, to within 300 ms.")
    assert picture(known).note == (
        "The order between processes is by the clock of process 0, as exactly as is said above."
    )


def test_clocks_that_may_be_equal_are_used_as_they_are():
    known = two(0.1)
    assert [row.start for row in known.rows] == pytest.approx([1.0, 1.0 + LATER + 0.1])
    sentence = "No process's clock is known to differ from process 0's."
    assert said(known) == [f"{sentence} / : each is known to within 450 ms."]


@pytest.mark.parametrize("changes", [{"delays": {}}, {"there": -0.9}])
def test_what_no_messages_bound_is_by_each_host_s_clock(changes):
    known = two(7.0, **changes)
    assert [row.start for row in known.rows] == pytest.approx([1.0, 8.0 + LATER])
    assert said(known) == []
    assert picture(known).note.endswith("by the clocks of their hosts, which may differ.")


def test_of_many_clocks_the_worst_are_named():
    ahead = (3.0, -9.0, 5.0, 4.0, 2.0)
    first = process(0, compiled(1), count=6, delays={str(i): 0.1 for i in range(1, 6)})
    others = [
        process(i, compiled(1), count=6, started=1000.0 + n, delays={"0": 0.1})
        for i, n in enumerate(ahead, 1)
    ]
    texts = said(facts(job(first, *others), lambda *_: None))
    assert [text.split()[3] for text in texts if text.startswith("Times")] == ["2", "3", "4"]
