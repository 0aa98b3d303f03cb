"""Renders LLVM IR and machine code as lines, kernel by kernel; a line's id is its kernel's name.

A kernel begins with a comment: its name and what it computes. Without code of its own, the comment
has the reason: a library call, a thunk of the runtime, or code shared with an equal kernel.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from jaxlens.program.kernels import Work, what
from jaxlens.render.control_chars import visible
from jaxlens.render.document import Line, Listing, Piece
from jaxlens.render.html.lazy_lines import LineForm, Rule, WrittenLine, listed

Machine = Literal["llvm", "asm"]

HEAD = 24  # lines in the page; a viewer renders the rest on scrolling
MOST = 100_000  # lines of one listing
PAGE = 4_000  # lines of one in a page: with all, a train step's page is twice as long
_LEFT_OUT = (
    "As XLA handed it to LLVM, without metadata and declarations: cap.llvm.text has all, and "
    "%%compile --kernel NAME what LLVM made of it."
)
_NO_CODE = "call void @llvm.experimental.noalias.scope.decl"  # metadata in the form of a call
_METADATA = re.compile(r"\w[\w.]*+(?: !\w++)?")
_ATTRIBUTES = re.compile(r" #\d++(?= \{$)| #\d++$")
# Matching a type's first letter before `\\b` is four times as fast.
_WORDS = ("float", "double", "half", "bfloat", "ptr", "void", r"i\d+")
_ONE = "|".join(
    [
        *(rf"{word[0]}(?<=\b{word[0]}){word[1:]}\b" for word in _WORDS),
        r"<\d+ x [\w ]+>",
        r"\[\d+ x [^\]]+\]",
    ]
)
_RULES = {
    "llvm": Rule(
        (r"^([\w.$\"-]+:)([ \t]*;.*)?$", ("keyword", "comment")),
        (
            r"^([ \t]*(?:%[\w.\"$-]+ = )?)((?:(?:tail|musttail|notail) )?[a-z_]+)",
            ("", "op"),
        ),
        ("^(.+)", ("",)),
        (f"((?:{_ONE})+)", ("type",)),
    ),
    # A disassembled instruction with its address, or a line of PTX.
    "asm": Rule(
        (r"^([ \t]*[0-9a-f]+: )([a-z][\w.]*)(.*)", ("comment", "op", "")),
        (r"^(.*:[ \t]*)$", ("keyword",)),
        (r"^([ \t]*[.$].*)", ("attr",)),
        (r"^([ \t]*//.*)", ("comment",)),
        (
            r"^([ \t]*(?:@!?%\w+[ \t]+)?)([a-z][\w.:]*)([ \t].*|;)?$",
            ("", "op", ""),
        ),
    ),
}
FORMS = {stage: LineForm(visible, rule) for stage, rule in _RULES.items()}


@dataclass(frozen=True, slots=True)
class _Part:
    """A kernel in a listing: its title, and its code ("" for none)."""

    work: Work
    title: str
    code: str

    @property
    def size(self) -> int:
        return 1 + (self.code.count("\n") + 2 if self.code else 0)


def listing(
    works: Sequence[Work],
    stage: Machine,
    *,
    head: int = HEAD,
    most: int = MOST,
    first: Sequence[Work] = (),
) -> Listing:
    """Returns the listing of the code of every kernel.

    Args:
        works: The kernels, in order.
        stage: "llvm" for LLVM IR (before LLVM's optimisations, which unroll it to a multiple;
            after them where only that is available), "asm" for machine code.
        head: Lines in the page.
        most: Maximum lines of code in all; kernels beyond have a title that says how to see
            their code.
        first: The kernels in the order in which they get these lines; by default that of `works`.

    Returns:
        A listing without metadata; empty if no kernel has such code.
    """
    parts = _parts(works, _codes(first or works, stage, most))
    if not any(part.code for part in parts):
        return Listing(stage, ())
    total = sum(part.size for part in parts) - bool(parts[0].code)
    note = _LEFT_OUT if stage == "llvm" else ""
    return listed(stage, total, min(head, total), lambda: _lines(parts), note, FORMS[stage])


def _codes(works: Iterable[Work], stage: Machine, most: int) -> dict[str, str]:
    """Returns code by kernel, "" for none; once there are `most` lines, kernels are left out."""
    codes: dict[str, str] = {}
    by_text: dict[str, str] = {}
    room = most
    for work in works:
        kernel = work.kernel
        if room <= 0 and kernel.kind == "kernel":
            continue
        text = kernel.asm if stage == "asm" else kernel.llvm_before or kernel.llvm_after
        if text not in by_text:
            code = text.strip("\n") if stage == "asm" else "\n".join(_functions(text))
            by_text[text] = code
            room -= code.count("\n") + 1
        codes[kernel.name] = by_text[text]
    return codes


def _parts(works: Sequence[Work], codes: Mapping[str, str]) -> list[_Part]:
    """Returns the kernels; code that several share is shown at the first of them."""
    parts: list[_Part] = []
    first: dict[str, str] = {}
    for work in works:
        kernel = work.kernel
        code = codes.get(kernel.name)
        same = first.setdefault(code, kernel.name) if code else ""
        if code is None:
            parts.append(_Part(work, f"left out here: %%compile --kernel {kernel.name} has it", ""))
        elif same and same != kernel.name:
            parts.append(_Part(work, f"the code of {same}", ""))
        else:
            reason = kernel.note or f"a {kernel.kind}, which has no code of its own"
            parts.append(_Part(work, what(work) if code else reason, code))
    return parts


def _lines(parts: Sequence[_Part]) -> Iterator[Line | WrittenLine]:
    ptx = any(part.code.startswith((".", "//")) for part in parts)
    mark = "//" if ptx else ";"
    for number, part in enumerate(parts):
        name = part.work.kernel.name
        title = Piece(f": {part.title}", "comment")
        if number and part.code:
            yield Line(())
        yield Line((Piece(f"{mark} ", "comment"), Piece(name, "keyword"), title), name)
        yield from _code(part)


def _code(part: _Part) -> Iterator[WrittenLine]:
    name = part.work.kernel.name
    for row in part.code.split("\n") if part.code else ():
        yield WrittenLine(row, name)


def _functions(text: str) -> Iterator[str]:
    """Yields the lines of the functions that an LLVM module defines."""
    inside = False
    for row in text.split("\n"):
        inside = inside or row.startswith("define ")
        if inside and _NO_CODE not in row:
            code = _without_metadata(row)
            yield _ATTRIBUTES.sub("", code) if " #" in row else code
        inside = inside and row != "}"


def _without_metadata(row: str) -> str:
    """Returns a line without the metadata at its end: `, !dbg !7, !tbaa !3`."""
    parts = row.split(", !")
    while len(parts) > 1 and _METADATA.fullmatch(parts[-1]):
        parts.pop()
    return ", !".join(parts)
