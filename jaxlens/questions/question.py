"""A question as a row: what it asks, what it can be told, what it needs, and what answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from jaxlens.ir.driver import Needs
from jaxlens.options import option

if TYPE_CHECKING:  # %load_ext reads the table, and does without the rest
    from jaxlens.captures import Capture
    from jaxlens.links.links import Links
    from jaxlens.render.document import Block
    from jaxlens.render.link_data import Web
    from jaxlens.report import Report

F = TypeVar("F")
NOTHING = Needs()


@dataclass(frozen=True, slots=True)
class About:
    """How the figures of an answer are known.

    Attributes:
        sentence: The question that is answered.
        measured: What was timed or tried on this machine; "" for nothing.
        xla: What is XLA's own figure or estimate; "" for nothing.
        counted: What jaxlens counts or concludes from the program's text; "" for nothing.
    """

    sentence: str
    measured: str = ""
    xla: str = ""
    counted: str = ""

    def __str__(self) -> str:
        rows = (("measured", self.measured), ("XLA's own", self.xla), ("counted", self.counted))
        return "\n".join([self.sentence, *(f"  {name}: {text}" for name, text in rows if text)])


@dataclass(frozen=True, slots=True)
class Option:
    """Something that a question can be told.

    Attributes:
        name: As the verb's keyword has it; `checkpoint` is `--checkpoint`.
        default: Its value where it is not given, of the type that it takes.
        label: What stands beside it in the panel; "" for one that only the magic tells.
        help: What `-h` says of it; "" for one that the magic takes for itself (`--run`).
        metavar: What its value is called there; "" for a switch.
        values: What Tab and the panel offer; see `jaxlens.options.option`.
        about: How its answer is known. Giving such an option asks the question.
    """

    name: str
    default: Any
    label: str = ""
    help: str = ""
    metavar: str = ""
    values: str = ""
    about: About | None = None

    def read(self, value: Any) -> Any:
        """A value as the type that it takes: of a count, a switch is whether there is one."""
        return None if value is None else type(self.default)(value)


@dataclass(frozen=True, slots=True)
class Lens(Generic[F]):
    """What answers a question.

    Attributes:
        facts: Gives frozen data; takes a Capture, and by keyword what the question was told.
        report: Puts the facts into sentences and tables.
        blocks: Shows them; the flag says that nothing is to be left out.
        web: Links what is shown; None where there is nothing to link, or linking takes too long.
    """

    facts: Callable[..., F]
    report: Callable[[F], Report]
    blocks: Callable[[F, bool], Sequence[Block]]
    web: Callable[[Links, F], Web | None] = lambda links, facts: None


def _unasked() -> NoReturn:
    """Stands for the lens of a question that takes more than one program."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Question(Generic[F]):
    """One question that can be asked of a program.

    Attributes:
        name: Name of the verb (`jaxlens.cost`) and of the option (`--cost`).
        about: The question in a sentence, and how its answer is known.
        lens: Loads what answers it, when it is first asked.
        needs: What its facts need of a compile; a function of the program and of what it is told,
            where that depends on them.
        verb: The magic that shows it; "" for none.
        help: What `-h` of that magic says of the option; "" for no option.
        metavar: What the option's value is called there; "" for a switch.
        values: What Tab offers for that value.
        options: What it can be told.
        kind: The name of its output; by default that of the magic.
        panel: Its place in the panel and in the README's table; 0 for none.
        python: How it is asked in Python, in that table.
    """

    name: str
    about: About
    lens: Callable[[], Lens[F]] = _unasked
    needs: Needs | Callable[..., Needs] = NOTHING
    verb: str = ""
    help: str = ""
    metavar: str = ""
    values: str = ""
    options: tuple[Option, ...] = ()
    kind: str = ""
    panel: int = 0
    python: str = ""

    @property
    def choices(self) -> tuple[Option, ...]:
        """What it can be told by the verb's keywords and in the panel."""
        return tuple(option for option in self.options if option.label)

    def needed(self, capture: Capture, told: Mapping[str, Any]) -> Needs:
        """What its facts need of a compile of this program."""
        return self.needs(capture, **told) if callable(self.needs) else self.needs

    def gathered_facts(self, capture: Capture, told: Mapping[str, Any]) -> F:
        """The facts, once what they need is gathered."""
        return self.lens().facts(capture.gather(self.needed(capture, told)), **told)

    def is_asked(self, options: Any) -> bool:
        """Whether the options of its magic ask it."""
        asking = (self.name, *(each.name for each in self.options if each.about))
        return any(getattr(options, name, None) not in (None, False, "") for name in asking)

    def told(self, options: Any) -> dict[str, Any]:
        """What the options of its magic tell it."""
        own = {self.name: getattr(options, self.name)} if self.metavar else {}
        return own | {o.name: o.read(getattr(options, o.name)) for o in self.options}

    def fields(self) -> list[tuple[str, type, Field[Any]]]:
        """The fields that it adds to the options of its magic."""
        none = None if self.values == "capture" else ""
        own = option(none if self.metavar else False, self.help, self.metavar, self.values)
        more = ((o, option(o.default, o.help, o.metavar, o.values)) for o in self.options if o.help)
        return [(self.name, object, own), *((o.name, object, field) for o, field in more)]
