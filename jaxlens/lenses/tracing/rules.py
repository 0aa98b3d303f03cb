"""One sentence on each rule of a primitive: forward and backward derivative, batching.

`grad` has three steps: linearization (`jvp`), partial evaluation into the equations that depend
only on the primals (forward) and those linear in the tangents, and transposition of the latter
(`transpose`), which gives the backward pass. Source: "You Only Linearize Once" (Radul et al., 2022,
arXiv:2204.10923). `vmap` rewrites each equation for one more axis. The sentences are in
`rules.tsv`; a test applies each rule and compares.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Rules:
    """Descriptions of the rules of one primitive.

    Attributes:
        forward: What `grad` adds to the forward pass, and the residuals it keeps.
        backward: What the backward pass does with the cotangent `ct` of the result.
        makes: Primitives of the equations that both add, to link equations of one line.
        batch: What `vmap` does.
    """

    forward: str
    backward: str
    makes: frozenset[str]
    batch: str


def _read() -> dict[str, Rules]:
    """Reads `rules.tsv`; a line that begins with "#" is a heading."""
    text = files("jaxlens.lenses.tracing").joinpath("rules.tsv").read_text("utf-8")
    rows = (line.split("\t") for line in text.splitlines()[1:] if not line.startswith("#"))
    return {
        name: Rules(forward, backward, frozenset(makes.split()), batch)
        for name, forward, backward, makes, batch in rows
    }


RULES: Mapping[str, Rules] = _read()
"""The rules by primitive."""
