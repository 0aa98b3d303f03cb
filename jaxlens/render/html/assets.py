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
from itertools import chain
from typing import Literal

from jaxlens.render.html.packing import BEST, packed

Kit = Literal[
    "viewer",
    "glossary",
    "graph",
    "source",
    "passes",
    "list",
    "chart",
    "line_trace",
    "page",
]


@dataclass(frozen=True, slots=True)
class KitFiles:
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


KITS: Mapping[Kit, KitFiles] = {
    "viewer": KitFiles(
        "viewer/viewer.js",
        styles=("viewer/output.css",),
        late=("viewer/viewer.css",),
    ),
    "glossary": KitFiles("glossary/card.js", late=("glossary/card.css",), needs="viewer"),
    "graph": KitFiles(
        "graph/drawing.js",
        styles=("graph/pane.css",),
        late=("graph/figure.css", "graph/drawing.css"),
        needs="viewer",
    ),
    "source": KitFiles("source/expressions.js", late=("source/expressions.css",), needs="viewer"),
    "passes": KitFiles(
        "passes/scrubber.js", late=("viewer/buttons.css", "passes/scrubber.css"), needs="viewer"
    ),
    "list": KitFiles("listing/long_list.js", late=("listing/long_list.css",), needs="viewer"),
    "line_trace": KitFiles(
        "line_trace/player.js",
        late=("viewer/buttons.css", "line_trace/player.css"),
        needs="viewer",
    ),
    "chart": KitFiles(
        "chart/chart.js", late=("viewer/buttons.css", "chart/chart.css"), needs="viewer"
    ),
    "page": KitFiles("page/page.js", needs="viewer"),
}

_INSTALLER = "viewer/install.js"
# Rules of our modules, which a test holds, make a tokenizer needless: comments are `/** */` or
# stand on lines of their own, and no string has "/*", ") {", ";}" or one of these operators with
# blanks around (but ">" in selectors and "*" in `calc`, which do without blanks).
_COMMENT = re.compile(r"/\*.*?\*/ ?", re.DOTALL)
_OPERATOR = re.compile(r" (=>|[!=]==|&&|\|\||\?\?|[-+*/<>]=?|[=?:]) (?![-+])|(?<={) | (?=})")
_RUN = "document.currentScript.live = (inflated, needs) => {\n%s};"
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
    # The installed name of each kit, and that of the kit it needs.
    needs = ((kit, KITS[kit].needs) for kit in kits)
    names = ",".join(f'["{_key(kit)}","{_key(need) if need else ""}"]' for kit, need in needs)
    code = f'{_installer()}const pack = "{pack}";\ninstall(pack, [{names}]);\n'
    return f"<script>(() => {{\n{code}}})();</script>"


@cache
def _installer() -> str:
    return "".join(f"{_script(path)}\n" for path in _ordered(_INSTALLER))


@cache
def modules(kit: Kit) -> tuple[str, ...]:
    """The ES modules of a kit in order, without those of the installer and of the kit it needs."""
    needs = KITS[kit].needs
    return _ordered(KITS[kit].entry, (*_ordered(_INSTALLER), *(modules(needs) if needs else ())))


def _ordered(entry: str, without: tuple[str, ...] = ()) -> tuple[str, ...]:
    """A module and what it imports except `without`, each after its own imports."""
    order: list[str] = []

    def visit(path: str) -> None:
        if path not in order and path not in without:
            for _, imported in _imports(path):
                visit(imported)
            order.append(path)

    visit(entry)
    return tuple(order)


@cache
def script(kit: Kit) -> str:
    """The modules of a kit as the body of one function.

    Its parameters are the function `inflated` and `needs`, which the function of the needed kit
    returned. It returns `live`, with the names that other kits import from this one as properties.
    """
    borrowed = ", ".join(_borrowed(kit))
    head = f"const {{ {borrowed} }} = needs;\n" if borrowed else ""
    dependents = [other for other, parts in KITS.items() if parts.needs == kit]
    lent = ", ".join(sorted({name for other in dependents for name in _borrowed(other)}))
    body = "".join(f"{_script(path)}\n" for path in modules(kit))
    return f"{head}{body}return {f'Object.assign(live, {{ {lent} }})' if lent else 'live'};\n"


def _borrowed(kit: Kit) -> list[str]:
    """Names that the modules of a kit import from the kit it needs."""
    own = (*modules(kit), *_ordered(_INSTALLER))
    imports = chain.from_iterable(map(_imports, own))
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


@cache
def _program(kit: Kit) -> str:
    """What the inserted script element runs."""
    late = _css(KITS[kit].late)
    literal = late.replace("\\", "\\\\").replace('"', '\\"')
    styled = _STYLED % f'"{literal}"' if late else ""
    return _RUN % (styled + script(kit))


@cache
def _key(kit: Kit) -> str:
    """The installed name of a kit: a hash of its content."""
    content = f"{_installer()}{_css(KITS[kit].styles)}{_program(kit)}"
    return hashlib.blake2b(content.encode(), digest_size=4).hexdigest()


def _read(path: str) -> str:
    return files("jaxlens.render").joinpath("static", path).read_text("utf-8")


def _code(path: str) -> str:
    """A file without comments, indentation and empty lines."""
    lines = (line.strip() for line in _COMMENT.sub("", _read(path)).splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


@cache
def _css(paths: tuple[str, ...]) -> str:
    """Style sheets, without needless blanks too: some are not deflated."""
    text = " ".join("\n".join(map(_code, paths)).split())
    tight = re.sub(r" ?([{};,>]) ?|: ", lambda m: m[1] or ":", text).replace(";}", "}")
    return re.sub(r"(?<=[{};])& ", "", tight)  # nested rules are below their parent


@cache
def _script(path: str) -> str:
    """A module as part of a function: without imports and the word `export`."""
    code = re.sub(r"^import\b[^;]*;\n|^export ", "", _code(path), flags=re.MULTILINE)
    tight = _OPERATOR.sub(r"\1", code).replace(") {", "){")
    return re.sub(r"(?<=[;,{([])\n", "", tight).replace(";}", "}")  # these end no statement
