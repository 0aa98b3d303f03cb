"""Following the user's functions, compared with what `sys.settrace` says of all."""

import sys
import threading
from contextlib import suppress
from typing import Any

import pytest

import jaxlens
from jaxlens.lines.frames_traced import following

pytestmark = pytest.mark.reads_jax


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


def test_what_is_told_is_what_python_tells() -> None:
    for _ in range(2):  # the second time nothing is left of the first
        heard = Heard()
        with following(heard):
            everything()
        assert heard.events == told_by_python(everything)


def test_generators_are_told_apart() -> None:
    told = []

    class Kinds(Heard):
        def began(self, frame, again):
            told.append(again)
            return True

        def left(self, frame, how, value):
            told.append(how)

    with following(Kinds()):
        list(numbers(1))
        with pytest.raises(ValueError, match="x"):
            fails()
    assert told == [False, "yield", True, "return", False, "raise"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_or_an_interrupt_puts_all_back(error) -> None:
    def follow(*_):
        return None

    before = sys.gettrace()
    sys.settrace(follow)
    try:
        heard = Heard()
        with pytest.raises(error), following(heard):
            stops(error)
        assert sys.gettrace() is follow
    finally:
        sys.settrace(before)
    count = len(heard.events)
    everything()
    assert len(heard.events) == count


def test_a_listener_can_end_it_and_can_leave_functions_out() -> None:
    class Few(Heard):
        def began(self, frame, again):
            super().began(frame, again)
            return frame.f_code is not fails.__code__

        def line(self, frame, line):
            super().line(frame, line)
            if frame.f_code is turns.__code__:
                stop()

    heard = Few()
    with following(heard) as stop:
        handles()
        turns(1)
        recurs(3)
    events = [(event, name) for event, name, *_ in heard.events]
    assert ("call", "fails") in events
    assert ("line", "fails") not in events
    assert events[-2:] == [("call", "turns"), ("line", "turns")]


def test_other_threads_are_not_followed() -> None:
    heard = Heard()
    with following(heard):
        handles()
        count = len(heard.events)
        thread = threading.Thread(target=handles)
        thread.start()
        thread.join()
    assert len(heard.events) == count


def test_answers_of_the_course_are_the_users() -> None:
    names: dict[str, Any] = {}
    exec(compile("def f(x):\n    return x * 2\n", "<cell 3.1>", "exec"), names)
    assert [step.line for step in jaxlens.tape(names["f"], 1.0).steps] == [1, 2, 2]
