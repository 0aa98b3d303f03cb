"""The commands about programs: record a script, show and compare records, write pages.

jaxlens record -o runs/a train.py --steps 100
jaxlens show runs/a                     # or with -o page.html
jaxlens diff runs/a runs/b
jaxlens explore step.jaxlens            # a saved capture, a dump folder or HLO text, as a page
jaxlens explore train:step --in "f32[8,128]"
jaxlens ask memory train.py:step --args "f32[8,128]"
"""

import argparse
import builtins
import os
import runpy
import sys
import zipfile
from functools import partial
from importlib.machinery import SourceFileLoader
from multiprocessing.util import Finalize
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from jaxlens.errors import LensError, OptionError, TargetError
from jaxlens.shell import ask, functions, mcp
from jaxlens.shell.output import given, written
from jaxlens.tracebacks import below, raised

if TYPE_CHECKING:
    from jaxlens.jobs.record.record import JobRecording

_PAGES = 20  # programs of a record that have a page each


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the commands to the parser of `jaxlens`."""
    record = commands.add_parser("record", help="run a script, and record what it compiles")
    record.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    record.add_argument(
        "--megabytes", type=float, default=200, help="most megabytes of programs of a process"
    )
    record.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module's name")
    record.add_argument("script", metavar="SCRIPT")
    record.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...")
    record.set_defaults(run=_record)
    show = commands.add_parser("show", help="what a record holds: compiles, reasons, processes")
    show.add_argument("record", type=Path)
    show.set_defaults(run=_show)
    diff = commands.add_parser("diff", help="what two records compiled, function by function")
    diff.add_argument("before", type=Path)
    diff.add_argument("after", type=Path)
    diff.set_defaults(run=_diff)
    explore = commands.add_parser("explore", help="write a program as a page to share")
    explore.add_argument(
        "program",
        metavar="PROGRAM",
        help="a saved capture, a folder of dumps, HLO text; or MODULE:FUNCTION",
    )
    explore.add_argument(
        "--in", dest="shapes", action="append", default=[], metavar="SHAPES", help="f32[8,128]"
    )
    explore.add_argument(
        "--target", action="append", help="cpu, gpu, tpu:v5e:2x2, gpu:h100; several side by side"
    )
    explore.set_defaults(run=_explore)
    for command in (show, diff, explore):
        command.add_argument("-o", "--output", type=Path, metavar="PAGE.html")
    ask.add(commands)
    mcp.add(commands)


def _record(options: argparse.Namespace) -> int:
    """Runs the script as Python would, with its own exit status and traceback.

    The recording goes on until the process ends: threads and `atexit` functions compile as well.
    """
    from jaxlens.jobs.record.record import record

    if not options.module and not Path(options.script).is_file():
        name = Path(options.script).stem
        raise OptionError(f"no script {options.script!r} here; a module is -m {name}")
    block = record(options.output, megabytes=options.megabytes)
    block.start()
    block.include_children()
    # After the functions that the script registers, and once its processes have ended.
    Finalize(None, _stop, (block, options.output), exitpriority=-1000)
    status: int | str | None = 0
    error: BaseException | None = None
    try:
        _run(options.script, options.arguments, options.module)
    except SystemExit as end:
        error, status = end, end.code if isinstance(end.code, int | str) else bool(end.code)
    except BaseException as caught:
        error, status = caught, raised(caught)
    block.settle(error)
    if isinstance(status, str):  # sys.exit("words")
        print(status, file=sys.stderr)
        status = 1
    return status or 0


def _stop(block: "JobRecording", output: Path) -> None:
    block.stop()
    if block.written:
        compiles = f"{block.written} compile{'s' * (block.written != 1)}"
        text = f"{compiles} recorded; jaxlens show {output}"
    else:
        why = ": no function of yours was compiled, here or in a Python process that inherits this "
        why += "one's environment, or its process was ended before that was written"
        text = f"nothing was recorded{'' if block.trouble else why}"
    print(f"jaxlens: {text}", file=sys.stderr)


def _run(script: str, arguments: list[str], module: bool) -> None:
    sys.argv = [script, *arguments]
    if module:
        sys.path.insert(0, os.getcwd())
        try:
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        except ImportError as error:
            if below(error.__traceback__) is not None:
                raise
            raise SystemExit(f"jaxlens: {error}") from None
        return
    path = os.path.abspath(script)
    sys.path[0:1] = [os.path.dirname(path)]
    if zipfile.is_zipfile(path):
        runpy.run_path(path, run_name="__main__")
        return
    # Not by runpy, which puts the absolute path into `sys.argv`, and removes the module at the end.
    loader = SourceFileLoader("__main__", path)
    main = sys.modules["__main__"] = ModuleType("__main__")
    vars(main).update(__file__=path, __loader__=loader, __builtins__=builtins)
    exec(loader.source_to_code(loader.get_data(path), path), vars(main))


def _show(options: argparse.Namespace) -> int:
    from jaxlens.jobs.record.runs import runs

    answer = runs(options.record)
    if options.output is None:
        return given(answer, None)
    return written(partial(answer.save, programs=_PAGES), options.output)


def _diff(options: argparse.Namespace) -> int:
    from jaxlens.jobs.record.runs import runs

    return given(runs(options.before).diff(options.after), options.output)


def _explore(options: argparse.Namespace) -> int:
    """Writes a program's page; an error of a function's own is shown with its own traceback."""
    from jaxlens.ir.saved.job_files import is_record

    file = Path(options.program)
    name, colon, path = options.program.partition(":")
    if file.exists() or (file.suffix and not colon) or is_record(file.parent):
        return _opened(file, options)
    if not path or name.endswith(".py"):
        meant = f"{Path(name).stem}:{path or 'step'}"
        raise OptionError(f"expected a file or MODULE:FUNCTION, got {options.program!r}: {meant}")
    try:
        return _explored(name, path, options)
    except LensError:
        raise
    except Exception as error:
        return raised(error)


def _opened(file: Path, options: argparse.Namespace) -> int:
    from jaxlens.api import explore
    from jaxlens.jobs.record.program_file import opened

    if options.shapes or options.target:
        raise OptionError(f"--in and --target go with MODULE:FUNCTION; {file} is a program")
    return written(explore(opened(file)).save, options.output or Path(f"{file.stem}.html"))


def _explored(name: str, path: str, options: argparse.Namespace) -> int:
    from jaxlens.api import explore, take
    from jaxlens.viewer.side_by_side import on_targets

    function, _ = functions.named(name, path, options.shapes, "--in")
    shapes = ", ".join(options.shapes)
    programs: dict[str, Any] = {}
    for target in options.target or [""]:
        try:
            programs[target] = take(function, (), {}, target=target, shapes=shapes)
        except TargetError as error:
            programs[target] = error
    first, *others = programs.values()
    several = others or isinstance(first, LensError)
    view = on_targets(list(programs.items()), "explore") if several else explore(first)
    return written(view.save, options.output or Path(f"{path}.html"))
