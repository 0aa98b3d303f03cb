"""The same hub for a try on one's own machine, without root: any name, and one password
of at least 8 letters.

    HUB_PASSWORD=... jupyterhub -f binder/hub/try_config.py

Folders are in `learners/` of the folder that it is started in. All learners are one Unix user and
could read each other's work: for a class take `jupyterhub_config.py`.
"""

import os
from pathlib import Path

c = get_config()  # noqa: F821 - JupyterHub defines it

load_subconfig(str(Path(__file__).resolve().parent / "jupyterhub_config.py"))  # noqa: F821

c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = os.environ["HUB_PASSWORD"]
c.Authenticator.allow_all = True

learners = Path.cwd() / "learners"
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = str(learners / "{username}")
c.Spawner.notebook_dir = str(learners / "{username}" / "jaxlens-course")

# In a container the user is root, whom Jupyter turns away without this option.
if os.geteuid() == 0:
    c.Spawner.args = [*c.Spawner.args, "--allow-root"]
