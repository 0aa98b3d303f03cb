"""LLVM IR, disassembly and PTX become regions and nodes."""

import random
import time
from contextlib import suppress

import pytest

from jaxlens.errors import ReadError
from jaxlens.ir.machine import llvm, native
from tests.ir.check import check
from tests.support.paths import RECORDS

RECORD = (RECORDS / "scan_grad.ll").read_text()

IR = """; ModuleID = 'k'
source_filename = "k"
target triple = "x86_64-unknown-linux-gnu"

%Arg = type { ptr, i64 }

; Function Attrs: uwtable
define ptr @k(ptr %0) #0 {
  %2 = getelementptr inbounds %Arg, ptr %0, i32 0, i32 1
  %3 = load ptr, ptr %2, align 8, !invariant.load !3
  %4 = call fast <8 x float> @"inner f"(ptr noalias align 64 %3, i64 7)
  %5 = fcmp olt <8 x float> %4, zeroinitializer
  switch i64 7, label %6 [
    i64 1, label %6
    i64 2, label %6
  ]

6:                                                ; preds = %1, %6
  %7 = phi i64 [ %8, %6 ], [ 0, %1 ]
  %8 = add nuw nsw i64 %7, 1
  %9 = fptosi float 1.0 to i32
  br i1 true, label %6, label %done, !llvm.loop !6

done:
  ret ptr %3
}

define internal <8 x float> @"inner f"(ptr noalias %x, i64) {
  ret <8 x float> undef
}

declare float @llvm.maximum.f32(float, float) #2
attributes #0 = { uwtable }
!3 = !{}
"""


def test_functions_are_regions_and_instructions_nodes():
    module = llvm.read(IR)
    assert check(module) == []
    assert module.unknown == ()
    assert list(module.regions) == ["k", "inner f"]
    assert module.attrs["target triple"] == '"x86_64-unknown-linux-gnu"'
    body = module.body()
    assert [node.opcode for node in body.nodes] == [
        "getelementptr",
        "load",
        "call",
        "fcmp",
        "switch",
        "phi",
        "add",
        "fptosi",
        "br",
        "ret",
    ]
    by_name = {node.name: node for node in body.nodes}
    assert by_name["%2"].operands == ("%0",)
    assert by_name["%4"].regions == ("inner f",)
    assert by_name["%4"].operands == ("%3",)
    assert by_name["%7"].operands == ("%8",)
    assert by_name["%8"].attrs == {"block": "6"}
    types = {name: node.type.dtype for name, node in by_name.items() if name.startswith("%")}
    assert types == {
        "%2": "ptr",
        "%3": "ptr",
        "%4": "<8 x float>",
        "%5": "<8 x i1>",
        "%7": "i64",
        "%8": "i64",
        "%9": "i32",
    }
    assert body.results == ("%3",)
    assert [value.name for value in body.parameters] == ["%0"]
    assert [value.name for value in module.regions["inner f"].parameters] == ["%x"]


def test_equal_names_of_several_modules_are_numbered():
    module = llvm.read(IR + IR)
    assert set(module.regions) == {"k", "inner f", "k (2)", "inner f (2)"}
    assert check(module) == []
    calls = {
        name: {r for node in region.nodes for r in node.regions}
        for name, region in module.regions.items()
    }
    assert calls["k (2)"] == {"inner f (2)"}
    assert calls["k"] == {"inner f"}


def test_recorded_llvm_ir():
    module = llvm.read(RECORD)
    assert check(module) == []
    assert module.unknown == ()
    assert len(module.regions) == RECORD.count("\ndefine ")
    assert "ret" in {node.opcode for node in module.nodes()}


def test_llvm_text_that_breaks_off_or_is_none():
    with pytest.raises(ReadError, match="expected LLVM IR"):
        llvm.read("HloModule m")
    with pytest.raises(ReadError, match="breaks off within function 'k'"):
        llvm.read(IR[: IR.index("done:")])


ASM = """kernel:
  0: push rbp
  1: mov rbp, rsp
  4:\t48 89 e5 \tmov rbp, rsp
  a: vaddps ymm0, ymm1, ymmword ptr [rax + 4*rcx]
  f: call helper
  14: ret
; a comment
!!!

0000000000000020 <helper>:
  20: jmp 0x20
"""

PTX = """//
.version 8.5
.target sm_90a
.address_size 64

.visible .entry loop_fusion(
\t.param .u64 .ptr .align 16 loop_fusion_param_0,
\t.param .u64 loop_fusion_param_1
)
.reqntid 128, 1, 1
{
\t.reg .pred \t%p<2>;
\tld.param.u64 \t%rd1, [loop_fusion_param_0]; // a comment
\t@%p1 bra \t$L__BB0_2;
$L__BB0_2:
\tst.global.v2.f32 \t[%rd1], {%f1, %f2};
\tret;
}
"""


def test_disassembly():
    module = native.read(ASM)
    assert check(module) == []
    assert list(module.regions) == ["kernel", "helper"]
    assert [node.opcode for node in module.body().nodes] == [
        "push",
        "mov",
        "mov",
        "vaddps",
        "call",
        "ret",
    ]
    assert module.body().nodes[3].attrs["operands"] == "ymm0, ymm1, ymmword ptr [rax + 4*rcx]"
    assert module.body().nodes[3].id == "kernel/a"
    assert module.body().nodes[4].regions == ("helper",)
    assert module.unknown == ("!!!",)


def test_ptx():
    module = native.read(PTX)
    assert check(module) == []
    assert module.attrs == {"version": "8.5", "target": "sm_90a", "address_size": "64"}
    body = module.body()
    assert body.name == "loop_fusion"
    assert [(n.opcode, n.attrs.get("block")) for n in body.nodes] == [
        ("ld.param.u64", None),
        ("bra", None),
        ("st.global.v2.f32", "$L__BB0_2"),
        ("ret", "$L__BB0_2"),
    ]
    assert module.unknown == ()


def test_text_without_code_is_refused():
    with pytest.raises(ReadError, match="expected a disassembly or PTX"):
        native.read("nothing here")


@pytest.mark.parametrize("text", [RECORD, IR, ASM * 20, PTX], ids=["ll", "ir", "asm", "ptx"])
def test_mutated_text_is_read_or_refused_in_time(text):
    dice = random.Random(2)
    for _ in range(100):
        broken = text
        for _ in range(5):
            i = dice.randrange(len(broken))
            piece = dice.choice(['"', "(", "[", "<", "\n", "}", "@", "% ", ":", "x" * 999, ""])
            broken = broken[:i] + piece + broken[i + dice.randrange(30) :]
        start = time.process_time()
        with suppress(ReadError):
            check((native if text in (ASM * 20, PTX) else llvm).read(broken))
        assert time.process_time() - start < 2
