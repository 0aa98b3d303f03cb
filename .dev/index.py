"""What is written from the folders of questions: README's table, `__all__`, and their verbs.

A verb is made of a row alone, or is a name in `__all__` of a question's `verbs.py`.

`python3 .dev index` writes them anew; a test fails where they do not fit.
"""

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import Any

TABLE = re.compile(r"(?<=\| in Python \|\n\|---\|---\|---\|\n).*?(?=\n\n)", re.S)
VERBS = re.compile(r"(?<=\n# verbs of rows\n).*?(?=# end\n)", re.S)
ALL = re.compile(r"(?<=^__all__ = \[\n).*?(?=^\]$)", re.S | re.M)
# Magics of questions that have no place in the help of another.
_ALONE = {"recompiles": "`%%recompiles`", "timeline": "`%%timeline`", "arrays": "`%arrays`"}
_MORE = (  # what has no row of its own
    "| Will it fit a device, and what would make it? | `%compile --fits h100` "
    '| `jaxlens.fits(f, x, device="h100")` |',
    "| Why can it not be traced? | above the traceback of every magic | `jaxlens.explain()` |",
)
_CELLS = ("nan",)  # have a cell magic of their own


def table(rows: tuple[Any, ...]) -> str:
    """The rows of README's table: the question, its magic, and how Python asks it."""
    asked = [row for row in rows if row.python]
    order = sorted(asked, key=lambda row: (not row.panel and row.verb != "", row.panel))
    lines = [f"| {row.about.sentence} | {_magics(row)} | `{row.python}` |" for row in order]
    return "\n".join([*lines, *_MORE])


def _magics(row: Any) -> str:
    if not row.verb:
        return _ALONE[row.name]
    if row.name in _CELLS:
        return f"`%%{row.name}`, `%{row.verb} --{row.name}`"
    value = f" {row.metavar}" if row.metavar else ""
    more = (f"`--{option.name}`" for option in row.options if option.about)
    return ", ".join([f"`%{row.verb} --{row.name}{value}`", *more])


def verbs(rows: tuple[Any, ...]) -> dict[str, tuple[str, str]]:
    """The module and the name of the facts of each verb that is made of a row alone."""
    found = {}
    for row in rows:
        lens = getattr(row.lens, "func", row.lens)  # of a partial
        facts = re.fullmatch(r"Lens\[(\w+)\]", str(lens.__annotations__.get("return", "")))
        if row.function and facts:
            text = Path(str(import_module(lens.__module__).__file__)).read_text()
            (home,) = {
                node.module
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.ImportFrom)
                if facts[1] in [alias.name for alias in node.names]
            }
            found[row.function] = str(home), facts[1]
    return found


def package(text: str, rows: tuple[Any, ...]) -> str:
    """The text of `jaxlens/__init__.py` with the verbs of all questions."""
    written = written_verbs()
    public = {f"jaxlens.questions.{home}.verbs": names for home, names in written.items()}
    own = {*_own(text), *(name for names in written.values() for name in names)}
    made = {name: facts for name, facts in verbs(rows).items() if name not in own}
    imported = {home: set(names) for home, names in public.items()}
    for home, facts in made.values():
        imported.setdefault(home, set()).add(facts)
    lines = ["if TYPE_CHECKING:"]
    for home in sorted(imported):
        lines += _wrapped(f"    from {home} import ", sorted(imported[home]), "")
    lines += ["", *(f"    {name}: Callable[..., View[{made[name][1]}]]" for name in sorted(made))]
    lines += ["", "_VERBS = {"]
    for home, names in written.items():
        lines += _wrapped(f'    "{home}": ', [f'"{name}"' for name in names], ",")
    text = VERBS.sub(lambda _: "\n".join([*lines, "}", "", ""]), text)
    names = sorted({*own, *made, "__version__"})
    return ALL.sub(lambda _: "".join(f'    "{name}",\n' for name in names), text)


def _wrapped(head: str, names: list[str], end: str) -> list[str]:
    """Some names as the formatter has them: in one line where they fit."""
    many = f"{', '.join(names)}{',' if end and len(names) == 1 else ''}"
    line = f"{head}({many}){end}" if end else f"{head}{many}"
    if len(line) <= 100:
        return [line]
    return [f"{head}(", *(f"        {name}," for name in names), f"    ){end}"]


def _own(text: str) -> set[str]:
    """The public names that are imported for type checkers by hand."""
    (block,) = [node for node in ast.parse(VERBS.sub("", text)).body if isinstance(node, ast.If)]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    ours = [node for node in imports if str(node.module).startswith("jaxlens")]
    return {alias.name for node in ours for alias in node.names}


def written_verbs() -> dict[str, tuple[str, ...]]:
    """The public names of each question's `verbs.py`."""
    from jaxlens import questions

    found = {}
    for path in sorted(Path(questions.__path__[0]).glob("*/verbs.py")):
        module = import_module(f"jaxlens.questions.{path.parent.name}.verbs")
        if names := tuple(sorted(getattr(module, "__all__", ()))):
            found[path.parent.name] = names
    return found


def write(root: Path) -> None:
    """Writes the table and the package's names anew."""
    from jaxlens import questions

    path = root / "README.md"
    path.write_text(TABLE.sub(lambda _: table(questions.rows()), path.read_text()))
    path = root / "jaxlens" / "__init__.py"
    path.write_text(package(path.read_text(), questions.rows()))


if __name__ == "__main__":
    write(Path(__file__).resolve().parent.parent)
