"""Every instruction that runs is tied to its code, or says why it has none."""

import re
import shutil
import subprocess

import jax
import jax.numpy as jnp
import pytest

from jaxlens.errors import UnavailableError
from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.machine.disassemble import disassemble, readable, symbols
from jaxlens.stages.compile.dump_files import Dump
from jaxlens.stages.compile.kernels import kernels
from jaxlens.stages.compile.xla import compile_lowered
from tests.support import programs

pytestmark = [
    pytest.mark.backend,
    pytest.mark.skipif(jax.default_backend() != "cpu", reason="names of XLA:CPU's code"),
    pytest.mark.reads_jax,
]


def compiled(f, *args):
    return compile_lowered(jax.jit(f).trace(*args).lower(), name="f")


def many(x, w, k, i):
    """A program with most of the kinds of things that run."""

    def body(carry, t):
        return jnp.tanh(carry @ w) * t, carry.sum()

    carry, sums = jax.lax.scan(body, x, k)
    ordered = jnp.sort(jnp.fft.fft(carry).real, axis=-1)
    picked = jax.lax.cond(i > 0, lambda a: jnp.sin(a).sum(), lambda a: a[0, 0], ordered)
    factor = jnp.linalg.cholesky(w @ w.T + jnp.eye(32))
    return carry, sums, ordered, picked, factor, jax.lax.top_k(ordered, 3)


@pytest.fixture(scope="module")
def done():
    args = (jnp.ones((32, 32)), jnp.eye(32), jnp.ones(7), jnp.int32(1))
    return compiled(many, *args)


def test_every_fusion_has_code_or_a_library(done):
    module = done.optimized.module
    by_name = {kernel.instruction: kernel for kernel in done.kernels}
    called = {name for k in by_name for name in ([k] if k else [])}
    inside = {r for node in module.nodes() if node.opcode == "fusion" for r in node.regions}
    for region in module.regions.values():
        for node in region.nodes:
            if node.opcode != "fusion" or region.name in inside or node.id not in called:
                continue
            kernel = by_name[node.id]
            assert (kernel.kind, bool(kernel.asm)) in [("kernel", True), ("library call", False)]
            if kernel.kind == "kernel":
                assert kernel.llvm_before
                assert kernel.llvm_after
                assert not kernel.note
            else:
                assert kernel.note


def test_kinds(done):
    module = done.optimized.module
    opcodes = {node.id: node.opcode for node in module.nodes()}
    kinds = {(opcodes[k.instruction], k.kind) for k in done.kernels if k.instruction}
    assert {("while", "thunk"), ("sort", "thunk"), ("conditional", "thunk")} <= kinds
    assert {("custom-call", "library call"), ("fft", "library call")} <= kinds
    assert all(kernel.note for kernel in done.kernels if kernel.kind != "kernel")
    assert all(kernel.instruction for kernel in done.kernels)


def test_a_kernel_of_pallas_is_no_library_call():
    text = """HloModule f
ENTRY main {
  a = f32[8]{0} parameter(0)
  ROOT matmul.1 = f32[8]{0} custom-call(a), custom_call_target="tpu_custom_call"
}"""
    (kernel,) = kernels(hlo.read(text), Dump(), "tpu")
    assert (kernel.instruction, kernel.kind) == ("matmul.1", "kernel")
    assert "tpu_custom_call" in kernel.note


def test_loop_bodies_follow_their_loop(done):
    module = done.optimized.module
    nodes = {node.id: node for node in module.nodes()}
    order = [kernel.instruction for kernel in done.kernels]
    loop = next(n for n in module.body().nodes if n.opcode == "while")
    inside = {n.id for r in loop.regions for n in module.regions[r].nodes} & set(order)
    assert inside
    place = order.index(loop.id)
    assert set(order[place + 1 : place + 1 + len(inside)]) == inside
    assert all(nodes[name].opcode != "parameter" for name in order)


def test_sort_shows_its_comparison(done):
    sort = next(k for k in done.kernels if k.instruction.startswith("sort"))
    assert "fcmp" in sort.llvm_after or "icmp" in sort.llvm_after
    assert sort.asm


def test_a_thunk_names_the_target(done):
    notes = [kernel.note for kernel in done.kernels if kernel.kind == "library call"]
    assert any("lapack_spotrf_ffi" in note for note in notes)


def test_equal_fusions_share_a_kernel():
    def layers(x, weights):
        for w in weights:
            x = jnp.tanh(x @ w) + 1
        return x

    kernels = compiled(layers, jnp.ones((64, 64)), [jnp.ones((64, 64))] * 6).kernels
    shared = [kernel for kernel in kernels if kernel.note.startswith("equal to ")]
    assert shared
    for kernel in shared:
        other = kernel.note.split()[2].rstrip(":")
        owner = next(k for k in kernels if k.instruction == other)
        assert kernel.asm == owner.asm != ""


def test_whole_texts_have_each_kernel_s(done):
    for kernel in done.kernels:
        if kernel.asm and kernel.kind == "kernel":
            assert kernel.asm in done.asm.text
            assert kernel.llvm_after in done.llvm.text
    with pytest.raises(UnavailableError, match=r"is text and no graph: cap\.asm\.text has it"):
        _ = done.asm.module


def test_texts_hold_no_place_of_this_process(done):
    for text in (done.asm.text, done.llvm.text):
        assert "/tmp" not in text
        assert "/shm" not in text
    again = compiled(many, jnp.ones((32, 32)), jnp.eye(32), jnp.ones(7), jnp.int32(1))
    assert again.asm.text == done.asm.text


def test_calls_show_whom_they_call():
    kernels = compiled(lambda x: jnp.sin(x).sum(), jnp.ones((32, 32))).kernels
    text = "".join(kernel.asm for kernel in kernels)
    needed = {"sin"} if "sinf" in "".join(k.llvm_after for k in kernels) else set()
    assert all(name in text for name in needed)


@pytest.mark.skipif(shutil.which("objdump") is None, reason="the oracle is binutils' objdump")
def test_disassembly_agrees_with_objdump(done, tmp_path):
    for unit, data in done.dump.objects.items():
        if not readable(data):
            continue
        (tmp_path / "a.o").write_bytes(data)
        command = ["objdump", "-d", "--no-show-raw-insn", str(tmp_path / "a.o")]
        theirs = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        offsets = re.findall(r"^ *([0-9a-f]+):\t", theirs, re.MULTILINE)
        ours = [
            line.split(":")[0].strip()
            for name in symbols(data)
            for line in disassemble(data, name).splitlines()[1:]
        ]
        assert ours == offsets[: len(ours)], unit
        assert len(symbols(data)) != 1 or len(ours) == len(offsets), unit


def test_objects_of_other_kinds_say_so():
    assert not readable(b"\xcf\xfa\xed\xfe" + bytes(40))
    assert symbols(b"\xcf\xfa\xed\xfe" + bytes(40)) == []
    with pytest.raises(UnavailableError, match="ELF objects only"):
        disassemble(b"MZ", "f")


def test_objects_that_break_off_say_so(done):
    for data in done.dump.objects.values():
        for end in range(0, len(data), 101):
            for symbol in symbols(data[:end]):  # what is still whole can be read
                assert disassemble(data[:end], symbol).startswith(symbol)


def test_unknown_function(done):
    data = next(iter(done.dump.objects.values()))
    with pytest.raises(UnavailableError, match="no function 'nobody'"):
        disassemble(data, "nobody")


@pytest.mark.parametrize("program", [programs.mlp_step, programs.attention, programs.scan_rnn])
def test_real_programs_leave_no_code_without_instruction(program):
    f, args = program()
    for kernel in compiled(f, *args).kernels:
        assert kernel.instruction
        assert "showed no code" not in kernel.note
