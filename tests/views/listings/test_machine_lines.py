"""LLVM IR and machine code as lines that carry their kernel's name."""

import pytest

from jaxlens.ir.facts import Kernel
from jaxlens.program.kernels import Work
from jaxlens.render.text.lines import line_text
from jaxlens.views.listings.machine import kernel_lines, listing

BEFORE = """; ModuleID = 'm'
target triple = "x86_64"

; Function Attrs: uwtable
define ptr @add(ptr %0) #0 {
entry:
  tail call void @llvm.experimental.noalias.scope.decl(metadata !6)
  %1 = load <8 x float>, ptr %0, align 32, !invariant.load !3, !noalias !5
  br label %entry ; preds = %x
}

attributes #0 = { uwtable }
!3 = !{}
"""
ASM = "add:\n   0: push rbp\n   1: vaddps ymm0, ymm1, [rdi]\n"
PTX = ".visible .entry add(\n\t.param .u64 p0\n)\n{\n\t@%p1 bra \t$L1;\n$L1:\n\tret;\n}\n"


def work(kernel):
    return Work(kernel, None, (), None, None)


def kernels(asm=ASM):
    return [
        work(Kernel("dot", "dot", "library call", note="the runtime calls a library for dot")),
        work(Kernel("add", "add", "kernel", BEFORE, "after", asm)),
        work(Kernel("add.1", "add.1", "kernel", BEFORE, "after", asm)),
        work(Kernel("while", "while", "thunk")),
    ]


def written(found):
    return [line_text(line, full=True) for line in (*found.lines, *found.more)]


def test_llvm_is_its_functions_without_metadata():
    assert written(listing(kernels(), "llvm")) == [
        "; dot: the runtime calls a library for dot",
        "",
        "; add:",
        "define ptr @add(ptr %0) {",
        "entry:",
        "  %1 = load <8 x float>, ptr %0, align 32",
        "  br label %entry ; preds = %x",
        "}",
        "; add.1: the code of add",
        "; while: a thunk, which has no code of its own",
    ]


def test_every_line_carries_its_kernels_name():
    listed = listing(kernels(), "asm")
    assert listed.stage == "asm"
    assert [line.id for line in listed.lines] == [
        "dot",
        "",
        "add",
        "add",
        "add",
        "add",
        "add.1",
        "while",
    ]


def test_ptx_has_its_own_comments():
    texts = written(listing(kernels(PTX), "asm"))
    assert texts[0] == "// dot: the runtime calls a library for dot"
    assert "$L1:" in texts


@pytest.mark.parametrize("head", [1, 3, 5, 100])
@pytest.mark.parametrize("stage", ["llvm", "asm"])
def test_the_rest_is_as_long_as_it_says(head, stage):
    whole = listing(kernels(), stage)
    cut = listing(kernels(), stage, head=head)
    assert cut.lines == whole.lines[:head]
    assert len(cut.more) == len(tuple(cut.more))
    assert (*cut.lines, *cut.more) == whole.lines


def test_of_kernels_beyond_the_limit_no_code_is_made():
    texts = written(listing(kernels(), "asm", most=3))
    assert texts[-2:] == [
        "; add.1: left out here: %%compile --kernel add.1 has it",
        "; while: a thunk, which has no code of its own",
    ]


def test_the_first_kernels_get_the_lines_and_the_order_stays():
    own = [work(Kernel(name, name, "kernel", "", "", f"{name}:\n  0: ret\n")) for name in "abc"]
    texts = written(listing(own, "asm", most=3, first=[own[2], own[1], own[0]]))
    assert texts == [
        "; a: left out here: %%compile --kernel a has it",
        "",
        "; b:",
        "b:",
        "  0: ret",
        "",
        "; c:",
        "c:",
        "  0: ret",
    ]


def test_no_code_at_all_is_no_listing():
    assert not listing([kernels()[0]], "llvm").lines
    assert not listing([], "asm").lines
    assert not kernel_lines(kernels()[0], "asm").lines


def test_one_kernel():
    assert written(kernel_lines(kernels()[1], "asm")) == ASM.rstrip("\n").split("\n")
