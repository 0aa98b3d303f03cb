"""The CSS and scripts of an output, which install themselves once per page.

Every output carries its assets, since any of them may be the only one on a page. The first
output that runs moves its style to the head of the document and starts the scripts; the others
drop their copies, so the first output may be deleted. The name of an installed copy is a hash of
its content, so that several versions can stand on one page. Scripts find the outputs of their
version by its class names: where those change, the class of an output's root (`jl`) changes too,
or a script of a saved output would bring new ones to life.

A kit is an ES module in `static/` with all that it imports. The modules are joined in one
function: `import` and `export` are removed, so a name at the top level of a module must be unique
in its kit. The entry exports `live(root)`, which brings to life every output under `root` that is
not yet, and returns a function that ends it.

The scripts travel deflated (`packing.py`), as does the CSS of what they make; a browser that
cannot inflate them (`DecompressionStream`, 2023) shows the output without scripts.
"""

import hashlib
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from jaxlens.render.html.packing import BEST, packed

Kit = Literal["viewer", "graph", "passes", "jaxpr", "chart", "line_trace"]


@dataclass(frozen=True, slots=True)
class Parts:
    """The files of a kit, as paths in `static/`.

    Attributes:
        entry: ES module that exports `live`.
        styles: CSS that the output needs before any script has run.
        late: CSS of what the scripts make.
        needs: Kit whose modules this one imports from; every output with this one has it.
    """

    entry: str
    styles: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    needs: Kit | None = None


KITS: Mapping[Kit, Parts] = {
    "viewer": Parts(
        "viewer/viewer.js",
        styles=("viewer/output.css",),
        late=("viewer/viewer.css", "viewer/glossary_card.css"),
    ),
    "graph": Parts(
        "graph/drawing.js",
        styles=("graph/pane.css",),
        late=("graph/figure.css", "graph/drawing.css"),
    ),
    "passes": Parts(
        "passes/scrubber.js", late=("viewer/buttons.css", "passes/scrubber.css"), needs="viewer"
    ),
    "jaxpr": Parts("listing/jaxpr_rows.js", needs="viewer"),
    "line_trace": Parts(
        "line_trace/player.js",
        late=("viewer/buttons.css", "line_trace/player.css"),
        needs="viewer",
    ),
    "chart": Parts("chart/chart.js", late=("chart/chart.css",), needs="viewer"),
}

# An element's id is a property of `window` too, so the promise has a name of its own.
# The inserted element is how text becomes a program where only inline scripts may run.
# Programs of several kits are one stream, for they share words.
_INSTALL = """(() => {
%s
const pack = "%s";
let texts;
const unpack = async () => {
const packed = new Blob([bytesOf(pack)]).stream();
const plain = packed.pipeThrough(new DecompressionStream("deflate-raw"));
return (await new Response(plain).text()).split("\\0");
};
%s.forEach(([key, needs], n) => {
const d = document, id = "jl-" + key, name = "jaxlens-" + key;
for (const s of d.querySelectorAll(`style[data-jl="${key}"]`))
if (!d.getElementById(id)) { s.id = id; d.head.append(s) } else if (s.id !== id) s.remove();
const start = async () => {
const s = d.createElement("script");
s.textContent = (await (texts ??= unpack()))[n];
d.head.append(s);
s.remove();
return s.live(await window["jaxlens-" + needs]);
};
if (window.DecompressionStream) (window[name] ??= start()).then((live) => live(d));
});
})();"""


def _template(depth: int) -> str:
    """A template of JavaScript that holds others in what it computes, so many levels deep."""
    inner = f"|{_template(depth - 1)}" if depth else ""
    return rf"`(?:[^`\\$]|\\.|\$(?!\{{)|\$\{{(?:[^{{}}`]{inner})*\}})*`"


# What is no code in our scripts; a regular expression stands behind a sign after which nothing
# can be divided.
_LITERAL = re.compile(
    r"(?=[/\"'`])(//[^\n]*|/\*.*?\*/"
    r"|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"
    rf"|{_template(4)}"
    r"|(?:(?<=[(,=:!&|?{;\[>])|(?<=[(,=:!&|?{;\[>] )|(?<=return ))"
    r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/)",
    re.DOTALL,
)
_BLANKS = re.compile(r" (?:(?<![\w$+/-] )|(?![\w$#+/-]))")
_BREAKS = re.compile(r"\n(?:(?<=[;,{([]\n)|(?=[})\]?:.]))")
_RUN = "document.currentScript.live = (needs) => {\n%s};"
_IMPORT = re.compile(r"^import\b\s*\{([^}]*)\} from \"([^\"]+)\";$", re.MULTILINE)
_STYLED = """{
const style = document.createElement("style");
style.textContent = %s;
document.head.append(style);
}
"""


def styles(kits: Iterable[Kit] = ("viewer",)) -> str:
    """The `<style>` elements of an output."""
    styled = [kit for kit in kits if KITS[kit].styles]
    return "".join(
        f'<style data-jl="{_key(kit)}">{_css(KITS[kit].styles)}</style>' for kit in styled
    )


def scripts(kits: Iterable[Kit] = ("viewer",)) -> str:
    """The `<script>` element of an output."""
    return _element(tuple(kits))


@cache
def _element(kits: tuple[Kit, ...]) -> str:
    pack = packed("\0".join(map(_program, kits)), BEST)
    names = ",".join(map(_names, kits))
    return f"<script>{_INSTALL % (_script('viewer/packing.js'), pack, f'[{names}]')}</script>"


@cache
def modules(kit: Kit) -> tuple[str, ...]:
    """The ES modules of a kit, each after those it imports; without those of the kit it needs."""
    needs = KITS[kit].needs
    others = modules(needs) if needs else ()
    own: list[str] = []

    def visit(path: str) -> None:
        if path not in own and path not in others:
            for _, imported in _imports(path):
                visit(imported)
            own.append(path)

    visit(KITS[kit].entry)
    return tuple(own)


@cache
def script(kit: Kit) -> str:
    """The modules of a kit as the body of one function.

    Its parameter `needs` is what the function of the needed kit returned. It returns `live`, with
    the names that other kits import from this one as properties.
    """
    borrowed = ", ".join(_borrowed(kit))
    head = f"const {{ {borrowed} }} = needs;\n" if borrowed else ""
    dependents = [other for other, parts in KITS.items() if parts.needs == kit]
    lent = ", ".join(sorted({name for other in dependents for name in _borrowed(other)}))
    body = "".join(f"{_script(path)}\n" for path in modules(kit))
    return f"{head}{body}return {f'Object.assign(live, {{ {lent} }})' if lent else 'live'};\n"


def _borrowed(kit: Kit) -> list[str]:
    """Names that the modules of a kit import from the kit it needs."""
    own = modules(kit)
    imports = [one for path in own for one in _imports(path)]
    return sorted({name for names, path in imports if path not in own for name in names})


def _imports(path: str) -> list[tuple[list[str], str]]:
    """The imports of a module: names, and the path of the module that exports them."""
    folder = posixpath.dirname(path)
    return [
        (
            [name.strip() for name in names.split(",") if name.strip()],
            posixpath.normpath(posixpath.join(folder, source)),
        )
        for names, source in _IMPORT.findall(_read(path))
    ]


def _names(kit: Kit) -> str:
    """The installed name of a kit, and that of the kit it needs."""
    needs = KITS[kit].needs
    return f'["{_key(kit)}","{_key(needs) if needs else ""}"]'


@cache
def _program(kit: Kit) -> str:
    """What the inserted script element runs."""
    late = _css(KITS[kit].late)
    styled = _STYLED % _quoted(late) if late else ""
    return _RUN % (styled + script(kit))


def _quoted(text: str) -> str:
    """A JavaScript string literal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@cache
def _key(kit: Kit) -> str:
    """The installed name of a kit: a hash of its content."""
    content = f"{_INSTALL}{_css(KITS[kit].styles)}{_program(kit)}"
    return hashlib.blake2b(content.encode(), digest_size=4).hexdigest()


def _read(path: str) -> str:
    return files("jaxlens.render").joinpath("static", path).read_text("utf-8")


@cache
def _css(names: tuple[str, ...]) -> str:
    """Without comments and needless blanks."""
    text = "\n".join(map(_read, names))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"\s+", " ", text)
    return re.sub(r" ?([{};,]) ?|: ", lambda m: m[1] or ":", text).replace(";}", "}").strip()


@cache
def _script(name: str) -> str:
    """Without imports, the word `export`, comments, indentation, and blanks beside signs."""
    text = re.sub(r"^import\b[^;]*;$", "", _read(name), flags=re.MULTILINE)
    text = re.sub(r"^export (?:default )?", "", text, flags=re.MULTILINE)
    parts = _LITERAL.split(text)  # code, and in turn with it literals and comments
    kept = [part for part in parts[1::2] if part[:2] not in ("//", "/*")]
    parts[1::2] = ["" if part[:2] in ("//", "/*") else "\0" for part in parts[1::2]]
    code = _squeezed("".join(parts)).split("\0")
    return "".join([word for pair in zip(code, [*kept, ""], strict=True) for word in pair]).strip()


def _squeezed(code: str) -> str:
    """Code without blanks beside signs, and without line breaks that end nothing."""
    lines = re.sub(r"(?<!\s)\s*?\n\s*+", "\n", re.sub(" +", " ", code))
    return _BREAKS.sub("", _BLANKS.sub("", lines))
