"""JupyterHub for a class: a folder and a server for each learner, on one machine.

As it stands it takes the machine's own accounts (PAM) and is run by root. `README.md` says what a
teacher must replace, and what twenty learners need.
"""

import sys
from pathlib import Path

c = get_config()  # noqa: F821 - JupyterHub defines it

HERE = Path(__file__).resolve().parent

# Replace: who may come in. With `allow_all` every account of the machine may.
c.Authenticator.allowed_users = set()
c.Authenticator.admin_users = set()

# Behind a proxy that speaks TLS; or set `c.JupyterHub.ssl_key` and `ssl_cert`.
c.JupyterHub.bind_url = "http://127.0.0.1:8000"

# The learner's own process puts the course into his folder, so nothing of it is root's.
c.Spawner.cmd = [sys.executable, str(HERE / "start_learner.py")]
c.Spawner.notebook_dir = "~/jaxlens-course"
c.Spawner.default_url = "/lab/tree/index.ipynb"
c.Spawner.environment = {"JAX_PLATFORMS": "cpu"}
c.Spawner.start_timeout = 300  # twenty servers that start at once share the cores
c.Spawner.http_timeout = 300

# For each process of a learner: an array that does not fit is an error in that kernel alone.
c.Spawner.mem_limit = "2G"
# For each learner: XLA and LLVM start a thread for each core that they may use.
c.Spawner.cpu_limit = 4

c.Spawner.args = [
    # Kernels talk over files of their learner. TCP ports, which all learners share, clash when a
    # class starts at once, and others could listen.
    "--KernelManager.transport=ipc",
    # A lesson left open keeps its kernel: after half an hour without a run the memory comes back.
    # What was solved is in a file by then.
    "--MappingKernelManager.cull_idle_timeout=1800",
    "--MappingKernelManager.cull_interval=120",
    "--MappingKernelManager.cull_connected=True",
]

# Servers of learners who have left.
c.JupyterHub.load_roles = [
    {
        "name": "idle-culler",
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        "services": ["idle-culler"],
    }
]
c.JupyterHub.services = [
    {
        "name": "idle-culler",
        "command": [sys.executable, "-m", "jupyterhub_idle_culler", "--timeout=5400"],
    }
]
