"""Imports a function that the shell names: `train.py:step`, or `train:step` of a module."""

import builtins
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from jaxlens.errors import OptionError, nearest


def named(
    name: str, path: str, shapes: Sequence[str], option: str
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Returns a function of a module or a file, and the variables there.

    Args:
        name: Of the module, or the file's.
        path: The function's dotted path in it.
        shapes: The arguments that are given, as text.
        option: The option that gives them.

    Raises:
        OptionError: There is none, or it takes arguments, of which none are given.
    """
    module = _module(name)
    function = _function(module, name, path)
    parameters: Iterable[inspect.Parameter] = ()
    with suppress(TypeError, ValueError):
        parameters = () if shapes else inspect.signature(function).parameters.values()
    variadic = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in variadic]
    if needed:
        raise OptionError(
            f"{path} takes {', '.join(needed)}: give a shape for each, in this order, such as "
            f'{option} "{", ".join(["f32[8,128]"] * len(needed))}"'
        )
    return function, vars(module)


def _module(name: str) -> ModuleType:
    """Imports a module by its name, or a file, as a script is run from its folder."""
    sys.argv = [name]  # a script may read its own when it is imported
    try:
        if name.endswith(".py"):
            return _of_file(Path(name))
        sys.path.insert(0, os.getcwd())
        return importlib.import_module(name)
    except SystemExit as end:
        cure = 'put what it runs under if __name__ == "__main__":'
        raise OptionError(f"{name} ends with {end.code!r} when it is imported; {cure}") from None
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0] and error.name != name:
            raise  # of a module that it imports
        raise OptionError(f"no module {name!r} here; run this where it can be imported") from None


def _of_file(file: Path) -> ModuleType:
    if not file.is_file():
        raise OptionError(f"no file {str(file)!r} here")
    file = file.resolve()
    name, folder = file.stem, file.parent
    while (folder / "__init__.py").exists():  # its imports may be relative
        name, folder = f"{folder.name}.{name}", folder.parent
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    if "." in name:
        return importlib.import_module(name)
    spec = spec_from_file_location(name if name not in sys.modules else f"{name}.py", file)
    assert spec is not None  # it ends in .py
    assert spec.loader is not None
    made = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def _function(made: ModuleType, name: str, path: str) -> Callable[..., Any]:
    """Returns a function of a module by its dotted path."""
    value: Any = made
    for part in path.split("."):
        if not hasattr(value, part):
            functions = [n for n in vars(value) if callable(getattr(value, n))]
            known = [n for n in functions if not n.startswith("_") and not hasattr(builtins, n)]
            lacks = f"has no {path!r}" if path else "has functions, of which none is named"
            raise OptionError(f"{name} {lacks}; {nearest(part, known)}")
        value = getattr(value, part)
    if not callable(value):
        raise OptionError(f"{name}:{path} is no function, but a {type(value).__name__}")
    return value  # type: ignore[no-any-return]
