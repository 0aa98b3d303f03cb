"""One sentence and the name of one page for each word that a program's text may show.

The words stand in `glossary.tsv`, one a line: its kind, the word as JAX or XLA prints it, the
page that says more, and the sentence. What XLA's compilers for closed machines do is not
documented; where only a pass's name says it, the sentence says so too.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Literal, get_args

from jaxlens.ir.stage import STAGES

Kind = Literal[
    "primitive", "op", "instruction", "attribute", "pass", "target", "llvm", "asm", "ptx", "stage"
]  # "target": names that custom calls call; "asm": machine instructions of CPUs

_NUMBERED = re.compile(r"[-.]\d+$")
_HALF = re.compile(r"-(?:start|update|done)$")
_LAPACK = re.compile(r"^lapack-[sdcz]")
_INDEX = re.compile(r"\[\d+\]$")

# Where a page is, by how its name starts; `{}` is the rest of the name.
_ADDRESSES = {
    "jax.": "https://docs.jax.dev/en/latest/_autosummary/jax.{}.html",
    "module ": "https://docs.jax.dev/en/latest/{}.html",
    "StableHLO: ": "https://openxla.org/stablehlo/spec#{}",
    "XLA: ": "https://openxla.org/xla/operation_semantics#{}",
    "LLVM: ": "https://llvm.org/docs/LangRef.html#{}-instruction",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """What there is to say of a word.

    Attributes:
        sentence: What it computes, means or does.
        link: Name of the page that says more ("jax.lax.scan", "StableHLO: add"); "" for none.
    """

    sentence: str
    link: str


def entry(kind: Kind, word: str) -> Entry | None:
    """What there is to say of a word as a program's text shows it.

    Args:
        kind: What the word is.
        word: The word; numbers behind it, quotes and halves of asynchronous instructions are
            looked through. An attribute may stand behind its primitive or opcode
            ("scan.length"), since one name can mean several things.

    Returns:
        The entry, or None where the glossary has none.
    """
    entries = _rows_by_key()[kind]
    return next((entries[form] for form in _forms(kind, _key(kind, word)) if form in entries), None)


def words(kind: Kind) -> Mapping[str, Entry]:
    """Every entry of a kind, by the word as the table writes it."""
    return MappingProxyType(_rows()[kind])


def address(link: str) -> str:
    """Where a page is; "" for a name that is none. Nothing is fetched.

    Args:
        link: `Entry.link`.
    """
    if page := _rows()["page"].get(link):
        return page.link
    for start, pattern in _ADDRESSES.items():
        if link.startswith(start):
            name = link.removeprefix(start)
            return pattern.format(name.lower() if start == "XLA: " else name)
    return ""


def _key(kind: str, word: str) -> str:
    """The word without what is written now so, now otherwise."""
    key = word.strip('"').replace("_", "-")
    return key.lower() if kind == "pass" else key


def _forms(kind: Kind, key: str) -> Iterator[str]:
    """The word, then what it may be a form of, the nearest first."""
    yield key
    plain = _NUMBERED.sub("", key)
    if kind == "attribute":
        plain = _INDEX.sub("", key)
        yield plain
        yield plain.rpartition(".")[2]
    elif kind == "op":
        yield f"func.{key}"
        yield f"stablehlo.{key.rpartition('.')[2]}"
    elif kind == "instruction":
        yield _HALF.sub("", plain)
    elif kind == "primitive":
        yield plain.removesuffix("-p")
        yield plain.partition("[")[0]
    elif kind == "pass":
        yield plain
        yield _NUMBERED.sub("", plain)
    elif kind == "target":  # a library's routine for any element type, then any of the library
        plain = key.removesuffix("-ffi")
        yield plain
        yield _LAPACK.sub("lapack-", plain)
        library, mark, _ = plain.lstrip("-").partition("$")
        yield f"--{library}" if mark else f"{plain.partition('-')[0]}-"
    elif kind == "llvm":
        yield key.rpartition(" ")[2]
    elif kind == "ptx":  # `fma.rn.f32` is a form of `fma.rn` and of `fma`
        while "." in key:
            key = key.rpartition(".")[0]
            yield key
    elif kind == "asm":  # `vaddps` is a form of `add*`: a star is for what a family adds
        plain = key.removeprefix("v")
        yield plain
        yield from (f"{plain[:end]}*" for end in range(len(plain), 0, -1))


@cache
def _rows() -> Mapping[str, Mapping[str, Entry]]:
    """The table, by kind and word. Rows of kind "page" have the addresses that follow no rule."""
    entries: dict[str, dict[str, Entry]] = {kind: {} for kind in (*get_args(Kind), "page")}
    text = files("jaxlens.ir").joinpath("glossary.tsv").read_text("utf-8")
    for row in text.splitlines()[1:]:
        kind, word, link, sentence = row.split("\t")
        entries[kind][word] = Entry(sentence, link)
    entries["stage"] = {stage.name: Entry(stage.meaning, "") for stage in STAGES}
    return entries


@cache
def _rows_by_key() -> Mapping[str, Mapping[str, Entry]]:
    return {kind: {_key(kind, w): entry for w, entry in by.items()} for kind, by in _rows().items()}
