"""Counts the equations of a jaxpr by source line, with every call inlined.

A body that several equations call is counted once per call, as if every call were inlined; the
body of a loop counts once. Lines are the user's; library frames are left out.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from jaxlens.captures import Capture
from jaxlens.ir.columns import Place, ProgramColumns, columns
from jaxlens.ir.graph import Module
from jaxlens.program.python_loops import looped
from jaxlens.program.subject import Given
from jaxlens.questions.times.unrolled import Unrolled, unrolled

_STACKS = 100  # call stacks of one body that are kept apart; of the others no line is counted
Stack = tuple[str, ...]
"""The user's lines of a call stack, each once, the outermost first."""


@dataclass(frozen=True, slots=True)
class Equations:
    """The number of equations of a program, by line and region.

    Attributes:
        total: Number of equations, every call inlined.
        shown: Number of equations as the jaxpr prints them, each body once.
        own: Number of equations by the line that traced them.
        through: Number of equations by line, those of its callees included.
        written: Number of equations by region, its calls inlined.
        times: How often each region occurs in the program, every call inlined.
    """

    total: int
    shown: int
    own: Mapping[str, int]
    through: Mapping[str, int]
    written: Mapping[str, int]
    times: Mapping[str, int]


def equations(module: Module) -> Equations:
    """Counts the equations of a jaxpr, in time linear in its size."""
    program = columns(module)
    written, times = _written(program), _occurrences(program, module.entry)
    stacks = [_stack(place) for place in program.places]
    own: Counter[str] = Counter()
    through: Counter[str] = Counter()
    # By body, the call stacks that reach it, with how often each does.
    callers: dict[str, Counter[Stack]] = {module.entry: Counter({(): 1})}
    for region in program.regions.values():  # callers before callees
        ends: dict[int, Counter[Stack]] = {}
        above = dict(callers.pop(region.name, Counter[Stack]()).most_common(_STACKS))
        for place, count in Counter(region.place).items():
            ends[place] = Counter()
            for stack, n in above.items():
                # The stack of an equation in a body may repeat the frames of the call.
                whole = tuple(dict.fromkeys((*stack, *stacks[place])))
                ends[place][whole] += n
                through.update(dict.fromkeys(whole, n * count))
                own.update({(stacks[place] or whole)[-1]: n * count} if whole else {})
        for step, inner in region.calls.items():
            for name in inner:
                callers.setdefault(name, Counter()).update(ends[region.place[step]])
    shown = sum(len(region) for region in program.regions.values())
    return Equations(written[module.entry], shown, own, through, written, times)


def _stack(place: Place) -> Stack:
    spans = (span for span in reversed(place.spans) if not span.library)
    return tuple(dict.fromkeys(f"{span.file}:{span.line}" for span in spans))


def _occurrences(program: ProgramColumns, entry: str) -> dict[str, int]:
    """Returns the number of occurrences of each region with every call inlined, loops once.

    Counts are summed from callers to callees, which expands no call either.
    """
    times = dict.fromkeys(program.regions, 0)
    times[entry] = 1
    for name, region in program.regions.items():
        for inner in chain.from_iterable(region.calls.values()):
            times[inner] += times[name]
    return times


def _written(program: ProgramColumns) -> dict[str, int]:
    """Returns, by region, its number of equations with calls inlined.

    Sizes are summed from callees to callers, so that no call is expanded: 20 functions that each
    call the next twice are 2 ** 20 inlined bodies.
    """
    written: dict[str, int] = {}
    for name, region in reversed(list(program.regions.items())):
        called = chain.from_iterable(region.calls.values())
        written[name] = len(region) + sum(written[inner] for inner in called)
    return written


def written_out(capture: Capture) -> tuple[Equations, tuple[Unrolled, ...]]:
    """Returns the equations by line, and the unrolled loops; needs only the jaxpr."""
    module = capture.jaxpr.module
    counted = equations(module)
    steps = looped(Given(lambda: capture.sources).or_else({}))
    return counted, unrolled(module, counted.written, counted.times, steps)
