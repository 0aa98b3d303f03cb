"""Counts the equations of a jaxpr by source line, with every call inlined.

A body that several equations call is counted once per call, as if every call were inlined; the
body of a loop counts once. Lines are the user's; library frames are left out.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from jaxlens.captures import Capture
from jaxlens.ir.columns import Place, calls, columns
from jaxlens.ir.graph import Module
from jaxlens.program.python_loops import looped
from jaxlens.program.subject import Given
from jaxlens.program.unrolled import Unrolled, unrolled

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
    written, times = _written(module), _occurrences(module)
    program = columns(module)
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


def _occurrences(module: Module) -> dict[str, int]:
    """Returns the number of occurrences of each region with every call inlined, loops once.

    Counts are summed from callers to callees, which expands no call either.
    """
    times = dict.fromkeys(module.regions, 0)
    times[module.entry] = 1
    for name, called in calls(module).items():
        for regions in called.values():
            for inner in regions:
                times[inner] += times[name]
    return times


def _written(module: Module) -> dict[str, int]:
    """Returns, by region, its number of equations with calls inlined.

    Sizes are summed from callees to callers, so that no call is expanded: 20 functions that each
    call the next twice are 2 ** 20 inlined bodies.
    """
    called = calls(module)
    sizes = {name: len(region) for name, region in columns(module).regions.items()}
    written: dict[str, int] = {}
    for name in reversed(list(sizes)):
        inner = (region for regions in called[name].values() for region in regions)
        written[name] = sizes[name] + sum(written[region] for region in inner)
    return written


def written_out(
    capture: Capture, module: Module | None = None
) -> tuple[Equations, tuple[Unrolled, ...]]:
    """Returns the equations by line, and the unrolled loops; needs only the jaxpr.

    Args:
        capture: The program.
        module: Another jaxpr with the same sources; by default the program's own.
    """
    module = module or capture.jaxpr.module
    counted = equations(module)
    steps = looped(Given(lambda: capture.sources).or_else({}))
    return counted, unrolled(module, counted.written, counted.times, steps)
