"""Films the README's moving picture in JupyterLab, in Chromium: about twenty seconds.

    python3 .dev film

Each screenshot stands for as long as a reader needs; what did not change costs no bytes.
"""

import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from PIL import Image
from playwright.sync_api import Locator, Page, sync_playwright

FILM = Path(__file__).resolve().parent.parent / ".readme" / "explore.webp"
SIZE = {"width": 1280, "height": 780}
MOST = 1_000_000  # bytes
PORT = 8899
CELLS = [
    """%load_ext jaxlens
import jax, jax.numpy as jnp

def loss(params, x, y):
    hidden = jnp.tanh(x @ params["w"] + params["b"])
    return jnp.mean((hidden @ params["v"] - y) ** 2)

@jax.jit
def train_step(params, x, y):
    grads = jax.grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

params = {"w": jnp.ones((64, 128)), "b": jnp.zeros(128), "v": jnp.ones((128, 10))}
x, y = jnp.ones((32, 64)), jnp.ones((32, 10))""",
    "",
]
TYPED = "%%explore\ntrain_step(params, x, y)"
# Screenshots have no pointer: an arrow follows the mouse.
POINTER = """() => {
  const arrow = document.createElement("div");
  arrow.innerHTML = '<svg width="22" height="26" viewBox="0 0 11 13"><path d="M1 1v9l2.4-2 1.7 4 '
    + '1.5-.7-1.6-3.8H8z" fill="#111" stroke="#fff" stroke-width=".8"/></svg>';
  arrow.style.cssText = "position:fixed;z-index:99999;pointer-events:none;left:600px;top:560px";
  document.body.append(arrow);
  addEventListener("mousemove", (event) => {
    arrow.style.left = `${event.clientX - 2}px`;
    arrow.style.top = `${event.clientY - 2}px`;
  }, true);
}"""


@contextmanager
def jupyterlab() -> Iterator[str]:
    """A JupyterLab that shows the notebook alone; yields its address."""
    folder = Path(tempfile.mkdtemp())
    cells = [nbformat.v4.new_code_cell(text) for text in CELLS]
    book = nbformat.v4.new_notebook(cells=cells)
    book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(book, folder / "train.ipynb")
    command = [sys.executable, "-m", "jupyterlab", "--allow-root", "--no-browser"]
    command += [f"--port={PORT}", "--IdentityProvider.token=", f"--ServerApp.root_dir={folder}"]
    command += ["--expose-app-in-browser", f"--LabApp.user_settings_dir={folder / 'settings'}"]
    settings = folder / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')
    own = {name: str(folder / name) for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR")}
    quiet = subprocess.DEVNULL
    env = {**os.environ, **own, "JAX_PLATFORMS": "cpu"}
    server = subprocess.Popen(command, env=env, stdout=quiet, stderr=quiet)
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://localhost:{PORT}/api").close()
                break
            except OSError:
                time.sleep(0.2)
        yield f"http://localhost:{PORT}/doc/tree/train.ipynb"
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder)


class Camera:
    """Frames and how long each is shown, in milliseconds."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.at = (600.0, 560.0)
        self.frames: list[Image.Image] = []
        self.times: list[int] = []

    def shoot(self, milliseconds: int) -> None:
        self.page.wait_for_timeout(150)
        image = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        if self.frames and image.tobytes() == self.frames[-1].tobytes():
            self.times[-1] += milliseconds
            return
        self.frames.append(image)
        self.times.append(milliseconds)

    def go(self, place: Locator, milliseconds: int = 900, dx: float = 0.5) -> None:
        """Moves the pointer to a place in four steps, and rests there."""
        box = place.bounding_box()
        assert box, place
        to = box["x"] + box["width"] * dx, box["y"] + box["height"] / 2
        for step in range(1, 5):
            x, y = (a + (b - a) * step / 4 for a, b in zip(self.at, to, strict=True))
            self.page.mouse.move(x, y)
            if step < 4:
                self.shoot(70)
        self.at = to
        self.shoot(milliseconds)

    def click(self, place: Locator, milliseconds: int = 1500, dx: float = 0.5) -> None:
        self.go(place, 350, dx)
        self.page.mouse.click(*self.at)
        self.page.wait_for_timeout(400)
        self.shoot(milliseconds)

    def save(self) -> None:
        first, *rest = self.frames
        options = {"method": 6, "quality": 72, "minimize_size": True, "allow_mixed": True}
        first.save(FILM, append_images=rest, duration=self.times, loop=0, save_all=True, **options)
        size = FILM.stat().st_size
        print(
            f"{FILM.name}: {sum(self.times) / 1000:.1f} s, {len(self.times)} frames, {size:,} bytes"
        )
        if size > MOST:
            sys.exit(f"at most {MOST:,} bytes")


def film(page: Page, address: str) -> None:
    """The scenes: the cell is written and run, a line followed, the passes and kernels shown."""
    page.goto(address)
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.wait_for_timeout(4000)
    page.evaluate(POINTER)
    run = "window.jupyterapp.commands.execute('notebook:run-cell-and-select-next')"
    page.locator(".jp-CodeCell .cm-content").first.click()
    page.evaluate(run)
    ran = "document.querySelector('.jp-InputPrompt').innerText.includes('1')"
    page.wait_for_function(ran, timeout=90_000)
    camera = Camera(page)
    page.locator(".jp-CodeCell .cm-content").nth(1).click()
    camera.shoot(900)
    for n, letter in enumerate(TYPED):
        page.keyboard.type(letter)
        if n % 3 == 2 or n == len(TYPED) - 1:
            camera.shoot(90)
    camera.shoot(500)
    page.keyboard.press("Control+Enter")
    root = page.locator(".jaxlens")
    root.locator(".bar").wait_for(timeout=90_000)
    page.wait_for_timeout(2500)
    root.evaluate("e => e.scrollIntoView({block: 'start'})")
    page.wait_for_timeout(500)
    camera.shoot(1700)
    line = root.locator("[data-pane=source] .rows > * > :first-child")
    camera.go(line.filter(has_text="jnp.tanh"), 1000, 0.3)
    camera.go(line.filter(has_text="jnp.mean"), 900, 0.3)
    camera.go(line.filter(has_text="lambda p, g"), 900, 0.3)
    row = root.locator("[data-pane=optimized] [data-id]").filter(has_text="fusion")
    camera.go(row.last, 1000, 0.3)
    camera.click(line.filter(has_text="jnp.tanh"), 1500, 0.3)
    bar = root.locator(".bar")
    camera.click(bar.locator("[data-key=graph]"), 1500)
    camera.click(bar.locator("[data-key=passes]"), 800)
    page.locator("[data-pane=passes] [type=range], [data-pane=passes] [role=slider]").first.focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(200)
        camera.shoot(350)
    camera.click(bar.locator("[data-key=kernels]"), 1100)
    camera.click(bar.locator("[data-key=asm]"), 1800)
    camera.save()


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with jupyterlab() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        film(browser.new_page(viewport=SIZE), address)
        browser.close()


if __name__ == "__main__":
    main()
