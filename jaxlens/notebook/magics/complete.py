"""Tab completion of a magic's line: option names and their values.

Pass and kernel names are those of the last captured program; nothing is compiled to complete a
name.
"""

import contextlib
import re
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from IPython.core.completer import SimpleCompletion, context_matcher

from jaxlens.errors import LensError

if TYPE_CHECKING:
    from jaxlens.captures import Capture  # not imported by %load_ext

_VERBS = ("jaxpr", "hlo", "compile", "explore", "check")
_PLAIN = {
    "recompiles": ("-o", "-h", "--help"),
    "timeline": ("-o", "-h", "--help"),
    "arrays": ("-o", "-h", "--help"),
    "explain": ("-o", "-h", "--help"),
    "jaxlens": ("on", "off", "-h", "--help"),
    "edit": ("--stage", "--run", "-o", "-h", "--help"),
}
_LINE = rf"(?s)\s*(?:\w+\s*=\s*)?%%?({'|'.join((*_VERBS, *_PLAIN))})\s(.*)$"

# Names of captured programs, by kind of value; the programs themselves are not kept.
_seen: dict[str, tuple[str, ...]] = {}


def remember(cap: "Capture", verb: str, show: Mapping[str, Any]) -> None:
    """Stores the pass or kernel names that the view of this program has already computed."""
    with contextlib.suppress(LensError):
        if verb == "hlo" and "stage" not in show:
            _seen["pass"] = tuple(dict.fromkeys(p.name for p in cap.fusing))
        elif verb in ("compile", "explore"):
            _seen["kernel"] = tuple(dict.fromkeys(k.name for k in cap.kernels))


def remember_name(name: str) -> None:
    """Stores the name of a variable bound to a view, to be completed after `--against`."""
    _seen["capture"] = tuple(dict.fromkeys((*_seen.get("capture", ()), name)))


def matcher() -> Callable[[Any], Any]:
    """Returns a new matcher for IPython's completer; each shell has its own."""

    @context_matcher()
    def jaxlens_options(context: Any) -> dict[str, Any]:
        completions = complete(context.text_until_cursor)
        return {
            "completions": [SimpleCompletion(text, type="param") for text in completions],
            "suppress": bool(completions),
        }

    return jaxlens_options  # type: ignore[no-any-return]


def complete(line: str) -> list[str]:
    """Returns the completions at the end of a magic's line; none within its expression."""
    match = re.match(_LINE, line)
    if not match:
        return []
    magic = match.group(1)
    values_by_flag = _flags(magic) if magic in _VERBS else dict.fromkeys(_PLAIN[magic], "")
    typed = match.group(2)
    word = re.search(r"[^\s=]*$", typed)
    begun = word.group() if word else ""
    before = typed[: len(typed) - len(begun)].replace("=", " ").split()
    if begun.startswith("-") or magic == "jaxlens":  # it takes words
        return [name for name in values_by_flag if name.startswith(begun) and name not in before]
    option = next((w for w in reversed(before[-2:]) if w in values_by_flag), "")
    places = 2 if option == "--diff" else 1
    if not option or before[::-1].index(option) >= places:
        return []
    offered = [value for kind in values_by_flag[option].split() for value in _values(kind)]
    return [value for value in offered if value.startswith(begun)]


def _flags(verb: str) -> dict[str, str]:
    from jaxlens.notebook.magics.magic_line import flags  # not imported by %load_ext
    from jaxlens.viewer.panes import OPTIONS

    return flags(OPTIONS[verb])


def _values(kind: str) -> tuple[str, ...]:
    if kind == "stage":
        from jaxlens.options import STAGE_NAMES  # not imported by %load_ext

        return STAGE_NAMES
    if kind == "hlo":
        return ("hlo", "optimized")
    if kind == "target":
        if "jax" not in sys.modules:  # Tab does not import it
            return ("cpu", "gpu", "tpu")
        from jaxlens.call.target import names

        return names()
    if kind == "device":
        from jaxlens.program.published_limits import PUBLISHED  # not imported by %load_ext

        return tuple(PUBLISHED)
    return _seen.get(kind, ())
