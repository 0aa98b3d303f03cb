"""Both ways of following the user's functions, compared with `sys.settrace`."""

import sys
import threading
from contextlib import suppress
from typing import Any

import pytest

import jaxlens
from jaxlens.lines import frames_monitored, frames_traced

pytestmark = pytest.mark.reads_jax

MONITORED = pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="before Python 3.12")
WAYS = ["traced", pytest.param("monitored", marks=MONITORED)]


def numbers(n):
    for i in range(n):
        try:
            yield i
        except KeyError:
            yield "key"
        finally:
            i = None


def delegates(n):
    return (yield from numbers(n))


def fails():
    raise ValueError("x")


def handles():
    try:
        fails()
    except ValueError as error:
        said = str(error)
    finally:
        done = True
    with suppress(IndexError):
        [][0]
    return said, done


def one_line(n):
    total = 0
    # fmt: off
    for i in range(n): total += i  # noqa: E701
    while total > 0: total -= 1  # noqa: E701
    # fmt: on
    return [x + 1 for x in range(n)], {x: x for x in range(2)}, sum(y for y in range(3))


class Ready:
    def __init__(self, value):
        self.value = value

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True

    def __await__(self):
        return self.value
        yield


def classes():
    class Local(Ready):
        at = 1

        def twice(self):
            return 2 * self.value

    with Ready(1):
        fails()
    return Local(2).twice() + sum(map(lambda q: q + 1, [1, 2]))  # noqa: C417


async def waits():
    first = await Ready(1)
    return first + 1


def throws():
    paused = numbers(3)
    next(paused)
    given = paused.throw(KeyError("k"))
    paused.close()
    numbers(2).close()
    other = numbers(2)
    next(other)
    try:
        other.throw(OSError("o"))
    except OSError:
        given += "!"
    return given


def recurs(n):
    return 1 if n == 0 else n * recurs(n - 1)


def turns(n):
    while True:
        n += 1
        if n > 5:
            break
        if n % 2:
            continue
    match n:
        case 6:
            return "six"
        case _:
            return n + 1


def everything():
    list(numbers(3))
    list(delegates(2))
    handles()
    one_line(3)
    classes()
    with pytest.raises(StopIteration):
        waits().send(None)
    throws()
    recurs(3)
    turns(1)


def stops(error):
    one_line(1)
    raise error


class Heard:
    """Records events in the form of `sys.settrace`."""

    def __init__(self):
        self.events = []

    def note(self, event, frame, value=None):
        self.events.append((event, frame.f_code.co_qualname, frame.f_lineno, value))

    def began(self, frame, again):
        self.note("call", frame)
        return True

    def line(self, frame, line):
        assert line == frame.f_lineno
        self.note("line", frame)

    def raised(self, frame, kind):
        self.note("exception", frame, kind)

    def left(self, frame, how, value):
        self.note("return", frame, value if isinstance(value, int | str) else None)


def following(way, heard):
    if way == "traced":
        return frames_traced.following(heard)
    return frames_monitored.following(heard, frames_monitored.tool())


def told_by_python(run):
    """The same from `sys.settrace` itself; StopIteration ends loops and is left out."""
    heard = Heard()

    def follow(frame, event, value):
        if frame.f_code.co_filename != __file__:
            return None
        if event == "exception":
            value = value[0]
            if value is StopIteration:
                return follow
        elif event != "return" or not isinstance(value, int | str):
            value = None
        heard.note(event, frame, value)
        return follow

    before = sys.gettrace()
    sys.settrace(follow)
    run()
    sys.settrace(before)
    return heard.events


@pytest.mark.parametrize("way", WAYS)
def test_what_is_told_is_what_python_tells(way) -> None:
    for _ in range(2):  # the second time nothing is left of the first
        heard = Heard()
        with following(way, heard):
            everything()
        assert heard.events == told_by_python(everything)


@pytest.mark.parametrize("way", WAYS)
def test_generators_are_told_apart(way) -> None:
    told = []

    class Kinds(Heard):
        def began(self, frame, again):
            told.append(again)
            return True

        def left(self, frame, how, value):
            told.append(how)

    with following(way, Kinds()):
        list(numbers(1))
        with pytest.raises(ValueError, match="x"):
            fails()
    assert told == [False, "yield", True, "return", False, "raise"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_or_an_interrupt_puts_all_back(way, error) -> None:
    def follow(*_):
        return None

    before = sys.gettrace()
    sys.settrace(follow)
    try:
        heard = Heard()
        with pytest.raises(error), following(way, heard):
            stops(error)
        assert sys.gettrace() is follow
    finally:
        sys.settrace(before)
    count = len(heard.events)
    everything()
    assert len(heard.events) == count
    if way == "monitored":
        assert sys.monitoring.get_tool(3) is sys.monitoring.get_tool(4) is None
        for number in (3, 4):
            sys.monitoring.use_tool_id(number, "another")
            assert sys.monitoring.get_events(number) == 0
            assert sys.monitoring.get_local_events(number, one_line.__code__) == 0
            sys.monitoring.free_tool_id(number)


@pytest.mark.parametrize("way", WAYS)
def test_a_listener_can_end_it_and_can_leave_functions_out(way) -> None:
    class Few(Heard):
        def began(self, frame, again):
            super().began(frame, again)
            return frame.f_code is not fails.__code__

        def line(self, frame, line):
            super().line(frame, line)
            if frame.f_code is turns.__code__:
                stop()

    heard = Few()
    with following(way, heard) as stop:
        handles()
        turns(1)
        recurs(3)
    events = [(event, name) for event, name, *_ in heard.events]
    assert ("call", "fails") in events
    assert ("line", "fails") not in events
    assert events[-2:] == [("call", "turns"), ("line", "turns")]


@pytest.mark.parametrize("way", WAYS)
def test_other_threads_are_not_followed(way) -> None:
    heard = Heard()
    with following(way, heard):
        handles()
        count = len(heard.events)
        thread = threading.Thread(target=handles)
        thread.start()
        thread.join()
    assert len(heard.events) == count


@MONITORED
def test_debuggers_and_coverage_go_on_meanwhile() -> None:
    monitoring = sys.monitoring
    lines = []

    def count(code, line):
        if code is not handles.__code__:
            return monitoring.DISABLE
        lines.append(line)
        return None

    monitoring.use_tool_id(monitoring.COVERAGE_ID, "coverage")
    monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.LINE, count)
    monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.LINE)
    try:
        heard = Heard()

        def run():
            with following("monitored", heard):
                handles()

        traced = told_by_python(run)  # a debugger of the older kind
        handles()  # the other goes on behind it
    finally:
        monitoring.set_events(monitoring.COVERAGE_ID, 0)
        monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.LINE, None)
        monitoring.free_tool_id(monitoring.COVERAGE_ID)
    seen = [line for event, name, line, _ in heard.events if (event, name) == ("line", "handles")]
    assert seen == [at for event, name, at, _ in traced if (event, name) == ("line", "handles")]
    assert lines == seen * 2


@MONITORED
def test_where_all_numbers_are_taken_a_tape_is_the_same() -> None:
    def f(x):
        for _ in range(2):
            x = x * 2
        return x

    steps = jaxlens.tape(f, 1.0).steps
    for number in (3, 4):
        sys.monitoring.use_tool_id(number, "another")
    try:
        assert jaxlens.tape(f, 1.0).steps == steps
    finally:
        for number in (3, 4):
            sys.monitoring.free_tool_id(number)


def test_answers_of_the_course_are_the_users() -> None:
    names: dict[str, Any] = {}
    exec(compile("def f(x):\n    return x * 2\n", "<cell 3.1>", "exec"), names)
    assert [step.line for step in jaxlens.tape(names["f"], 1.0).steps] == [1, 2, 2]
