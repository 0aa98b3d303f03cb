"""Folding a long body: nothing lost, repeats told by what they compute and what they read."""

import pytest

from jaxlens.ir.columns import columns
from jaxlens.ir.graph import Node, Type, Value
from jaxlens.views.figures.body import bodies_of
from jaxlens.views.figures.jaxpr import figure
from jaxlens.views.figures.runs import StepRange
from tests.support.drawn_modules import HOSTILE, F, layers, node, program, region, span, tangle


def counted(module, most=10):
    """Copies of every repeat that is found, by the first and last step."""
    body = bodies_of(module, most, (), ())[module.entry]
    waiting, found = [StepRange(0, len(body))], {}
    while waiting:
        run = waiting.pop()
        if run.copies > 1:
            found[run.low, run.high] = run.copies
            continue
        parts = body.folding.children(run, most, 14)
        waiting += [part for part in parts if len(part) > 1 and part != run]
    return found


def chain(count, step):
    """`count` times what `step` makes of a layer's number, its first equation and its input."""
    nodes, last = [], "x"
    for n in range(count):
        result = step(n, len(nodes), last)
        nodes += result
        last = result[-1].results[0].name
    return program(region("main", ["x", *(f"w{n}" for n in range(2 * count))], nodes, (last,)))


AT = {"spans": (span(5, "layer"),)}


def test_the_parts_of_a_run_follow_each_other_and_leave_nothing_out():
    body = bodies_of(layers(60), 20, (), ())["main"]
    parts = body.folding.children(StepRange(0, len(body)), 20, 14)
    assert parts[0].low == 0
    assert parts[-1].high == len(body)
    assert [part.copies for part in parts if len(part) > 1] == [60]


def test_layers_that_chain_are_one_repeat():
    assert counted(layers(48)) == {(0, 48 * 7): 48}


def dense(n, e, last, first="", second=""):
    return [
        node(e, "dot_general", first or last, f"w{n}", **AT),
        node(e + 1, "add", f"v{e}", second or last, **AT),
        node(e + 2, "tanh", f"v{e + 1}", **AT),
    ]


def test_equal_dataflow_is_found():
    assert list(counted(chain(20, dense)).values()) == [20]


def odd(k, change):
    """A layer like the others but for layer `k`."""

    def step(n, e, last):
        return change(n, e, last) if n == k else dense(n, e, last)

    return step


@pytest.mark.parametrize(
    "change",
    [
        lambda n, e, last: dense(n, e, last, second="x"),  # skips back to the input
        lambda n, e, last: dense(n, e, last, first=f"v{e - 4}"),  # reads within the layer before
        lambda n, e, last: dense(n, e, last, second=f"w{n}"),  # reads its weight twice
        lambda n, e, last: [
            *dense(n, e, last)[:2],
            node(e + 2, "tanh", f"v{e}", **AT),
        ],  # wired otherwise inside
        lambda n, e, last: [
            *dense(n, e, last)[:2],
            node(e + 2, "sin", f"v{e + 1}", **AT),
        ],  # does something else
        lambda n, e, last: [
            *dense(n, e, last)[:2],
            node(e + 2, "tanh", f"v{e + 1}", kind=Type("f16", (8, 4)), **AT),
        ],  # in another type
        lambda n, e, last: [
            *dense(n, e, last)[:2],
            node(e + 2, "tanh", f"v{e + 1}", attrs={"accuracy": "1"}, **AT),
        ],  # with another parameter
    ],
)
@pytest.mark.parametrize("k", [7, 19])
def test_a_copy_that_differs_is_not_among_the_same(k, change):
    found = counted(chain(20, odd(k, change)))
    assert found
    assert not any(low <= 3 * k < high for low, high in found), found


def test_which_result_of_an_equation_is_read_tells_copies_apart():
    def step(swapped):
        def layer(n, e, last):
            one, two = (0, 1) if not swapped or n < 10 else (1, 0)
            return [
                node(e, "split", last, results=2, **AT),
                node(e + 1, "sub", f"v{e}.{one}", f"v{e}.{two}", **AT),
            ]

        return chain(20, layer)

    assert list(counted(step(False)).values()) == [20]
    assert 20 not in counted(step(True)).values()


def test_literals_tell_copies_apart():
    def layer(n, e, last):
        factor = "2.0:f32[]" if n < 10 else "3.0:f32[]"
        return [node(e, "mul", last, factor, **AT), node(e + 1, "sin", f"v{e}", **AT)]

    assert sorted(counted(chain(20, layer)).values()) == [10, 10]


def test_a_literal_is_not_a_value_at_the_same_place():
    def layer(n, e, last):
        operands = (last, "w0") if n < 10 else (last, "2.0:f32[]")
        return [node(e, "mul", *operands, **AT), node(e + 1, "sin", f"v{e}", **AT)]

    assert 20 not in counted(chain(20, layer)).values()


def test_repeats_within_repeats():
    """Blocks of three dense layers and a norm, eight times."""

    def block(n, e, last):
        made = []
        for k in range(3):
            made += dense(n, e + 3 * k, last)
            last = f"v{e + 3 * k + 2}"
        return [*made, node(e + 9, "rsqrt", last, **AT)]

    module = chain(8, block)
    assert counted(module)[0, 80] == 8


def test_boxes_carry_the_ids_of_what_they_stand_for():
    drawn = figure(layers(12))
    (fold,) = (box for box in drawn.panels[0].boxes if box.kind == "call")
    assert fold.nodes == ("e0-e83",)
    copies = [b.nodes for b in drawn.named[fold.inside].boxes if b.kind == "call"]
    assert copies == [("e0-e6",), ("e7-e76",), ("e77-e83",)]


def test_ids_that_are_no_numbers_stand_one_by_one():
    nodes = [
        Node(f"add.{n}", "add", (f"add.{n - 1}" if n else "x",), (Value(f"add.{n}", F),), **AT)
        for n in range(90)
    ]
    drawn = figure(program(region("main", ["x"], nodes, ("add.89",))))
    (fold,) = (box for box in drawn.panels[0].boxes if box.kind == "call")
    assert fold.nodes == tuple(f"add.{n}" for n in range(90))


@pytest.mark.parametrize("name", HOSTILE)
def test_any_name_may_stand_in_a_fold(name):
    nodes = [
        node(n, name, f"v{n - 1}" if n else "x", scope=name, spans=(span(1, name, name),))
        for n in range(100)
    ]
    drawn = figure(program(region("main", ["x"], nodes, ("v99",))))
    found = [box for panel in drawn.panels for box in panel.boxes]
    assert {f"e{n}" for n in range(100)} <= {box.id for box in found}


def test_columns_know_what_the_nodes_say():
    module = tangle(300, 3)
    rows = columns(module).regions["main"]
    values = ["x", *(value.name for n in module.nodes() for value in n.results)]
    for step, made in enumerate(module.nodes()):
        read = [values[rows.first_result[step] - n] for n in rows.distances(step)]
        assert read == list(made.operands)
        assert rows.ids[step] == made.id
    per_step = (rows.kind, rows.place, rows.first_result, rows.first_operand)
    taken = [len(c) * c.itemsize for c in (*per_step, rows.distance, rows.types)]
    assert sum(taken) / 300 < 40


def test_five_thousand_levels_have_columns():
    from tests.support.drawn_modules import nested

    assert len(columns(nested(5000))) == 5001
