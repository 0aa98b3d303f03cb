"""Memory and time of a class: learners of a JupyterHub who all run a whole lesson at once.

    python -m tests.bench.bench_hub --learners 20 --lesson 1

It starts the hub of `binder/hub/try_config.py` in a folder of its own, with one server for each
learner and one kernel in it, and runs every cell of the lesson in each kernel, all at the same
time. Memory is the sum of PSS over all processes of the hub, once a second: PSS counts a page that
n processes share as 1/n in each, so the sum counts it once. Needs Linux,
`binder/hub/requirements.txt`, and configurable-http-proxy on the PATH.
"""

import argparse
import asyncio
import tempfile
import threading
import time
from pathlib import Path

from tornado.httpclient import AsyncHTTPClient

from jaxlens.ir.lessons import BY_NUMBER
from tests.bench.hub import Hub, Learner, descendants, running


class Memory(threading.Thread):
    """Sums PSS and RSS of a process and all its descendants, once a second."""

    def __init__(self, root: int):
        super().__init__(daemon=True)
        self.root, self.on = root, True
        self.now, self.peak, self.peak_rss = 0.0, 0.0, 0.0
        self.largest: dict[int, float] = {}  # the peak of each process

    def run(self):
        while self.on:
            sizes = {pid: sizes_of(pid) for pid in descendants(self.root)}
            self.now, rss = (sum(column) / 2**20 for column in zip(*sizes.values(), strict=True))
            self.peak, self.peak_rss = max(self.peak, self.now), max(self.peak_rss, rss)
            for pid, (size, _) in sizes.items():
                self.largest[pid] = max(self.largest.get(pid, 0), size / 2**20)
            time.sleep(1)


def sizes_of(pid: int) -> tuple[float, float]:
    """PSS and RSS of a process in kB."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0, 0
    sizes = {line.split()[0]: float(line.split()[1]) for line in lines[1:]}
    return sizes["Pss:"], sizes["Rss:"]


async def measure(hub: Hub, names: list[tuple[str, str]], memory: Memory):
    AsyncHTTPClient.configure(None, max_clients=200)
    learners = [Learner(hub, name, lesson) for name, lesson in names]
    await learners[0].hub_is_there()
    for step in ("log_in", "run_lesson"):
        started = time.monotonic()
        await asyncio.gather(*(getattr(learner, step)() for learner in learners))
        await asyncio.sleep(2)
        print(
            f"{step}: {time.monotonic() - started - 2:.0f} s for all; PSS now {memory.now:.2f} GB, "
            f"peak {memory.peak:.2f} GB (RSS peak {memory.peak_rss:.2f} GB)",
            flush=True,
        )
    errors = {learner.name: learner.errors for learner in learners if learner.errors}
    for name in ("first", "ran"):
        seconds = sorted(round(getattr(learner, name)) for learner in learners)
        print(f"seconds of a lesson, {name}: {seconds}")
    kernels = sorted(memory.largest.values())[-len(learners) :]
    print(f"largest processes, PSS: {kernels[0]:.2f} to {kernels[-1]:.2f} GB")
    print(f"errors: {errors or 'none'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learners", type=int, default=20)
    parser.add_argument("--lesson", type=int, nargs="+", default=[1], help="taken in turn")
    options = parser.parse_args()
    names = [
        (f"learner{n:02}", f"{BY_NUMBER[options.lesson[n % len(options.lesson)]].file}.ipynb")
        for n in range(options.learners)
    ]
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as hub:
        memory = Memory(hub.pid)
        memory.start()
        try:
            asyncio.run(measure(hub, names, memory))
        finally:
            memory.on = False


if __name__ == "__main__":
    main()
