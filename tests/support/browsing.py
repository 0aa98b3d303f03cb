"""What browser tests share: waiting, the requests and errors of a page, and contrast of text."""

import os
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field

import nbformat

PAGE = "<!doctype html><meta charset=utf-8><body data-jp-theme-light={}>{}"
# Texts on the page whose contrast with their background is below 4.5.
CONTRAST = """
() => {
  const parse = (c) => c.match(/[\\d.]+/g).map(Number);
  const over = (top, under) => {
    const a = top[3] ?? 1;
    return [0, 1, 2].map((i) => top[i] * a + under[i] * (1 - a));
  };
  const light = (c) => {
    const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = c.map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const veil = (e) => {
    const style = getComputedStyle(e, "::before");
    return style.zIndex < 0 ? parse(style.backgroundColor) : ground(e.parentElement);
  };
  const ground = (e) => !e ? [255, 255, 255]
    : over(parse(getComputedStyle(e).backgroundColor), veil(e));
  const low = [];
  const output = document.querySelector(".jaxlens");
  const walker = document.createTreeWalker(output, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !e.getClientRects().length) continue;
    const [a, b] = [light(over(parse(getComputedStyle(e).color), ground(e))), light(ground(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push([e.tagName, e.className, ratio.toFixed(2), e.textContent]);
  }
  return low;
}
"""


def wait_for(question, what, seconds=90):
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
def running(command, folder, env):
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


def wait_for_outputs(path, count):
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

    def follow(self, page):
        page.on("request", lambda request: self._ask(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda line: line.type == "error" and self.errors.append(line.text))

    def _ask(self, url):
        if not url.startswith(("data:", "blob:", "about:")):
            self.requests.append(url)


def check_quiet(page, log, origin):
    """No hostile name has run, no error was logged, and all requests went to `origin`."""
    assert page.evaluate("window.pwned") is None
    assert page.locator(".jaxlens img[src=x]").count() == 0
    assert log.errors == []
    assert [url for url in log.requests if not url.startswith(origin)] == []
