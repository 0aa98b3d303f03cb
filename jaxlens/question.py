"""A row of the table: a question, its options, its needs, and the functions that answer it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from jaxlens.ir.needs import Needs
from jaxlens.options import option

if TYPE_CHECKING:  # %load_ext imports the table, but none of these
    from jaxlens.captures import Capture
    from jaxlens.ir.driver import Run
    from jaxlens.links.links import Links
    from jaxlens.program.counted import Counted
    from jaxlens.program.subject import Given
    from jaxlens.render.document import Block
    from jaxlens.render.link_data import Web
    from jaxlens.report import Finding, Report
    from jaxlens.views.view import View

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
    """An option of a question.

    Attributes:
        name: The verb's keyword; `checkpoint` is `--checkpoint`.
        default: Its default value, which has the option's type.
        label: A short name; "" for an option of the magic only.
        help: Its help text in `-h`; "" for one that the magic defines itself (`--run`).
        metavar: The name of its value in `-h`; "" for a switch.
        values: The kind of values that Tab offers; see `jaxlens.options.option`.
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
        """Converts a value to the option's type; a switch is True for any count but 0."""
        return None if value is None else type(self.default)(value)


def _no_report(facts: object) -> Report:
    from jaxlens.report import Report

    return Report("", ())


@dataclass(frozen=True, slots=True)
class Lens(Generic[F]):
    """The functions that answer a question.

    Attributes:
        facts: Returns frozen data; takes a Capture, and the question's options by keyword.
        report: Converts the facts to sentences and tables; by default there are none.
        blocks: Converts the facts to blocks of a document; the flag says that nothing is cut. By
            default those of the report.
        web: Links the nodes shown; None if there is nothing to link, or linking takes too long.
        run: The executions that the facts hold; None for none.
        devices: The number of devices of the program, where the facts know it better.
    """

    facts: Callable[..., F]
    report: Callable[[F], Report] = _no_report
    blocks: Callable[[F, bool], Sequence[Block]] | None = None
    web: Callable[[Links, F], Web | None] = lambda links, facts: None
    run: Callable[[F], Run | None] = lambda facts: None
    devices: Callable[[F], int | None] = lambda facts: None

    def shown(self, facts: F, full: bool) -> Sequence[Block]:
        """Returns the blocks that show the facts."""
        if self.blocks is not None:
            return self.blocks(facts, full)
        from jaxlens.views.report_blocks import report_blocks

        return report_blocks(self.report(facts))


@dataclass(frozen=True, slots=True)
class Pane:
    """What a question adds to the document of a compiled program, without being asked.

    Attributes:
        key: Its step of the chain.
        title: Its label.
        help: What it shows, in a sentence.
        report: Sentences and tables; made on first use, after the compile.
        is_told: Whether its sentences are worth a place above the panes.
        early: Computes what needs no machine code, while XLA generates it.
    """

    key: str
    title: str
    help: str
    report: Given[Report]
    is_told: Callable[[], bool] = lambda: True
    early: Callable[[], object] = lambda: None


def jaxpr_web(links: Links, facts: object) -> Web | None:
    """Links the lines of a jaxpr with those of the source."""
    from jaxlens.views.links import weave

    return weave(links, ("jaxpr",))


def _several_programs() -> NoReturn:
    """The placeholder lens of a question that takes more than one program."""
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Question(Generic[F]):
    """One question that can be asked of a program.

    Attributes:
        name: Name of the verb (`jaxlens.cost`) and of the option (`--cost`).
        about: The question in a sentence, and how its answer is known.
        lens: Imports and returns its lens, so that only a question that is used loads one.
        needs: What its facts need of a compile; a function of the capture and of the question's
            options, where it depends on them.
        verb: The magic that shows it; "" for none.
        help: The option's help text in `-h` of that magic; "" for no option.
        metavar: The name of the option's value there; "" for a switch.
        values: The kind of values that Tab offers for it.
        options: Its further options.
        kind: The name of its output; by default that of the magic.
        panel: Its position in what Ask lists and in the README's table; 0 for their end.
        python: Its Python call, as that table shows it.
        place: Its position among the questions of its magic, in help and in output.
        runs: Whether it runs the program itself where the magic has `--run`.
        alone: Whether it is asked by its option alone, and not among all of `%%check`.
        several: Returns the view of a question about two programs, from the verb's name, the
            program and the verb's options; None for a question about one.
        pane: Returns what it adds to a compiled program's document, from the program and its
            counts; None for nothing.
        of_run: Asked before the compile, returns what makes sentences of a measured run; raises
            UnavailableError where there are none. None for nothing.
    """

    name: str
    about: About
    lens: Callable[[], Lens[F]] = _several_programs
    needs: Needs | Callable[..., Needs] = NOTHING
    verb: str = ""
    help: str = ""
    metavar: str = ""
    values: str = ""
    options: tuple[Option, ...] = ()
    kind: str = ""
    panel: int = 0
    python: str = ""
    place: int = 1000
    runs: bool = False
    alone: bool = False
    several: Callable[[str, Capture, Any], View[Any]] | None = None
    pane: Callable[[Capture, Given[Counted]], Pane] | None = None
    of_run: Callable[[Capture], Callable[[Run], tuple[Finding, ...]]] | None = None

    @property
    def choices(self) -> tuple[Option, ...]:
        """The options that the verb's keywords have."""
        return tuple(option for option in self.options if option.label)

    @property
    def function(self) -> str:
        """The name of its verb in Python; "" for none."""
        return self.python.removeprefix("jaxlens.").partition("(")[0]

    def needed(self, capture: Capture, options: Mapping[str, Any]) -> Needs:
        """Returns what its facts need of a compile of this program."""
        return self.needs(capture, **options) if callable(self.needs) else self.needs

    def gathered_facts(self, capture: Capture, options: Mapping[str, Any]) -> F:
        """Gathers what the facts need, and returns the facts."""
        with capture.gathering(self.needed(capture, options)):
            return self.lens().facts(capture, **options)

    def is_asked(self, options: Any) -> bool:
        """Whether the options of its magic select it."""
        asking = (self.name, *(option.name for option in self.options if option.about))
        return any(getattr(options, name, None) not in (None, False, "") for name in asking)

    def keywords(self, options: Any) -> dict[str, Any]:
        """Returns the keyword arguments of its facts from the options of its magic."""
        own = {self.name: getattr(options, self.name)} if self.metavar else {}
        return own | {o.name: o.read(getattr(options, o.name)) for o in self.options}

    def fields(self) -> list[tuple[str, type, Field[Any]]]:
        """Returns the dataclass fields that it adds to the options of its magic."""
        none = None if self.values == "capture" else ""
        own = option(none if self.metavar else False, self.help, self.metavar, self.values)
        more = ((o, option(o.default, o.help, o.metavar, o.values)) for o in self.options if o.help)
        return [(self.name, object, own), *((o.name, object, field) for o, field in more)]
