"""The README's links to the repository, written from its address in pyproject.toml.

The address stands in `project.urls` alone. `python3 .dev links` writes the README's links anew;
a test fails where they do not fit.
"""

import re
import sys
import tomllib
from pathlib import Path

MARKED = re.compile(r"(?<=<!-- links -->\n).*?(?=<!-- /links -->)", re.S)
TOUR = "notebooks/00_tour.ipynb"


def repository(root: Path) -> str:
    """The address of the repository."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return str(project["urls"]["Repository"])


def is_placeholder(address: str) -> bool:
    """Whether the address has not been filled in."""
    return "/OWNER/" in address


def badges(address: str) -> str:
    """The links at the top of the README: what runs a notebook without installing anything."""
    found = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+)", address)
    if not found:
        sys.exit(f"expected https://github.com/OWNER/NAME in project.urls, got {address}")
    binder = f"https://mybinder.org/v2/gh/{found[1]}/main?urlpath=lab/tree/{TOUR}"
    colab = f"https://colab.research.google.com/github/{found[1]}/blob/main/{TOUR}"
    return (
        f"[![The tour on Binder](https://mybinder.org/badge_logo.svg)]({binder})\n"
        "[![The tour in Colab](https://colab.research.google.com/assets/colab-badge.svg)]"
        f"({colab})\n"
    )


def written(readme: str, address: str) -> str:
    """The README with the links of an address; none before there is one."""
    return MARKED.sub(lambda _: "" if is_placeholder(address) else badges(address), readme)


def write(root: Path) -> None:
    """Writes the README's links anew."""
    path = root / "README.md"
    path.write_text(written(path.read_text(), repository(root)))
