"""Determines the text of a box of many equations: their scope, repetitions, and source lines."""

import re
from collections import Counter
from itertools import takewhile

from jaxlens.ir.graph import Span
from jaxlens.render.graph.figure import Box
from jaxlens.render.graph.text_width import DETAIL_COLUMNS, columns
from jaxlens.report import amount
from jaxlens.views.figures.body import DrawnRegion
from jaxlens.views.figures.runs import StepRange

_WAYS = {"jvp": "forward", "transpose(jvp)": "backward"}
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]']+)")  # an index, or a name: `.name` or `['name']`
_NUMBERED = re.compile(r"e(\d+)")


def fold_name(body: DrawnRegion, part: StepRange) -> str:
    """Returns a unique name; a run inside a repeat may have the same ends as the repeat."""
    times = f"×{part.copies}" if part.copies > 1 else ""
    ids = body.columns.ids
    return f"{ids[part.low]}..{ids[part.high - 1]}{times}"


def fold_box(body: DrawnRegion, part: StepRange, run: StepRange) -> Box:
    """Returns the box of a run, in the panel of another run."""
    title, times = fold_title(body, part), f" × {part.copies:,}" if part.copies > 1 else ""
    transform = str(body.folding.path(part.low)[0])  # that made the run's first equation
    way = _WAYS.get(transform, transform)
    if way == title or run.level > 0 or body.folding.common(run) > 0:
        way = ""
    if way == "backward":  # in the name, else the box of the forward pass has the same
        title, way = f"backward of {title}", ""
    if body.after.issuperset(range(part.low, part.high)):
        way = "after gradients"
    steps = len(part) // part.copies
    repeats = part.copies > 1 and steps > 1
    short, long = body.nouns
    size = f"{steps:,} {short} each" if repeats else f"{len(part):,} {short}"
    lines = _lines(body, part)
    ids = body.columns.ids
    flops = body.flops(part)
    cost = f"≈ {amount(flops, 'flop')}" if flops else ""
    text = f"{title}{times}: {long} {ids[part.low]} to {ids[part.high - 1]}, {size}"
    text += f", {cost}, estimated from shapes" if cost else ""
    name = fold_name(body, part)
    return Box(
        name,
        title + times,
        _detail(way, size, f"{steps:,} each" if repeats else f"{len(part):,}", lines, cost),
        "call",
        name,
        f"{text}  (from {lines})" if lines else text,
        "",
        _ids(body, part),
        flops=flops,
    )


def _detail(way: str, size: str, short: str, lines: str, cost: str) -> str:
    """Returns the most detailed text that fits a box; source lines are never truncated."""
    name = lines.rpartition("/")[2]
    plain = (way, size, lines), (way, size, name), (way, short, name), (short, name), (size, "")
    priced = (way, size, cost, lines), (way, size, cost, name), (size, cost, name), (size, cost)
    tries = (*(priced if cost else ()), *plain)
    texts = [" · ".join(filter(None, parts)) for parts in tries]
    return next((text for text in texts if columns(text) <= DETAIL_COLUMNS), texts[-1])


def fold_title(body: DrawnRegion, part: StepRange) -> str:
    """Returns the module of all steps, by its path in the user's model; else another name.

    That is the innermost named scope or function of all steps, a transform, or a primitive.
    """
    if path := _module_path(body, part):
        return path
    folding = body.folding
    level = folding.common(part)
    paths = folding.paths(part)
    deeper = {
        called(place) if isinstance(place, Span) else place
        for path in paths
        for place in (path[level] if len(path) > level else "",)
    }
    name = deeper.pop() if len(deeper) == 1 else ""
    if name and level and not name.startswith("<"):
        return _numbered(name, part)
    for place in reversed(paths[0][:level]):
        name = called(place) if isinstance(place, Span) else place
        if name and not name.startswith("<"):
            return _numbered(name, part)
    opcode = body.program.opcodes[body.columns.kind[part.low]]
    return f"{opcode} …" if part.copies == 1 else opcode


def called(place: Span) -> str:
    """Returns the function of a frame; of `Block.__call__` and the like the class."""
    around, _, name = place.function.rpartition(".")
    return around.rpartition(".")[2] if name.startswith("__") and around else name


def _module_path(body: DrawnRegion, part: StepRange) -> str:
    """Returns the module whose arrays a run reads: `blocks 0 / attn` of `model.blocks[0].attn.w`.

    "" for a repeat, whose copies read those of different modules, and where it reads no arrays of
    one module alone.
    """
    if part.copies > 1 or not body.inputs:
        return ""
    rows = body.columns
    low, high = rows.first_operand[part.low], rows.first_operand[part.high]
    values = {n for n in body.reads[low:high] if n < rows.parameters and n in body.inputs}
    paths = [_path(body.inputs[n])[:-1] for n in sorted(values)]
    paths = [path for path in paths if path]  # `x` alone is no array of a module
    if len(paths) < 2:
        return ""
    same = [steps[0] for steps in takewhile(lambda s: len(set(s)) == 1, zip(*paths, strict=False))]
    inner = same[1:]
    # Flax's variables are a dictionary of collections, of which this one has the weights.
    return " / ".join(inner[1:] if inner[:1] == ["params"] else inner)


def _path(name: str) -> list[str]:
    """Returns the steps of an input's path: model, blocks[0], attn and w."""
    steps: list[str] = []
    for index, step in _STEP.findall(name):
        if index and steps:
            steps[-1] += f"[{index}]"
        else:
            steps.append(step or index)
    return steps


def _numbered(title: str, part: StepRange) -> str:
    """Returns the title with the numbers of the copies of a repeat: `layer 2 to 11`."""
    if not part.number:
        return title
    last = part.number + part.copies - 1
    return f"{title} {part.number}" + (f" to {last}" if part.copies > 1 else "")


def _lines(body: DrawnRegion, part: StepRange) -> str:
    """Returns the user's source lines of most of the run: "train.py:12-20"."""
    folding, columns, places = body.folding, body.columns, body.program.places
    level = folding.common(part)
    steps = Counter(columns.place[part.low : part.high])
    files: Counter[str] = Counter()
    numbers: dict[str, list[int]] = {}
    for place, n in steps.items():
        frames = [p if isinstance(p, Span) and not p.library else None for p in folding.at(place)]
        path = list(filter(None, frames))
        shared = sum(frame is not None for frame in frames[:level])
        span = path[shared] if len(path) > shared else (path[-1] if path else places[place].owner)
        if span is not None:
            files[span.file] += n
            numbers.setdefault(span.file, []).append(span.line)
    if not files:
        return ""
    file, _ = files.most_common(1)[0]
    first, last = min(numbers[file]), max(numbers[file])
    return f"{file}:{first}" if first == last else f"{file}:{first}-{last}"


def _ids(body: DrawnRegion, part: StepRange) -> tuple[str, ...]:
    """Returns the ids of the run's steps; numbers as a range, which includes nested bodies."""
    ids = body.columns.ids
    first, last = _NUMBERED.fullmatch(ids[part.low]), _NUMBERED.fullmatch(ids[part.high - 1])
    if first and last:
        return (f"e{first[1]}-e{last[1]}",)
    return tuple(ids[part.low : part.high])
