"""What browser tests share: waiting, the requests and errors of a page, and contrast of text."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import nbformat
import pytest

PAGE = "<!doctype html><meta charset=utf-8><body data-jp-theme-light={}>{}"
# axe's rules for whole pages (landmarks, a heading, a language) are the notebook's business.
AXE = "(rules) => axe.run('.jaxlens', rules ? { runOnly: rules } : {}).then((r) => r.violations)"


def violations(page, *rules: str) -> list[str]:
    """What axe finds in the outputs of a page by some rules, or by all: names, roles, contrast."""
    axe = pytest.importorskip("axe_playwright_python")
    if not page.evaluate("'axe' in window"):
        page.evaluate((files(axe) / "axe.min.js").read_text("utf-8"))
    return [
        f"{broken['id']} ({len(broken['nodes'])}): {broken['nodes'][0]['html'][:200]}"
        for broken in page.evaluate(AXE, list(rules) or None)
    ]


def wait_for(question: Callable[[], object], what: str, seconds: float = 90) -> object:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if answer := question():
                return answer
        except OSError:
            pass
        time.sleep(0.2)
    raise TimeoutError(f"waited {seconds:.0f} s for {what}")


@contextmanager
def running(command: Sequence[str], folder: Path, env: Mapping[str, str]) -> Iterator[None]:
    """A server with its log in a folder; all its processes end with the block."""
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, env=env, start_new_session=True
        )
        try:
            yield
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()


def wait_for_outputs(path: Path, count: int):
    """Waits until the notebook that Jupyter saves has so many outputs, and returns it."""

    def book():
        try:
            read = nbformat.read(path, as_version=4)
        except nbformat.reader.NotJSONError:  # it is being written
            return None
        return read if sum(len(cell.get("outputs", ())) for cell in read.cells) >= count else None

    return wait_for(book, "the notebook to be saved", 20)


@dataclass(frozen=True)
class PageLog:
    """Requests of a page, but for data: and blob: addresses, and errors of its console."""

    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def follow(self, page) -> None:
        page.on("request", lambda request: self._ask(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda line: line.type == "error" and self.errors.append(line.text))

    def _ask(self, url: str) -> None:
        if not url.startswith(("data:", "blob:", "about:")):
            self.requests.append(url)


def check_quiet(page, log: PageLog, origin: str) -> None:
    """No hostile name has run, no error was logged, and all requests went to `origin`."""
    assert page.evaluate("window.pwned") is None
    assert page.locator(".jaxlens img[src=x]").count() == 0
    assert log.errors == []
    assert [url for url in log.requests if not url.startswith(origin)] == []
