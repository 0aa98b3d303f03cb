"""Small modules built by hand, for the tests of the drawings."""

from jaxlens.ir.graph import Module, Node, Region, Span, Type, Value

F = Type("f32", (8, 4))


def span(line, function="f", file="cell 1"):
    return Span(file, line, line, 0, 9, function)


def node(n, opcode, *operands, kind=F, results=1, **more):
    made = tuple(Value(f"v{n}" if results == 1 else f"v{n}.{k}", kind) for k in range(results))
    return Node(f"e{n}", opcode, operands, made, **more)


def region(name, parameters, nodes, results):
    return Region(name, tuple(Value(p, F) for p in parameters), tuple(nodes), results, "jaxpr")


def program(*regions, **attrs):
    return Module("jit_f", "jaxpr", regions[0].name, {r.name: r for r in regions}, attrs)


def predict():
    """relu(x @ w + b), with a nested body."""
    main = region(
        "main",
        ["a", "b", "c"],
        [
            node(
                0, "dot_general", "c", "a", attrs={"dimension_numbers": "(((1,), (0,)), ((), ()))"}
            ),
            node(1, "broadcast_in_dim", "b"),
            node(2, "add", "v0", "v1", spans=(span(2),)),
            node(3, "custom_jvp_call", "v2", regions=("relu",)),
        ],
        ("v3",),
    )
    return program(main, region("relu", ["d"], [node(4, "max", "d", "0.0:f32[]")], ("v4",)))


def branching():
    """A cond with two branches and a while, whose bodies share a function."""
    main = region(
        "main",
        ["i", "x"],
        [
            node(0, "cond", "i", "x", regions=("branch 0", "branch 1")),
            node(1, "while", "0:i32[]", "v0", regions=("while cond", "while body"), results=2),
        ],
        ("v1.0", "v1.1"),
    )
    bodies = [
        region(
            name,
            [f"p{n}"],
            [node(10 + n, "jit", f"p{n}", regions=("g",), attrs={"name": "g"})],
            (f"v{10 + n}",),
        )
        for n, name in enumerate(["branch 0", "branch 1", "while cond", "while body"])
    ]
    shared = region(
        "g", ["q"], [node(20, "sin", "q"), node(21, "mul", "2.0:f32[]", "v20")], ("v21",)
    )
    return program(main, *bodies, shared)


def layers(count, odd=-1):
    """A loop over layers that was unrolled; layer `odd` reads the program's input instead."""
    nodes, last, n = [], "x", 0
    for layer in range(count):
        at = {"scope": "jvp()", "spans": (span(5, "layer"), span(11, "deep"))}
        source = "x" if layer == odd else last
        nodes += [
            node(n, "dot_general", source, f"w{layer}", **at),
            node(n + 1, "tanh", f"v{n}", **at),
            node(n + 2, "mul", "2.0:f32[]", f"v{n + 1}", **at),
            node(n + 3, "cos", f"v{n + 2}", **at),
            node(n + 4, "sin", f"v{n + 3}", **at),
            node(n + 5, "exp", f"v{n + 4}", **at),
            node(n + 6, "add", source, f"v{n + 5}", **at),
        ]
        n += 7
        last = f"v{n - 1}"
    tail = node(n, "reduce_sum", last, attrs={"axes": "(0, 1)"}, spans=(span(12, "deep"),))
    return program(
        region("main", ["x", *(f"w{k}" for k in range(count))], [*nodes, tail], (f"v{n}",))
    )


def tangle(count, seed=0):
    """Equations that read any of the ones before, from a few lines."""
    import random

    r = random.Random(seed)
    nodes = []
    for n in range(count):
        reads = [
            f"v{r.randrange(max(0, n - 15), n)}" if n else "x" for _ in range(r.randrange(1, 3))
        ]
        lines = tuple(span(r.randrange(5), "gh"[r.randrange(2)]) for _ in range(r.randrange(3)))
        nodes.append(node(n, r.choice(["sin", "mul", "add"]), *reads, spans=lines))
    return program(region("main", ["x"], nodes, (f"v{count - 1}",)))


def nested(levels):
    """Calls inside calls."""
    regions = [
        region(f"r{n}", [f"p{n}"], [node(n, "jit", f"p{n}", regions=(f"r{n + 1}",))], (f"v{n}",))
        for n in range(levels)
    ]
    leaf = region(
        f"r{levels}", [f"p{levels}"], [node(levels, "sin", f"p{levels}")], (f"v{levels}",)
    )
    return program(*regions, leaf)


HOSTILE = (
    '"><script>alert(1)</script>',
    "</svg>",
    "\\N",
    "\\G\\L\\l",
    "<b>bold</b>",
    "<<table>>",
    "a:b:c",
    "two\nlines\r\n\tand tab",
    "x" * 10_000,
    "naïve 日本語 \U0001f600",
    "\x00\x07\x1b[31m",
    "\ud800",
    "&amp;&lt;",
    "]]>",
    "<!--",
    "'\"`",
    "a" + "\u0301" * 50,
    "\u202eevil",
    "{}|[]",
    "%s%d",
    "",
)


def hostile(name):
    """A program in which every name is `name`."""
    main = Region(
        "main",
        (Value("p", Type(name, (name,))),),
        (
            Node(
                name,
                name,
                ("p", f"{name}:f32[]"),
                (Value("v", Type(name)),),
                attrs={name: name, "name": name},
                regions=(f"{name} body",),
                scope=name,
                spans=(Span(name, 1, function=name),),
            ),
        ),
        ("v",),
        "jaxpr",
    )
    inner = Region(f"{name} body", (), (), (), "jaxpr")
    return Module(name, "jaxpr", "main", {"main": main, f"{name} body": inner})
