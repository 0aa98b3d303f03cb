"""Stamps: ids that travel through the compiler as one more part of a scope.

Before lowering each equation's name stack ends in its own stamp, so that StableHLO's locations
name the equation: `jit(f)/jvp(_jle12_)/mul`. Before compiling each op's location gets the op's
stamp instead, so that HLO's op_names name the op: `jit(f)/jvp()/_jls7_/mul`. XLA keeps op_names
as it rewrites, joins those of merged instructions with `;`, and puts a call's before those of
what it inlines: so a scope can hold several paths of stamps, the last of each being its own.

Only letters, digits and `_` survive the way to HLO. Readers show scopes without stamps. A name of
the user's that looks like a stamp is escaped with one more zero on the way to HLO (`_jle12_` is
sent as `_jl0e12_`), which is removed here.
"""

import re
from itertools import pairwise

KERNEL = "_jlk_"
"""Part of a scope whose next part is for libtpu alone, which names a Pallas kernel by it."""

_STAMP = re.compile(r"_jl([es]\d+)_")
# A stamp stands alone between slashes, ends a scope, or is all that a transform wraps.
_PART = re.compile(r"/_jl[es]\d+_(?![^/;()\"])|_jl[es]\d+_/?")
# An op without a name has its stamp, two slashes, and its kind, by which XLA names an instruction.
_UNNAMED = re.compile(r"/_jl[es]\d+_//[\w-]+|_jl[es]\d+_//[\w-]+/?")
_BETWEEN = re.compile(r"/_jl([es]\d+)_(?![^/;()\"]|//)")
_NAMED = re.compile(r'op_name="([^"]*_jl[^"]*)" ?')
_JOINED = re.compile(r'op_name="([^";]*;[^"]*)" ?')
_EMPTY = ", metadata={}"
_INNER = re.compile(r"/_jl[es]\d+_(?=/[^/])")
_KERNEL = re.compile(rf'/{KERNEL}/[^/;"]+')
_ALIKE = re.compile(r"_jl(0*[es]\d+_)")
_ESCAPED = re.compile(r"_jl0(0*[es]\d+_)")


def stamp(id: str) -> str:
    """The part of a scope that names a node: "e12" of a jaxpr, "s7" of StableHLO."""
    return f"_jl{id}_"


def stamps(scope: str) -> tuple[tuple[str, ...], ...]:
    """The paths of stamps in a scope, each once; parts without any are left out."""
    if "_jl" not in scope:
        return ()
    plain = ";" not in scope and ":" not in scope  # nearly all
    parts = [scope] if plain else (n for part in scope.split(";") for n in _combined(part))
    paths = [tuple(_STAMP.findall(part)) for part in parts]
    return tuple(dict.fromkeys(path for path in paths if path))


def _combined(part: str) -> list[str]:
    """Splits the op_name of a combined instruction: `a/(b:c)` into `a/b` and `a/c`.

    XLA writes it where it combines collectives. A name of the user's can hold the same
    characters, but not a stamp after each colon.
    """
    if ":" not in part or not part.endswith(")"):
        return [part]
    depth, cuts, start = 0, [len(part) - 1], len(part) - 1
    for place in range(len(part) - 1, -1, -1):  # back to the opening bracket of the last one
        sign = part[place]
        depth += (sign == ")") - (sign == "(")
        if depth == 1 and sign == ":":
            cuts.append(place)
        if depth == 0:
            start = place
            break
    names = [part[a + 1 : b] for a, b in pairwise([start, *reversed(cuts)])]
    if len(names) < 2 or not all(_STAMP.search(name) for name in names):
        return [part]
    return [f"{part[:start]}{name}" for name in names]


def alike(text: str) -> bool:
    """Whether a name of the user's reads like a stamp, or like an escaped one."""
    return "_jl" in text and _ALIKE.search(text) is not None


def escaped(scope: str) -> str:
    """Escapes what reads like a stamp in a scope of the user's; `unstamped` undoes it."""
    return _ALIKE.sub(r"_jl0\1", scope)


def plain(scope: str) -> str:
    """Removes the stamps from a scope.

    XLA joins the distinct op_names of instructions that it merges: names that differ in their
    stamps alone become one name again.
    """
    if "_jl" not in scope:
        return scope
    if ";" in scope and _STAMP.search(scope):
        parts = map(bare, scope.split(";"))
        return ";".join(part for part in dict.fromkeys(parts) if part)
    return bare(scope)


def apart(scope: str) -> tuple[str, tuple[tuple[str, ...], ...]]:
    """A scope without stamps, and its stamps: `plain` and `stamps` in one call."""
    start = scope.find("/_jl")
    if start < 0 or ";" in scope or scope.count("_jl") > 1:
        return plain(scope), stamps(scope)
    match = _BETWEEN.match(scope, start)  # nearly all have one stamp, between slashes
    if match is None:
        return plain(scope), stamps(scope)
    return scope[:start] + scope[match.end() :], ((match[1],),)


def bare(text: str) -> str:
    """Removes the stamps from a text that contains scopes."""
    if "_jl" not in text:
        return text
    text = _UNNAMED.sub("", _KERNEL.sub("", text)) if "_//" in text else _KERNEL.sub("", text)
    return _ESCAPED.sub(r"_jl\1", _PART.sub("", text))


def unstamped(text: str) -> str:
    """A text of HLO without stamps: each `op_name="..."` as XLA prints it without them."""
    if "_jl" not in text:
        return text
    text = _JOINED.sub(_without, _KERNEL.sub("", text))
    text = _INNER.sub("", text)  # nearly all, at a fifth of the time
    if "_jl" in text:
        text = _NAMED.sub(_without, text)
    return text.replace(_EMPTY, "")


def _without(match: re.Match[str]) -> str:
    """The match with a plain scope; nothing where none is left, as XLA then prints none."""
    scope = plain(match[1])
    return match[0].replace(match[1], scope) if scope else ""
