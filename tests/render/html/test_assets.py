"""The assets of an output: small, self-contained, once per page."""

import json
import random
import re
import shutil
import subprocess
from importlib.resources import files
from typing import get_args

import pytest

from jaxlens.render.document import Document, Tab, Tabs
from jaxlens.render.html import assets, packing
from jaxlens.render.html.document_html import html
from tests.support import sample_documents as sample


def run(script):
    node = shutil.which("node")
    if not node:
        pytest.skip("needs node to run the installer")
    return subprocess.run([node, "-e", script], capture_output=True, text=True, check=False)


def element(kit="viewer"):
    return re.fullmatch(r"<script>(.*)</script>", assets.scripts([kit]), re.DOTALL)[1]


def unpacked(kit="viewer"):
    """What a browser inserts and runs."""
    return packing.unpacked(re.search(r'^const pack = "([^"\s]+)";$', element(kit), re.M)[1])


KITS = get_args(assets.Kit)


# Bytes of each kit alone, with 1.5 kB that install it.
SIZES = {
    "viewer": 36_000,
    "list": 7_300,  # the rows of a listing are read by it alone
    "glossary": 7_500,
    "graph": 20_000,
    "source": 3_700,
    "passes": 9_000,
    "line_trace": 5_100,
    "chart": 7_700,
    "page": 2_300,
}


def test_every_kit_has_a_bound():
    assert sorted(SIZES) == sorted(KITS)


@pytest.mark.parametrize(("kit", "most"), SIZES.items())
def test_assets_are_small(kit, most):
    assert len(assets.styles([kit])) + len(assets.scripts([kit])) < most


def test_only_outputs_with_a_drawing_carry_what_draws():
    assert "jaxlens-drawing" not in html(sample.everything())


def test_scripts_and_styles_of_outputs_saved_before_the_classes_had_names_find_nothing():
    names = re.findall(
        r"<(?:div|pre|table) class=(?:\"([^\"]*)\"|([\w-]+))", html(sample.everything())
    )
    assert not {"jl", "jaxlens-graph"} & {name for pair in names for name in " ".join(pair).split()}


def test_an_output_carries_its_assets():
    markup = html(sample.everything())
    assert markup.startswith("<style data-jl=")
    assert markup.endswith("</script>")


def test_nothing_is_fetched():
    for kit in KITS:
        css = assets._css((*assets.KITS[kit].styles, *assets.KITS[kit].late))
        assert not re.search(r"https?://|@import|url\(", css)
        assert not re.search(
            r"(?<!get )(?<![.\w])fetch\((?!\{)|^import\b|XMLHttpRequest|WebSocket",
            unpacked(kit),
            re.M,
        )


@pytest.mark.parametrize("kit", KITS)
def test_scripts_cannot_be_ended_early(kit):
    assert "</" not in element(kit)
    assert "</" not in assets.styles([kit]).removesuffix("</style>")


@pytest.mark.parametrize("kit", KITS)
def test_styles_touch_nothing_else_on_the_page(kit):
    css = assets._css((*assets.KITS[kit].styles, *assets.KITS[kit].late))
    while re.search(r"\{[^{}]*\}", css):
        css = re.sub(r"\{[^{}]*\}", ";", css)
    tops = [top for top in css.split(";") if top]
    assert tops or kit == "page"
    assert all(top.startswith((".jaxlens.jaxlens.jaxlens", ".jaxlens-")) for top in tops)


def test_each_kit_has_a_name_that_style_and_script_share():
    styled = [kit for kit in KITS if assets.KITS[kit].styles]
    names = [re.search(r'data-jl="(\w+)"', assets.styles([kit]))[1] for kit in styled]
    assert len(set(names)) == len(styled)
    for kit, name in zip(styled, names, strict=True):
        assert f'["{name}","' in element(kit)


def test_equal_documents_are_equal_texts_on_one_page():
    document = Document("jaxpr", "f", (Tabs((Tab("a", ()), Tab("b", ()))),))
    assert html(document) == html(document)


STATIC = files("jaxlens.render").joinpath("static")
INSTALLER = ("viewer/packing.js", "viewer/install.js")
MODULES = sorted({*INSTALLER, *(name for kit in KITS for name in assets.modules(kit))})


@pytest.mark.parametrize("name", MODULES)
def test_modules_keep_the_rules_that_make_a_tokenizer_needless(name):
    text = STATIC.joinpath(name).read_text()
    assert text.startswith("// @ts-check\n")
    code = assets._COMMENT.sub("", text)
    assert "/*" not in code
    for line in code.splitlines():
        assert not re.search(r"^.*\S.* // ", line), f"a comment behind code: {line}"
        assert line.count("`") % 2 == 0, f"a template of several lines: {line}"
        line = re.sub(
            r"(?<=[(,=|&] )/.*?[^\\]/[gm]*(?=[.,)])|(?<=\()/.*?[^\\]/[gm]*(?=[.,)])", "", line
        )
        pieces = []
        while inner := re.search(r"\$\{([^{}]*)\}", line):  # the innermost piece of a template
            pieces.append(inner[1])
            line = line.replace(inner[0], "$")
        texts = r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|`[^`]*`'
        quoted = [text for piece in (line, *pieces) for text in re.findall(texts, piece)]
        assert all(
            sign in (">", "*") for text in quoted for sign in assets._OPERATOR.findall(text)
        ), quoted
        assert not any(") {" in text or ";}" in text for text in quoted), quoted


def test_scripts_lose_comments_and_blanks_and_nothing_of_what_is_quoted(monkeypatch):
    text = """import { a } from "./a.js";
/** Ends // here. @param {string} x */
export const f = (x) => /** @type {any} */ (x) / 2 / 3;
  // not this
const url = "https://a  b", one = 'c // d';
const re = /[*] "/.test(url) ? `e // ${f + `g  ${1}`}` : "";
  return [
    new Foo() - -1 + +f,
  ];
"""
    monkeypatch.setattr(assets, "_read", lambda name: text)
    assert assets._script.__wrapped__("any.js") == (
        """const f=(x)=>(x)/2/3;const url="https://a  b", one='c // d';"""
        """const re=/[*] "/.test(url)?`e // ${f+`g  ${1}`}`:"";"""
        "return [new Foo() - -1 + +f,];"
    )


@pytest.mark.parametrize("kit", KITS)
def test_modules_lose_import_export_and_comments_only(kit):
    program = unpacked(kit)
    assert not re.search(r"^(?:export|import) |^ |@param", program, re.MULTILINE)
    assert "root.querySelector" in program or "page.querySelector" in program
    assert run(f"new Function({json.dumps(program)})").returncode == 0


STEPS = {
    "add.7 add.9 add.8 mul.1": "add.14 add.4 add.1 mul.2",
    "%0 = f(%12), e7 s3 e8": "%0 = f(%24), e14 s6 e2",
    "layer9['w'] layer10['w']": "layer18['w'] layer2['w']",
    "f32[2,3] 0.5 x_y.007 x.12345678 a.9999999 a.0": "f32[2,3] 0.5 x_y.007 x.12345678 a.1 a.2",
    "é.5 add.5\n\0add.6\ud800": "é.5 add.10\n\0add.2\ud800",
}


@pytest.mark.parametrize(("text", "steps"), STEPS.items())
def test_the_page_reads_numbers_of_names_from_their_steps(text, steps):
    assert packing.stepped(text) == steps
    assert packing.unstepped(steps) == text
    script = assets._script("viewer/elements.js").replace("await inflated(pack)", "pack")
    script += f"textOf({json.dumps(steps)}).then((text) => console.log(JSON.stringify(text)));"
    assert json.loads(run(script).stdout) == text


def test_text_of_any_names_and_numbers_comes_back_from_its_steps():
    chance = random.Random(1)
    for _ in range(5_000):
        text = "".join(chance.choices("esEab_-.%019 [\x01é,", k=30))
        assert packing.unstepped(packing.stepped(text)) == text


@pytest.mark.parametrize("size", [*range(10), 4096])
def test_the_page_reads_the_bytes_that_were_written(size):
    text = "".join(chr(33 + n * n * 7 % 9000) for n in range(size))
    pack = packing.packed(text)
    assert packing.unpacked(pack) == text
    assert not set(pack) & set('<>&"\\$') - {">"}
    script = assets._script("viewer/packing.js") + (
        f"const bytes = bytesOf({json.dumps(pack)});"
        "process.stdout.write(require('zlib').inflateRawSync(bytes).toString());"
    )
    assert run(script).stdout == text


def files_of(kit):
    """A kit's files, after those of the kit that it needs."""
    needs = assets.KITS[kit].needs
    return (*INSTALLER, *(assets.modules(needs) if needs else ()), *assets.modules(kit))


@pytest.mark.parametrize("kit", KITS)
def test_names_at_the_top_of_a_kits_files_differ(kit):
    names = re.findall(
        r"^(?:export )?(?:async )?(?:const|let|class|function\*?) (\w+)",
        "\n".join(assets._read(name) for name in assets.modules(kit)),
        re.MULTILINE,
    )
    assert len(names) == len(set(names))


@pytest.mark.parametrize("kit", KITS)
def test_a_file_imports_only_what_files_before_it_export(kit):
    exported = {}
    for name in files_of(kit):
        text = assets._read(name)
        for names, file in assets._imports(name):
            assert set(names) <= exported[file], (name, file)
        assert len(assets._IMPORT.findall(text)) == len(
            re.findall(r"^import\b", text, re.MULTILINE)
        )
        exported[name] = set(
            re.findall(r"^export (?:async )?(?:const|let|class|function\*?) (\w+)", text, re.M)
        )


def test_a_kit_hands_out_what_others_import_from_it():
    lent = re.search(r"return Object\.assign\(live, \{ (.*) \}\);\n\};$", unpacked("viewer"))[1]
    taken = [
        match[1].split(", ")
        for kit, parts in assets.KITS.items()
        if parts.needs == "viewer"
        and (match := re.search(r"const \{ (.*) \} = needs;", unpacked(kit)))
    ]
    assert lent.split(", ") == sorted({name for names in taken for name in names})
    assert f'["{assets._key("passes")}","{assets._key("viewer")}"]' in element("passes")


def test_every_file_is_in_a_kit():
    listed = {n for p in assets.KITS.values() for n in (*p.styles, *p.late)} | set(MODULES)
    folders = list(STATIC.iterdir())
    static = {f"{folder.name}/{path.name}" for folder in folders for path in folder.iterdir()}
    assert sorted(listed) == sorted(static)
    assert all(len(list(folder.iterdir())) <= 20 for folder in folders)


def test_the_page_gets_the_css_of_what_scripts_make(monkeypatch):
    cached = (assets._css, assets._program, assets._element, assets._key, assets.script)
    for function in cached:
        function.cache_clear()
    parts = assets.KitFiles("graph/drawing.js", late=("graph/figure.css",))
    monkeypatch.setitem(assets.KITS, "graph", parts)
    program = unpacked("graph")
    css = json.loads(re.search(r"style.textContent = (.*);", program)[1])
    assert css == assets._css(("graph/figure.css",))
    for function in cached:
        function.cache_clear()
