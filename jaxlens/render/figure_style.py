"""The CSS of a drawing, for a picture with its own card and for a page with a theme.

Everything is under `.jaxlens-figure`, so that a drawing pasted into a page styles no one else.
The page form reads CSS variables `--jaxlens-...`; the theme is the notebook's where it says
one (JupyterLab and its HTML export, VS Code, Colab), else the browser's.
"""

from collections.abc import Callable
from functools import cache
from typing import Literal

from jaxlens.render.figure_text import DETAIL_SIZE, EDGE_SIZE, FONT, LABEL_SIZE
from jaxlens.render.palette import DARK, FAMILIES, LIGHT, Theme

_ROOT = ".jaxlens-figure"
_THEME = ("card", "panel", "text", "dim", "line", "focus")

# Where a page says that it is dark.
_DARK_PAGES = (
    '[data-jp-theme-light="false"]',
    '[data-theme="dark"]',
    'html[theme="dark"]',
    ".vscode-dark",
    ".vscode-high-contrast:not(.vscode-high-contrast-light)",
)
_SILENT_PAGE = (
    'html:not([theme]):not([data-theme]):not(:has([data-jp-theme-light],[class*="vscode-"]))'
)


@cache
def style(form: Literal["card", "page"]) -> str:
    """The rules, one line, nothing fetched."""
    if form == "card":
        return _rules(_plain)
    dark = _variables(DARK, dark=True)
    pages = ",".join(f"{page} {_ROOT}" for page in _DARK_PAGES)
    return (
        f"{_ROOT}{{{_variables(LIGHT, dark=False)}}}{pages}{{{dark}}}"
        f"@media(prefers-color-scheme:dark){{{_SILENT_PAGE} {_ROOT}{{{dark}}}}}{_rules(_variable)}"
    )


def _variables(theme: Theme, *, dark: bool) -> str:
    pairs = [(f"--jaxlens-{name}", getattr(theme, name)) for name in _THEME]
    for kind, tint in FAMILIES.items():
        pairs.append((f"--jaxlens-{kind}", tint.dark if dark else tint.light))
        pairs.append((f"--jaxlens-{kind}-fill", tint.dark_fill if dark else tint.light_fill))
    return ";".join(f"{name}:{value}" for name, value in pairs)


def _plain(name: str) -> str:
    if name in _THEME:
        return str(getattr(LIGHT, name))
    for kind, tint in FAMILIES.items():
        if name.startswith(kind):
            return tint.light_fill if name.endswith("-fill") else tint.light
    raise KeyError(name)


def _variable(name: str) -> str:
    return f"var(--jaxlens-{name})"


def _rules(get: Callable[[str], str]) -> str:
    rules = {
        "": f"font:{LABEL_SIZE:g}px {FONT}",
        " .card": f"fill:{get('card')}",
        " text": f"fill:{get('text')};text-anchor:middle",
        " text.z": f"font-size:{DETAIL_SIZE:g}px",
        " text.d": f"fill:{get('dim')}",
        " text.s": "text-anchor:start",
        " text.l": f"font-size:{EDGE_SIZE:g}px;fill:{get('dim')};stroke:{get('card')};"
        "stroke-width:3px;stroke-linejoin:round;paint-order:stroke",
        " .e path": f"fill:none;stroke:{get('line')}",
        " .e .a": f"fill:{get('line')};stroke:none",
        " .m": f"fill:{get('dim')}",
        " .o": "stroke-width:1.2",
        " .i": "fill:none;stroke-width:1",
        " .matmul .o": "stroke-width:2.4",
        " .input .o": "stroke-width:1.8",
        " .constant .o": "stroke-dasharray:2 2",
        " .random .o": "stroke-dasharray:6 3",
        " .quiet text": f"fill:{get('dim')}",
    }
    for kind in FAMILIES:
        stroke = "none" if kind == "quiet" else get(kind)
        rules[f" .{kind} .o"] = f"{rules.pop(f' .{kind} .o', '')};stroke:{stroke}".strip(";")
        fill = "none" if kind == "quiet" else get(f"{kind}-fill")
        rules[f" .{kind} .o"] += f";fill:{fill}"
        if kind in ("output", "call"):
            rules[f" .{kind} .i"] = f"stroke:{get(kind)}"
    rules[" .b.open>.o"] = f"fill:{get('panel')};stroke-dasharray:none"
    return "".join(f"{_ROOT}{where}{{{what}}}" for where, what in rules.items())
