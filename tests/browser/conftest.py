"""One JupyterLab and one Chromium for the whole session, offline and in private folders."""

import json
import os
import shutil
import socket
import sys
import threading
import urllib.request
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import nbformat
import pytest

from tests.support.browsing import PAGE, running, wait_for
from tests.support.paths import environment

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_collection_modifyitems(items):
    """Browser tests come last: playwright keeps an event loop running in this thread to the end,
    and where a loop runs IPython cannot await."""
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.fspath).parents:
            item.add_marker(pytest.mark.browser)
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)


@pytest.fixture(scope="session")
def chromium():
    """A running Chromium; a skip where there is none, unless the environment forbids skips."""
    sync = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        if os.environ.get("JAXLENS_REQUIRE_BROWSER"):
            pytest.fail("Chromium is not installed, and JAXLENS_REQUIRE_BROWSER is set")
        pytest.skip("Chromium is not installed")
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@dataclass(frozen=True)
class Lab:
    """A JupyterLab server: its address and the folder it serves."""

    url: str
    root: Path

    def get(self, path):
        with urllib.request.urlopen(f"{self.url}{path}") as answer:
            return json.load(answer)

    def theme(self, name):
        """Chooses "Light" or "Dark" for the pages opened from now on."""
        setting = json.dumps({"raw": json.dumps({"theme": f"JupyterLab {name}"})}).encode()
        address = f"{self.url}/lab/api/settings/@jupyterlab/apputils-extension:themes"
        request = urllib.request.Request(address, setting, method="PUT")
        urllib.request.urlopen(request).close()


@pytest.fixture(scope="module")
def free_port():
    return unused_port()


def unused_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def private(folder):
    """Folders of its own for everything that Jupyter and IPython would read from a home."""
    names = ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")
    dirs = {f"JUPYTER_{name}": str(folder / name.lower()) for name in names}
    return environment(**dirs, IPYTHONDIR=str(folder / "ipython"), JAX_PLATFORMS="cpu")


def quiet_settings(folder):
    """No news pop-up, and every cell on the page, also those out of sight."""
    settings = folder / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True, exist_ok=True)
    off = {"fetchNews": "false", "checkForUpdates": False}
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(off))
    notebook = folder / "settings" / "@jupyterlab" / "notebook-extension"
    notebook.mkdir(parents=True, exist_ok=True)
    (notebook / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}')


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    pytest.importorskip("jupyterlab")
    folder = tmp_path_factory.mktemp("lab")
    root = folder / "work"
    root.mkdir()
    quiet_settings(folder)
    port = unused_port()
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--port={port}", "--ip=127.0.0.1", f"--ServerApp.root_dir={root}"]
    command += ["--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True"]
    command += [f"--LabApp.user_settings_dir={folder / 'settings'}"]
    command += [f"--LabApp.workspaces_dir={folder / 'workspaces'}"]
    here = Lab(f"http://127.0.0.1:{port}", root)
    with running(command, folder, private(folder)):
        wait_for(lambda: here.get("/api/status"), "JupyterLab")
        yield here


@pytest.fixture(scope="module")
def open_notebook(chromium, lab):
    """`open_notebook(name, cells) -> page`: a notebook of these cells, open with a live kernel.

    Without cells, the notebook of that name as it lies there, and no kernel is waited for.
    """
    pages = []

    def open_(name, cells=(), dark=False, log=None):
        if not cells:
            return show(name, dark, log)
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
        book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
        nbformat.write(book, lab.root / name)
        page = show(name, dark, log)
        wait_for(lambda: connected(name), "a kernel")
        page.keyboard.press("Escape")
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_text("Run All Cells", exact=True).click()
        wait_for(lambda: finished(page, len(cells)), "the cells to run", 120)
        return page

    def show(name, dark, log):
        lab.theme("Dark" if dark else "Light")
        page = chromium.new_page(viewport={"width": 1280, "height": 1400})
        pages.append(page)
        if log:
            log.follow(page)
        page.goto(f"{lab.url}/lab/workspaces/{Path(name).stem}/tree/{name}")
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell")
        shown = f"body[data-jp-theme-light={'false' if dark else 'true'}]"
        page.wait_for_selector(shown, state="attached")
        return page

    def connected(name):
        sessions = [s for s in lab.get("/api/sessions") if s["path"] == name]
        return len(sessions) == 1 and (
            sessions[0]["kernel"]["execution_state"] == "idle"
            and sessions[0]["kernel"]["connections"] > 0
        )

    def finished(page, cells):
        prompts = page.locator(".jp-CodeCell .jp-InputPrompt").all_inner_texts()
        return len(prompts) == cells and all(p.strip("[]: ").isdigit() for p in prompts)

    yield open_
    for page in pages:
        page.close()


@pytest.fixture
def new_page(chromium):
    """`new_page(width, height) -> page`: it may ask for nothing, and no script of it may fail."""
    pages, asked, wrong = [], [], []

    def new_page_(width=1200, height=900, **options):
        page = chromium.new_page(viewport={"width": width, "height": height}, **options)
        pages.append(page)
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        return page

    yield new_page_
    for page in pages:
        page.close()
    assert not [url for url in asked if not url.startswith(("data:", "blob:", "about:", "file:"))]
    assert not wrong


@pytest.fixture
def served():
    """`served(*parts) -> address`: a page at an origin of its own.

    Its text comes in parts; where one is an event, it is waited for.
    """
    servers = []

    def served_(*parts):
        class Answer(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200 if self.path == "/" else 404)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                for part in parts if self.path == "/" else ():
                    if isinstance(part, threading.Event):
                        part.wait(20)
                    else:
                        self.wfile.write(part.encode())
                        self.wfile.flush()

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}/"

    yield served_
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def saved(new_page, tmp_path):
    """`saved(*documents) -> page`: a saved file of these outputs, opened without any network."""

    def saved_(
        *fragments,
        width=1200,
        height=900,
        light=True,
        page=None,
        markup=None,
        ready=".jaxlens .bar",
    ):
        path = tmp_path / "saved.html"
        path.write_text(PAGE.format("true" if light else "false", markup or "".join(fragments)))
        page = page or new_page(width, height)
        page.goto(f"file://{path}")
        page.wait_for_selector(ready, state="attached")
        page.evaluate(
            "Promise.all([...document.querySelectorAll('.jaxlens')].map(r => r.jaxlens.ready))"
        )
        return page

    return saved_
