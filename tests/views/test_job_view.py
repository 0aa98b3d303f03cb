"""The view of a job's record: its head, and the text without times."""

from jaxlens.jobs.record.facts import facts
from jaxlens.jobs.record.report import document
from jaxlens.render.text.document_text import text
from tests.jobs.record.job_records import compiled, job, process


def shown(*processes):
    return text(document(facts(job(*processes), lambda *_: None)), width=200)


def test_recordings_of_one_process_are_not_several_processes():
    blocks = [process(0, compiled(1), count=1, started=at) for at in (10.0, 20.0)]
    written = shown(*blocks)
    assert written.startswith("record runs/a: 2 compiles in 1 process\n")
    hosts = shown(*(process(index, compiled(1)) for index in range(2)))
    assert hosts.startswith("record runs/a: 2 compiles in 2 processes\n")


def test_processes_that_a_process_started_are_named_by_it():
    first = process(0, compiled(1), count=1)
    pool = [
        process(0, compiled(1), count=1, started=at, pid=int(at), parent=10)
        for at in (1001.0, 1002.0)
    ]
    written = shown(first, *pool)
    assert written.startswith("record runs/a: 3 compiles in 3 processes\n")
    for label in ("0", "0.1", "0.2"):
        assert any(line.split()[:1] == [label] for line in written.splitlines())


def test_the_text_without_times_has_the_tables():
    lines = [line.split() for line in shown(process(0, compiled(1), count=1)).splitlines()]
    assert "# process function called at memory why program".split() in lines
    assert ["step", "1", "0", "1", "123", "B"] in lines
    assert "process devices compiles state".split() in lines
