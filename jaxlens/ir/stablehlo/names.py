"""Names SSA values as MLIR's printer does (%0, %cst_1, %iterArg).

The bindings print a value's name by numbering its whole function each time, so the numbering is
done here, once: a block's arguments and results in order, then nested blocks from where their
parent ended; a repeated name has the suffix `_n`.
"""

from typing import Any

_ARGUMENT = {"stablehlo.while": "iterArg"}


class Scope:
    """Names in use in a region and the regions around it, and the next free numbers."""

    def __init__(self, parent: "Scope | None" = None) -> None:
        self._used: set[str] = set()
        self._parent = parent
        self._value: int = parent._value if parent else 0
        self._argument: int = parent._argument if parent else 0
        self._conflict: int = parent._conflict if parent else 0

    def argument(self, owner: str) -> str:
        """A name for the next argument of a block of the op called `owner`."""
        if named := _ARGUMENT.get(owner):
            return self._unique(named)
        name = self._unique(f"arg{self._argument}")
        self._argument += 1
        return name

    def results(self, op: str, kinds: list[Any]) -> list[str]:
        """Names for the results of the op, which have the types `kinds`."""
        if not kinds:
            return []
        if op == "stablehlo.constant":
            integer = kinds[0].dtype.startswith(("i", "u", "bool"))
            return [self._unique("c" if integer else "cst")]
        name = str(self._value)
        self._value += 1
        return [name] if len(kinds) == 1 else [f"{name}#{i}" for i in range(len(kinds))]

    def _unique(self, name: str) -> str:
        wanted = name
        while self._taken(wanted):
            wanted = f"{name}_{self._conflict}"
            self._conflict += 1
        self._used.add(wanted)
        return wanted

    def _taken(self, name: str) -> bool:
        scope: Scope | None = self
        while scope is not None:
            if name in scope._used:
                return True
            scope = scope._parent
        return False
