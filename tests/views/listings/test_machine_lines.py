"""LLVM IR and machine code as lines that carry their kernel's name."""

import pytest

from jaxlens.ir.facts import Kernel
from jaxlens.program.kernels import Work
from jaxlens.render.text.lines import line_text
from jaxlens.views.listings.machine import listing
from tests.support.documents import approved
from tests.support.paths import TEXTS

BEFORE = (TEXTS / "kernel.ll").read_text()
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


def named(found):
    return "\n".join(f"{line.id:6}{line_text(line, full=True)}".rstrip() for line in found.lines)


def test_code_is_as_approved_and_every_line_carries_its_kernels_name():
    """LLVM IR without metadata; PTX with its own comments; of kernels beyond a limit no code."""
    own = [work(Kernel(name, name, "kernel", "", "", f"{name}:\n  0: ret\n")) for name in "abc"]
    listings = {
        "LLVM IR": listing(kernels(), "llvm"),
        "machine code": listing(kernels(), "asm"),
        "PTX": listing(kernels(PTX), "asm"),
        "three lines at most": listing(kernels(), "asm", most=3),
        "three lines, the last kernels first": listing(own, "asm", most=3, first=own[::-1]),
    }
    texts = (f"{name}:\n\n{named(found)}" for name, found in listings.items())
    approved("views/machine_code", "\n\n".join(texts))


@pytest.mark.parametrize("head", [1, 3, 5, 100])
@pytest.mark.parametrize("stage", ["llvm", "asm"])
def test_the_rest_is_as_long_as_it_says(head, stage):
    whole = listing(kernels(), stage)
    cut = listing(kernels(), stage, head=head)
    assert cut.lines == whole.lines[:head]
    assert len(cut.more) == len(tuple(cut.more))
    assert (*cut.lines, *cut.more) == whole.lines


def test_no_code_at_all_is_no_listing():
    assert not listing([kernels()[0]], "llvm").lines
    assert not listing([], "asm").lines
