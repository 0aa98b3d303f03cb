"""Calls of cuBLAS and cuDNN, as XLA wrote them for an H100 (jax 0.11.2)."""

import pytest

from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.hlo.library_products import is_scratch, label, library_product, without_scratch
from jaxlens.program.kernel_cost import instruction_costs

DOT = (
    'custom_call_target="{}", backend_config={{"gemm_backend_config":{{"alpha_real":1,"beta":0,'
    '"dot_dimension_numbers":{{"lhs_batch_dimensions":[{}],"lhs_contracting_dimensions":["{}"],'
    '"rhs_batch_dimensions":[{}],"rhs_contracting_dimensions":["{}"]}},"epilogue":"BIAS"}}}}'
)
CONVOLUTION = (
    'window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_o01i->b01f, custom_call_target="__cudnn${}",'
    ' backend_config={{"cudnn_conv_backend_config":{{"conv_result_scale":1}}}}'
)
IMAGE, KERNEL, OUT = "f32[16,64,64,32]", "f32[64,3,3,32]", "f32[16,64,64,64]"
FLOPS = 2 * 16 * 64 * 32 * (64 * 3 - 2) ** 2  # without the taps on padding


def module(first: str, second: str, result: str, attributes: str):
    return hlo.read(
        f"""HloModule jit_f, is_scheduled=true

ENTRY main {{
  a = {first} parameter(0)
  b = {second} parameter(1)
  call.1 = ({result}, s8[33554432]) custom-call(a, b), {attributes}
  ROOT out = {result} get-tuple-element(call.1), index=0
}}
""",
        stage="optimized",
    )


@pytest.mark.parametrize(
    ("types", "attributes", "flops", "name"),
    [
        (
            ("f32[2048,1024]", "f32[1024,512]", "f32[2048,512]"),
            DOT.format("__cublas$lt$matmul", "", 1, "", 0),
            2 * 2048 * 512 * 1024,
            "dot (cuBLAS)",
        ),
        (
            ("bf16[2,1024,64]", "bf16[2,1024,32]", "bf16[2,64,32]"),
            DOT.format("__cublas$gemm", '"0"', 1, '"0"', 1),
            2 * 2 * 64 * 32 * 1024,
            "dot (cuBLAS)",
        ),
        (
            (IMAGE, KERNEL, OUT),
            CONVOLUTION.format("convForward"),
            FLOPS,
            "convolution (cuDNN)",
        ),
        (
            (OUT, KERNEL, IMAGE),
            CONVOLUTION.format("convBackwardInput"),
            FLOPS,
            "convolution (cuDNN)",
        ),
        (
            (IMAGE, OUT, KERNEL),
            CONVOLUTION.format("convBackwardFilter"),
            FLOPS,
            "convolution (cuDNN)",
        ),
    ],
)
def test_a_call_has_the_flops_of_its_product(types, attributes, flops, name) -> None:
    parsed = module(*types, attributes)
    (cost,) = instruction_costs(parsed)
    assert (cost.flops, cost.unknown, cost.product) == (flops, 0, True)
    call = next(node for node in parsed.nodes() if node.opcode == "custom-call")
    assert label(call) == name
    assert str(without_scratch(call)) == types[2]
    assert (is_scratch(call, 0), is_scratch(call, 1)) == (False, True)
    sizes = {value.name: value.type.bytes for node in parsed.nodes() for value in node.results}
    assert cost.bytes == sizes["a"] + sizes["b"] + sizes["out"]


@pytest.mark.parametrize(
    "attributes",
    [
        'custom_call_target="cusolver_potrf_ffi"',
        'custom_call_target="__cublas$lt$matmul"',
        'custom_call_target="__cublas$lt$matmul", backend_config={"gemm_backend_config":[]}',
        'custom_call_target="__cublas$lt$matmul", backend_config="none"',
    ],
)
def test_what_another_call_computes_is_unknown(attributes) -> None:
    parsed = module("f32[8,8]", "f32[8,8]", "f32[8,8]", attributes)
    (cost,) = instruction_costs(parsed)
    assert (cost.flops, cost.unknown, cost.product, cost.uncounted) == (0, 1, False, True)
    call = next(node for node in parsed.nodes() if node.opcode == "custom-call")
    assert library_product(call) is None
    assert str(without_scratch(call)) == str(call.type)
