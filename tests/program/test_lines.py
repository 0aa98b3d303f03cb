"""Lines own nodes: by frames, through calls, and not where two lines call one body."""

from jaxlens.ir.graph import Module, Node, Region, Span
from jaxlens.program.lines import lines, owners


def at(line, file="m.py", library=False):
    return Span(file, line, line, key=f"/{file}", library=library)


def module(*regions):
    bodies = {name: Region(name, (), tuple(nodes), (), "jaxpr") for name, nodes in regions}
    return Module("m", "jaxpr", regions[0][0], bodies)


def test_the_innermost_frame_of_the_user_owns():
    node = Node("e0", "add", spans=(at(9, "lib.py", True), at(3), at(8)))
    by_line = lines(module(("main", [node])))
    assert by_line.own == {("/m.py", 3): ("e0",)}
    assert by_line.through == {("/lib.py", 9): 1, ("/m.py", 3): 1, ("/m.py", 8): 1}
    assert by_line.made == {("/lib.py", 9): ("e0",)}
    assert set(by_line.owners) == {"e0"}


def test_a_node_without_frames_belongs_to_the_only_call_of_its_body():
    call = Node("e0", "jit", regions=("relu",), spans=(at(5),))
    by_node = owners(module(("main", [call]), ("relu", [Node("e1", "max")])))
    assert by_node["e1"].line == 5


def test_a_body_that_a_library_jits_belongs_to_the_line_that_calls_the_library():
    call = Node("e0", "jit", regions=("solve",), spans=(at(9, "lib.py", True), at(5)))
    inner = Node("e1", "jit", regions=("step",), spans=(at(30, "lib.py", True),))
    leaf = Node("e2", "mul", spans=(at(40, "lib.py", True),))
    back = Node("e3", "sin", spans=(at(7), at(41, "lib.py", True)))  # a function of the user's
    by_line = lines(module(("main", [call]), ("solve", [inner]), ("step", [leaf, back])))
    assert by_line.own == {("/m.py", 5): ("e0", "e1", "e2"), ("/m.py", 7): ("e3",)}
    assert by_line.made[("/lib.py", 40)] == ("e2",)
    twice = [Node(f"e{i}", "jit", regions=("step",), spans=(at(i),)) for i in (5, 6)]
    assert owners(module(("main", twice), ("step", [leaf])))["e2"].file == "lib.py"


def test_two_calls_from_two_lines_leave_it_to_none():
    calls = [Node(f"e{i}", "jit", regions=("relu",), spans=(at(i + 5),)) for i in range(2)]
    by_line = lines(module(("main", calls), ("relu", [Node("e2", "max")])))
    assert set(by_line.owners) == {"e0", "e1"}
    assert by_line.through[("/m.py", 5)] == 2  # itself, and what it reaches


def test_what_a_line_reaches_is_counted_once_per_node():
    call = Node("e0", "jit", regions=("f",), spans=(at(1),))
    inner = Node("e1", "jit", regions=("g",), spans=(at(2), at(1)))
    leaf = Node("e2", "sin", spans=(at(3), at(2), at(1)))
    by_line = lines(module(("main", [call]), ("f", [inner]), ("g", [leaf])))
    assert by_line.through == {("/m.py", 1): 3, ("/m.py", 2): 2, ("/m.py", 3): 1}


def test_what_the_backward_pass_added_is_counted():
    nodes = [
        Node("e0", "sin", spans=(at(1),), scope="jvp()"),
        Node("e1", "mul", spans=(at(1),), scope="transpose(jvp())"),
        Node("e2", "mul", spans=(at(2),)),
    ]
    assert lines(module(("main", nodes))).backward == {("/m.py", 1): 1}
