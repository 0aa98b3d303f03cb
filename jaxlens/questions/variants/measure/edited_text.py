"""Reads a program's text that a user has changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxlens.errors import OptionError
from jaxlens.ir.facts import Input
from jaxlens.ir.graph import Type
from jaxlens.ir.jaxpr.types import type_of
from jaxlens.stages.compile.program_text import is_scheduled, of_hlo, of_module, struct


@dataclass(frozen=True, slots=True)
class EditedText:
    """A parsed text.

    Attributes:
        language: "StableHLO", "HLO" or "optimised HLO".
        lowered: What compiles it.
        outputs: Its results.
        missing: The earlier stages that it does not have, with their nouns.
    """

    language: str
    lowered: Any = field(repr=False)
    outputs: tuple[Input, ...]
    missing: Mapping[str, str]


def parsed(
    stage: str,
    text: str,
    inputs: Sequence[Input],
    outputs: Sequence[Input],
    options: Any = (),
) -> EditedText:
    """Parses a changed text.

    Args:
        stage: What the text is: "stablehlo", "hlo" or "optimized".
        text: The text; HLO may be of before or after optimisation.
        inputs: The arguments of the original program.
        outputs: Its results.
        options: Its compiler options, as pairs of name and value.

    Raises:
        ReadError: The text cannot be parsed.
        OptionError: It is in another language, or takes other arguments.
    """
    is_hlo = text.lstrip().startswith("HloModule")
    if is_hlo != (stage != "stablehlo"):
        languages = ("StableHLO", "HLO") if is_hlo else ("HLO", "StableHLO")
        raise OptionError(
            f"expected {languages[0]}, got {languages[1]}: change the text of "
            f"jaxlens.edit(cap, {stage!r})"
        )
    if is_hlo:
        missing = {"stablehlo": "StableHLO"}
        language = "HLO"
        if is_scheduled(text):
            language, missing = "optimised HLO", missing | {"hlo": "HLO before optimisation"}
        sent = of_hlo(text, options)
    else:
        language, missing, sent = "StableHLO", {}, of_module(text, options=options)
    expected = [struct(leaf.type) for leaf in inputs]
    got = [shape for _, shape in sent.arguments]
    if [(s.shape, s.dtype) for s in got] != [(s.shape, s.dtype) for s in expected]:
        raise OptionError(
            f"expected the arguments of the original, {_types(expected)}, got {_types(got)} in the "
            f"{language}; it is run with the same arrays: leave the parameters as they are"
        )
    names = [leaf.name for leaf in outputs]
    if len(names) != len(sent.results):
        names = [f"result[{number}]" for number in range(len(sent.results))]
    results = (Input(n, _type(s)) for n, s in zip(names, sent.results, strict=True))
    return EditedText(language, sent.lowered, tuple(results), missing)


def _type(shape: Any) -> Type:
    return type_of(shape)


def _types(shapes: Sequence[Any]) -> str:
    return ", ".join(str(_type(shape)) for shape in shapes) or "none"
