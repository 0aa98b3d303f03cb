"""Puzzle 8.3."""

from typing import Any

from jaxlens.course.puzzle import Facts, Function, Puzzle, WrongAnswer, close, edited, equal


def check(jit: Function) -> Facts:
    import numpy as np

    traced = []

    def f(p: Any) -> Any:
        traced.append(p)
        return p["w"] * 2 + p["b"] if "b" in p else p["w"] * 2 - p.get("c", 1)

    jitted = jit(f)
    trees = {
        "w and b": ("", {"w": np.ones(3, "f"), "b": np.full(3, 5, "f")}),
        "b and w": ("", {"b": np.ones(3, "f"), "w": np.full(3, 4, "f")}),
        "w alone": ("structure", {"w": np.ones(3, "f")}),
        "w and c": ("structure", {"w": np.ones(3, "f"), "c": np.full(3, 5, "f")}),
        "w of 1 and b": ("shape of every leaf", {"w": np.ones(1, "f"), "b": np.ones(3, "f")}),
        "w and b of 1": ("shape of every leaf", {"w": np.ones(3, "f"), "b": np.ones(1, "f")}),
        "w and b of 4": ("shapes", {"w": np.ones(4, "f"), "b": np.ones(4, "f")}),
        "w and b of int32": ("dtypes", {"w": np.ones(3, "i"), "b": np.ones(3, "i")}),
    }
    for name, (differs, tree) in trees.items():
        before, result = len(traced), None
        try:
            result = jitted(tree)
        except TypeError:  # an operation of a program for other dtypes
            if len(traced) > before or not before:
                raise
        wanted, actual = name != "b and w", len(traced) > before
        hint = f"Another program was run: the {differs} must be part of the key."
        if actual:
            hint = "Dicts with the same keys share a program, whatever their order and values."
        words = {True: "a new one", False: "an earlier one"}
        yield equal(f"program for {name}", words[actual], words[wanted], hint=hint)
        right = tree["w"] * 2 + tree["b"] if "b" in tree else tree["w"] * 2 - tree.get("c", 1)
        yield close(f"result for {name}", result, right)


SOLUTION = """\
def jit(f):
    programs = {}

    def call(*args):
        leaves, tree = core.tree_flatten(args)
        key = tree, tuple((x.shape, x.dtype) for x in leaves)
        if key not in programs:
            programs[key] = core.make_jaxpr(f)(*args)
        program = programs[key]
        return core.eval_jaxpr(program.jaxpr, program.consts, *leaves)[0]

    return call
"""

_LINES = """\
        leaves, tree = core.tree_flatten(args)
        key = tree, tuple((x.shape, x.dtype) for x in leaves)
        if key not in programs:
            programs[key] = core.make_jaxpr(f)(*args)
        program = programs[key]
"""

PUZZLE = Puzzle(
    id="8.3",
    title="A jit for trees",
    task="""\
This `jit`, on `jaxlens.core`, takes functions of dicts of arrays. `core.tree_flatten(args)` returns
the leaves in a fixed order, and the structure, which can be compared and hashed. But it traces `f`
at every call. Keep the programs in the dict `programs`, under a **key** of your choice, so that it
traces **once for each structure with the same shapes and dtypes**.
""",
    starter=edited(
        SOLUTION,
        (
            _LINES,
            """\
        leaves, tree = core.tree_flatten(args)
        program = core.make_jaxpr(f)(*args)  # every time: change this
""",
        ),
    ),
    solution=SOLUTION,
    wrong=(
        WrongAnswer(
            edited(SOLUTION, ("key = tree, tuple(", "key = tuple(")),
            "program for w and c, wanted a new one",
        ),
        WrongAnswer(
            edited(
                SOLUTION, ("key = tree, tuple((x.shape, x.dtype) for x in leaves)", "key = tree")
            ),
            "of every leaf must be part",
        ),
        WrongAnswer(
            edited(
                SOLUTION,
                ("key = tree, tuple((x.shape, x.dtype) for x in leaves)", "key = str(args)"),
            ),
            "whatever their order and values",
        ),
    ),
    cheats=(
        WrongAnswer(
            edited(
                SOLUTION,
                ("tuple((x.shape, x.dtype) for x in leaves)", "leaves[0].shape, leaves[0].dtype"),
            ),
            "shape of every leaf",
        ),
    ),
    hints=(
        "Print `core.tree_flatten` of two dicts with the same keys in a different order.",
        "Which two of these dicts have the same shapes, and yet need another program?",
        "The key is the structure, together with `(shape, dtype)` of each of the leaves.",
    ),
    check=check,
    after=(
        "`core.jit` does the same, and adds weak types, static arguments and the device: see "
        "`core.jit(f).key(p)`."
    ),
)
