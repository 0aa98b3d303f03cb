"""Holds what jaxlens says, text, HTML and data, while the code behind it is rebuilt.

    python -m tests.bench.outputs DIR [--only NAME ...] [--jobs 2]
    python -m tests.bench.outputs --against BEFORE AFTER [--renamed 'OLD => NEW'] [--leave GLOB]

The first form writes into DIR what some 60 programs, the saved captures of `tests/records` and the
magics say: one file for each program, question and face. HTML has a tag on a line, and its packed
data beside it as readable text (`.html-data`). PACKAGE in the environment is another checkout,
whose jaxlens then runs the same programs. `--list` names the groups.

The second form prints what differs, and exits with 1 where anything does. A rename on purpose is
`OLD => NEW`, where OLD is a regular expression, applied to BEFORE; `--leave` names files that
differ on purpose.

Left out or masked, as these differ from run to run with the same code: addresses, keys made of a
hash, temporary folders; durations, shares and other floats wherever a profile, a run or the
clock may be asked for (saved captures hold those views with fixed figures); and places in the
package's own code, which a rebuild moves (`_places`).
"""

import argparse
import concurrent.futures
import difflib
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

RECORDER = Path(__file__).with_name("output_recorder.py")


def write(folder, names, jobs):
    """Records groups, each in a process of its own; says how many failed."""
    package = Path(os.environ.get("PACKAGE", ROOT)).resolve()
    own = {str(package / "jaxlens"): "CHECKOUT/jaxlens", str(ROOT): "CHECKOUT"}
    paths = {**own, sys.prefix: "PREFIX", sys.base_prefix: "PYTHON"}
    # jaxlens is that of the package, and `tests` that of this file, so that paths are the same
    start = f"import os, runpy, jaxlens; os.chdir({str(ROOT)!r});"
    start += f"runpy.run_path({str(RECORDER)!r}, run_name='__main__')"

    def one(name):
        shutil.rmtree(folder / name, ignore_errors=True)
        environment = os.environ | {
            "PYTHONHASHSEED": "0",
            "JAX_PLATFORMS": "cpu",
            "COLUMNS": "100",
            "OUTPUTS_PATHS": json.dumps(paths),
            "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        }
        log = folder / f"{name}.log"
        with log.open("w") as errors:
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", start, str(folder), name],
                cwd=package,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                check=False,
            )
        said = done.stdout.strip().splitlines()[-1:] or [name]
        print(f"{said[0]}{f' FAILED, see {log}' if done.returncode else ''}", flush=True)
        return int(bool(done.returncode))

    folder.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return sum(pool.map(one, names))


def differences(before, after, renames, left, lines):
    """Yields a diff of each file that differs."""
    recorded = {p.name for p in after.iterdir() if p.is_dir()}  # `--only` records some groups
    was, now = (
        {str(p.relative_to(at)) for p in at.glob("*/*") if p.parent.name in recorded}
        for at in (before, after)
    )
    for name in sorted(was | now):
        if any(fnmatch.fnmatch(name, pattern) for pattern in left):
            continue
        if name not in now or name not in was:
            yield f"=== {name}: {'gone' if name in was else 'new'}"
            continue
        old, new = ((at / name).read_text(errors="surrogatepass") for at in (before, after))
        for rename in renames:
            pattern, _, word = rename.partition(" => ")
            old = re.sub(pattern, word, old)
        old, new = _places(old).splitlines(), _places(new).splitlines()
        if old != new:
            rows = [*difflib.unified_diff(old, new, n=1, lineterm="")][2:]
            more = [f"... {len(rows) - lines} more lines"] if len(rows) > lines else []
            yield "\n".join([f"=== {name}", *(row[:300] for row in rows[:lines]), *more])


def _places(text):
    """Text without the places of jaxlens' own code, which a rebuild moves."""
    text = re.sub(r"(?<=jaxlens>:)\d+|(?<=jaxlens&gt;:)\d+", "N", text)
    text = re.sub(r"CHECKOUT/jaxlens/[\w/]+\.py", "CHECKOUT/jaxlens", text)
    if "FileNames\n" not in text:
        return text
    names = text.partition("FileNames\n")[2].partition("\n\n")[0]
    own = re.findall(r'^(\d+) "(?:<jaxlens>|CHECKOUT/jaxlens|.*output_recorder)', names, re.M)
    places = rf"(?<={{file_name_id=)({'|'.join(own) or '-'}) (function_name_id=\d+) line=[^}}]*"
    return re.sub(places, r"\1 \2 PLACE", text)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--against", nargs=2, type=Path, metavar=("BEFORE", "AFTER"))
    parser.add_argument("--renamed", action="append", default=[], metavar="OLD => NEW")
    parser.add_argument("--leave", action="append", default=[], metavar="GLOB")
    parser.add_argument("--lines", type=int, default=30, help="of each diff")
    asked = parser.parse_args()
    if asked.against:
        found = [*differences(*asked.against, asked.renamed, asked.leave, asked.lines)]
        print(*found, f"{len(found)} files differ", sep="\n")
        return int(bool(found))
    from tests.bench.output_recorder import groups

    names = asked.only or list(groups())
    if asked.list or not asked.folder or set(names) - set(groups()):
        parser.exit(not asked.list, "give a folder, and of these groups:\n" + "\n".join(groups()))
    failed = write(asked.folder.resolve(), names, asked.jobs)
    print(f"{len(names)} groups, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
