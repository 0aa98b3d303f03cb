"""Folders of the repository, and the environment of processes that tests start."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "tests" / "records"
CAPTURES = sorted(RECORDS.glob("*.jaxlens"))
TEXTS = Path(__file__).with_name("texts")


def environment(**changes: str) -> dict[str, str]:
    """This process's variables, with a path on which `jaxlens` and `tests` are found."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **changes}
