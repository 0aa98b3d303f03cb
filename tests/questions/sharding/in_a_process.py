"""What `sharded_programs` says, run in a process with eight devices, and lines of that file."""

import json

from tests.support.paths import ROOT, python

SCRIPT = ROOT / "tests" / "support" / "sharded_programs.py"


def answers(*words):
    done = python("-W", "ignore", SCRIPT, *words)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def line(words: str) -> str:
    lines = SCRIPT.read_text().splitlines()
    return f"{SCRIPT.name}:{1 + next(n for n, text in enumerate(lines) if words in text)}"
