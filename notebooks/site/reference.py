"""Pages that are written from the code: the reference, the glossary, and the lists of pages."""

import csv
import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any

from IPython.core.magic import Magics

import jaxlens
from jaxlens import cli
from jaxlens import course as course_names
from jaxlens.ir.glossary import Kind, words
from jaxlens.ir.lessons import LESSONS, PARTS
from jaxlens.notebook.magics.course_magics import CourseMagics
from jaxlens.notebook.magics.magic_line import with_parser
from jaxlens.notebook.magics.magics import ProgramMagics
from jaxlens.notebook.magics.running_magics import RunningMagics
from jaxlens.notebook.magics.session_magics import JaxLens
from jaxlens.notebook.magics.text_magics import TextMagics
from jaxlens.questions import about
from jaxlens.viewer.panes import OPTIONS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
_SECTION = re.compile(r"^(Args|Attributes|Options|Returns|Yields|Raises):$", re.MULTILINE)
_MODULE = re.compile(r"\b(?:\w+\.)+(?=[A-Z])")  # of a type
_LISTED = re.compile(r"^- (\w+)$", re.MULTILINE)
_NAMED = re.compile(r"^(\*{0,2}[\w.]+): ", re.MULTILINE)
COMMANDS = ("lab", "ask", "mcp", "record", "show", "diff", "explore", "course")
MAGICS: tuple[type[Magics], ...] = (
    ProgramMagics,
    RunningMagics,
    TextMagics,
    CourseMagics,
    JaxLens,
)
TITLES: dict[Kind, str] = {
    "stage": "Stages",
    "primitive": "JAX primitives",
    "op": "StableHLO ops",
    "instruction": "HLO instructions",
    "pass": "Passes of XLA",
    "attribute": "Attributes",
    "target": "Targets of custom calls",
    "llvm": "LLVM instructions",
    "asm": "Machine instructions",
    "ptx": "PTX instructions",
    "word": "Other words",
}


def pages(run: Mapping[str, str]) -> dict[str, str]:
    """The sources of all pages but the course's and those that are run.

    Args:
        run: The pages of `howto/` and `gallery/` by name, for the lists of them.
    """
    made = {
        "use": (HERE / "use.md").read_text("utf-8"),
        "course/contents": course(),
        "howto/index": listed("How to find out", "howto", run),
        "gallery/index": listed("Gallery", "gallery", run),
        "reference/magics": magics(),
        "reference/python": verbs(),
        "reference/command": command(),
        "glossary/index": glossary(),
    }
    if (HERE / "front_ends.tsv").exists():
        made["front_ends"] = front_ends()
    if (HERE / "bench.md").exists():
        made["speed"] = f"# Speed\n\n{(HERE / 'bench.md').read_text('utf-8')}"
    return made | {f"glossary/{kind}": word_page(kind) for kind in TITLES}


def home(pages: Mapping[str, str]) -> str:
    """The source of the first page, whose table of contents is that of the site."""
    folders = [name for name in pages if name.endswith(("/contents", "/index"))]
    rest = [name for name in pages if "/" not in name]
    reference = [name for name in pages if name.startswith("reference/")]
    contents = toctree([*folders[:3], *reference, *folders[3:], *rest])
    return f"{(HERE / 'index.md').read_text('utf-8')}\n{contents}"


def title(text: str) -> str:
    """The heading of a page's source."""
    return text.partition("\n")[0].removeprefix("# ")


def lead(text: str) -> str:
    """The first paragraph below a page's heading, on one line."""
    return " ".join(text.split("\n\n")[1].split())


def toctree(names: list[str]) -> str:
    """A directive of Sphinx's that puts pages into the table of contents."""
    return "\n".join(["```{toctree}", ":hidden:", "", *names, "```", ""])


def listed(heading: str, folder: str, run: Mapping[str, str]) -> str:
    """A page that names those of a folder in order, each with its first paragraph."""
    files: list[str] = []

    def row(named: re.Match[str]) -> str:
        files.append(named[1])
        text = run[f"{folder}/{named[1]}"]
        return f"- **[{title(text)}]({named[1]}.ipynb)**<br>{lead(text)}"

    text = _LISTED.sub(row, (HERE / f"{folder}.md").read_text("utf-8"))
    return f"# {heading}\n\n{text}\n{toctree(files)}"


def course() -> str:
    """The contents of the course."""
    text = [
        "# The course\n",
        (HERE / "course.md").read_text("utf-8"),
        toctree(["00_tour", "index"]),
    ]
    for part, name in enumerate(PARTS):
        lessons = [lesson for lesson in LESSONS if lesson.part == part]
        rows = (
            f"- [{one.number}. {one.title}]({one.file}.ipynb)<br>{one.question}" for one in lessons
        )
        text += [f"## {name}\n", *rows, "", toctree([lesson.file for lesson in lessons])]
    return "\n".join([*text, toctree(["hlo_ops"])])


def magic_functions() -> dict[str, Any]:
    """Every magic by name: "%%jaxpr" where it works on cells, else "%hint"."""
    functions = {}
    for home in MAGICS:
        for name, attribute in {**home.magics["line"], **home.magics["cell"]}.items():
            sign = "%%" if name in home.magics["cell"] else "%"
            functions[sign + name] = getattr(home, attribute)
    return functions


def magics() -> str:
    """The reference of all magics and their options."""
    text = ["# Magics\n", (HERE / "magics.md").read_text("utf-8")]
    for name, magic in magic_functions().items():
        text += [*magic_section(name, magic)]
    return "\n".join(text)


def magic_section(name: str, magic: Any) -> Iterator[str]:
    """The heading of a magic, what it does, and a row for each option."""
    takes_options = name.strip("%") in OPTIONS or hasattr(magic, "decorators")
    parser = with_parser(magic).parser if takes_options else None
    said = inspect.cleandoc((parser and parser.description) or magic.__doc__ or "")
    yield f"({name.strip('%')})=\n## `{name}`\n"
    yield f"{prose(said)}\n"
    for action in parser._actions if parser else ():
        flags = ", ".join(action.option_strings)
        value = action.metavar or ""
        value = " ".join(value) if isinstance(value, tuple) else value
        value = f"[{value}]" if value and action.nargs == "?" else value
        meaning = (action.help or "").replace("%%", "%")
        if action.option_strings:
            yield f"{{#{name.strip('%')}-{action.option_strings[-1].strip('-')}}}"
        yield f"`{flags} {value}`".replace(" `", "`") + "<br>"
        yield inline(meaning)
        known = about(action.dest)
        for row in str(known or "").splitlines()[1:]:
            kind, _, how = row.strip().partition(": ")
            yield f"<br>*{kind}:* {inline(how)}"
        yield ""


def command() -> str:
    """The help of the `jaxlens` command."""
    text = ["# The command\n", (HERE / "command.md").read_text("utf-8")]
    for verb in ([], *([name] for name in COMMANDS)):
        said = StringIO()
        with redirect_stdout(said), suppress(SystemExit):
            cli.main([*verb, "--help"])
        text.append(
            f"## `{' '.join(['jaxlens', *verb])}`\n\n```text\n{said.getvalue().strip()}\n```\n"
        )
    return "\n".join(text)


def public_names() -> dict[str, Any]:
    """All public names with what they stand for: verbs, then classes, then those of the course."""
    names = [name for name in jaxlens.__all__ if not name.startswith("__") and name != "course"]
    names.sort(key=lambda name: (name[0].isupper(), name))
    named = {name: getattr(jaxlens, name) for name in names}
    return named | {f"course.{name}": getattr(course_names, name) for name in course_names.__all__}


def verbs() -> str:
    """The reference of all public names."""
    text = ["# In Python\n", (HERE / "python.md").read_text("utf-8")]
    for path, value in public_names().items():
        name = path.rpartition(".")[2]
        kind = "class-" if name[0].isupper() else ""
        place = path.replace(name, f"{kind}{name}").replace(".", "-")
        text += [f"(python-{place})=\n## `jaxlens.{path}`\n", documented(name, value)]
        if inspect.isclass(value):
            for member, method in public(value):
                text += [f"### `{name}.{member}`\n", documented(member, method)]
    return "\n".join(text)


def public(kind: type) -> Iterator[tuple[str, Any]]:
    """The documented methods and properties of a class and of those of ours that it extends."""
    own = (base for base in reversed(kind.__mro__) if base.__module__.startswith("jaxlens"))
    members = {name: value for base in own for name, value in vars(base).items()}
    for name, value in members.items():
        value = getattr(value, "func", value)  # of a cached property
        if (
            not name.startswith("_")
            and inspect.getdoc(value)
            and (inspect.isfunction(value) or isinstance(value, property))
        ):
            yield name, value


def documented(name: str, value: Any) -> str:
    """Signature and docstring of a function, class or property."""
    doc = google(inspect.getdoc(value) or "")
    if isinstance(value, property) or (inspect.isclass(value) and issubclass(value, Exception)):
        return f"{doc}\n"
    shown = inspect.signature(value)
    signature = f"{name}{shown}"
    if len(signature) > 80:  # a parameter a line
        rows = "".join(f"\n    {one}," for one in shown.parameters.values())
        signature = f"{name}({rows}\n)"
    return f"```python\n{_MODULE.sub('', signature)}\n```\n\n{doc}\n"


def google(doc: str) -> str:
    """A docstring of Google's style as Markdown."""
    first, *parts = _SECTION.split(doc)
    text = [prose(first)]
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        body = inspect.cleandoc(body)
        if heading in ("Returns", "Yields"):
            text.append(f"**{heading}**\n\n{prose(body)}")
            continue
        rows = re.sub(r"\n(?=\S)", "\n\n", re.sub(r"\n +", " ", body)).split("\n\n")
        text.append(f"**{heading}**\n\n" + "\n".join(f"- {_NAMED.sub(bold, row)}" for row in rows))
    return "\n\n".join(text)


def bold(name: re.Match[str]) -> str:
    return f"`{name[1]}`: "


def prose(text: str) -> str:
    """A docstring's text, in which indented lines are code."""
    parts = re.split(r"\n\n(?=    )|(?<=\S)\n\n(?=\S)", inspect.cleandoc(text))
    return "\n\n".join(
        f"```python\n{inspect.cleandoc(part)}\n```" if part.startswith("    ") else inline(part)
        for part in parts
    )


def inline(text: str) -> str:
    """A sentence whose signs mean nothing to Markdown but for code between backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([\\*_<>{}\[\]#|])", r"\\\1", part)
        for part in parts
    )


def glossary() -> str:
    """The list of the glossary's pages."""
    rows = (f"- [{name}]({kind}.md), {len(words(kind)):,}" for kind, name in TITLES.items())
    first = (HERE / "glossary.md").read_text("utf-8")
    return f"# Glossary\n\n{first}\n" + "\n".join(rows) + "\n\n" + toctree([*TITLES])


def anchor(word: str) -> str:
    """The part of a word's address behind the "#": the word, in characters that an id may have."""
    return re.sub(r"[^\w.-]", lambda sign: f"-{ord(sign[0]):x}-", word)


def word_page(kind: Kind) -> str:
    return f"# {TITLES[kind]}\n\n```{{glossary-of}} {kind}\n```\n"


def front_ends() -> str:
    """What works where, from what the tests of the front ends wrote down."""
    with (HERE / "front_ends.tsv").open(encoding="utf-8", newline="") as file:
        first, *rows = csv.reader(file, delimiter="\t")
    cells = [first, ["---"] * len(first), *([inline(cell) for cell in row] for row in rows)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in cells)
    said = "Each row was written by a test that drives the front end, or its rules, in a browser."
    return f"# What works where\n\n{said}\n\n{table}\n"
