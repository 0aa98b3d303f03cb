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
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

from jaxlens.course.lessons import BY_NUMBER
from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from tests.support.paths import ROOT

PORT = 18901
_PATIENCE = 600  # seconds for a server to start
HUB = f"http://127.0.0.1:{PORT}"
CONFIG = """
load_subconfig({config!r})
c.JupyterHub.bind_url = {hub!r}
c.JupyterHub.hub_port = {hub_port}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api_port}"
c.JupyterHub.services.append({{"name": "bench", "api_token": {token!r}}})
c.JupyterHub.load_roles.append({{
    "name": "bench", "services": ["bench"],
    "scopes": ["admin:users", "admin:servers", "access:servers"],
}})
"""


class Memory(threading.Thread):
    """Sums PSS and RSS of a process and all its descendants, once a second."""

    def __init__(self, root: int):
        super().__init__(daemon=True)
        self.root, self.on = root, True
        self.now, self.peak, self.peak_rss = 0.0, 0.0, 0.0

    def run(self):
        while self.on:
            sizes = [sizes_of(pid) for pid in descendants(self.root)]
            self.now, rss = (sum(column) / 2**20 for column in zip(*sizes, strict=True))
            self.peak, self.peak_rss = max(self.peak, self.now), max(self.peak_rss, rss)
            time.sleep(1)


def descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    found, waiting = [], [root]
    while waiting:
        found.append(waiting.pop())
        waiting += children.get(found[-1], [])
    return found


def sizes_of(pid: int) -> tuple[float, float]:
    """PSS and RSS of a process in kB."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0, 0
    sizes = {line.split()[0]: float(line.split()[1]) for line in lines[1:]}
    return sizes["Pss:"], sizes["Rss:"]


class Learner:
    """One learner: a server, a kernel, and what its cells answered."""

    def __init__(self, name: str, lesson: str, token: str):
        self.name, self.lesson = name, lesson
        self.headers = {"Authorization": f"token {token}"}
        self.errors: list[str] = []
        self.spawned = self.ran = 0.0

    async def ask(self, path: str, method: str = "GET", body: object = None):
        text = None if method in ("GET", "DELETE") else json.dumps(body or {})
        request = HTTPRequest(
            HUB + path, method, self.headers, body=text, request_timeout=300, connect_timeout=120
        )
        answer = await AsyncHTTPClient().fetch(request)
        return json.loads(answer.body) if answer.body else None

    async def log_in(self):
        started = time.monotonic()
        await self.ask(f"/hub/api/users/{self.name}", "POST")
        try:
            await self.ask(f"/hub/api/users/{self.name}/server", "POST")
        except HTTPClientError as error:
            if error.code not in (201, 202):
                raise
        while not (user := await self.ask(f"/hub/api/users/{self.name}"))["server"]:
            if not user["pending"] or time.monotonic() - started > _PATIENCE:
                raise RuntimeError(f"the server of {self.name} did not start")
            await asyncio.sleep(1)
        self.spawned = time.monotonic() - started

    async def run_lesson(self):
        started = time.monotonic()
        home = f"/user/{self.name}/api"
        book = (await self.ask(f"{home}/contents/{self.lesson}"))["content"]
        session = {
            "path": self.lesson,
            "type": "notebook",
            "name": self.lesson,
            "kernel": {"name": "python3"},
        }
        kernel = (await self.ask(f"{home}/sessions", "POST", session))["kernel"]["id"]
        address = f"{HUB.replace('http', 'ws')}{home}/kernels/{kernel}/channels"
        socket = await websocket_connect(
            HTTPRequest(address, headers=self.headers, connect_timeout=300, request_timeout=300),
            max_message_size=2**30,
        )
        for cell in book["cells"]:
            if cell["cell_type"] == "code":
                await self.execute(socket, "".join(cell["source"]))
        self.ran = time.monotonic() - started
        socket.close()

    async def execute(self, socket, code: str):
        message = uuid.uuid4().hex
        header = {"msg_id": message, "msg_type": "execute_request", "session": self.name}
        header |= {"username": self.name, "version": "5.3", "date": "2026-01-01T00:00:00Z"}
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        parts = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
        await socket.write_message(json.dumps({**parts, "buffers": [], "channel": "shell"}))
        while True:
            text = await socket.read_message()
            if text is None:
                self.errors.append("the kernel has gone")
                return
            answer = json.loads(text)
            if answer["parent_header"].get("msg_id") != message:
                continue
            if answer["msg_type"] == "error":
                self.errors.append(answer["content"]["ename"])
            if answer["msg_type"] == "execute_reply":
                return


async def measure(names: list[tuple[str, str]], token: str, memory: Memory):
    AsyncHTTPClient.configure(None, max_clients=200)
    learners = [Learner(name, lesson, token) for name, lesson in names]
    first = learners[0]
    for _ in range(120):
        try:
            await first.ask("/hub/api/")
            break
        except (OSError, HTTPClientError):  # it answers 404 and 503 until it is there
            await asyncio.sleep(1)
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
    print(f"seconds a lesson: {sorted(round(learner.ran) for learner in learners)}")
    print(f"errors: {errors or 'none'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learners", type=int, default=20)
    parser.add_argument("--lesson", type=int, nargs="+", default=[1], help="taken in turn")
    options = parser.parse_args()
    token = secrets.token_hex(16)
    names = [
        (f"learner{n:02}", f"{BY_NUMBER[options.lesson[n % len(options.lesson)]].file}.ipynb")
        for n in range(options.learners)
    ]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.py"
        base = str(ROOT / "binder" / "hub" / "try_config.py")
        ports = {"hub_port": PORT + 1, "api_port": PORT + 2}
        config.write_text(CONFIG.format(config=base, hub=HUB, token=token, **ports))
        environment = {**os.environ, "HUB_PASSWORD": secrets.token_hex(8)}
        with (Path(folder) / "log").open("w") as log:
            hub = subprocess.Popen(
                [sys.executable, "-m", "jupyterhub", "-f", config],
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=log,
            )
            memory = Memory(hub.pid)
            memory.start()
            try:
                asyncio.run(measure(names, token, memory))
            except BaseException:
                print((Path(folder) / "log").read_text()[-3000:])
                raise
            finally:
                memory.on = False
                own = descendants(hub.pid)
                hub.terminate()
                hub.wait(60)
                for pid in own:  # servers outlive their hub
                    try:
                        os.kill(pid, 15)
                    except ProcessLookupError:
                        continue


if __name__ == "__main__":
    main()
