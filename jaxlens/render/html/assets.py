"""The CSS and scripts of an output, which install themselves once per page.

Every output carries what it needs, for any of them may be the only one on a page. The first
to run moves the style to the head of the document and starts the script; the rest throw
their copies away and only announce themselves, so the first output may be deleted. Copies
of another version have another name and do not meet.

A kit is a list of files in `static/`. Its scripts are ES modules, one subject each, that are
joined in order in one function: `import` and `export` are taken off, so a name at the top
level of a file must be the only one in its kit. The last of them exports `live(root)`, which
brings every output under `root` to life that is not yet, and returns what ends it. Comments
and needless blanks are dropped; names stay, so that what goes wrong can be read.

The scripts travel deflated, in five characters for four bytes, and so does the CSS of what they
make; a browser that cannot unpack them (`DecompressionStream`, 2023) shows the output as it is
without scripts.
"""

import base64
import hashlib
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

Kit = Literal["lens", "graph", "passes", "jaxpr", "chart", "tape"]


@dataclass(frozen=True, slots=True)
class Parts:
    """The files of a kit.

    Attributes:
        styles: CSS that the output needs before any script ran.
        scripts: ES modules, each after those it imports from; the last exports `live`.
        late: CSS of what the scripts make.
        needs: A kit from whose files it imports too, and which every output with it has.
    """

    styles: tuple[str, ...]
    scripts: tuple[str, ...]
    late: tuple[str, ...] = ()
    needs: Kit | None = None


KITS: Mapping[Kit, Parts] = {
    "lens": Parts(
        styles=("lens.css",),
        scripts=(
            "base85.js",
            "pack.js",
            "web_alike.js",
            "web.js",
            "rows.js",
            "panes.js",
            "links.js",
            "row_source.js",
            "virtual.js",
            "search.js",
            "ruler.js",
            "about.js",
            "reveal.js",
            "follow.js",
            "keys.js",
            "help.js",
            "lens.js",
        ),
        late=("viewer.css", "help.css"),
    ),
    "graph": Parts(
        styles=("graph_pane.css",),
        scripts=(
            "base85.js",
            "graph_stretch.js",
            "graph_paint.js",
            "graph_index.js",
            "graph_doors.js",
            "graph_view.js",
            "graph_tools.js",
            "graph_links.js",
            "graph_keys.js",
            "graph.js",
        ),
        late=("graph.css", "graph_live.css"),
    ),
    "passes": Parts(
        styles=(),
        scripts=("passes_rows.js", "passes_slide.js", "passes.js"),
        late=("buttons.css", "passes.css"),
        needs="lens",
    ),
    "jaxpr": Parts(styles=(), scripts=("jaxpr_rows.js",), needs="lens"),
    "tape": Parts(styles=(), scripts=("tape.js",), late=("buttons.css", "tape.css"), needs="lens"),
    "chart": Parts(styles=(), scripts=("chart.js",), late=("chart.css",), needs="lens"),
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

# Digits in order from "(" on, with two others for "<" and for a backslash.
_DIGITS = bytes(range(40, 125)).translate(bytes.maketrans(b"<\\", b"}~"))
_STANDARD = bytes(base64.b85encode(bytes([0, 0, 0, n]))[-1] for n in range(85))
_WRITTEN, _READ = bytes.maketrans(_STANDARD, _DIGITS), bytes.maketrans(_DIGITS, _STANDARD)


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
_MUCH = 60_000  # characters, above which a twentieth more bytes take a quarter of the time
_BEST, _QUICK = 9, 4
_RUN = "document.currentScript.live = (needs) => {\n%s};"
_IMPORT = re.compile(r"^import\b\s*\{([^}]*)\} from \"\./([\w.]+)\";$", re.MULTILINE)
_STYLED = """{
const style = document.createElement("style");
style.textContent = %s;
document.head.append(style);
}
"""


def styles(kits: Iterable[Kit] = ("lens",)) -> str:
    """The `<style>` elements of an output."""
    styled = [kit for kit in kits if KITS[kit].styles]
    return "".join(
        f'<style data-jl="{_key(kit)}">{_css(KITS[kit].styles)}</style>' for kit in styled
    )


def scripts(kits: Iterable[Kit] = ("lens",)) -> str:
    """The `<script>` element of an output."""
    return _element(tuple(kits))


@cache
def _element(kits: tuple[Kit, ...]) -> str:
    pack = packed("\0".join(map(_program, kits)), _BEST)
    names = ",".join(map(_names, kits))
    return f"<script>{_INSTALL % (_script('base85.js'), pack, f'[{names}]')}</script>"


@cache
def script(kit: Kit) -> str:
    """The scripts of a kit as the body of one function.

    It takes what the kit named by `needs` returned, and returns `live`, with the names that
    other kits import from this one as its properties.
    """
    taken = ", ".join(_borrowed(kit))
    head = f"const {{ {taken} }} = needs;\n" if taken else ""
    others = [other for other, parts in KITS.items() if parts.needs == kit]
    lent = ", ".join(sorted({name for other in others for name in _borrowed(other)}))
    files = "".join(f"{_script(name)}\n" for name in KITS[kit].scripts)
    return f"{head}{files}return {f'Object.assign(live, {{ {lent} }})' if lent else 'live'};\n"


def _borrowed(kit: Kit) -> list[str]:
    """What its files import from files of the kit that it needs."""
    own = KITS[kit].scripts
    found = [match for name in own for match in _IMPORT.findall(_read(name))]
    names = {name.strip() for names, file in found if file not in own for name in names.split(",")}
    return sorted(names - {""})


def packed(text: str, level: int | None = None) -> str:
    """Text deflated, in characters that need no escape: what `static/base85.js` reads."""
    level = level or (_BEST if len(text) < _MUCH else _QUICK)
    engine = zlib.compressobj(level, zlib.DEFLATED, -15, 6)
    data = engine.compress(text.encode(errors="surrogatepass")) + engine.flush()
    return base64.b85encode(data).translate(_WRITTEN).decode()


def unpacked(pack: str) -> str:
    """The text that `packed` wrote, for tests and other readers."""
    data = base64.b85decode(pack.encode().translate(_READ))
    return zlib.decompress(data, -15).decode(errors="surrogatepass")


def _names(kit: Kit) -> str:
    """A kit's name, and that of the kit it needs."""
    needs = KITS[kit].needs
    return f'["{_key(kit)}","{_key(needs) if needs else ""}"]'


@cache
def _program(kit: Kit) -> str:
    """What the inserted script element runs."""
    late = _css(KITS[kit].late)
    styled = _STYLED % _quoted(late) if late else ""
    return _RUN % (styled + script(kit))


def _quoted(text: str) -> str:
    """A string of JavaScript."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@cache
def _key(kit: Kit) -> str:
    """Names this version of a kit by its content."""
    words = f"{_INSTALL}{_css(KITS[kit].styles)}{_program(kit)}"
    return hashlib.blake2b(words.encode(), digest_size=4).hexdigest()


def _read(name: str) -> str:
    return files("jaxlens.render").joinpath("static", name).read_text("utf-8")


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
