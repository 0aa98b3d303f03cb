"""MLIR's types and attributes in short notation."""

import pytest

from jaxlens.ir.stablehlo.types import LIMIT, shortened, type_of


@pytest.mark.parametrize(
    ("text", "notation", "size"),
    [
        ("tensor<8x4xf32>", "f32[8,4]", 128),
        ("tensor<i1>", "bool[]", 1),
        ("tensor<3xui8>", "u8[3]", 3),
        ("tensor<3xsi16>", "i16[3]", 6),
        ("tensor<2xbf16>", "bf16[2]", 4),
        ("tensor<5xf8E4M3FN>", "f8e4m3fn[5]", 5),
        ("tensor<2xcomplex<f32>>", "c64[2]", 16),
        ("tensor<?x4xf32>", "f32[?,4]", None),
        ("tensor<0x4xi64>", "i64[0,4]", 0),
        ("tuple<tensor<2xf32>, tensor<i32>>", "tuple<tensor<2xf32>, tensor<i32>>[]", None),
        ("!stablehlo.token", "token[]", 0),
        ("index", "index[]", None),
        ("!quant.uniform<i8:f32, 1.0>", "!quant.uniform<i8:f32, 1.0>[]", None),
    ],
)
def test_types(text, notation, size):
    assert str(type_of(text)) == notation
    assert type_of(text).bytes == size


def test_what_else_a_tensor_says_is_its_layout():
    kind = type_of("tensor<?x4xf32, #stablehlo.bounds<8, ?>>")
    assert (str(kind), kind.layout) == ("f32[?,4]", "{#stablehlo.bounds<8, ?>}")


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("array<i64: 0, 1>", "[0, 1]"),
        ("array<i64>", "[]"),
        ("3 : i64", "3"),
        ("#stablehlo<comparison_direction LT>", "LT"),
        ("[#stablehlo<precision DEFAULT>, #stablehlo<precision HIGH>]", "[DEFAULT, HIGH]"),
        ("dense<1.0> : tensor<8xf32>", "dense<1.0>"),
        ("#stablehlo.dot<lhs_contracting_dimensions = [1]>", "{lhs_contracting_dimensions = [1]}"),
        ("@relu", "@relu"),
        ('"text"', '"text"'),
    ],
)
def test_attributes(text, short):
    assert shortened(text) == short


def test_long_attributes_are_cut():
    assert shortened("x" * 1000).endswith(f"... ({1000 - LIMIT} more characters)")
