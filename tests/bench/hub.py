"""A real JupyterHub with the configuration of `binder/hub/`, and learners who use it over HTTP.

Needs Linux, `binder/hub/requirements.txt`, and configurable-http-proxy on the PATH.
"""

import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from tests.support.paths import ROOT, environment

_PATIENCE = 600  # seconds for a server to start
_CONFIG = """
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


@dataclass(frozen=True)
class Hub:
    """A hub that runs.

    Attributes:
        address: Its address, with the proxy's port.
        token: The token of a service that may do all.
        folder: Where it was started; the folders of its learners are in `learners/`.
        pid: Its process.
    """

    address: str
    token: str
    folder: Path
    pid: int


@contextmanager
def running(folder: Path) -> Iterator[Hub]:
    """Starts `binder/hub/try_config.py` in a folder, and ends all its processes afterwards."""
    token, config = secrets.token_hex(16), folder / "config.py"
    port, hub_port, api_port = _free_ports(3)
    address = f"http://127.0.0.1:{port}"
    base = str(ROOT / "binder" / "hub" / "try_config.py")
    names = {"hub_port": hub_port, "api_port": api_port, "token": token}
    config.write_text(_CONFIG.format(config=base, hub=address, **names))
    command = [sys.executable, "-m", "jupyterhub", "-f", str(config)]
    variables = environment(HUB_PASSWORD=secrets.token_hex(8))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=variables, stdout=log, stderr=log)
        try:
            yield Hub(address, token, folder, process.pid)
        except BaseException:
            print((folder / "log").read_text()[-3000:])
            raise
        finally:
            own = descendants(process.pid)
            process.terminate()
            process.wait(60)
            for pid in own:  # servers outlive their hub
                with suppress(ProcessLookupError):
                    os.kill(pid, 15)


def _free_ports(n: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def descendants(root: int) -> list[int]:
    """Returns a process and all that it started, by number."""
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


class Learner:
    """One learner: a server, a kernel, and what its cells answered.

    Args:
        hub: The hub.
        name: The learner's name.
        lesson: The notebook to run.
    """

    def __init__(self, hub: Hub, name: str, lesson: str):
        self.hub, self.name, self.lesson = hub, name, lesson
        self.headers = {"Authorization": f"token {hub.token}"}
        self.errors: list[str] = []
        self.outputs: list[dict] = []
        self.spawned = self.first = self.ran = 0.0

    async def fetch(self, path: str, method: str = "GET", body: object = None) -> bytes:
        """Returns what an address answers.

        Raises:
            HTTPClientError: It answers with an error.
        """
        text = None if method in ("GET", "DELETE") else json.dumps(body or {})
        request = HTTPRequest(
            self.hub.address + path,
            method,
            self.headers,
            body=text,
            request_timeout=300,
            connect_timeout=120,
        )
        return (await AsyncHTTPClient().fetch(request)).body

    async def ask(self, path: str, method: str = "GET", body: object = None):
        answer = await self.fetch(path, method, body)
        return json.loads(answer) if answer else None

    async def hub_is_there(self):
        """Waits until the hub answers."""
        for _ in range(120):
            try:
                await self.ask("/hub/api/")
                return
            except (OSError, HTTPClientError):  # it answers 404 and 503 until it is there
                await asyncio.sleep(1)
        raise RuntimeError("the hub did not start")

    async def log_in(self):
        started = time.monotonic()
        with suppress(HTTPClientError):  # a learner who was here before
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

    async def log_out(self):
        await self.fetch(f"/hub/api/users/{self.name}/server", "DELETE")
        while (user := await self.ask(f"/hub/api/users/{self.name}"))["server"] or user["pending"]:
            await asyncio.sleep(0.5)

    async def run_lesson(self, cells: int | None = None):
        """Runs the code cells of the lesson, or the first ones of them."""
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
        address = f"{self.hub.address.replace('http', 'ws')}{home}/kernels/{kernel}/channels"
        socket = await websocket_connect(
            HTTPRequest(address, headers=self.headers, connect_timeout=300, request_timeout=300),
            max_message_size=2**30,
        )
        code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
        for cell in code[:cells]:
            await self.execute(socket, "".join(cell["source"]))
            if not self.first and any("text/html" in data for data in self.outputs):
                self.first = time.monotonic() - started
        self.ran = time.monotonic() - started
        socket.close()

    async def execute(self, socket, code: str):
        message = uuid.uuid4().hex
        header = {"msg_id": message, "msg_type": "execute_request", "session": self.name}
        header |= {"username": self.name, "version": "5.3", "date": "2026-01-01T00:00:00Z"}
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        parts = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
        await socket.write_message(json.dumps({**parts, "buffers": [], "channel": "shell"}))
        waiting = {"execute_reply", "status"}  # two channels: outputs may come after the reply
        while waiting:
            text = await socket.read_message()
            if text is None:
                self.errors.append("the kernel has gone")
                return
            answer = json.loads(text)
            if answer["parent_header"].get("msg_id") != message:
                continue
            if answer["msg_type"] in ("display_data", "update_display_data", "execute_result"):
                self.outputs.append(answer["content"]["data"])
            if answer["msg_type"] == "execute_reply":
                waiting.discard("execute_reply")
                if answer["content"]["status"] != "ok":
                    self.errors.append(answer["content"].get("ename", "aborted"))
            if answer["content"].get("execution_state") == "idle":
                waiting.discard("status")
