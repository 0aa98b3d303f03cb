"""The time limit stops calls that take too long, and no others."""

import threading
import time

from jaxlens.render.graph.graphviz_run import Alarm


def rung(alarm: Alarm, seconds: float, taken: float) -> bool:
    bell = threading.Event()
    with alarm.after(seconds, bell.set):
        bell.wait(taken)
    return bell.is_set()


def test_it_rings_for_long_calls_alone():
    alarm = Alarm()
    assert not rung(alarm, 30.0, 0.01)
    assert rung(alarm, 0.05, 10.0)  # shorter than what the watcher sleeps for
    assert not rung(alarm, 30.0, 0.01)
    assert rung(alarm, 0.05, 10.0)


def test_many_calls_share_a_thread_and_a_finished_one_never_rings():
    alarm, before = Alarm(), threading.active_count()
    bell = threading.Event()
    for _ in range(200):
        with alarm.after(0.2, bell.set):
            pass
    assert threading.active_count() <= before + 1
    time.sleep(0.4)
    assert not bell.is_set()
