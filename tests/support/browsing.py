"""What browser tests share: waiting, the requests and errors of a page, and contrast of text."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

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


@dataclass(frozen=True)
class Watched:
    """What a page asked for outside of data: and blob:, and what its console called an error."""

    asked: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def watch(self, page) -> None:
        page.on("request", lambda request: self._ask(request.url))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", lambda said: said.type == "error" and self.wrong.append(said.text))

    def _ask(self, url: str) -> None:
        if not url.startswith(("data:", "blob:", "about:")):
            self.asked.append(url)
