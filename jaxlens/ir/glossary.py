"""Two depths of explanation, a page and a lesson for each word that a program's text may show.

The words stand in `glossary.tsv`, one a line: its kind, the word as JAX or XLA prints it, the
page that says more, and the sentence for a first meeting. `glossary_expert.tsv` has what decides
cost, fusion and semantics: its kinds, the lesson that teaches it (0 for none), the words it is
about (`*` stands for any characters), and the text. Texts of several rows that name a word follow
each other, so that a family's text is written once.

What XLA's compilers for closed machines do is not documented. Where only a pass's name says it,
the sentence begins with "Unknown".
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType

from jaxlens.ir.stage import STAGES
from jaxlens.reading import table_rows

Kind = str
"""One of `KINDS`. "target": names that custom calls call; "asm": machine instructions of CPUs."""
# What each kind is called where a word may have several, and the lesson that teaches to read it,
# for words that no lesson is about.
KINDS: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "primitive": ("primitive", 4),
        "op": ("StableHLO op", 2),
        "instruction": ("HLO instruction", 20),
        "attribute": ("attribute", 0),
        "pass": ("pass", 21),
        "target": ("target of a call", 22),
        "llvm": ("LLVM instruction", 23),
        "asm": ("machine instruction", 23),
        "ptx": ("PTX instruction", 23),
        "word": ("", 0),
        "stage": ("stage", 0),
    }
)

_NUMBERED = re.compile(r"[-.]\d+$")
_HALF = re.compile(r"-(?:start|update|done)$")
_LAPACK = re.compile(r"^lapack-[sdcz]")
_INDEX = re.compile(r"\[\d+\]$")
_LAYOUT = re.compile(r"\{[\d,]*(?::[^}]*)?\}")
_UNKNOWN = "Unknown: jaxlens has no entry for this pass; what it changed here is all that it says."

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
        sentence: What it computes, means or does, for a first meeting.
        link: Name of the page that says more ("jax.lax.scan", "StableHLO: add"); "" for none.
        lesson: Number of the lesson that teaches it; 0 for none.
        expert: What decides its cost, its fusion and its layout, exact semantics, and what to
            watch for, a paragraph each.
    """

    sentence: str
    link: str
    lesson: int = 0
    expert: tuple[str, ...] = ()


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


def pass_entry(name: str) -> Entry:
    """What there is to say of a pass; of one that is not in the glossary, that it is unknown."""
    return entry("pass", name) or Entry(_UNKNOWN, "XLA: HLO passes", KINDS["pass"][1])


def meanings(word: str) -> dict[Kind, Entry]:
    """Every entry of a word as a user types it, by kind."""
    by_kind = {kind: entry(kind, word) for kind in KINDS if kind != "llvm" or " " not in word}
    return {kind: meaning for kind, meaning in by_kind.items() if meaning is not None}


def similar(word: str) -> list[str]:
    """Words of the glossary that are spelled nearly so."""
    listed = {name for kind in KINDS for name in words(kind)}
    return get_close_matches(word, sorted(listed), 4)


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
    elif kind == "word":  # `ynn_fusion.3` is a form of `ynn_fusion`, `{1,0}` of `layout`
        plain = _NUMBERED.sub("", key)
        yield plain
        yield plain.lower()
        yield plain.lower().removesuffix("s")
        yield plain.replace("-", " ")
        if _LAYOUT.fullmatch(key):
            yield "layout"
        if "-" in plain:
            yield f"{plain.partition('-')[0]}-*"
            yield f"*-{plain.rpartition('-')[2]}"
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
    rows: dict[str, dict[str, tuple[str, str]]] = {kind: {} for kind in (*KINDS, "page")}
    for kind, word, link, sentence in table_rows("jaxlens.ir", "glossary.tsv")[1:]:
        rows[kind][word] = sentence, link
    spelled = {kind: {_plain(word): word for word in by} for kind, by in rows.items()}
    expert: dict[tuple[str, str], list[str]] = {}
    lessons: dict[tuple[str, str], int] = {}
    for kinds, lesson, names, text in table_rows("jaxlens.ir", "glossary_expert.tsv")[1:]:
        for kind in kinds.split():
            for word in dict.fromkeys(_named(names, spelled[kind])):
                expert.setdefault((kind, word), []).append(text)
                if lesson != "0":
                    lessons.setdefault((kind, word), int(lesson))
    entries = {
        kind: {
            word: Entry(
                sentence,
                link,
                lessons.get((kind, word), KINDS.get(kind, ("", 0))[1]),
                tuple(expert.get((kind, word), ())),
            )
            for word, (sentence, link) in by.items()
        }
        for kind, by in rows.items()
    }
    entries["stage"] = {stage.name: Entry(stage.meaning, "", 1, (stage.step,)) for stage in STAGES}
    return entries


def _plain(word: str) -> str:
    """A word as rows of the experts' table name it: spelled alike in every kind."""
    return word.removeprefix("stablehlo.").replace("_", "-").replace(" ", "-")


def _named(names: str, known: Mapping[str, str]) -> Iterator[str]:
    """The words that the names in a row stand for: themselves, or all that fit a pattern."""
    for name in map(_plain, names.split()):
        if name in known:
            yield known[name]
        elif "*" in name:
            pattern = re.compile(f"^{re.escape(name)}$".replace(r"\*", ".*"), re.MULTILINE)
            yield from map(known.__getitem__, pattern.findall("\n".join(known)))


@cache
def _rows_by_key() -> Mapping[str, Mapping[str, Entry]]:
    return {kind: {_key(kind, w): entry for w, entry in by.items()} for kind, by in _rows().items()}
