"""Reads the list of thunks on GPU: the code that an instruction launches, and the launch sizes.

XLA writes two texts. The sequence has a line for each thunk, indented where it stands in a loop:
`003: kCustomKernel [...] gemm_fusion grid: [32, 1, 1] threads: [64, 1, 1] shared_memory: 1024
bytes`. The metadata has the instruction and the kind of each thunk by the same number.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

_LINE = re.compile(
    r"^[ \t]*+(\d++): (k\w++)\s++\[[^\]\n]*\]\s++([\w.$-]++) grid: \[([^\]\n]*)\] "
    r"threads: \[([^\]\n]*)\]"
    r"(?:\s+shared_memory: (\d+) bytes)?",
    re.MULTILINE,
)
_METADATA = re.compile(
    r'profile_annotation: "(?P<name>[^"]*)"\s+thunk_id: (?P<id>\d+)\s*\}'
    r'\s*thunk_kind: "(?P<kind>\w+)"'
)


@dataclass(frozen=True, slots=True)
class Launch:
    """A thunk of an instruction.

    Attributes:
        kind: The thunk's kind ("kCustomKernel", "kCopy", "kWhile").
        symbol: Symbol of the code that it launches; "" for none.
        grid: Blocks along x, y, z; empty without a launch.
        threads: Threads of a block along x, y, z.
        shared: Bytes of shared memory of a block.
    """

    kind: str
    symbol: str = ""
    grid: tuple[int, ...] = ()
    threads: tuple[int, ...] = ()
    shared: int = 0

    def __str__(self) -> str:
        """ "32 x 2 blocks of 64 threads, 1,024 B shared"; "" where nothing is launched."""
        if not self.grid:
            return ""
        blocks, threads = _product(self.grid), _product(self.threads)
        text = f"{blocks} block{'' if blocks == '1' else 's'} of {threads} thread"
        text += "" if threads == "1" else "s"
        return f"{text}, {self.shared:,} B shared" if self.shared else text


def read(sequence: str, metadata: str) -> Mapping[str, tuple[Launch, ...]]:
    """The thunks of each instruction, in order, by its name."""
    lines = {int(match[1]): match for match in _LINE.finditer(sequence)}
    launches: defaultdict[str, list[Launch]] = defaultdict(list)
    for match in _METADATA.finditer(metadata):
        launch = Launch(match["kind"])
        if line := lines.get(int(match["id"])):
            grid, threads = _numbers(line[4]), _numbers(line[5])
            launch = Launch(match["kind"], line[3], grid, threads, int(line[6] or 0))
        launches[match["name"]].append(launch)
    return {name: tuple(thunks) for name, thunks in launches.items()}


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


def _product(sizes: tuple[int, ...]) -> str:
    """ "32 x 2" of (32, 2, 1)."""
    last = max((place for place, size in enumerate(sizes, 1) if size > 1), default=1)
    return " x ".join(f"{size:,}" for size in sizes[:last])
