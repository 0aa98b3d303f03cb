"""The CSS and scripts of an output, which install themselves once per page.

Every output carries what it needs, for any of them may be the only one on a page. The first
to run moves the style to the head of the document and starts the script; the rest throw
their copies away and only announce themselves, so the first output may be deleted. Copies
of another version have another name and do not meet.

A kit is `static/NAME.css` and `static/NAME.js`. The script is an ES module that exports
`live(root)`: it brings every output under `root` to life that is not yet, and returns what
ends it. Here the word `export` is taken off and the module stands in a function of its own.
Comments and indentation are dropped line by line, so no line of a template string may begin
with `//`, `/*` or `*`.
"""

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Literal

Kit = Literal["lens", "graph"]

# An element's id is a property of `window` too, so the function has a name of its own.
_INSTALL = """((key, start) => {
const d = document, id = "jl-" + key;
for (const s of d.querySelectorAll(`style[data-jl="${key}"]`))
if (!d.getElementById(id)) { s.id = id; d.head.append(s) } else if (s.id !== id) s.remove();
(window["jaxlens-" + key] ??= start())(d);
})("%(key)s", () => {
%(module)s
return live;
})"""


def styles(kits: Iterable[Kit] = ("lens",)) -> str:
    """The `<style>` elements of an output."""
    return "".join(f'<style data-jl="{_key(kit)}">{_css(kit)}</style>' for kit in kits)


def scripts(kits: Iterable[Kit] = ("lens",)) -> str:
    """The `<script>` elements of an output."""
    parts = ({"key": _key(kit), "module": _script(kit)} for kit in kits)
    return "".join(f"<script>{_INSTALL % part}</script>" for part in parts)


@cache
def _key(kit: Kit) -> str:
    """Names this version of a kit by its content."""
    words = f"{_INSTALL}{_css(kit)}{_script(kit)}"
    return hashlib.blake2b(words.encode(), digest_size=4).hexdigest()


def _read(name: str) -> str:
    return files("jaxlens.render").joinpath("static", name).read_text("utf-8")


@cache
def _css(kit: Kit) -> str:
    """Without comments and needless blanks."""
    text = re.sub(r"/\*.*?\*/", "", _read(f"{kit}.css"), flags=re.DOTALL)
    text = re.sub(r"\s+", " ", text)
    return re.sub(r" ?([{};,]) ?|: ", lambda m: m[1] or ":", text).replace(";}", "}").strip()


@cache
def _script(kit: Kit) -> str:
    """Without comments of their own line, indentation and the word `export`."""
    text = re.sub(r"^\s*/\*.*?\*/\s*?$", "", _read(f"{kit}.js"), flags=re.DOTALL | re.MULTILINE)
    lines = (re.sub(r"^export ", "", line.strip()) for line in text.split("\n"))
    kept = "\n".join(line for line in lines if line and not line.startswith("//"))
    return kept.replace("</", r"<\/")
