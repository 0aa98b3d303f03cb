"""The CSS and scripts of an output, which install themselves once per page.

Every output carries them, for any of them may be the only one on a page. The first to run
moves the style to the head of the document and starts the scripts; the rest throw their
copies away and only announce themselves, so the first output may be deleted. Copies of
another version have another name and do not meet.

Each file of `static/*.js` is an ES module that exports `live(root)`: it brings every output
under `root` to life that is not yet, and returns what ends it. Here the word `export` is
taken off and each module stands in a function of its own. Comments and indentation are
dropped line by line, so no line of a template string may begin with `//`, `/*` or `*`.
"""

import hashlib
import re
from functools import cache
from importlib.resources import files

_MODULES = ("lens.js", "graph.js")
_STYLES = ("lens.css",)

_INSTALL = """(() => {
const d = document, id = "jl-%(key)s";
for (const s of d.querySelectorAll('style[data-jl="%(key)s"]'))
if (!d.getElementById(id)) { s.id = id; d.head.append(s) } else if (s.id !== id) s.remove();
(window[id] ??= (() => {
const parts = [%(modules)s];
return (root) => parts.forEach((live) => live(root));
})())(d);
})()"""


@cache
def styles() -> str:
    """The `<style>` element of an output."""
    return f'<style data-jl="{_key()}">{_css()}</style>'


@cache
def scripts() -> str:
    """The `<script>` element of an output."""
    modules = ",\n".join(f"(() => {{\n{_script(name)}\nreturn live }})()" for name in _names())
    return f"<script>{_INSTALL % {'key': _key(), 'modules': modules}}</script>"


@cache
def _key() -> str:
    """Names this version of the assets by their content."""
    words = _css() + "".join(map(_script, _names()))
    return hashlib.blake2b(words.encode(), digest_size=4).hexdigest()


def _names() -> list[str]:
    return [name for name in _MODULES if files("jaxlens.render").joinpath("static", name).is_file()]


def _read(name: str) -> str:
    return files("jaxlens.render").joinpath("static", name).read_text("utf-8")


@cache
def _css() -> str:
    """Without comments and needless blanks."""
    text = re.sub(r"/\*.*?\*/", "", "".join(map(_read, _STYLES)), flags=re.S)
    text = re.sub(r"\s+", " ", text)
    return re.sub(r" ?([{};,]) ?|(: ) ?", lambda m: m[1] or ":", text).replace(";}", "}").strip()


@cache
def _script(name: str) -> str:
    """Without comments of their own line, indentation and the word `export`."""
    text = re.sub(r"^\s*/\*.*?\*/\s*?$", "", _read(name), flags=re.S | re.M)
    lines = (re.sub(r"^export ", "", line.strip()) for line in text.split("\n"))
    kept = "\n".join(line for line in lines if line and not line.startswith("//"))
    return kept.replace("</", r"<\/")
