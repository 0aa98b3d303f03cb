"""Depth and work of programs whose trees are known from the textbook, or drawn by hand."""

import html
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxlens
from jaxlens import core
from jaxlens.questions.trace.tree.view import positions


def in_pairs(x):
    while len(x) > 1:
        x = x[0::2] + x[1::2]
    return x[0]


def loop(x):
    return lax.scan(lambda total, number: (total + number, None), 0.0, x)[0]


def prefixes(x):
    return lax.associative_scan(jnp.add, x)


def numbers(n):
    return np.arange(n, dtype=np.float32)


@pytest.mark.parametrize("n", [2, 4, 8, 64])
def test_a_sum_in_pairs_is_log2_n_deep(n) -> None:
    tree = jaxlens.tree(in_pairs, numbers(n))
    assert (tree.depth, tree.work, tree.reads) == (int(np.log2(n)), n - 1, n)
    assert [level.total for level in tree.levels] == [n >> k for k in range(1, tree.depth + 1)]


@pytest.mark.parametrize("n", [3, 8, 64])
def test_a_loop_is_a_chain(n) -> None:
    tree = jaxlens.tree(loop, numbers(n))
    assert (tree.depth, tree.work) == (n, n)
    assert f"{n} levels deep: each of its {n} operations on elements waits" in str(tree)


@pytest.mark.parametrize("n", [2, 4, 5, 8, 16, 31, 64])
def test_prefixes_are_those_of_brent_and_kung(n) -> None:
    """Work and depth by the recurrence of the algorithm, on ranks instead of numbers."""

    def levels(at: list[int]) -> tuple[list[int], int]:
        if len(at) < 2:
            return at, 0
        pairs = [max(a, b) + 1 for a, b in zip(at[:-1:2], at[1::2], strict=False)]
        odd, work = levels(pairs)
        even = [max(a, b) + 1 for a, b in zip(odd, at[2::2], strict=False)]
        out = [at[0], *(level for two in zip(odd, [*even, -1], strict=False) for level in two)]
        return out[: len(at)], work + len(pairs) + len(even)

    expected, work = levels([0] * n)
    tree = jaxlens.tree(prefixes, numbers(n))
    assert (tree.depth, tree.work) == (max(expected), work)
    assert all(set(level.operations) == {"add"} for level in tree.levels)


def test_the_core_makes_the_same_tree() -> None:
    def by_core(x):
        return core.associative_scan(lambda a, b: a + b, x)

    of_jax, of_core = jaxlens.tree(prefixes, numbers(8)), jaxlens.tree(by_core, numbers(8))
    assert of_core.levels == of_jax.levels


def test_or_of_paddings_only_moves_too() -> None:
    def any_so_far(x):
        return lax.associative_scan(jnp.logical_or, x)

    tree = jaxlens.tree(any_so_far, np.zeros(8, bool))
    assert (tree.depth, tree.work) == (4, 11)


def test_adding_a_zero_of_your_own_is_an_operation() -> None:
    assert jaxlens.tree(lambda x: x + 0.0, numbers(4)).work == 4


@pytest.mark.parametrize(
    "move",
    [
        lambda x: x[::-1],
        lambda x: x.reshape(2, 4).T,
        lambda x: jnp.pad(x, (1, 2))[2:5],
        lambda x: jnp.concatenate([x[4:], x[:4]]),
        lambda x: jnp.broadcast_to(x, (2, 8)),
        lambda x: jnp.split(x, 2)[1],
        lambda x: lax.pad(x, np.float32(0), [(-1, -2, 3)]),
    ],
)
def test_where_elements_go_is_what_numpy_says(move) -> None:
    """The tree of moved elements plus one reads the inputs that NumPy's own result is made of."""
    tree = jaxlens.tree(lambda x: move(x) + 1, numbers(8) + 1).tree
    values = np.asarray(move(jnp.asarray(numbers(8) + 1))).ravel()
    read = [operation.reads[0] + 1 for operation in tree.operations]
    assert read == [int(value) for value in values if value]


def test_a_reverse_scan_begins_at_the_end() -> None:
    def backwards(x):
        return lax.scan(lambda c, a: (c * a, c), 1.0, x, reverse=True)

    first = jaxlens.tree(backwards, numbers(4)).tree.operations[0]
    assert first.reads == (3,)


def test_what_a_reverse_scan_stacks_stands_where_it_was_read() -> None:
    def first(x):
        return lax.scan(lambda c, a: (c, a + 1.0), 0.0, x, reverse=True)[1][:1] * 2

    *added, doubled = jaxlens.tree(first, numbers(4)).tree.operations
    assert {o.number: o.reads for o in added}[doubled.reads[0]] == (0,)


def test_a_scan_with_constants_several_carries_and_rows_of_arrays() -> None:
    def f(w, x):
        def step(carry, row):
            a, b = carry
            return (a + row[0], b * w), (row[1] - 1, a)

        return lax.scan(step, (w, w), x)

    tree = jaxlens.tree(f, np.float32(2), np.ones((3, 2), np.float32))
    operations = {(o.primitive, o.reads) for o in tree.tree.operations if o.level == 1}
    assert operations == {("add", (0, 1)), ("mul", (0,)), *(("sub", (n,)) for n in (2, 4, 6))}
    assert (tree.depth, tree.work) == (3, 9)


def test_a_matrix_product_reads_a_row_and_a_column() -> None:
    tree = jaxlens.tree(jnp.matmul, np.ones((2, 3), np.float32), np.ones((3, 2), np.float32))
    assert (tree.depth, tree.work, tree.reads) == (1, 4, 6)
    assert tree.tree.operations[1].reads == (0, 1, 2, 7, 9, 11)


def test_batched_products_keep_their_batches_apart() -> None:
    a, b = np.ones((3, 2, 2), np.float32), np.ones((3, 2, 2), np.float32)
    tree = jaxlens.tree(jnp.matmul, a, b)
    assert (tree.work, tree.reads) == (12, 4)
    assert tree.tree.operations[-1].reads == (10, 11, 21, 23)


def test_branches_are_joined_and_jits_opened() -> None:
    def branching(x):
        return lax.cond(x[0] > 0, jnp.sin, jax.nn.relu, x)

    tree = jaxlens.tree(branching, numbers(2))
    assert [dict(level.operations) for level in tree.levels][-1] == {"cond": 2}
    assert {"sin", "max"} <= {name for level in tree.levels for name in level.operations}


def test_what_is_not_followed_says_so() -> None:
    sentences = str(jaxlens.tree(lambda x: jnp.sort(x) * 2, numbers(8)))
    assert "sort is one operation that reads all of its operands" in sentences
    looped = jaxlens.tree(
        lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + c, x), numbers(4)
    )
    assert looped.opaque == ("while",)
    sentences = [f.text for f in jaxlens.tree(jnp.sum, numbers(8)).report.findings]
    assert sentences[-1].endswith("is combined is for XLA to choose.")


def test_nothing_to_compute() -> None:
    assert "No level: its 1 equation" in str(jaxlens.tree(lambda x: x[::-1], numbers(3)))


def test_large_programs_have_no_tree() -> None:
    big = jax.ShapeDtypeStruct((2000, 2000), np.float32)
    tree = jaxlens.tree(lambda x: jnp.tanh(jnp.tanh(x @ x)), big)
    assert (tree.depth, tree.work, tree.tree) == (None, None, None)
    assert "No tree of its 3 equations: it has over" in str(tree)


def test_too_much_for_a_picture_has_its_levels() -> None:
    tree = jaxlens.tree(lambda x: jax.vmap(in_pairs)(x), np.ones((100, 16), np.float32))
    assert (tree.depth, tree.work, tree.tree) == (4, 1500, None)
    assert "level  operations" in str(tree)


def test_neighbours_stand_apart_and_a_tree_is_symmetric() -> None:
    tree = jaxlens.tree(in_pairs, numbers(8)).tree
    at = positions(tree)
    assert [at[operation.number] for operation in tree.operations] == [
        0.5,
        2.5,
        4.5,
        6.5,
        1.5,
        5.5,
        3.5,
    ]
    dense = jaxlens.tree(prefixes, numbers(32)).tree
    at = positions(dense)
    for level in range(1, 9):
        row = sorted(at[o.number] for o in dense.operations if o.level == level)
        assert all(b - a >= 0.999 for a, b in pairwise(row))


def test_page_and_text_say_the_same() -> None:
    answer = jaxlens.tree(in_pairs, numbers(4))
    text, page = str(answer), html.unescape(answer.html())
    assert "level 2: 3* = add(1, 2)" in text
    assert "2 levels deep, 3 operations on elements: on average 1.5" in text
    assert "2 levels deep, 3 operations on elements: on average 1.5" in page
    assert "Tree of the operations: 3 operations in 2 levels." in page
    assert str(jaxlens.jaxpr(answer.capture, tree=True)) == text
