"""The glossary: a well-formed table, and a sentence for every word that programs show."""

import json
from importlib.resources import files
from pathlib import Path

import pytest

import jaxlens
from jaxlens.ir import glossary
from jaxlens.ir.glossary import address, entry
from jaxlens.ir.lessons import BY_NUMBER
from tests.support.paths import CAPTURES, RECORDS

ROWS = [
    line.split("\t")
    for line in files("jaxlens.ir").joinpath("glossary.tsv").read_text("utf-8").splitlines()
]
EXPERT = [
    line.split("\t")
    for line in files("jaxlens.ir").joinpath("glossary_expert.tsv").read_text("utf-8").splitlines()
]
# What is listed by JAX, XLA or a pass pipeline; attributes belong to one of these.
EXPLAINED = "primitive op instruction pass target llvm asm ptx word stage".split()
HLO = json.loads((RECORDS / "hlo_words.json").read_text("utf-8"))


def test_the_table_is_sorted_and_has_each_word_once() -> None:
    assert ROWS[0] == ["kind", "word", "link", "sentence"]
    assert [len(row) for row in ROWS] == [4] * len(ROWS)
    assert ROWS[1:] == sorted(ROWS[1:])
    keys = [(row[0], glossary._key(row[0], row[1])) for row in ROWS[1:]]
    assert len(set(keys)) == len(keys)


def test_sentences_are_short_and_end() -> None:
    for _, word, _, sentence in ROWS[1:]:
        assert sentence.endswith("."), word
        assert sentence == sentence.strip(), word
        assert len(sentence) <= 112, word


def test_rows_for_experts_name_words_that_there_are() -> None:
    assert EXPERT[0] == ["kinds", "lesson", "words", "text"]
    spelled = {
        kind: {glossary._plain(word): word for word in glossary.words(kind)}
        for kind in (*EXPLAINED, "attribute")
    }
    nobody = [
        (kinds, name)
        for kinds, _, names, _ in EXPERT[1:]
        for name in names.split()
        if not any(list(glossary._named(name, spelled[kind])) for kind in kinds.split())
    ]
    assert nobody == []
    for _, lesson, _, text in EXPERT[1:]:
        assert int(lesson) == 0 or int(lesson) in BY_NUMBER, text
        assert text.endswith("."), text
        assert text == text.strip()
        assert len(text) <= 480, text


@pytest.mark.parametrize("kind", EXPLAINED)
def test_every_word_is_explained_at_two_depths_with_a_lesson(kind) -> None:
    entries = glossary.words(kind)
    assert len(entries) > 5
    assert [word for word, entry in entries.items() if not entry.expert] == []
    assert [word for word, entry in entries.items() if entry.expert == (entry.sentence,)] == []
    unread = [w for w, entry in entries.items() if entry.lesson not in BY_NUMBER]
    assert [w for w in unread if kind != "word"] == []  # no lesson is about every word


def test_what_is_known_by_its_name_alone_says_so() -> None:
    passes = glossary.words("pass")
    unknown = [word for word, entry in passes.items() if entry.sentence.startswith("Unknown; ")]
    assert len(unknown) > 10
    assert [w for w, entry in passes.items() if "By its name" in entry.sentence] == []
    assert glossary.pass_entry("brand-new-pass").sentence.startswith("Unknown: ")
    assert glossary.pass_entry("algsimp") == entry("pass", "algsimp")


@pytest.mark.parametrize(
    ("word", "kinds"),
    [
        ("reduce-window", {"primitive", "op", "instruction"}),
        ("reduce_window", {"primitive", "op", "instruction"}),
        ("ynn_fusion.3", {"word"}),
        ("thunks", {"word"}),
        ("weak type", {"word"}),
        ("{1,0}", {"word"}),
        ("{0,1:T(8,128)S(1)}", {"word"}),
        ("ROOT", {"word"}),
        ("Ref", {"word"}),
        ("library call", {"word"}),
        ("algsimp", {"pass"}),
    ],
)
def test_a_word_as_users_type_it_has_its_meanings(word, kinds) -> None:
    assert glossary.meanings(word).keys() == kinds


def test_near_words_are_named() -> None:
    assert glossary.meanings("reduce_windw") == {}
    assert "reduce-window" in glossary.similar("reduce-windw")


def test_every_link_is_a_page_with_an_address() -> None:
    for kind, word, link, _ in ROWS[1:]:
        if kind == "page":
            assert link.startswith("https://"), word
        elif link:
            assert address(link).startswith("https://"), (kind, word, link)
        else:
            assert kind in ("attribute", "asm"), word  # what it belongs to has the page


def test_every_opcode_and_attribute_of_hlo_has_an_entry() -> None:
    assert [word for word in HLO["opcodes"] if entry("instruction", word) is None] == []
    assert [word for word in HLO["attributes"] if entry("attribute", word) is None] == []


@pytest.mark.parametrize("file", CAPTURES, ids=lambda path: path.stem)
def test_every_word_of_the_records_has_an_entry(file: Path) -> None:
    capture = jaxlens.load(file)
    met = {("pass", word) for s in capture.passes for word in (s.name, s.pipeline, s.before)}
    kinds = {"jaxpr": "primitive", "stablehlo": "op", "hlo": "instruction"}
    for stage in (capture.jaxpr, capture.stablehlo, capture.hlo, capture.optimized):
        kind = kinds.get(stage.module.stage, "instruction")
        for node in stage.module.nodes():
            met |= {(kind, node.opcode), *(("attribute", name) for name in node.attrs)}
            if target := node.attrs.get("custom_call_target"):
                met.add(("target", target))
            if fusion := node.attrs.get("kind"):
                met.add(("attribute", fusion))
    assert sorted(pair for pair in met if pair[1] and entry(*pair) is None) == []


@pytest.mark.parametrize(
    ("kind", "word", "like"),
    [
        ("pass", "apply-xla-transforms-12", "apply-xla-transforms"),
        ("pass", "Layout_assignment", "layout-assignment"),
        ("primitive", "scatter_add", "scatter-add"),
        ("primitive", "mosaic_gpu_p", "mosaic_gpu"),
        ("op", '"stablehlo.scatter"', "stablehlo.scatter"),
        ("op", "call", "func.call"),
        ("op", "mhlo.add", "stablehlo.add"),
        ("instruction", "all-to-all-start", "all-to-all"),
        ("attribute", "scan.length", "length"),
        ("attribute", "cond.branches[1]", "cond.branches"),
        ("target", '"lapack_spotrf_ffi"', "lapack_"),
        ("target", "__cublas$symm", "__cublas"),
        ("llvm", "tail call", "call"),
        ("ptx", "ld.global.v4.b32", "ld.global"),
        ("asm", "vfmadd213ps", "fmadd*"),
        ("asm", "vaddss", "add*"),
        ("asm", "add", "add"),
        ("asm", "jne", "j*"),
    ],
)
def test_forms_of_a_word_have_its_entry(kind, word, like) -> None:
    assert entry(kind, word) is not None
    assert entry(kind, word) == glossary.words(kind)[like]


def test_an_attribute_means_what_its_primitive_says() -> None:
    here, elsewhere = entry("attribute", "broadcast_in_dim.shape"), entry("attribute", "shape")
    assert here.sentence == "The larger shape."
    assert here != elsewhere


def test_unknown_words_have_no_entry() -> None:
    assert entry("primitive", "my_own_primitive") is None
    assert entry("target", "<img src=x onerror=alert(1)>") is None
    assert entry("pass", "") is None
    assert address("my own page") == ""


def test_stages_are_those_of_the_stage_table() -> None:
    assert entry("stage", "jaxpr").sentence.startswith("The equations")
