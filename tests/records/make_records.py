"""Records captures of real programs, so that lenses, renderers and tests need no device.

    python -m tests.records.make_records [cpu | tpu:v5e:2x2 | gpu:h100 ...]

A record is made again only on purpose (its compiled stages depend on the machine and the version
of jaxlib), and stays below 200 kB. A target that is not here needs its plugin (`pip install
jaxlens[tpu]` or `jaxlens[gpu]`). Records hold names of files as seen from the repository, not from
this machine: the programs, and this file again, are run under such names, in a thread that has no
frames below.
"""

import os
import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path.cwd() if __name__ != "__main__" else Path(__file__).resolve().parents[2]
PROGRAMS = ("mlp_step", "scan_rnn", "attention")
SHARDED = ("sharded_step", "exchanges")  # over the four chips of a TPU's topology
LARGEST = 200_000


def run(path: str, name: str) -> dict[str, Any]:
    """The names that a file of the repository defines, run under its short path."""
    names: dict[str, Any] = {"__name__": name}
    exec(compile((ROOT / path).read_text(), path, "exec"), names)
    return names


def record(targets: list[str]) -> None:
    from jaxlens.stages.driver import capture

    programs = run("tests/support/programs.py", "programs")
    for target in targets or ["cpu"]:
        for name in PROGRAMS:
            f, args = programs[name]()
            save(capture(f, args, target=target, name=name), name, target)
        for name in SHARDED if target.startswith("tpu:") else ():
            f, args = programs[name](described(target))
            save(capture(f, args, name=name), name, target)


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
    threading.Thread(target=again, args=(sys.argv[1:],)).start()
