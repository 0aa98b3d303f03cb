"""Records captures of real programs, so that lenses, renderers and tests need no device.

    python -m tests.records.make_records [cpu | tpu:v5e:2x2 | gpu:h100 ...]

A record is made again only on purpose (its compiled stages depend on the machine and the version
of jaxlib), and stays below 200 kB. A target that is not here needs its plugin (`pip install
jaxlens[tpu]` or `jaxlens[gpu]`). Records hold names of files as seen from the repository, not from
this machine: the programs, and this file again, are run under such names, in a thread that has no
frames below.
"""

import gzip
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

ROOT = Path.cwd() if __name__ != "__main__" else Path(__file__).resolve().parents[2]
PROGRAMS = ("mlp_step", "scan_rnn", "attention")
WIDE = (
    "wide_step",
)  # on a GPU that is here, whose autotuning takes library calls for its products
# Over the four chips of a TPU's topology.
SHARDED = ("sharded_step", "exchanges", "fsdp_step", "psum_step")
LARGEST = 200_000


def run(path: str, name: str) -> dict[str, Any]:
    """The names that a file of the repository defines, run under its short path."""
    names: dict[str, Any] = {"__name__": name}
    exec(compile((ROOT / path).read_text(), path, "exec"), names)
    return names


def record(targets: list[str]) -> None:
    from jaxlens.stages.driver import capture

    programs = run("tests/support/programs.py", "programs")
    if "gpu" in targets:
        profile(programs["mlp_step"])
    for target in targets or ["cpu"]:
        for name in WIDE if target == "gpu" else PROGRAMS:
            f, args = programs[name]()
            save(capture(f, args, target=target, name=name), name, target)
        for name in SHARDED if target.startswith("tpu:") else ():
            f, args = programs[name](described(target))
            save(capture(f, args, name=name), name, target)


def profile(program: Any) -> None:
    """Three turns of a loop that waits for a GPU, as JAX's profiler records them."""
    import jax

    f, args = program()
    step = jax.jit(f)
    jax.block_until_ready(step(*args))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(3):
                _, value = step(*args)
                float(value)
        (file,) = Path(folder).rglob("*.xplane.pb")
        data = file.read_bytes()
    hidden = b"/" + b"x" * (len(os.fsencode(ROOT)) - 1)  # as long, for lengths are in the file
    data = data.replace(os.fsencode(ROOT), hidden)
    (ROOT / "tests/records/loop.gpu.xplane.pb.gz").write_bytes(gzip.compress(data, mtime=0))


def described(target: str) -> Any:
    """The devices of a topology that is not here."""
    from jax.experimental import topologies

    platform, _, name = target.partition(":")
    return topologies.get_topology_desc(platform=platform, topology_name=name).devices


def save(taken: Any, name: str, target: str) -> None:
    path = ROOT / "tests/records" / f"{name}.{target.replace(':', '-')}.jaxlens"
    taken.save(path)
    size = path.stat().st_size
    print(f"{path.name}: {size:,} B{', TOO LARGE' if size > LARGEST else ''}")


if __name__ == "__main__":
    os.chdir(ROOT)
    again = run("tests/records/make_records.py", "make_records")["record"]
    recording = threading.Thread(target=again, args=(sys.argv[1:],))
    recording.start()
    recording.join()  # threads that it starts need an interpreter that is not ending
