"""The recompiles of one function for one reason, with facts from their keys and programs."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxlens.ir.compile_log import CallEvent, CompileLog, root
from jaxlens.keys.jax_key import JaxKey
from jaxlens.program.sentences import listed

_NAMED = 3  # most arguments named in one cure
_ALONE = "the nearest earlier key differs in nothing else, so that call would have been a hit"


@dataclass(frozen=True, slots=True)
class RecompileCause:
    """Recompiles of one function for one reason.

    Attributes:
        calls: The calls that recompiled it, oldest first.
        log: The log that contains them.
        key: The key of the last of them; None if it is unknown.
    """

    calls: Sequence[CallEvent]
    log: CompileLog
    key: JaxKey | None

    @property
    def last(self) -> CallEvent:
        """The last call that recompiled."""
        return self.calls[-1]

    @property
    def name(self) -> str:
        """Name of the argument, option or setting that changed."""
        return self.last.main.name

    @property
    def is_new_object(self) -> bool:
        """Whether the value is a different object with the same text at each call."""
        return self.last.main.new.startswith("another ")

    @property
    def of_library(self) -> bool:
        """Whether no file of the user's defines the function."""
        return self.last.defined is None or self.last.defined.library

    @property
    def values(self) -> list[str]:
        """The values of the changed part in all calls, preceded by its value before the first."""
        changes = [call.main for call in self.calls]
        return list(dict.fromkeys([changes[0].old, *(change.new for change in changes)]))

    def names(self, *kinds: str) -> list[str]:
        """Returns the names of the changes of these kinds in the last call."""
        return list(dict.fromkeys(c.name for c in self.last.changes if c.kind in kinds))

    def alone(self, *kinds: str) -> str:
        """Returns a sentence: would the last call have been a hit without its main change?

        Args:
            kinds: The kinds of changes that follow from the main one; by default those of its kind.
        """
        main = self.last.main
        kinds = kinds or (main.kind,)
        rest = [c.name for c in self.last.changes if c is not main and c.kind not in kinds]
        rest = [*map(root, rest)] if len(rest) > _NAMED else rest
        return f"the nearest earlier key differs in {few(rest)} too" if rest else _ALONE

    def programs(self) -> tuple[int, int]:
        """Counts the programs of the function with the last call's avals, and the distinct ones.

        Returns (0, 0) if there are no two programs to compare.
        """
        last = self.last
        programs = [
            call.program
            for call in self.log.compiles
            if call.identity[:2] == last.identity[:2]
            and call.program
            and _input_types(call) == _input_types(last)
        ]
        return (len(programs), len(set(programs))) if len(programs) > 1 else (0, 0)

    def equal_programs(self) -> str:
        """Returns the sentence that all programs are equal; "" if they are not."""
        count, different = self.programs()
        return f"their programs were compared: {every(count)} are equal" if different == 1 else ""


def _input_types(call: CallEvent) -> tuple[str, ...]:
    return tuple(part.text for part in call.parts if part.kind == "input")


def every(count: int) -> str:
    """Returns "both" or "all 5"."""
    return "both" if count == 2 else f"all {count}"


def few(names: Sequence[str]) -> str:
    """Returns "a, b and c", each name once; of many names the first, and a count of the rest."""
    return listed(list(dict.fromkeys(names)), _NAMED)
