"""Programs that the learner's own JAX must run as JAX does: made at random, and out of sight.

A check shows a few examples. What only does those right would be found wrong lessons later, so each
part also runs random programs, every pair of the transforms so far, and traces them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from jaxlens.course.puzzle import Fact, Function, close
from jaxlens.course.puzzles.references import reference

Transform = Callable[[Function], Function]
OfJax = Callable[[Any, Function], Function]  # takes the module `jax` and a function
Case = tuple[str, Callable[[], Any], Any]  # its text, what computes it, and what JAX has

_UNARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "sin": lambda jax, x: jax.numpy.sin(x),
    "cos": lambda jax, x: jax.numpy.cos(x),
    "exp": lambda jax, x: jax.numpy.exp(jax.numpy.sin(x)),  # of what is small
    "relu": lambda jax, x: jax.nn.relu(x),
}
_EXAMPLE = np.random.default_rng(3).normal(size=(2, 3)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class RandomProgram:
    """One function of x, or of x and y, in two forms.

    Attributes:
        text: The function, as Python.
        own: What calls the learner's operations.
        by_jax: Takes the module `jax`; returns what calls its operations.
    """

    text: str
    own: Function
    by_jax: Callable[[Any], Function]


def random_programs(apply: Function, count: int = 5, depth: int = 3) -> list[RandomProgram]:
    """Returns programs, the same ones in every process.

    Args:
        apply: The learner's `apply(op, x)`.
        count: Their number.
        depth: Operations from the input to the result.
    """

    def own(op: str, x: Any) -> Any:
        return apply("exp", apply("sin", x)) if op == "exp" else apply(op, x)

    random = np.random.default_rng(5)
    programs = []
    for _ in range(count):
        tree = ("+", _tree(random, depth), ("*", ("sin", "x"), "y"))  # no derivative is constant
        run = partial(_evaluate, tree)
        text = run(_Text("x"), _Text("y"), lambda op, x: _Text(f"{op}({x})"))
        programs.append(
            RandomProgram(
                str(text),
                lambda x, y=0.5, run=run: run(x, y, own),
                partial(_by_jax, run),
            )
        )
    return programs


def _by_jax(run: Function, jax: Any) -> Function:
    return lambda x, y=0.5: run(x, y, lambda op, x: _UNARY[op](jax, x))


def _tree(random: np.random.Generator, depth: int) -> Any:
    if not depth:
        return random.choice(["x", "x", "y", "2"])
    op = random.choice(["+", "*", *_UNARY])
    return (op, *(_tree(random, depth - 1) for _ in range(2 if op in "+*" else 1)))


def _evaluate(tree: Any, x: Any, y: Any, apply: Function) -> Any:
    if isinstance(tree, str):
        return {"x": x, "y": y, "2": 2.0}[tree]
    op, *inputs = tree
    values = [_evaluate(entry, x, y, apply) for entry in inputs]
    if op in "+*":
        return values[0] + values[1] if op == "+" else values[0] * values[1]
    return apply(str(op), *values)


@dataclass(frozen=True, slots=True)
class _Text:
    text: Any

    def __str__(self) -> str:
        return str(self.text)

    def __add__(self, other: Any) -> "_Text":
        return _Text(f"({self} + {other})")

    def __mul__(self, other: Any) -> "_Text":
        return _Text(f"{self} * {other}")

    __radd__, __rmul__ = __add__, __mul__


def transforms(names: Mapping[str, Function]) -> dict[str, tuple[Transform, OfJax]]:
    """Returns the learner's transforms beside JAX's, by name; each takes a function of any shape.

    Args:
        names: The learner's `jit`, `jvp`, `grad` and `total`, `vmap`, as far as they are there.
    """
    made: dict[str, tuple[Transform, OfJax]] = {}
    if "jit" in names:
        made["jit"] = names["jit"], lambda jax, f: jax.jit(f)
    if "jvp" in names:
        jvp = names["jvp"]
        made["jvp"] = (
            lambda f: lambda x: jvp(f, (x,), (np.full(np.shape(x), 2.0),))[1],
            lambda jax, f: lambda x: jax.jvp(f, (x,), (jax.numpy.full(x.shape, 2.0),))[1],
        )
    if "grad" in names:
        grad, total = names["grad"], names["total"]
        made["grad"] = (
            lambda f: grad(lambda x: total(f(x))),
            lambda jax, f: jax.grad(lambda x: f(x).sum()),
        )
    if "vmap" in names:
        made["vmap"] = lambda f: names["vmap"](f, (0,)), lambda jax, f: jax.vmap(f)
    return made


def pairs(name: str, *others: str) -> list[tuple[str, ...]]:
    """Returns every pair of transforms with the one of this name, the outer one first."""
    return [pair for pair in product((name, *others), repeat=2) if name in pair]


def under(
    stacks: Iterable[tuple[str, ...]], programs: Sequence[RandomProgram], **names: Function
) -> Iterator[Case]:
    """Yields programs under stacks of transforms.

    Args:
        stacks: The transforms, each by the name that `transforms` has for it, outermost first.
        programs: The programs.
        **names: As in `transforms`.
    """
    known = transforms(names)
    for stack in stacks:
        for program in programs:
            mine, of_jax = zip(*(known[name] for name in reversed(stack)), strict=True)
            text = f"{' of '.join(stack)} of {program.text}"
            right = reference(text, partial(_stacked_by_jax, of_jax, program))
            yield text, partial(_stacked, mine, program.own), right


def _stacked(transforms: Iterable[Transform], f: Function) -> Any:
    for transform in transforms:
        f = transform(f)
    return f(_EXAMPLE)


def _stacked_by_jax(transforms: Iterable[OfJax], program: RandomProgram, jax: Any) -> Any:
    f = program.by_jax(jax)
    for transform in transforms:
        f = transform(jax, f)
    return jax.jit(f)(_EXAMPLE)


def alike(name: str, cases: Iterable[Case], hint: str) -> Fact:
    """Returns the fact that all cases are as JAX has them; it names the first that is not.

    Args:
        name: What is compared.
        cases: The cases.
        hint: What a difference suggests.
    """
    for text, run, wanted in cases:
        found = fits(text, run, wanted, hint)
        if not found.holds:
            return Fact(name, f"{found.wanted} for {text}", found.actual, False, found.hint)
    return Fact(name, "as in JAX", "as in JAX", True)


def fits(name: str, run: Callable[[], Any], wanted: Any, hint: str) -> Fact:
    """Returns the fact that a function of no arguments gives what is wanted.

    What it raises is the actual value, in a line: an operation on a tracer has no meaning yet, a
    table has no rule, or NumPy cannot broadcast shapes.
    """
    try:
        return close(name, run(), wanted, rtol=1e-3, hint=hint)
    except KeyError as error:
        lacks = f"A table has no rule for {error}."
        return Fact(name, "a value", f"KeyError: {error}", False, lacks)
    except (TypeError, ValueError, AttributeError) as error:
        return Fact(name, "a value", str(error).partition("\n")[0], False, hint)
