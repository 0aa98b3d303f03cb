"""Reads the files that XLA dumps during one compile into memory, and removes their folder.

XLA names every file `module_NNNN.MODULE.REST`. REST gives its kind: `0007.PIPELINE.after_PASS...`
for HLO after a pass, `UNIT.ir-no-opt.ll` and `UNIT.ir-with-opt.ll` for LLVM IR, `obj-file.UNIT.o`
for objects, `UNIT.ptx`, and one text each for buffers, live ranges and thunks. A unit contains one
kernel; on GPU its name is a number, which differs for LLVM IR before and after optimisation.
"""

import glob
import math
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from jaxlens.errors import UnavailableError
from jaxlens.interrupts import uninterrupted
from jaxlens.ir.hlo.fusion_log import steps_text
from jaxlens.ir.hlo.passes import in_order, parse_name
from jaxlens.ir.text_store import Texts, pack
from jaxlens.reading import read_file

_STEM = re.compile(r"(?P<stem>module_(?P<number>\d+)\..*?)\.(?:before_optimizations)\.txt")
_PASS = re.compile(r"\d{4,}\..*\.txt")
_TABLES = re.compile(r"\n\nFileNames\n.*?\n\nStackFrames\n.*?\n\n", re.DOTALL)
_FRAME = re.compile(r" stack_frame_id=\d+")
_CPU_AFTER = ".cpu_after_optimizations"
_CODE = (".ll", ".o")
_LARGEST = 1 << 30  # bytes of a file that is read
_PROBE = 1 << 16  # bytes; a file that did not fit leaves less than a block
# Contains the host name, as hosts with separate process ids can share a temporary folder.
_PREFIX = f"jaxlens-{platform.node()}-"


@dataclass(frozen=True, slots=True)
class Dump:
    """The dump files of one module; "" or empty for each file that XLA did not write.

    Attributes:
        before: HLO before optimisation.
        optimized: HLO after the last pass.
        pass_names: File name of each dump of HLO, in order; the first is `before`'s.
        pass_texts: Their texts, packed; empty if pass dumps were off.
        buffers: Buffer assignment as text.
        live: Live ranges as text.
        thunks: The thunk sequence as text (GPU).
        thunk_names: The thunk metadata as text: the instruction of each thunk.
        fusion_log: Decisions of the priority fusion pass and their reasons (GPU); see
            `ir.hlo.fusion_log`.
        llvm_before: LLVM IR as generated, by unit.
        llvm_after: LLVM IR after LLVM's optimisations, by unit.
        objects: Object files, by unit.
        ptx: PTX, by unit.
        written: When LLVM IR before and after optimisation and the object were written, by unit,
            in nanoseconds; empty if the times were not read.
        lost: Why the dump is discarded: the disk was full. "" otherwise.
    """

    before: str = ""
    optimized: str = ""
    pass_names: tuple[str, ...] = ()
    pass_texts: Texts = field(default_factory=Texts, repr=False)
    buffers: str = ""
    live: str = ""
    thunks: str = ""
    thunk_names: str = ""
    fusion_log: str = ""
    llvm_before: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    llvm_after: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    objects: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    ptx: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    written: Mapping[str, tuple[int, int, int]] = field(default_factory=dict, repr=False)
    lost: str = ""


@uninterrupted
def folder() -> Iterator[Path]:
    """Creates a temporary folder and removes it on exit, also after an error.

    Raises:
        UnavailableError: The folder cannot be created.
    """
    parent = Path(tempfile.gettempdir())
    sweep(parent)
    try:
        path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent))
    except OSError as error:
        raise UnavailableError(no_room(parent, error)) from None
    try:
        yield path
    finally:
        remove(path)


def no_room(folder: Path, error: OSError) -> str:
    """Returns the message for a folder that cannot be written to."""
    return (
        f"nothing more can be written to {folder} ({error.strerror}), where XLA writes what is "
        "shown: make room there, or set TMPDIR to a folder with room and start anew"
    )


def full(path: Path) -> str:
    """Returns why files in a folder may be truncated; "" if there is room for more.

    XLA ignores a failed write and leaves the file empty or truncated.
    """
    probe = path / "room"
    try:
        probe.write_bytes(bytes(_PROBE))
        probe.unlink()
    except OSError as error:
        return no_room(path.parent, error)
    return ""


def sweep(parent: Path) -> None:
    """Removes dump folders of processes on this machine that were killed during a compile.

    XLA cannot be interrupted, so users restart the kernel.
    """
    if os.name != "posix":
        return  # on Windows, os.kill(pid, 0) could end the process
    for path in parent.glob(f"{glob.escape(_PREFIX)}*"):
        number = path.name.removeprefix(_PREFIX).partition("-")[0]
        if number.isdecimal() and not _lives(int(number)):
            remove(path)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # another user's process, or not a process id
    return True


def remove(path: Path) -> None:
    """Removes a folder and its contents; does nothing if it does not exist."""
    shutil.rmtree(path, ignore_errors=True)


def read(path: Path, clock: bool = False, stem: str = "", hlo: Dump | None = None) -> Dump:
    """Reads the dump of one module.

    Args:
        path: The folder.
        clock: Whether to read the modification times of the kernels' files.
        hlo: Its HLO and buffers, if they are read already: see `read_hlo`.
        stem: Common prefix of the module's file names; by default that of the first module. A
            compile can also dump helper modules (autotuning does); they come later.
    """
    rests = _rests(path, stem)
    if not rests:
        return Dump()
    return replace(
        hlo or _hlo(rests),
        thunks=_only(rests, "thunk_sequence.txt"),
        thunk_names=_only(rests, "thunk_metadata.txt"),
        fusion_log=steps_text(_only(rests, "priority_fusion_dump.txt")),
        llvm_before=_units(rests, "ir-no-opt.ll"),
        llvm_after=_units(rests, "ir-with-opt.ll"),
        objects={u.removeprefix("obj-file."): b for u, b in _units(rests, "o").items()},
        ptx=_units(rests, "ptx"),
        written=dict(_written(rests)) if clock else {},
    )


def is_optimized(path: Path) -> bool:
    """Whether XLA, compiling for a CPU, has written all HLO and begins to generate code.

    XLA writes its options when it begins to optimise, and again when it has written the program
    and its buffers, perhaps in several threads.
    """
    try:
        with os.scandir(path) as files:
            written = {f.name: f.stat().st_mtime_ns for f in files if not f.name.endswith(_CODE)}
    except OSError:
        return False
    hlo = [time for name, time in written.items() if _CPU_AFTER in name]
    options = [time for name, time in written.items() if name.endswith(".debug_options")]
    whole = any(name.endswith(f"{_CPU_AFTER}.txt") for name in written)
    return whole and max(options, default=0) >= max(hlo)


def doing(path: Path) -> str:
    """Describes the last files that XLA wrote: a pass, or the number of compiled functions."""
    names = os.listdir(path) if path.is_dir() else []
    done = sum(name.endswith((".o", ".ptx")) for name in names)
    if done or any(name.endswith(".ll") or f"{_CPU_AFTER}.txt" in name for name in names):
        return f"machine code, {done:,} functions done" if done else "machine code"
    dumps = [dump for name in names if (dump := parse_name(name)) is not None]
    last = max(dumps, key=lambda dump: (dump.module, dump.index), default=None)
    return f"HLO passes, {last.after} done" if last and last.index >= 0 else "HLO passes"


def read_hlo(path: Path) -> Dump:
    """Reads HLO and buffer assignment of the first module, once `is_optimized`.

    Raises:
        OSError: A file was removed, or the disk is full.
    """
    rests = _rests(path)
    if not rests:
        raise OSError("XLA has written nothing")
    dump = _hlo(rests)
    if full(path) or not dump.optimized.rstrip().endswith("}"):
        raise OSError("the optimised HLO is not complete")
    return dump


def _rests(path: Path, stem: str = "") -> dict[str, Path]:
    """Returns the files of one module by the rest of their names; {} if there is no module.

    Where libtpu rewrites a program (complex numbers, 64 bits), the files of its later passes and
    buffers have the number of a later module, which has none of the program before optimisation.
    """
    begun = stems(path)
    stem = stem or next(iter(begun), "")
    if not stem:
        return {}
    name = stem[stem.find(".") :]
    alike = [_number(other) for other in begun if other[other.find(".") :] == name]
    first = _number(stem)
    end = min((number for number in alike if number > first), default=math.inf)
    names = (file for file in sorted(os.listdir(path)) if file.startswith("module_"))
    ours = [f for f in names if f[f.find(".") :].startswith(f"{name}.")]
    start = len(name) + 1
    return {f[f.find(".") + start :]: path / f for f in ours if first <= _number(f) < end}


def _number(name: str) -> int:
    return int(name[len("module_") : name.find(".")])


def _hlo(rests: Mapping[str, Path]) -> Dump:
    files = in_order([p.name for p in rests.values()]) if any(map(_PASS.fullmatch, rests)) else []
    folder = next(iter(rests.values())).parent
    return Dump(
        before=_text(rests["before_optimizations.txt"]),
        optimized=_only(rests, "_after_optimizations.txt"),
        pass_names=tuple(files),
        pass_texts=pack(_text(folder / name) for name in files),
        buffers=_only(rests, "-buffer-assignment.txt"),
        live=_only(rests, "-live-range.txt"),
    )


def same_passes(few: Dump, every: Dump) -> bool:
    """Whether the programs that some passes gave are among those of the dump of every pass.

    Texts are compared, as a pass that changes nothing is dumped only where its name is asked for;
    without the places in the source, as the same program may be called from elsewhere.
    """
    texts = set(map(_without_places, few.pass_texts))
    for text in every.pass_texts:  # joined one at a time
        texts.discard(_without_places(text))
    return not texts


def _without_places(text: str) -> str:
    return _FRAME.sub("", _TABLES.sub("\n\n", text, count=1))


def has_module(path: Path, number: int) -> bool:
    """Whether a module of that number was dumped into a folder."""
    return any(_number(stem) == number for stem in stems(path))


def stems(path: Path) -> list[str]:
    """Returns the file name prefix of each module ("module_0012.jit_step"), in order."""
    try:
        names = os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []  # not there yet, or no longer: the thread that compiles removes what it has read
    matches = filter(None, map(_STEM.fullmatch, names))
    return [m["stem"] for m in sorted(matches, key=lambda m: int(m["number"]))]


def _text(path: Path) -> str:
    return read_file(path, _LARGEST).decode("utf-8", "replace")


def _only(rests: Mapping[str, Path], ending: str) -> str:
    """Returns the text of the one file with that ending; skips pass dumps, which can share it."""
    paths = (p for r, p in rests.items() if r.endswith(ending) and not _PASS.fullmatch(r))
    path = next(paths, None)
    return _text(path) if path else ""


def _written(rests: Mapping[str, Path]) -> Iterator[tuple[str, tuple[int, int, int]]]:
    for rest in rests:
        unit = rest.removesuffix(".ir-no-opt.ll")
        names = (rest, f"{unit}.ir-with-opt.ll", f"obj-file.{unit}.o")
        if unit != rest and all(name in rests for name in names):
            begun, optimised, done = (os.stat(rests[name]).st_mtime_ns for name in names)
            yield unit, (begun, optimised, done)


def _units(rests: Mapping[str, Path], kind: str) -> dict[str, bytes]:
    return {
        rest[: -len(kind)].removesuffix("."): read_file(path, _LARGEST)
        for rest, path in rests.items()
        if rest == kind or rest.endswith(f".{kind}")
    }
