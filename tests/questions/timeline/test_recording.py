"""What really runs: each kind of wait at its line, once, and nothing is changed afterwards."""

import importlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens.errors import OptionError
from jaxlens.questions.timeline.events import FLATTENS, FROM_DEVICE, TO_DEVICE
from jaxlens.stages.compile import profile

pytestmark = pytest.mark.reads_jax

HERE = "test_recording.py"


@jax.jit
def slow(x):
    """Takes some 100 ms, so that it cannot be done before Python waits for it."""
    y = jax.lax.fori_loop(0, 8, lambda _, y: y @ x, x)
    return y, y.sum()


@jax.jit
def small(x):
    return x + 1


@pytest.fixture(scope="module")
def x():
    x = jnp.eye(700) * 0.5
    jax.block_until_ready(slow(x))
    small(jnp.ones(4)).block_until_ready()
    return x


def test_a_loop_that_waits(x) -> None:
    def train(w):
        for _ in range(4):
            w, loss = slow(w)
            float(loss)

    run = jaxlens.timeline(train, x)
    assert (run.dispatched, run.waits, run.most_queued) == (4, 4, 1)
    dispatching, waiting = run.lines
    first = train.__code__.co_firstlineno
    assert dispatching.line.place == f"{HERE}:{first + 2}"
    assert waiting.line.place == f"{HERE}:{first + 3}"
    assert waiting.line.text == "float(loss)"
    assert waiting.waited_for == ("slow",)
    assert 0 < run.waiting < run.timeline.seconds
    assert sum(device.executing for device in run.devices) > 0.5 * run.waiting


USES = {
    "float": lambda y, s: float(s),
    "bool": lambda y, s: bool(s > 0),
    "item": lambda y, s: s.item(),
    "tolist": lambda y, s: s.tolist(),
    "np.asarray": lambda y, s: np.asarray(y),
    "np.array": lambda y, s: np.array(y),
    "str": lambda y, s: str(s),
    "f-string": lambda y, s: f"{s:.3f}",
    "if": lambda y, s: 1 if s > 0 else 2,
    "device_get": lambda y, s: jax.device_get(s),
    "method": lambda y, s: y.block_until_ready(),
    "one": lambda y, s: jax.block_until_ready(y),
    "several": lambda y, s: jax.block_until_ready((y, s)),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_each_kind_of_wait_is_seen_at_its_line(x, use) -> None:
    use(*slow(x))  # what it compiles itself is compiled before

    def once():
        y = slow(x)
        use(*y)

    run = jaxlens.timeline(once)
    (line,) = [line for line in run.lines if line.waits]
    assert line.waits == 1
    assert line.line.place == f"{HERE}:{use.__code__.co_firstlineno}"
    assert line.waited_for


def test_a_value_that_is_ready_is_not_waited_for(x) -> None:
    ready = jax.block_until_ready(slow(x))
    run = jaxlens.timeline(lambda: (float(ready[1]), np.asarray(ready[0])))
    assert (run.dispatched, run.waits) == (0, 0)
    assert "Nothing was dispatched" in str(run)


def test_what_is_queued_goes_on_after_python(x) -> None:
    def queue():
        return [slow(x) for _ in range(4)]

    run = jaxlens.timeline(queue)
    assert (run.dispatched, run.waits, run.most_queued) == (4, 0, 4)
    assert run.behind >= 3
    assert len(run.timeline.executions) == 4
    assert {e.line for e in run.timeline.executions} == {run.lines[0].line}
    assert max(e.end for e in run.timeline.executions) > run.timeline.seconds


def test_copies_have_the_line_that_made_them(x) -> None:
    def train():
        data = jnp.asarray(np.full((700, 700), 0.01, np.float32))
        result = slow(data)
        return float(result[1])

    slow(jnp.asarray(np.ones((700, 700), np.float32)))[0].block_until_ready()
    run = jaxlens.timeline(train)
    first = train.__code__.co_firstlineno
    lanes: dict[str, set[str]] = {}
    for activity in run.timeline.activities:
        place = activity.line.place if activity.line else ""
        lanes.setdefault(activity.lane, set()).add(place)
    assert lanes[TO_DEVICE] == {f"{HERE}:{first + 1}"}
    assert lanes[FROM_DEVICE] == {f"{HERE}:{first + 3}"}
    assert f"{HERE}:{first + 2}" in lanes[FLATTENS]


def test_an_array_that_nothing_else_holds_is_waited_for_in_the_end(x) -> None:
    def drop():
        y = slow(x)  # noqa: F841 - nobody holds it afterwards

    (execution,) = jaxlens.timeline(drop).timeline.executions
    assert execution.line is not None


def test_a_line_knows_whether_it_stands_in_a_loop(x) -> None:
    def both():
        float(slow(x)[1])
        for _ in range(2):
            float(slow(x)[1])
        [float(slow(x)[1]) for _ in range(2)]

    run = jaxlens.timeline(both)
    assert [line.line.in_loop for line in run.lines if line.waits] == [False, True, True]


def test_a_first_call_compiles() -> None:
    run = jaxlens.timeline(jax.jit(lambda x: jnp.cos(x) * 3), jnp.ones(5))
    assert [d.program for d in run.compiled] == ["<lambda>"]
    (line,) = run.lines
    assert line.line.text.startswith("run = jaxlens.timeline(")


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="only CPUs compute within the call")
def test_a_small_program_is_computed_within_the_call(x) -> None:
    y = jnp.ones(4)
    run = jaxlens.timeline(lambda: [small(y) for _ in range(3)])
    assert [d.at_once for d in run.timeline.dispatches] == [True] * 3
    assert (run.waits, run.most_queued) == (0, 0)


def test_it_calls_once_and_consumes_what_is_donated() -> None:
    calls = []
    f = jax.jit(lambda x: x + 1, donate_argnums=0)
    x = jnp.ones(8)

    def call():
        calls.append(1)
        return f(x)

    jaxlens.timeline(call)
    assert calls == [1]
    assert x.is_deleted()


def state() -> tuple[object, ...]:
    module = importlib.import_module("jax._src.lib").xla_client
    used = sys.monitoring.get_tool(4) if hasattr(sys, "monitoring") else None
    return sys.gettrace(), module.batched_block_until_ready, used


def test_an_error_is_the_callers_and_nothing_is_changed(x) -> None:
    before = state()

    def fails():
        float(slow(x)[1])
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        jaxlens.timeline(fails)
    assert state() == before
    assert jaxlens.timeline(lambda: float(slow(x)[1])).waits == 1  # the profiler is free again


def test_beside_a_profiler_session_of_the_users_it_runs_and_says_so(x) -> None:
    calls = []
    users = profile.Session(host_level=1)
    users.start()
    try:
        run = jaxlens.timeline(lambda: calls.append(float(slow(x)[1])))
    finally:
        users.stop()
    assert len(calls) == 1
    assert "a profiler session of yours is running" in run.timeline.unknown
    assert str(run).splitlines()[2].startswith("- Unknown: a profiler session of yours is running")


def test_a_mistake_is_one_line() -> None:
    with pytest.raises(OptionError, match=r"got int: jaxlens.timeline\(f, x\)"):
        jaxlens.timeline(3)
