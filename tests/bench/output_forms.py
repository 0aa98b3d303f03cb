"""Outputs in a form that a diff can be read of: HTML with its data unpacked.

Used by `outputs.py`. Nothing of jaxlens is imported: what is compared may not depend on itself.
"""

import base64
import json
import re
import zlib
from urllib.parse import unquote

_WIDTH = 110

# Digits of base 85 in order, as `static/base85.js` reads them.
_DIGITS = bytes(range(40, 125)).translate(bytes.maketrans(b"<\\", b"}~"))
_STANDARD = bytes(base64.b85encode(bytes([0, 0, 0, n]))[-1] for n in range(85))
_READ = bytes.maketrans(_DIGITS, _STANDARD)

_STYLE = re.compile(r"<style data-jl=\"\w+\">.*?</style>", re.DOTALL)
_INSTALL = re.compile(r"<script>\(\(\) => \{\n.*?</script>", re.DOTALL)
_DATA = re.compile(r'(<script type="application/json"[^>]*>)("?)([^<]*?)\2</script>')
_IMAGE = re.compile(r"data:image/svg\+xml,([^']+)")

_MASKS = (
    (re.compile(r"\bjl[0-9a-f]{10}\b"), "jlKEY"),
    (re.compile(r"0x[0-9a-f]{9,16}\b"), "0xADDRESS"),
    (re.compile(r"IPY_MODEL_[0-9a-f]{32}"), "IPY_MODEL_ID"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "HEX32"),
    (re.compile(r"/tmp/(?:tmp|jaxlens)[\w.-]+"), "/tmp/FOLDER"),
    (re.compile(r"ipykernel_\d+/\d+"), "ipykernel_N/N"),
    (re.compile(r"<ipython-input-(\d+)-[0-9a-f]+>"), r"<ipython-input-\1>"),
)
_TIMES = (
    (re.compile(r" style=--bar:[\d.]+em"), ""),
    (re.compile(r"linear-gradient\([^)]*\)"), "BAR"),
    (re.compile(r'style="([\w:-]+);background:BAR"'), r"style=\1"),
    (
        re.compile(
            r"(?<![\w.#])~?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?:\s|&nbsp;)?(?:ns|µs|μs|us|ms|s|min)\b"
        ),
        "TIME",
    ),
    (re.compile(r"(?<![\w.#])\d+(?:\.\d+)?(?:e-\d+)?\s?%"), "SHARE"),
    (re.compile(r"(?<![\w.#])x(?: |&nbsp;)\d+(?:\.\d+)?"), "RATIO"),
    (re.compile(r"(?<![\w.#])\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+)(?![\w.])"), "FLOAT"),
)
_BREAKS = (
    (re.compile(r"--+"), "--"),
    (re.compile(r"\s+"), " "),
    (re.compile(r"(?<=[.:;\]]) "), "\n"),
)


def masked(text, paths, timed=False, prose=False):
    """Text without what differs from run to run.

    Args:
        text: Of one file.
        paths: Folders with the words that stand for them.
        timed: Take all durations, shares and ratios out too.
        prose: It is wrapped after the length of its figures: one sentence on a line.
    """
    for path, name in paths.items():
        text = text.replace(path, name)
    more = (*(_TIMES if timed else ()), *(_BREAKS if timed and prose else ()))
    for pattern, word in (*_MASKS, *more):
        text = pattern.sub(word, text)
    return text


def timeless(value):
    """JSON-able data without floats and durations."""
    if isinstance(value, float):
        return "FLOAT"
    if isinstance(value, str):
        return masked(value, {}, timed=True)
    if isinstance(value, list):
        return [timeless(v) for v in value]
    return {k: timeless(v) for k, v in value.items()} if isinstance(value, dict) else value


def html_forms(html):
    """HTML with placeholders for its data and its assets, tag by tag; and the data as text."""
    data: list[str] = []

    def payload(match):
        text = match[3]
        try:
            text = unpacked(text)
        except (ValueError, zlib.error):
            text = f"not packed: {text}"
        data.append(f"=== {len(data)}: {match[1]}\n{data_text(text)}")
        return f"{match[1]}DATA {len(data) - 1}</script>"

    def image(match):
        drawn = unquote(match[1])
        data.append(f"=== {len(data)}: image\n{markup(drawn)}")
        return f"data:image/svg+xml;DATA {len(data) - 1}"

    html = _INSTALL.sub("<script ASSETS></script>", _STYLE.sub("<style ASSET></style>", html))
    html = _IMAGE.sub(image, _DATA.sub(payload, html))
    return markup(html), "\n".join(data)


def markup(text):
    """A tag on each line; line breaks that were there before end with a sign."""
    return text.replace("\n", "¶\n").replace("><", ">\n<")


def unpacked(pack):
    """What `packed` of the package wrote."""
    data = base64.b85decode(pack.encode().translate(_READ))
    return zlib.decompress(data, -15).decode(errors="surrogatepass")


def data_text(text):
    """A payload: JSON, or a line of JSON with rows of text below."""
    head, _, rows = text.partition("\n")
    try:
        shown = pretty(json.loads(text if not rows else head))
    except ValueError:
        return signs(text)
    if not rows:
        return shown
    return f"{shown}\nROWS\n{signs(rows)}"


def signs(text):
    """Control characters made visible."""
    return "".join(c if c >= " " or c == "\n" else f"‹{ord(c)}›" for c in text)


def pretty(value, indent=0):
    """JSON whose short containers stand on one line, and whose long texts are lines."""
    if isinstance(value, str) and "\n" in value:
        lines = [json.dumps(line, ensure_ascii=False) for line in value.split("\n")]
        return "TEXT " + f"\n{' ' * (indent + 1)}".join(lines)
    if not isinstance(value, (dict, list)) or not value:
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list) and all(isinstance(v, (int, float)) for v in value):
        return _numbers(value, indent)
    first, last = "{}" if isinstance(value, dict) else "[]"
    if isinstance(value, dict):
        keys = [json.dumps(key, ensure_ascii=False) for key in value]
        parts = [f"{k}: {pretty(v, indent + 1)}" for k, v in zip(keys, value.values(), strict=True)]
    else:
        parts = [pretty(v, indent + 1) for v in value]
    if sum(map(len, parts)) + indent < _WIDTH and not any("\n" in part for part in parts):
        return f"{first}{', '.join(parts)}{last}"
    inner = f"\n{' ' * (indent + 1)}".join(["", *parts])
    return f"{first}{inner}\n{' ' * indent}{last}"


def _numbers(values, indent):
    """Numbers, twenty on a line."""
    rows = [values[n : n + 20] for n in range(0, len(values), 20)]
    return (
        "[" + f"\n{' ' * (indent + 1)}".join(" ".join(map(json.dumps, row)) for row in rows) + "]"
    )
