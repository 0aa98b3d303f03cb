"""MLIR types and attributes in short notation; large constants are not printed."""

import re
from typing import Any

from jaxlens.ir.graph import Type

LIMIT = 300
_ELEMENTS = 16  # a dense constant with more is not printed
_SIZES = re.compile(r"^(?:(?:\d+|\?)x)+")
_INTEGER = re.compile(r"(u|s|)i(\d+)$")
_ARRAY = re.compile(r"array<\w+(?:: ([^<>]*))?>")
_NUMBER = re.compile(r"\b(-?\d+|true|false) : i\d+\b")
_ENUM = re.compile(r"#\w+<\w+ ([\w]+)>")
_STRUCT = re.compile(r"#stablehlo\.\w+<(.*)>$", re.DOTALL)


def type_of(text: str) -> Type:
    """The type that MLIR prints as `text`: `tensor<8x4xf32>` is f32[8,4].

    Parts of a tensor type beyond shape and element (bounds, encodings) are its layout; the
    dtype of a type that is no tensor is its name.
    """
    head, _, inside = text.partition("<")
    if head == "tensor":
        rest = _SIZES.sub("", inside)
        sizes = inside[: len(inside) - len(rest)].split("x")[:-1]
        shape = (size if size == "?" else int(size) for size in sizes)
        element, _, encoding = rest[:-1].partition(", ")
        return Type(_element(element), tuple(shape), f"{{{encoding}}}" if encoding else "")
    if head == "!stablehlo.token":
        return Type("token")
    return Type(_element(text) if "<" not in text else text)


def _element(name: str) -> str:
    """ "u8" for ui8, "bool" for i1, "c64" for complex<f32>, "f8e4m3fn" for f8E4M3FN."""
    if name == "i1":
        return "bool"
    if match := _INTEGER.match(name):
        return ("u" if match.group(1) == "u" else "i") + match.group(2)
    if name.startswith("complex<"):
        return {"f32": "c64", "f64": "c128"}.get(name[8:-1], name)
    return name.lower() if re.match(r"[bt]?f\d", name) else name


def attribute(attr: Any, dense: Any) -> str:
    """An attribute's text.

    Args:
        attr: An MLIR attribute.
        dense: The bindings' class of dense constants, whose size is checked first.

    Returns:
        MLIR's text without the parts that the type repeats.
    """
    if isinstance(attr, dense) and not attr.is_splat and len(attr) > _ELEMENTS:
        return f"dense<... {len(attr):,} elements>"
    return shortened(str(attr))


def constant_text(op: Any) -> str:
    """The value of a constant as MLIR prints the op; "..." for a large one and for other ops."""
    if op.name != "stablehlo.constant":
        return "..."
    text = op.get_asm(large_elements_limit=_ELEMENTS, use_local_scope=True)
    value = text.partition(" stablehlo.constant ")[2].rpartition(" : ")[0]
    return "..." if "elided" in value else value


def shortened(text: str) -> str:
    """`array<i64: 0, 1>` as [0, 1], `3 : i64` as 3, `#stablehlo<precision HIGH>` as HIGH."""
    if text.startswith("dense<"):
        text = text[: text.rfind(">", 0, text.rfind(" : ")) + 1] if " : " in text else text
    text = _ARRAY.sub(lambda m: f"[{m.group(1) or ''}]", text)
    text = _ENUM.sub(r"\1", _NUMBER.sub(r"\1", text))
    if match := _STRUCT.match(text):
        text = f"{{{match.group(1)}}}"
    if len(text) <= LIMIT:
        return text
    return f"{text[:LIMIT]}... ({len(text) - LIMIT:,} more characters)"
