"""`jaxlens ask QUESTION PROGRAM`: a question about a program, without a notebook.

jaxlens ask memory train.py:step --args "params, f32[64,128]"
jaxlens ask cost step.jaxlens --json
jaxlens ask recompiles runs/a
"""

import argparse
import re
import subprocess
import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxlens.errors import OWN, LensError, OptionError
from jaxlens.shell.output import given
from jaxlens.tracebacks import raised

if TYPE_CHECKING:
    from jaxlens.shell.questions import Asked
    from jaxlens.views.view import View

_ABOUT = """Answers a question about a program. PROGRAM is a function of a file or a module
(train.py:step, train:step), a saved capture, HLO text, a folder of XLA's dumps, or a function of
a record (runs/a:step). Without QUESTION: lists the questions. The status is 0 with an answer, 1
where your code raised, 2 where there is none (a line says what to do)."""
_WORDS = {  # of other doors, by what they are here
    r"--in\b": "--args",
    "look at a call with real values": 'give arrays of the file by name: --args "params, x"',
    r"look at the call itself: jaxlens\.capture\(f, x\)": "ask about its function: train.py:step",
}
# Lends this package, and no other beside it, to an interpreter that need not have it.
_LENT = """
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
lack = "Python 3.11 or later" if sys.version_info < (3, 11) else "jax"
if lack != "jax" or find_spec("jax") is None:
    said = "jaxlens: %s needs %s: name the interpreter of your file"
    print(said % (sys.executable, lack), file=sys.stderr)
    sys.exit(2)
if find_spec("jaxlens") is None:
    spec = spec_from_file_location("jaxlens", sys.argv[1] + "__init__.py")
    module = sys.modules["jaxlens"] = module_from_spec(spec)
    spec.loader.exec_module(module)
from jaxlens.cli import main
sys.exit(main(sys.argv[2:]))
"""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser of `jaxlens`."""
    ask = commands.add_parser("ask", help="answer a question about a program", description=_ABOUT)
    ask.add_argument("question", nargs="?", metavar="QUESTION", help="such as memory, fits=h100")
    ask.add_argument("program", nargs="?", metavar="PROGRAM", help="train.py:step, step.jaxlens")
    shapes = 'shapes and variables of the file: "params, f32[8,128], n=3"'
    ask.add_argument("--args", action="append", default=[], help=shapes)
    ask.add_argument("--target", default="", help="cpu, gpu, tpu:v5e:2x2, gpu:h100")
    ask.add_argument("--json", action="store_true", help="one line of JSON, errors too")
    ask.add_argument("--schema", action="store_true", help="print the schema of that JSON")
    ask.add_argument("--watch", action="store_true", help="answer again when the file is saved")
    ask.add_argument("--python", metavar="PATH", help="the interpreter that runs the file")
    ask.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from jaxlens.shell.questions import listing, question

    if options.python:
        return _elsewhere(options)
    if options.schema:
        print(Path(OWN, "shell", "answer.schema.json").read_text("utf-8").rstrip(), flush=True)
    elif not options.question:
        print(listing(), flush=True)
    elif not options.program:
        asked = question(options.question)
        raise OptionError(
            f"name the program: jaxlens ask {asked.name} train.py:step; "
            "or step.jaxlens, a saved capture, or runs/a:step, of a record"
        )
    elif options.watch:
        from jaxlens.shell.watch import watch

        return watch(partial(_answered, options), _file(options.program)[0])
    else:
        return _answered(options)
    return 0


def _elsewhere(options: argparse.Namespace) -> int:
    """Asks in another interpreter, which needs jax alone."""
    words = [word for word in (options.question, options.program) if word]
    words += [f"--args={shapes}" for shapes in options.args]
    words += [f"--target={options.target}"] if options.target else []
    words += [f"--{flag}" for flag in ("json", "schema", "watch") if getattr(options, flag)]
    try:
        return subprocess.call([options.python, "-c", _LENT, OWN, "ask", *words])
    except OSError as error:
        why = error.strerror or "it does not start"
        raise OptionError(f"cannot run {options.python}: {why}; check --python") from None


def _answered(options: argparse.Namespace) -> int:
    """Prints the answer; what the user's code prints goes to stderr."""
    from jaxlens.shell.answer import answered, failed
    from jaxlens.shell.questions import question

    try:
        with redirect_stdout(sys.stderr):
            asked = question(options.question)
            view = _view(asked, options).compute()
            text = answered(asked, view) if options.json else ""
    except Exception as error:
        if isinstance(error, LensError):
            error = type(error)(_in_words_of_the_shell(str(error), options.question))
        if options.json:
            print(failed(options.question, error), flush=True)
        if isinstance(error, LensError):
            raise error from None
        return raised(error)
    if not options.json:
        return given(view, None, "jaxlens explore")
    print(text, flush=True)
    return 0


def _in_words_of_the_shell(text: str, question: str) -> str:
    """Returns an error's text with the names that are typed here, not in a notebook."""
    for said, here in {rf"^--({question}\b|\w+(?= needs arrays))": question, **_WORDS}.items():
        text = re.sub(said, here, text)
    return text


def _file(program: str) -> tuple[Path, str]:
    """Returns the file, folder or module of a program's name, and what is named of it."""
    place, colon, path = program.rpartition(":")
    if Path(program).exists() or not colon:
        place, path = program, ""
    return Path(place), path


def _view(asked: "Asked", options: argparse.Namespace) -> "View[Any]":
    """Returns the answer, not yet computed."""
    from jaxlens import api
    from jaxlens.jobs.record.program_file import opened
    from jaxlens.jobs.record.runs import runs

    file, path = _file(options.program)
    if not file.exists() or file.suffix == ".py":
        return _of_function(asked, file, path, options)
    if options.args or options.target:
        raise OptionError(f"--args and --target go with a function; {file} is a program")
    if not any(file.glob("process-*")):
        capture = opened(file)
    else:
        record = runs(file)
        if not asked.verb:
            return record
        capture = _of_record(record, file, path)
    if not asked.verb:
        raise OptionError(f"{asked.name} is about a run: name a function, train.py:main")
    return getattr(api, asked.verb)(capture, **asked.options)  # type: ignore[no-any-return]


def _of_record(record: Any, folder: Path, path: str) -> Any:
    """Returns the last program of a function in a record."""
    from jaxlens.errors import nearest

    last = {row.function: row for row in record}
    first = next(iter(last), "step")
    found = last.get(path or first) if path or len(last) == 1 else None
    if found is None:
        as_in = f"{folder}:{first}"
        raise OptionError(f"name a function of {folder}, as {as_in}; {nearest(path, last)}")
    return found.capture


def _of_function(asked: "Asked", file: Path, path: str, options: argparse.Namespace) -> "View[Any]":
    """Returns the answer about a function of a file or a module."""
    from jaxlens import api
    from jaxlens.shell.functions import named

    name, shapes = str(file), ", ".join(options.args)
    if not path and file.suffix != ".py":
        raise OptionError(f"no file or folder {name!r} here; a function is written train.py:step")
    function, known = named(name, path, options.args, "--args")
    if not asked.verb:
        return _of_run(asked, function, shapes, known)
    capture = api.take(function, (), {}, target=options.target, shapes=shapes, variables=known)
    return getattr(api, asked.verb)(capture, **asked.options)  # type: ignore[no-any-return]


def _of_run(asked: "Asked", function: Any, shapes: str, names: dict[str, Any]) -> "View[Any]":
    """Calls a function once, and returns the answer about that."""
    import jaxlens
    from jaxlens.call.arguments.inputs import leaves, signature_of
    from jaxlens.call.arguments.written_shapes import arguments
    from jaxlens.stages.measure.execute import check

    args, kwargs = arguments(shapes, names)
    found = leaves(args, kwargs, signature_of(function))
    check([leaf.value for leaf in found], [leaf.name for leaf in found], asked.name)
    verb = getattr(jaxlens, asked.alias)
    if asked.name != "recompiles":
        return verb(function, *args, **kwargs)  # type: ignore[no-any-return]
    with verb() as log:
        function(*args, **kwargs)
    return log  # type: ignore[no-any-return]
