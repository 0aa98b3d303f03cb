"""Programs for several devices: `support/core/on_eight_devices.py`, in a process that has eight."""

import os
import subprocess
import sys
from pathlib import Path


def test_on_eight_devices() -> None:
    file = Path(__file__).parents[1] / "support" / "core" / "on_eight_devices.py"
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)],
        env=os.environ | flags,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert " passed" in done.stdout
