# ruff: noqa: E501 - the messages stand here as they are shown
"""What a magic shows for each kind of last line, and its message where there is no program."""

import re

import pytest

from tests.support.paths import run_python, without_folders

SETUP = """
import functools
import jax, jax.numpy as jnp, numpy as np
x, w = jnp.ones((2, 3)), jnp.ones((3, 4))
calls = []
def f(x, w):
    calls.append("f")
    return jnp.tanh(x @ w).sum()
class Model:
    def __init__(self, w):
        self.w = w
    def __call__(self, x):
        return x @ self.w
    def twice(self, x):
        return 2 * self(x)
    @property
    def layer(self):
        calls.append("layer")
        return self.twice
def make():
    calls.append("make")
    return f
model, table, several, i = Model(w), {"f": f}, [f], 0
part = functools.partial(f, w=w)
params = {"w": w, "b": jnp.zeros(4), "name": "p"}
g = jax.jit(f)
made = {}
exec("def h(x): return x * 2", made)
"""


def program(shell):
    return shell.user_ns["view"].capture.program


@pytest.mark.parametrize(
    ("call", "name", "inputs"),
    [
        ("f(x, w)", "f", ["x", "w"]),
        ("f(x, w=w)", "f", ["x", "w"]),
        ("f(*(x, w))", "f", ["x", "w"]),
        ("f(**dict(x=x, w=w))", "f", ["w", "x"]),  # JAX sorts keywords
        ("f(x + 1, w[:, :2])", "f", ["x", "w"]),
        ("g(x, w)", "g", ["x", "w"]),
        ("model(x)", "model", ["x"]),
        ("model.twice(x)", "model.twice", ["x"]),
        ("model.layer(x)", "model.layer", ["x"]),
        ("part(x)", "part", ["x"]),  # what a partial binds is not traced, as under jax.jit
        ("table['f'](x, w)", "table['f']", ["x", "w"]),
        ("several[i](x, w)", "several[i]", ["x", "w"]),
        ("several[len(several) - 1](x, w)", "several[len(several) - 1]", ["x", "w"]),
        ("make()(x, w)", "f", ["x", "w"]),
        ("jax.grad(f)(x, w)", "f", ["x", "w"]),
        ("jax.jit(f)(x, w)", "f", ["x", "w"]),
        ("(lambda a: a * 2)(x)", "<lambda>", ["a"]),
        ("(f if i == 0 else g)(x, w)", "f", ["x", "w"]),
        ("f(x, w).block_until_ready()", "f", ["x", "w"]),
        ("jax.block_until_ready(g(x, w))", "g", ["x", "w"]),
        ("made['h'](x)", "made['h']", ["x"]),
    ],
)
def test_a_call_of_the_users_own(run, shell, call, name, inputs):
    run(f"%%jaxpr -o view\n{call}").well()
    assert program(shell).name == name
    assert [i.name for i in program(shell).inputs] == inputs
    assert shell.user_ns["calls"].count("layer") == ("layer" in call)
    assert shell.user_ns["calls"].count("make") == ("make" in call)


@pytest.mark.parametrize(
    ("expression", "inputs"),
    [
        ("jnp.tanh(x @ w).sum()", ["x", "w"]),
        ("x.sum()", ["x"]),
        ("x.sum().block_until_ready()", ["x"]),
        ("x @ w + 1", ["x", "w"]),
        ("jnp.dot(x, params['w'])", ["x", "params['b']", "params['w']"]),
        ("x.at[0].set(1.0)", ["x"]),
        ("[x * 2 for x in (x, w)]", ["x", "w"]),
        ("sum(a.sum() for a in [w, x])", ["w", "x"]),
        ("jax.lax.scan(lambda c, w: (c + w.sum(), w), 0.0, x)", ["x"]),
        ("(y := x * 2) + y", ["x"]),
        ("jnp.zeros(3) + 1", []),
    ],
)
def test_any_other_expression(run, shell, expression, inputs):
    run(f"%%jaxpr -o view\n{expression}").well()
    assert program(shell).name == "expression"
    assert [i.name for i in program(shell).inputs] == inputs
    assert ("y" in shell.user_ns) == ("y :=" in expression)
    assert shell.user_ns["Out"][shell.execution_count - 1] is not None


@pytest.mark.parametrize(
    "last",
    [
        "print(out[0].shape)",
        "print(out[0].sum())",
        "out[0] * 2",
        "out.sum()",
        "print(jnp.mean(out))",
        "assert (out == out).all()",
    ],
)
@pytest.mark.parametrize("call", ["out = k(x)", "for _ in range(2):\n    out = k(x)"])
def test_a_line_that_prints_a_result_hides_no_program(run, shell, call, last):
    assert run("@jax.jit\ndef k(x):\n    return jnp.tanh(x) + 1").ok
    ran = run(f"%%jaxpr -o view\n{call}\n{last}").well()
    assert "tanh" in ran.shown
    assert program(shell).name != "expression"


def test_a_def_on_written_shapes(run, shell):
    run(
        "%%jaxpr -o view --in \"f32[8,128], params={'w': f32[128,4], 'b': f32[4]}\"\n"
        'def predict(x, params):\n    return x @ params["w"] + params["b"]'
    ).well()
    assert program(shell).name == "predict"
    shown = {i.name: str(i.type) for i in program(shell).inputs}
    assert shown == {"x": "f32[8,128]", "params['b']": "f32[4]", "params['w']": "f32[128,4]"}
    assert callable(shell.user_ns["predict"])


def test_a_decorated_def_and_a_name_on_written_shapes(run, shell):
    assert run('%%jaxpr -o view --in "f32[3]"\n@jax.jit\ndef h(x):\n    return x * 2').ok
    assert [str(i.type) for i in program(shell).inputs] == ["f32[3]"]
    assert run('%jaxpr -o view --in "f32[5]" h').ok
    assert [str(i.type) for i in program(shell).inputs] == ["f32[5]"]


def printed(ran):
    """What a cell printed; a shell without a notebook prints results with the cell's number."""
    return re.sub(r"Out\[\d+\]", "Out", ran.out)


WITHIN = [
    "y = f(x, w)",
    "y = 1\ny += f(x, w)",
    "y = [f(x, w), f(x, w)]",
    "y = sum(f(a, w) for a in (x, x))",
    "y = f(x, w) + 1",
    "y = float(f(x, w))",
    "y = np.asarray(f(x, w))[None]",
    "y = jnp.mean(f(x, w))",
    "y = 1\nassert f(x, w) > 0",
    "y = 1\nprint('loss', f(x, w))",
    "y = 1\nprint(f'{f(x, w):.3f}')",
    "y = f(x, w)\ny",
    "for i in range(2):\n    y = f(x, w)\n    print(i)",
    "with jax.default_matmul_precision('float32'):\n    y = f(x, w)",
    "try:\n    y = f(x, w)\nfinally:\n    pass",
    "y = jax.make_jaxpr(f)(x, w)",
    "y = jax.jit(f).lower(x, w)",
    "y = g.lower(x, w).compile()",
    "it = iter([x])\ny = f(next(it), w)",
    "def report(v):\n    print(v)\ny = report(f(x, w))",
]


@pytest.mark.parametrize("code", WITHIN)
def test_a_call_inside_something_else_is_looked_at_and_runs_once(run, shell, code):
    plain = run(code).well()
    ran, expected = shell.user_ns["calls"].count("f"), type(shell.user_ns.pop("y"))
    shell.user_ns["calls"].clear()
    shell.user_ns["g"].clear_cache()
    seen = run(f"%%jaxpr -o view\n{code}").well()
    assert printed(seen) == printed(plain)
    assert type(shell.user_ns["y"]) is expected
    assert shell.user_ns["calls"].count("f") == ran
    assert program(shell).name in ("f", "g")
    assert [i.name for i in program(shell).inputs] == ["x", "w"]


def test_the_last_line_is_looked_at_before_what_it_names(run, shell):
    run("def start(x):\n    return x + 1\ndef show(y):\n    open('/dev/null').close()")
    assert run("%%jaxpr -o view\ny = start(x)\nprint(f(y, w))").ok
    assert program(shell).name == "f"
    assert run("%%jaxpr -o view\ny = start(x)\nz = f(y, w)\nshow(z)").ok
    assert program(shell).name == "f"
    assert run("%%jaxpr -o view\ny = start(x)\ny").ok
    assert program(shell).name == "start"


def test_results_are_shown_and_kept_as_without(run, shell):
    ran = run("%%jaxpr\nf(x, w) + 1")
    number = shell.execution_count - 1
    assert float(shell.user_ns["Out"][number]) == float(shell.user_ns["_"]) > 1
    assert str(shell.user_ns["_"]) in ran.out
    run("%%jaxpr\nf(x, w) + 1;")
    assert shell.execution_count - 1 not in shell.user_ns["Out"]
    assert run("y = %jaxpr f(x, w) + 1").ok
    assert float(shell.user_ns["y"]) > 1
    assert run("%jaxpr y = f(x, w)").ok
    assert float(shell.user_ns["y"]) < 8


def test_arguments_that_the_call_gives_away_are_looked_at_before(run, shell):
    run("step = jax.jit(lambda s, x: s + x.sum(), donate_argnums=0)\ns = jnp.zeros(3)")
    for _ in range(2):
        run("%%compile -o view\ns = step(s, x)").well()
        assert program(shell).inputs[0].donated
    assert shell.user_ns["s"].sum() == 36.0


CHANGES = [
    ("history = []\ndef h(x):\n    history.append(1)\n    return x * 2", "len(history)"),
    ("table = {}\ndef h(x):\n    table[len(table)] = x\n    return x * 2", "len(table)"),
    ("k = [1.0]\ndef h(x):\n    k[0] += 1\n    return x * k[0]", "k"),
    ("k = [1.0, 2.0]\ndef h(x):\n    k.reverse()\n    return x * k[0]", "k"),
    ("k = {'a': 1.0}\ndef h(x):\n    k['a'] += 1\n    return x * k['a']", "k"),
    ("k = {1}\ndef h(x):\n    k.add(k.pop() + 1)\n    return x * max(k)", "k"),
    ("n = 0\ndef h(x):\n    global n\n    n += 1\n    return x * n", "n"),
    ("rng = np.random.default_rng(0)\ndef h(x):\n    return x * rng.normal()", "rng.normal()"),
    ("def h(x):\n    return x * np.random.rand()\nnp.random.seed(0)", "np.random.rand()"),
    ("it = iter(range(9))\ndef h(x):\n    return x * next(it)", "next(it)"),
    (
        "class C:\n    n = 0\n    def __call__(self, x):\n        self.n += 1\n        return x * self.n\nh = C()",
        "h.n",
    ),
    (
        "def outer():\n    n = 0\n    def h(x):\n        nonlocal n\n        n += 1\n        return x * n\n    return h\nh = outer()",
        "h(x)",
    ),
    ("import random\nr = random.Random(0)\ndef h(x):\n    return x * r.random()", "r.random()"),
]


@pytest.mark.parametrize(("setup", "state"), CHANGES)
@pytest.mark.parametrize("last", ["y = h(x)", "print(h(x))"])
def test_what_a_look_changes_is_put_back_before_the_call(run, setup, state, last):
    run(setup)
    plain = run(last)
    expected = run(f"print({state}, globals().get('y'))").out
    run(setup)
    ran = run(f"%%jaxpr\n{last}").well()
    assert ran.out == plain.out
    assert run(f"print({state}, globals().get('y'))").out == expected


END = "with a call to look at, such as f(x)."
SHAPES = 'or give shapes for its arguments: --in "f32[8,128], f32[128]".'
NO_CALLS = (
    "print(x.shape)",
    "%cd -q .",
    "y",
    "np.arange(3) + 1",
    "jax.config.update('jax_log_compiles', False)",
)
SAYS = [
    ("y: float = 2.0", f"the cell ends in `y: float = 2.0`: end it {END}"),
    ("if True:\n    y = 1", f"the cell ends in `if True:...`: end it {END}"),
    ("import math as y", f"the cell ends in `import math as y`: end it {END}"),
    ("class y: pass", f"the cell ends in `class y:...`: end it {END}"),
    ("def y(x): return x", f"the cell ends in def y: call it in the last line, {SHAPES}"),
    ("y = 1\nf", f"f is a function and no call: call it, {SHAPES}"),
    *((f"y = 1\n{last}", f"end the cell {END}") for last in NO_CALLS),
]


@pytest.mark.parametrize(("code", "says"), SAYS, ids=[code for code, _ in SAYS])
def test_nothing_to_look_at_runs_and_says_what_to_do(run, shell, code, says):
    plain = run(code)
    ran = run(f"%%jaxpr\n{code}").well()
    assert printed(ran) == printed(plain)
    line = " ".join(ran.shown.split())
    assert line.endswith(f"Nothing was computed with JAX, and nothing is shown: {says}")
    assert "y" in shell.user_ns


def test_an_empty_cell(run):
    ran = run("%%jaxpr\n# nothing").well()
    assert "the cell is empty: end it with a call to look at" in " ".join(ran.shown.split())


@pytest.mark.parametrize("code", ["table['g'](x, w)", "f(x, w, 3)", "i(x)", "nowhere(x)", "f(x)"])
def test_what_raises_without_the_magic_raises_the_same(run, code):
    plain, ran = run(f"#\n{code}"), run(f"%%jaxpr\n{code}")
    assert type(ran.error) is type(plain.error)
    assert str(ran.error) == str(plain.error)
    assert f"----> 2 {code}" in ran.out
    assert "jaxlens" not in without_folders(ran.out)


def test_the_programs_that_a_cell_calls(run, shell):
    """Those that JAX's caches serve too; the largest is shown, the others with their line."""
    run("small = jax.jit(lambda x: x * 2)\nsmall(x), g(x, w)")
    code = "for _ in range(3):\n    y = small(x)\nv = g(x, w)\nprint('done')"
    ran = run(f"%%jaxpr -o view\n{code}").well()
    assert ran.out == "done\n"
    text = " ".join(ran.shown.split())
    here = f"cell {shell.execution_count - 1}"
    assert f"This is f (called once at {here}:4), the largest of the 2 programs" in text
    assert "3 x f32[2,3] %jaxpr small(x)" in text
    assert program(shell).name == "f"
    assert shell.user_ns["small"]._cache_size() == 1


def test_of_an_explained_call_jaxs_own_operations_are_not_shown(run, shell):
    run("def h(x):\n    y = jnp.sin(x).sum()\n    if y > 0:\n        return y\n    return -y")
    ran = run("%jaxpr --tape h(jnp.ones(3))").well()
    text = " ".join(ran.shown.split())
    assert "h(jnp.ones(3)) cannot be traced. The cell ran as written, op by op." in text
    assert "if y > 0:" in text
    assert "greater" not in text


def test_a_function_that_draws_is_not_traced_as_well(run, shell):
    run("import types\nplt = types.ModuleType('matplotlib.pyplot')\nplt.drawn = []")
    run("def show(x):\n    plt.drawn.append(1)\n    return g(x, w)")
    ran = run("%%jaxpr -o view\nshow(x)").well()
    assert shell.user_ns["plt"].drawn == [1]
    assert "show(x) could not be looked at: it uses matplotlib" in " ".join(ran.shown.split())
    assert program(shell).name == "f"


def test_what_tracing_prints_is_printed_where_the_call_is_not_made(run):
    run("def h(x):\n    print('traced' if isinstance(x, jax.core.Tracer) else 'ran')\n    return x")
    assert run("%%jaxpr\nh(x)").out == "traced\n"
    assert run("%%jaxpr\ny = h(x)").out == "ran\n"


def test_a_mistake_in_the_magics_line_is_said_after_the_cell_ran(run, shell):
    ran = run("%%jaxpr --grad=nope\ny = f(x, w)")
    assert ran.out == "OptionError: --grad: no positional argument 'nope'; choose from x, w\n"
    assert float(shell.user_ns["y"]) > 0


FIRST = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(colors="nocolor")
shell.run_line_magic("load_ext", "jaxlens")
first = "import os; os.environ['JAX_ENABLE_X64'] = '1'; import jax"
last = "jax.config.update('jax_num_cpu_devices', 3)"
shell.run_cell("%%jaxpr" + chr(10) + first + chr(10) + last).raise_error()
shell.run_cell("print(len(jax.devices()), jax.numpy.ones(1).dtype)")
"""


def test_calls_of_a_long_loop_are_counted(run, shell):
    run("step = jax.jit(lambda s: s + 1)")
    ran = run("%%jaxpr\ns = x\nfor _ in range(1000):\n    s = [step][0](s)\nlen('a')")
    here = f"cell {shell.execution_count - 1}:4"
    assert f"(called 1,000 times, first at {here})" in " ".join(ran.shown.split())


def test_a_generator_that_outlives_its_cell_shows_nothing_later(run):
    assert run("%%jaxpr\nlater = (f(a, w) for a in [x, x])").ok
    ran = run("total = sum(later)").well()
    assert ran.shown == ""


def test_the_core_is_looked_at_where_nobody_imported_jax(tmp_path):
    code = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance(colors='nocolor')\n"
        "shell.run_line_magic('load_ext', 'jaxlens')\n"
        "shell.run_cell('import jaxlens.core.numpy as cnp').raise_error()\n"
        "shell.run_cell('def f(x): return cnp.sin(x) * 2').raise_error()\n"
        "shell.run_cell('%jaxpr f(2.0)').raise_error()\n"
    )
    assert "sin a" in run_python(code, JAX_PLATFORMS="cpu", IPYTHONDIR=str(tmp_path))


def test_a_cell_that_sets_jax_up_does_so(tmp_path):
    """A magic above the first cell neither imports JAX before it nor starts a backend."""
    assert "3 float64" in run_python(FIRST, JAX_PLATFORMS="cpu", IPYTHONDIR=str(tmp_path))


def test_shapes_with_a_call_are_refused(run, shell):
    ran = run('%%jaxpr --in "f32[3]"\nf(x, w)')
    assert ran.out == (
        "OptionError: --in gives the shapes, so end with the function alone "
        "(a def, or its name), not with f(x, w)\n"
    )
    assert shell.user_ns["calls"] == []


def test_a_line_magic_with_nothing(run):
    says = "%jaxpr has nothing to look at: put a call behind it, %jaxpr f(x)"
    assert run("%jaxpr").out == f"CellError: {says}\n"


@pytest.mark.parametrize("call", ["for _ in range(2):\n    v = fresh(v)", "v = fresh(v)"])
def test_a_verdict_of_what_the_cell_compiled_is_said_to_be_of_later(run, call):
    """The cell's call compiled; asked after it, JAX's caches hold it."""
    assert run("import jax, jax.numpy as jnp\nfresh = jax.jit(lambda v: v * 3)\nv = jnp.ones(3)").ok
    ran = run(f"%%compile --full\n{call}\nprint(v)").well()
    words = " ".join(ran.shown.split())
    assert "this call would hit" in words
    assert "looked at after the run, when JAX's caches may hold it already" in words
