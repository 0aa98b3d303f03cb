"""HLO dumps, one after each pass that changed something: their names, order and stages.

XLA names a dump `module_0000.jit_f.0007.simplification.after_algsimp.before_dce.txt`: the
seventh dump, made in the pipeline `simplification` after the pass `algsimp`, when `dce` was
to run next. A pipeline dumps once at its start (`pipeline-start`) and then after every pass
that reports a change, so a difference between two dumps is attributed to a few passes.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from jaxlens.ir.facts import PassStage, Stage
from jaxlens.ir.graph import Module
from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.hlo.frames import Origins
from jaxlens.ir.stage import BY_NAME
from jaxlens.ir.stamps import unstamped
from jaxlens.ir.text_store import Packed, Texts

START = "pipeline-start"
_FIRST = "before_optimizations"
_DUMP = re.compile(
    r"module_(?P<module>\d+)\.(?P<name>.+?)"
    r"\.(?:(?P<index>\d{4,})\.(?P<pipeline>.+?)\.after_(?P<after>.+?)(?:\.before_(?P<before>.+))?"
    rf"|{_FIRST})\.txt"
)


@dataclass(frozen=True, slots=True)
class DumpName:
    """The parts of a dump's file name.

    Attributes:
        module: Number of the module in its process.
        name: The module's name ("jit_f").
        index: Number of the dump; -1 for HLO before optimisation.
        pipeline: The pipeline that ran; "" for HLO before optimisation.
        after: The pass that ran last ("pipeline-start": none yet).
        before: The pass to run next; "" where it is not named.
    """

    module: int
    name: str
    index: int
    pipeline: str
    after: str
    before: str


def parse_name(file: str) -> DumpName | None:
    """Reads a dump's file name; None for files of another kind."""
    match = _DUMP.fullmatch(file)
    if match is None:
        return None
    parts = match.groupdict()
    module, name = int(parts["module"]), parts["name"]
    if parts["index"] is None:
        return DumpName(module, name, -1, "", _FIRST, "")
    pipeline, after, before = parts["pipeline"], parts["after"], parts["before"] or ""
    return DumpName(module, name, int(parts["index"]), pipeline, after, before)


def in_order(files: Iterable[str]) -> list[str]:
    """Names of the HLO dumps in a dump folder, in the order in which XLA wrote them."""
    dumps = [(name.module, name.index, file) for file in files if (name := parse_name(file))]
    return [file for _, _, file in sorted(dumps)]


def pass_stages(
    names: Sequence[str], texts: Texts, origins: Origins | None = None
) -> tuple[PassStage, ...]:
    """The dumps as stages; each text is joined, and read, on first use.

    Args:
        names: File names as `in_order` gives them.
        texts: The texts of those files.
        origins: See `hlo.reader.read`.

    Returns:
        As many stages, the first being HLO before optimisation where it was dumped. Titles
        are unique: the second `simplification / algsimp` ends in "(2)". Stages of equal text
        share one Module.
    """
    plain = cache(lambda: texts.mapped(unstamped))
    reused: dict[str, hlo.Reused] = {}
    titles: Counter[str] = Counter()
    stages: list[PassStage] = []
    for index, file in enumerate(names):
        name = parse_name(file) or DumpName(0, "", index, "", file, "")
        changed = index > 0 and not texts.same(index - 1, index)
        title = f"{name.pipeline} / {name.after}" if name.pipeline else BY_NAME["hlo"].title
        titles[title] += 1
        if titles[title] > 1:
            title = f"{title} ({titles[title]})"
        same = stages[-1].stage if index > 0 and not changed else None
        stage = _stage(texts, plain, index, title, same, origins, reused)
        stages.append(PassStage(index, name.pipeline, name.after, stage, changed, name.before))
    return tuple(stages)


def _stage(
    texts: Texts,
    plain: Callable[[], Texts],
    index: int,
    title: str,
    same: Stage | None,
    origins: Origins | None,
    reused: dict[str, hlo.Reused],
) -> Stage:
    def read() -> Module:
        if same is not None:
            return same.module
        return hlo.read(texts[index], stage="passes", origins=origins, reused=reused)

    text = Packed(texts, index) if same is None else lambda: same.raw
    return Stage(BY_NAME["passes"], text, read, title, lambda: plain()[index])


def interval(earlier: PassStage, later: PassStage) -> str:
    """Names the passes that may have made the difference between two dumps.

    Returns:
        The pass alone where it ran directly after the earlier dump ("algsimp"). Where passes ran
        in between that reported no change: "dce, or a pass between algsimp and it". Between
        pipelines: "after cse, before pipeline-end".
    """
    near = earlier.pipeline == later.pipeline
    start = earlier.name if near else earlier.stage.title
    if later.name == START:
        return f"after {start}, before {later.pipeline} / {later.before or 'its first pass'}"
    if near and earlier.before == later.name:
        return later.name
    return f"{later.name}, or a pass between {start} and it"
