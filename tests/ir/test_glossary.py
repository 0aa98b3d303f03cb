"""The glossary: a well-formed table, and a sentence for every word that programs show."""

import json
from importlib.resources import files
from pathlib import Path

import pytest

import jaxlens
from jaxlens.ir import glossary
from jaxlens.ir.glossary import address, entry
from tests.support.paths import CAPTURES, RECORDS

ROWS = [
    line.split("\t")
    for line in files("jaxlens.ir").joinpath("glossary.tsv").read_text("utf-8").splitlines()
]
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
