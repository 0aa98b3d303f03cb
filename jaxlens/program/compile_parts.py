"""Splits the time of a compile into groups, passes and kernels, from XLA's profile of itself.

Time on the compile's thread belongs to the innermost part of the profile that was running, so the
seconds of all groups add up to the compile; time outside of all parts is the group "elsewhere".
Work on other threads runs concurrently and is counted apart.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxlens.ir.facts import CONVERSION, Part, Profile

PASSES, CODE, LLVM, REST = "HLO passes", "kernels to LLVM IR", "LLVM", "elsewhere"
_GROUPS = (  # by XLA's names of its steps, on CPU and on GPU
    (CODE, re.compile("^ThunkEmitter|^FusionCompiler|^CompileModuleToLlvmIr")),
    (LLVM, re.compile("^Codegen$|^JitCompiler|SplitModule|CloneAsThreadSafe|^CompileSingleModule")),
)
_TASK = "TaskDispatcher::dispatch"

FOLDING = "constant_folding"


@dataclass(frozen=True, slots=True)
class PassTime:
    """The time of one HLO pass over all of its runs, without pipelines that it runs itself."""

    name: str
    pipelines: tuple[str, ...]
    seconds: float
    times: int


@dataclass(frozen=True, slots=True)
class CompileParts:
    """The seconds of a compile, by part.

    Attributes:
        seconds: Seconds of the whole compile.
        groups: Seconds by group; they add up to `seconds`.
        passes: HLO passes, the slowest first.
        kernels: Seconds of lowering to LLVM IR by kernel, on any thread.
        llvm: Seconds of LLVM on all threads together.
        compiled: Seconds of LLVM by kernel, on any thread; empty where unknown.
    """

    seconds: float
    groups: Mapping[str, float]
    passes: tuple[PassTime, ...]
    kernels: Mapping[str, float]
    llvm: float
    compiled: Mapping[str, float] = field(default_factory=dict)


def compile_parts(profile: Profile) -> CompileParts:
    """Sums a profile by group, pass and kernel."""
    own = [part.seconds for part in profile.parts]
    for part in profile.parts:
        if part.inside >= 0:
            own[part.inside] -= part.seconds
    converted = [CONVERSION] if any(p.name == CONVERSION for p in profile.parts) else []
    groups = dict.fromkeys((*converted, PASSES, CODE, LLVM, REST), 0.0)
    names: list[str] = []
    for part, seconds in zip(profile.parts, own, strict=True):
        names.append(_group(part) or (names[part.inside] if part.inside >= 0 else REST))
        if not part.aside:
            groups[names[-1]] += max(seconds, 0.0)
    groups[REST] += max(profile.seconds - sum(groups.values()), 0.0)
    busy = sum(part.seconds for part in profile.parts if part.name == _TASK)
    lowered: defaultdict[str, float] = defaultdict(float)
    compiled: defaultdict[str, float] = defaultdict(float)
    by_kind = {"kernel": lowered, "llvm": compiled, "code": compiled}
    for part in profile.parts:
        if (kernels := by_kind.get(part.kind)) is not None:
            kernels[part.name] += part.seconds
    # The compile's thread may take tasks itself, which are no dispatches then.
    llvm = max(busy, sum(compiled.values()))
    passes = _passes(profile, own)
    return CompileParts(profile.seconds, groups, passes, lowered, llvm, compiled)


def _group(part: Part) -> str:
    """Returns the group that starts with a part; "" where it belongs to the group around it."""
    if part.name == CONVERSION:
        return CONVERSION
    if part.kind == "pipeline":
        return PASSES
    if part.kind == "kernel":
        return CODE
    return next((group for group, names in _GROUPS if names.search(part.name)), "")


def _passes(profile: Profile, own: list[float]) -> tuple[PassTime, ...]:
    runs: defaultdict[str, list[tuple[Part, float]]] = defaultdict(list)
    for part, seconds in zip(profile.parts, own, strict=True):
        if part.kind == "pass":
            runs[part.name].append((part, max(seconds, 0.0)))
    passes = [
        PassTime(
            name,
            tuple(dict.fromkeys(profile.parts[part.inside].name for part, _ in parts)),
            sum(seconds for _, seconds in parts),
            sum(part.times for part, _ in parts),
        )
        for name, parts in runs.items()
    ]
    return tuple(sorted(passes, key=lambda time: (-time.seconds, time.name)))
