"""Captures of programs compiled for TPUs and GPUs that were not there, as the records hold them."""

import re

import pytest

import jaxlens
from jaxlens.errors import LensError
from jaxlens.program.fusion_change import across_fusion
from jaxlens.program.kernels import works
from jaxlens.render.html.document_html import html
from jaxlens.render.text.document_text import text
from jaxlens.viewer.panes import OPTIONS
from tests.support import documents
from tests.support.paths import RECORDS

GPU = sorted(path.name for path in RECORDS.glob("*.gpu-*.jaxlens"))
TPU = sorted(path.name for path in RECORDS.glob("*.tpu-*.jaxlens"))


def record(name):
    return jaxlens.load(RECORDS / name)


def test_there_are_records_of_both():
    assert (len(GPU), len(TPU)) == (3, 7)
    assert all((RECORDS / name).stat().st_size < 200_000 for name in GPU + TPU)


@pytest.mark.parametrize("name", GPU + TPU)
def test_every_kernel_is_tied_to_an_instruction_and_none_twice(name):
    taken = record(name)
    nodes = {node.id for node in taken.optimized.module.nodes()}
    tied = [kernel.instruction for kernel in taken.kernels]
    assert set(tied) <= nodes
    assert len(tied) == len(set(tied)) > 2
    for work in works(taken):  # what the body of a loop moves is in its rows
        is_loop = work.node.opcode == "while"
        assert (work.read is None) is (work.written is None) is is_loop


@pytest.mark.parametrize("name", GPU)
def test_every_kernel_of_a_gpu_has_its_ptx_llvm_and_launch(name):
    taken = record(name)
    for kernel in taken.kernels:
        entries = re.findall(r"\.entry (\w+)\(", kernel.asm)
        if kernel.kind == "kernel":
            (symbol,) = entries
            assert symbol == kernel.name or kernel.note.startswith("equal to ")
            assert f".entry {symbol}(" in taken.asm.text
            assert f"@{symbol}(" in kernel.llvm_before
            assert f"@{symbol}(" in kernel.llvm_after
            assert re.match(r"[\d, x]+ blocks? of [\d, x]+ threads?", kernel.launch)
        else:
            assert (entries, kernel.launch) == ([], "")
            assert kernel.note


@pytest.mark.parametrize("name", TPU)
def test_a_tpu_says_that_it_shows_no_machine_code(name):
    taken = record(name)
    kernels = [kernel for kernel in taken.kernels if kernel.kind == "kernel"]
    assert {kernel.note for kernel in kernels} == {"XLA shows no machine code for TPUs"}
    with pytest.raises(LensError, match="no machine code for TPUs"):
        _ = taken.asm


@pytest.mark.parametrize("name", GPU + TPU)
def test_no_instruction_is_lost_across_fusion(name):
    change, note = across_fusion(record(name))
    assert note.startswith("Before: ")
    assert set(change.fates) == {node.id for node in change.before.nodes()}
    after = {node.id for node in change.after.nodes()}
    lost = {fate.id for fate in change.fates.values() if not fate.into}
    assert all(set(fate.into) <= after for fate in change.fates.values())
    computing = {node.id for node in change.before.nodes() if node.opcode not in SILENT}
    # TPU's loops get new state after fusion; what cannot be followed through that is few.
    assert len(lost & computing) <= (0.06 * len(computing) if name in TPU else 0)
    assert any(fate.name == "fused" and fate.by for fate in change.fates.values())


# Names, groups and places of values: nothing is computed by these.
SILENT = {"parameter", "constant", "get-tuple-element", "tuple", "bitcast", "copy"}


@pytest.mark.parametrize("name", GPU + TPU)
def test_the_views_render(name):
    taken = record(name)
    shown = [
        documents.jaxpr(taken),
        documents.hlo(taken),
        documents.hlo(taken, fusion=True, full=True),
        documents.hlo(taken, passes=True),
        documents.compile(taken, OPTIONS["compile"](full=True)),
        documents.compile(taken, OPTIONS["compile"](cost=True, memory=True)),
        *(documents.compile(taken, OPTIONS["compile"](kernel=k.name)) for k in taken.kernels),
    ]
    for document in shown:
        assert "which is not here" in document.taken
        assert ("autotuning is off" in document.taken) == (name in GPU)
        words = text(document)
        assert words.startswith(document.taken[:20])
        assert str(RECORDS.parent.parent) not in words
        assert len(html(document)) > len(document.taken)
    assert "blocks of" in text(shown[4]) or name in TPU


@pytest.mark.parametrize("name", GPU)
def test_a_gpu_that_is_not_here_has_no_cost_by_xla_and_says_so(name):
    taken = record(name)
    with pytest.raises(LensError, match="a device that is not here"):
        _ = taken.cost
    words = " ".join(text(documents.compile(taken, OPTIONS["compile"](cost=True))).split())
    assert "XLA gives no flops here" in words
    assert "counted over the equations" in words
    sizes = taken.memory
    assert min(sizes.arguments, sizes.outputs, sizes.temporaries) > 0
