"""Checks a built site: its links, what it loads, and how sample pages read in Chromium.

Links and addresses are followed on every page; nothing may be loaded from elsewhere, and no folder
of this machine named. In Chromium axe finds nothing in light and in dark, and a phone shows each
sample without scrolling sideways. The slowest first paint is measured and printed, beside its aim.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_PAINT = 200  # milliseconds; a busy machine takes longer, so a longer one is no fault
SAMPLES = (
    "index",
    "course/contents",
    "course/22_what_is_fused",
    "howto/index",
    "howto/which_line_owns_the_memory_peak",
    "gallery/gpt_step",
    "gallery/tpu_and_h100",
    "reference/magics",
    "reference/python",
    "glossary/pass",
    "front_ends",
    "speed",
    "search",
)
# Scripts give an output with panes a search; where a page has outputs, one has panes.
_ALIVE = "() => !document.querySelector('.jaxlens') || document.querySelector('.jaxlens input')"
MAYBE = ("front_ends", "speed")  # there where tests or the bench have written their tables
_FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class _Page(HTMLParser):
    """The addresses that a page links to and loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name == "href" and tag == "a" and value:
                self.links.append(value)
            elif name == _FETCHED.get(tag) and value:
                self.fetched.append(value)


def broken(site: Path) -> Iterator[str]:
    """What is wrong with a site's addresses, a line each."""
    texts = {path: path.read_text("utf-8") for path in site.resolve().rglob("*.html")}
    pages = {path: _Page(text) for path, text in texts.items()}
    machine = {str(Path.home()), str(Path(__file__).resolve().parents[2]), sys.prefix}
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        yield from (f"{name}: names {one}" for one in machine if one in texts[path])
        for link in dict.fromkeys([*page.links, *page.fetched]):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.fetched and parts.scheme != "data":
                    yield f"{name}: loads {link}"
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not there.exists():
                yield f"{name}: there is no {link}"
            elif there in pages and unquote(parts.fragment) not in {"", *pages[there].anchors}:
                yield f"{name}: no such place, {link}"


def unreadable(site: Path, program: str) -> Iterator[str]:
    """What is wrong with the sample pages in Chromium, a line each; prints the slowest paint."""
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        paints: dict[str, float] = {}
        for scheme, width in (("light", 1280), ("dark", 390)):
            view: Any = {"width": width, "height": 900}
            tab = browser.new_page(viewport=view, color_scheme=scheme)
            heard = _listening(tab)
            for name in SAMPLES:
                if name in MAYBE and not (site / f"{name}.html").exists():
                    continue
                url = f"file://{site.resolve()}/{name}.html"
                if scheme == "light":
                    paints[name] = first_paint(tab, url)
                for problem in faults(tab, url):
                    yield f"{name}, {scheme}, {width} px: {problem}"
            yield from dict.fromkeys(heard)
        browser.close()
        slowest = max(paints, key=paints.__getitem__)
        print(f"slowest first paint: {paints[slowest]:.0f} ms, {slowest} (aim: {_PAINT} ms)")


def _listening(tab: Any) -> list[str]:
    """A list that grows by what a tab asks for elsewhere, and by the errors of scripts."""
    heard: list[str] = []

    def asks(request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            heard.append(f"asks for {request.url}")

    tab.on("request", asks)
    tab.on("pageerror", lambda error: heard.append(f"an error: {error}"))
    return heard


def first_paint(tab: Any, url: str) -> float:
    """Milliseconds to the first paint, in the quickest of some loads on a busy machine."""
    quickest = float("inf")
    for _ in range(12):
        tab.goto(url)
        tab.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
        entry = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        quickest = min(quickest, tab.evaluate(entry))
        if quickest <= _PAINT:
            break
    return quickest


def faults(tab: Any, url: str) -> Iterator[str]:
    """What is wrong with one page, as it is open in a tab."""
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import TimeoutError

    tab.goto(url)
    try:
        tab.wait_for_function(_ALIVE, timeout=20_000)
    except TimeoutError:
        yield "its outputs are not alive"
    if tab.evaluate("document.documentElement.scrollWidth > innerWidth"):
        yield "scrolls sideways"
    for found in Axe().run(tab).response["violations"]:
        places = [" ".join(map(str, node["target"])) for node in found["nodes"]]
        yield f"{found['id']}: {found['help']}: {', '.join(places[:3])} ({len(places)})"


def main(site: Path) -> int:
    """Prints what is wrong; 1 if anything is."""
    wrong = sorted(set(broken(site)))
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program:
        wrong += unreadable(site, program)
    elif os.environ.get("JAXLENS_REQUIRE_BROWSER"):
        wrong.append("there is no Chromium to look at the pages with")
    else:
        print("no Chromium here: how pages read was not checked", file=sys.stderr)
    for line in wrong:
        print(line, file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
