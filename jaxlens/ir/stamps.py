"""Exact ids that travel through the compiler, as one more part of a scope.

Before lowering each equation's name stack ends in its own stamp, so that StableHLO's locations
name the equation: `jit(f)/jvp()/_jle12_/mul`. Before compiling each op's location gets the op's
stamp instead, so that HLO's op_names name the op: `jit(f)/jvp()/_jls7_/mul`. XLA keeps op_names
as it rewrites, joins those of merged instructions with `;`, and puts a call's before those of
what it inlines: so a scope can hold several paths of stamps, the last of each being its own.

Only letters, digits and `_` survive the way to HLO. What a reader shows has no stamps in it.
"""

import re

_STAMP = re.compile(r"_jl([es]\d+)_")
# A stamp stands alone between slashes, ends a scope, or is all that a transform wraps.
_PART = re.compile(r"/_jl[es]\d+_(?![^/;()\"])|_jl[es]\d+_/?")


def stamp(id: str) -> str:
    """The part of a scope that names a node: "e12" of a jaxpr, "s7" of StableHLO."""
    return f"_jl{id}_"


def stamps(scope: str) -> tuple[tuple[str, ...], ...]:
    """The paths of stamps in a scope, each once; parts without any are left out."""
    if "_jl" not in scope:
        return ()
    paths = (tuple(_STAMP.findall(part)) for part in scope.split(";"))
    return tuple(dict.fromkeys(path for path in paths if path))


def unstamped(text: str) -> str:
    """A scope, or any text with scopes in it, without stamps: as it were had nobody stamped."""
    if "_jl" not in text:
        return text
    return _PART.sub("", text)
