"""Starts one learner's server: the course in his folder, limits of memory and cores, JupyterLab.

JupyterHub runs it in place of `jupyterhub-singleuser`, as the learner.
"""

import os
import random
import resource
import sys
import tempfile
from pathlib import Path

from jaxlens.cli import main as jaxlens


def put_course(folder: Path) -> None:
    """Writes the lessons that are missing; a file that is there stays as it is."""
    if jaxlens(["lab", str(folder), "--no-open"]):
        # A full disk keeps no one from his work.
        print(f"start_learner: the course in {folder} may lack lessons", file=sys.stderr)


def limit_memory(size: int) -> None:
    """Limits the memory of this process, and of each that it starts, to `size` bytes.

    The limit is on data: an address space (`ulimit -v`) that holds XLA is far larger than what it
    uses.
    """
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if most != resource.RLIM_INFINITY:
        size = min(size, most)
    resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def limit_cores(count: int) -> None:
    """Limits this process, and each that it starts, to `count` cores, drawn by lot.

    XLA and LLVM start as many threads as there are cores that a process may use.
    """
    cores = sorted(os.sched_getaffinity(0))
    if 0 < count < len(cores):
        os.sched_setaffinity(0, random.sample(cores, count))


def main() -> None:
    """Prepares, and becomes the server."""
    folder = Path(os.environ["JUPYTERHUB_ROOT_DIR"]).expanduser()
    put_course(folder)
    if os.environ.get("MEM_LIMIT"):
        limit_memory(int(os.environ["MEM_LIMIT"]))
    if os.environ.get("CPU_LIMIT"):
        limit_cores(int(float(os.environ["CPU_LIMIT"])))
    # Sockets of kernels are files here, and the path of a socket has at most 107 letters.
    os.environ["JUPYTER_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="jupyter-")
    server = [sys.executable, "-m", "jupyterhub.singleuser", *sys.argv[1:]]
    os.execv(sys.executable, server)


if __name__ == "__main__":
    main()
