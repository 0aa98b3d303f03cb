"""No regular expression of the package takes more than linear time, whatever it is given.

Each is tried on one sign over and over and on its own nearly-match, at one length and twice that:
what grows by the square takes four times as long. On a megabyte it would take minutes.
"""

import collections
import re
import signal
import time

import pytest

from jaxlens.ir.graph import paused
from jaxlens.ir.hlo import fusion_log
from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.hlo.frames import Frames
from tests.support.patterns import Use, texts, uses

# Asked of names of files alone, which have 255 letters at most.
_OF_FILE_NAMES = {"ir/hlo/passes.py: _DUMP", "stages/existing/dump_folder.py: _PLATFORM"}
_SHORT, _LONG = 4_000, 16_000
_STOPPED = 1e9


class _TooLongError(Exception):
    pass


@pytest.fixture(autouse=True)
def _stopped():
    """A pattern that would run for minutes is stopped; `re` looks for signals now and then."""

    def stop(*_):
        raise _TooLongError

    before = signal.signal(signal.SIGVTALRM, stop)
    yield
    signal.signal(signal.SIGVTALRM, before)


def _seconds(pattern, method, text):
    begin = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, 1)
    try:
        if method in ("sub", "subn"):
            getattr(pattern, method)("", text)
        elif method == "finditer":
            collections.deque(pattern.finditer(text), maxlen=0)
        else:
            getattr(pattern, method)(text)
    except _TooLongError:
        return _STOPPED
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.process_time() - begin


def _grows(use, method, text, length):
    """Whether twice the text takes more than three times as long, where it takes long at all."""

    def seconds(size):
        before, part, end = text
        return _seconds(use.pattern, method, before + part * (size // len(part)) + end)

    whole = seconds(length)
    if whole < length * 2e-6 or whole == _STOPPED:
        return whole == _STOPPED
    half = min(seconds(length // 2) for _ in range(3))
    return min(whole, seconds(length), seconds(length)) > 3 * half


def test_no_pattern_grows_faster_than_its_text():
    patterns = list(uses())
    assert len(patterns) > 150
    slow = [
        (use.name, method, text)
        for use in patterns
        if use.name not in _OF_FILE_NAMES
        for method in use.methods
        for text in sorted(set(texts(use.pattern)))
        if _grows(use, method, text, _SHORT) or _grows(use, method, text, _LONG)
    ]
    assert slow == []


def test_the_test_knows_a_slow_one():
    for pattern in (r"[\w.-]+(?=(?:\[\d+\])? ?=)", r"\s+$", r"(\w+)=(\d+)", r"(a|aa)+b"):
        slow = re.compile(pattern)
        use = Use("slow", slow, ("search",))
        assert any(_grows(use, "search", text, _SHORT) for text in texts(slow)), pattern


# ---- readers ------------------------------------------------------------------------------------

_HEAD = "HloModule m\n\nENTRY %main (p: f32[]) -> f32[] {\n"
_TAIL = "  ROOT %r = f32[] add(%p, %p)\n}\n"
_READERS = {
    "a long word in a table": lambda n: Frames().read(["StackFrames", "1 {" + "a" * n + "}"]),
    "hlo, a long line": lambda n: _nodes(_HEAD + "  %p = f32[] " + "a" * n + "\n" + _TAIL),
    "hlo, brackets": lambda n: _nodes(_HEAD + "  %p = f32[] f(" + "(" * n + "\n" + _TAIL),
    "hlo, tuples": lambda n: _nodes(_HEAD + f"  %p = {'(' * n}f32[]{')' * n} f()\n" + _TAIL),
    "hlo, operands": lambda n: _nodes(_HEAD + f"  %p = f32[] f({'%p, ' * n}%p)\n" + _TAIL),
    "hlo, metadata": lambda n: _nodes(
        _HEAD + '  %p = f32[] f(), metadata={op_name="' + "a(" * n + '"}\n' + _TAIL
    ),
    "hlo, lines": lambda n: _nodes(_HEAD + "  %p = f32[] parameter(0)\n" * n + _TAIL),
    "hlo, unknown lines": lambda n: _nodes(_HEAD + "hello {\n" * n + _TAIL),
    "hlo, a header without end": lambda n: _nodes("HloModule m, " + "a={" * n + "\n" + _HEAD[13:]),
    "fusion log, blanks": lambda n: fusion_log.refusals("a {\n b" + " " * n + "x\n}\n"),
    "fusion log, nested": lambda n: fusion_log.refusals("a {\n" * n),
}


def _nodes(text):
    try:
        module = hlo.read(text)
    except hlo.ReadError:
        return
    for node in module.nodes():
        _ = node.results, node.attrs, node.spans, node.scope


@pytest.mark.parametrize("name", _READERS)
def test_readers_take_no_square_of_the_text(name):
    read = _READERS[name]

    def seconds(size):
        begin = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, 5)
        try:
            with paused():  # the heap of a long run of tests is no part of it
                read(size)
        except _TooLongError:
            return 1e9
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return time.process_time() - begin

    seconds(100)
    if (whole := seconds(80_000)) < 0.4:
        return
    assert min(whole, seconds(80_000)) < 10 * min(seconds(20_000) for _ in range(3))  # not 16
