"""Holds what jaxlens says, text, HTML and data, while the code behind it is rebuilt.

    python tests/bench/outputs.py DIR [--only NAME ...] [--quick] [--jobs 2]
    python tests/bench/outputs.py --against BEFORE AFTER [--renamed 'OLD => NEW'] [--leave GLOB]

The first form writes into DIR what some 30 programs, the saved captures of `tests/records` and the
magics say: one file for each program, question and face.
HTML has a tag on a line, and its packed data beside it as readable text (`.html-data`). The
package is the one that Python finds first: set PYTHONPATH to record another checkout with the
same programs. `--list` names the groups; `--quick` takes some of them.

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
import fnmatch
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORDS = HERE.parent / "records"
FILES = [
    *(HERE / f"output_{name}.py" for name in ("forms", "programs", "recorder", "shell")),
    HERE.parent / "support" / "programs.py",
]
QUICK = (
    "matmul",
    "scan_rnn",
    "static_args",
    "pytrees",
    "record.scan_rnn.gpu-h100",
    "cells.jaxpr",
    "help.all",
)


def groups():
    """Every group by name, with the words that its process is called with."""
    made = (HERE / "output_programs.py").read_text()
    programs = re.findall(r"^(?:@program\ndef |real\(\")(\w+)", made, re.MULTILINE)
    records = sorted(p.name.removesuffix(".jaxlens") for p in RECORDS.glob("*.jaxlens"))
    others = [("cells", name) for name in ("jaxpr", "hlo", "compile", "explore")]
    others += [("watches", "all"), ("help", "all")]
    others += [("record", name) for name in records]
    found = {name: ["program", name] for name in programs}
    return found | {f"{kind}.{name}": [kind, name] for kind, name in others}


def write(folder, names, jobs):
    """Records groups, each in a process of its own; says how many failed."""
    words = groups()
    # Files are shown by their path, so they lie in the same place whatever is recorded.
    content = b"".join(path.read_bytes() for path in FILES)
    place = Path(tempfile.gettempdir()) / f"outputs-{hashlib.sha256(content).hexdigest()[:10]}"
    place.mkdir(exist_ok=True)
    for path in FILES:
        shutil.copyfile(path, place / path.name)
    package = _package()
    paths = {
        str(place): "PROGRAMS",
        str(package): "CHECKOUT",
        str(HERE.parents[1]): "CHECKOUT",
        sys.prefix: "PREFIX",
        sys.base_prefix: "PYTHON",
    }

    def one(name):
        target = folder / name
        shutil.rmtree(target, ignore_errors=True)
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(package), str(place)]),
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "JAX_PLATFORMS": "cpu",
            "COLUMNS": "100",
            "OUTPUTS_PATHS": json.dumps(paths),
            "OUTPUTS_RECORDS": str(RECORDS),
            "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        }
        log = folder / f"{name}.log"
        with log.open("w") as errors:
            done = subprocess.run(
                [sys.executable, str(place / "output_recorder.py"), str(folder), *words[name]],
                cwd=place,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                check=False,
            )
        failed = done.returncode or (target / "GROUP_FAILED.txt").exists()
        said = done.stdout.strip().splitlines()[-1:] or [name]
        print(f"{said[0]}{f' FAILED, see {log}' if failed else ''}", flush=True)
        return int(bool(failed))

    folder.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return sum(pool.map(one, names))


def _package():
    """The checkout of jaxlens that Python finds."""
    import jaxlens

    return Path(jaxlens.__file__).resolve().parents[1]


def renamed(text, renames):
    """Text after renames, `OLD => NEW` each, where OLD is a regular expression."""
    for rename in renames:
        old, _, new = rename.partition(" => ")
        text = re.sub(old, new, text)
    return text


def differences(before, after, renames, left, lines):
    """A diff of each file that differs."""
    recorded = {p.name for p in after.iterdir() if p.is_dir()}  # `--only` records some groups
    was = {str(p.relative_to(before)) for p in before.rglob("*") if p.is_file()}
    was = {name for name in was if name.split("/")[0] in recorded and "/" in name}
    now = {str(p.relative_to(after)) for p in after.rglob("*") if p.is_file() and p.parent != after}
    for name in sorted(was | now):
        if any(fnmatch.fnmatch(name, pattern) for pattern in left):
            continue
        if name not in now or name not in was:
            yield f"=== {name}: {'gone' if name in was else 'new'}"
            continue
        if (before / name).read_bytes() == (after / name).read_bytes():
            continue
        text = renamed((before / name).read_text(errors="surrogatepass"), renames)
        old = _places(name, text)
        new = _places(name, (after / name).read_text(errors="surrogatepass"))
        if old != new:
            yield f"=== {name}\n{_diff(old, new, lines)}"


def _places(name, text):
    """Text without the places of jaxlens' own code, which a rebuild moves."""
    if name.startswith("help"):
        text = re.sub(r"\bjaxlens(?:\.[a-z_]\w*)+\.(?=[A-Z])", "", text)
    text = re.sub(r"(?<=jaxlens>:)\d+|(?<=jaxlens&gt;:)\d+", "N", text)
    text = re.sub(r"CHECKOUT/jaxlens/[\w/]+\.py", "CHECKOUT/jaxlens", text)
    if "FileNames\n" not in text:
        return text
    names = text.partition("FileNames\n")[2].partition("\n\n")[0]
    own = re.findall(
        r'^(\d+) "(?:<jaxlens>|CHECKOUT/jaxlens|PROGRAMS/output_recorder)', names, re.M
    )
    places = rf"(?<={{file_name_id=)({'|'.join(own) or '-'}) (function_name_id=\d+) line=[^}}]*"
    return re.sub(places, r"\1 \2 PLACE", text)


def _diff(old, new, lines):
    with tempfile.NamedTemporaryFile("w", errors="surrogatepass") as file:
        file.write(new)
        file.flush()
        done = subprocess.run(
            ["diff", "-U1", "-", file.name],
            input=old.encode(errors="surrogatepass"),
            capture_output=True,
            check=False,
        )
    found = done.stdout.decode(errors="replace").splitlines()[2:]
    more = [f"... {len(found) - lines} more lines"] if len(found) > lines else []
    return "\n".join([row[:300] for row in found[:lines]] + more)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--against", nargs=2, type=Path, metavar=("BEFORE", "AFTER"))
    parser.add_argument("--renamed", action="append", default=[], metavar="OLD => NEW")
    parser.add_argument("--leave", action="append", default=[], metavar="GLOB")
    parser.add_argument("--lines", type=int, default=30, help="of each diff")
    asked = parser.parse_args()
    if asked.list:
        print("\n".join(groups()))
        return 0
    if asked.against:
        count = 0
        for found in differences(*asked.against, asked.renamed, asked.leave, asked.lines):
            print(found)
            count += 1
        print(f"{count} files differ")
        return int(count > 0)
    if asked.folder is None:
        parser.error("a folder to write into, or --against BEFORE AFTER")
    names = asked.only or list(QUICK if asked.quick else groups())
    unknown = set(names) - set(groups())
    if unknown:
        parser.error(f"no group {', '.join(sorted(unknown))}; --list names them")
    start = time.perf_counter()
    failed = write(asked.folder.resolve(), names, asked.jobs)
    print(f"{len(names)} groups in {time.perf_counter() - start:.0f} s, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
