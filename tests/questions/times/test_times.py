"""Compile times of live programs, compared with a clock, XLA's dumps and the results."""

import inspect
import tempfile
from functools import partial, reduce
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxlens
from jaxlens import compat
from jaxlens.errors import UnavailableError
from jaxlens.questions.times.equations import written_out
from jaxlens.questions.times.report import alarm
from jaxlens.stages.compile.profile import Session
from jaxlens.stages.session import compiling
from tests.support import programs

pytestmark = pytest.mark.backend

X = np.linspace(-1.0, 1.0, 4, dtype=np.float32)


def sine(x):
    for _ in range(50):
        x = jnp.sin(x) * 0.5 + x
    return x


def layers(params, x):
    for w, b in params:
        x = jnp.tanh(x @ w + b)
    return x.sum()


def indexed(ws, x):
    for i in range(20):
        x = jnp.tanh(x @ ws[i]) * i + 1
    return x


def sliced(ws, x):
    """Its gradient pads each step's piece at a place of its own."""
    for i in range(12):
        x = jnp.tanh(x @ jax.lax.index_in_dim(ws, i, keepdims=False))
    return x.sum()


def nest(x):
    for i in range(10):
        x = jnp.exp(x) * i
        for _ in range(12):
            x = jnp.sin(x) * x
        x = x - 1
    return x


def fibonacci(a, b):
    for _ in range(30):
        a, b = b, jnp.sin(a) + b
    return a, b


def third(a, b, c):
    """Each step reads what was made three steps before."""
    for _ in range(24):
        a, b, c = b, c, jnp.cos(a) * c
    return a, b, c


def summed(x):
    total = 0.0
    for i in range(30):
        total = total + jnp.sum(jnp.sin(x) * i)
    return total


def collected(x):
    """Every step's value is a result."""
    seen = []
    for _ in range(9):
        x = jnp.sin(x) + jnp.cos(x)
        seen.append(x)
    return seen


def keyed(key, x):
    for _ in range(10):
        key, own = jax.random.split(key)
        x = x + jax.random.normal(own, x.shape)
    return x


def params(n: int = 12):
    numbers = np.random.default_rng(0)
    return [
        (numbers.standard_normal((4, 4)).astype(np.float32) / 2, np.full(4, 0.1 * i, np.float32))
        for i in range(n)
    ]


WEIGHTS = np.stack([w for w, _ in params(20)])


def from_a_number(x):
    h = 0.5  # no array, as the later ones are
    for _ in range(12):
        h = jnp.tanh(h * x) + x
        h = jnp.sin(h) - x * 2
    return h


def first_unlike(x, w):
    h = 0.0
    for i in range(6):
        h = jnp.tanh(h * 0.9 + x @ w[i]) + jnp.sin(h)
        h = h / 2 + jnp.cos(h) * x[0]
    return h


@pytest.mark.parametrize(
    ("f", "args", "count", "block"),
    [
        (sine, (X,), 50, 3),
        (layers, (params(), X), 12, None),
        (indexed, (WEIGHTS, X), 20, None),
        (jax.grad(sliced), (WEIGHTS, X), None, None),
        (nest, (X,), 10, None),
        (fibonacci, (X, 2 * X), 30, 2),
        (third, (X, 2 * X, 3 * X), 24, 2),
        (summed, (X,), 30, None),
        (collected, (X,), 9, 3),
        (jax.grad(lambda x: sine(x).sum()), (X,), 50, None),
        (jax.grad(layers), (params(), X), None, None),
        (keyed, (jax.random.key(0), X), 10, None),
        (from_a_number, (X,), 12, 6),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_an_unrolled_loop_is_found(f, args, count, block) -> None:
    _, loops = written_out(jaxlens.capture(f, *args))
    assert loops
    if count:
        assert loops[0].count == count
    if block:
        assert loops[0].block == block


def test_a_first_step_unlike_the_others_is_counted() -> None:
    answer = jaxlens.times(first_unlike, np.ones((4, 4), np.float32), WEIGHTS)
    line = inspect.getsourcelines(first_unlike)[1] + 3
    text = answer.findings[0].text
    assert f"test_times.py:{line}-{line + 1} made" in text
    assert "a loop of 6 steps was unrolled, the first unlike the others (5 repetitions of" in text


def test_the_sentence_of_an_unrolled_loop() -> None:
    answer = jaxlens.times(jaxlens.capture(sine, X))
    line = inspect.getsourcelines(sine)[1] + 2
    assert answer.findings[0].text == (
        f"test_times.py:{line} made 150 of 150 equations: a loop of 50 steps was unrolled "
        "(50 repetitions of 3); `lax.scan` over these steps would make 3."
    )
    assert answer.loops[0].line == f"test_times.py:{line}"


def nested(n):
    for _ in range(9):
        n = n + 2**n
    return n


def recursive(x, left=12):
    return x if left == 0 else recursive(jnp.sin(x) * left + 1, left - 1)


N = np.arange(3, dtype=np.int32)
OWN = [
    (lambda n: 2**n, N, []),
    (lambda n: n**n + 3**n, N, []),
    (lambda n: jnp.power(3, n), N, []),
    (jax.vmap(lambda n: 2**n), N, []),
    (lambda n: jax.jit(lambda n: 2**n)(n), N, []),
    (lambda m: jnp.linalg.matrix_power(m, 2**20), np.eye(3, dtype=np.float32), []),
    (nested, N, [(9, 50)]),
    (recursive, X, [(12, 3)]),
    (lambda x: reduce(lambda c, i: jnp.sin(c) * i + c, range(12), x), X, [(12, 3)]),
    (lambda x: sum(map(partial(lambda x, i: jnp.sin(x) * i + x, x), range(12))), X, [(12, 4)]),
    (lambda x: [x := jnp.sin(x) * i + x for i in range(12)][-1], X, [(12, 3)]),
]


@pytest.mark.parametrize(("f", "x", "loops"), OWN)
def test_a_loop_is_one_that_the_users_source_has(f, x, loops) -> None:
    found = written_out(jaxlens.capture(f, x))[1]
    assert [(loop.count, loop.block) for loop in found] == loops


def test_parts_are_no_more_than_the_clock_and_name_the_passes_of_the_dumps() -> None:
    f, args = programs.mlp_step()
    answer = jaxlens.times(f, *args)
    parts, seconds = answer.compile, answer.compile.seconds
    assert sum(parts.groups.values()) == pytest.approx(seconds, rel=1e-6)
    assert seconds <= answer.stages["compile"] * 1.001
    assert parts.groups["LLVM"] > 0
    assert sum(p.seconds for p in parts.passes) <= parts.groups["HLO passes"] * 1.001
    timed = {p.name for p in parts.passes}
    # copy-insertion dumps its own steps under names that no pass has.
    steps = ("pipeline-start", "copies")
    dumped = {p.name for p in answer.capture.passes[1:] if not any(s in p.name for s in steps)}
    assert {"algsimp", "layout-assignment", "fusion"} <= dumped
    assert dumped <= timed
    assert set(parts.kernels) <= {k.name for k in answer.capture.kernels}
    assert parts.kernels


def test_llvm_s_seconds_by_kernel_are_within_those_of_its_threads() -> None:
    def f(x, y):
        for n in range(40):
            x = jnp.sin(x) * (n + 1.5) + jnp.exp(-x * x)
        return x, (y + 1).sum()

    answer = jaxlens.times(f, X, jnp.ones((64, 64)))
    parts, llvm = answer.compile, answer.compile.compiled.__getitem__
    kernels = {k.name: k for k in answer.capture.kernels if k.llvm_before}
    assert set(parts.compiled) == set(kernels)
    # XLA's profiler times LLVM's threads without a word of kernels, and a little more round them.
    busy = sum(llvm(name) for name in kernels)
    assert 0.5 * parts.llvm < busy <= 1.0001 * parts.llvm
    longest = max(kernels, key=lambda name: len(kernels[name].llvm_before))
    assert longest == max(kernels, key=llvm)
    assert llvm(longest) > 0.6 * busy
    table = next(t for t in answer.tables if t.title == "Kernels")
    assert table.columns[2:5] == ("to LLVM IR", "LLVM", "in all")
    assert table.rows[0][0].text == longest


def test_one_compile_is_enough_and_a_second_says_so() -> None:
    cap = jaxlens.capture(sine, X)
    assert cap.profile is cap.profile
    assert [t.step for t in cap.times].count("compile") == 1
    assert cap.kernels
    assert [t.step for t in cap.times].count("compile") == 1
    compiling.forget()
    late = jaxlens.capture(sine, X)
    assert late.optimized
    assert late.profile.parts
    notes = [t.note for t in late.times if t.step == "compile"]
    assert len(notes) == 2
    assert "a second time, for the profile" in notes[1]


def test_a_profile_is_saved_only_if_it_is_at_hand(tmp_path: Path) -> None:
    cap = jaxlens.capture(sine, X)
    cap.save(tmp_path / "without")
    with pytest.raises(UnavailableError):
        jaxlens.load(tmp_path / "without").profile
    known = cap.profile
    cap.save(tmp_path / "with")
    again = jaxlens.load(tmp_path / "with")
    assert again.profile == known
    assert jaxlens.times(again).compile.groups == jaxlens.times(cap).compile.groups


def test_a_profiler_session_of_the_users_goes_on(tmp_path: Path) -> None:
    with jax.profiler.trace(str(tmp_path)):
        answer = jaxlens.times(sine, X)
        assert str(answer)
        jnp.sin(X).block_until_ready()
    assert answer.compile is None
    assert "a profiler session of yours is running" in str(answer)
    assert answer.stages["compile"] > 0
    assert list(tmp_path.rglob("*.xplane.pb"))
    assert jaxlens.times(sine, X).compile is not None


def test_no_profiler_where_it_could_end_the_process(monkeypatch) -> None:
    monkeypatch.setattr(compat, "has_idle_tpu_plugin", lambda: True)
    monkeypatch.setattr(jax.profiler, "start_trace", None)  # not called at all
    assert "libtpu is loaded in this process" in str(jaxlens.times(sine, X))


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_session_leaves_nothing(is_gone: bool, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if is_gone:  # JAX's own end of a session, which writes files
        monkeypatch.setattr(compat, "take_session", lambda path: None)
    session = Session()
    session.start()
    assert session.stop()
    assert session.stop() == b""
    never = Session()
    assert never.stop() == b""
    with pytest.raises(ZeroDivisionError), Session():
        _ = 1 / 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["attention", "scan_rnn", "while_cond", "conv_fft"])
def test_programs_without_unrolled_loops(name: str) -> None:
    f, args = getattr(programs, name)()
    counted, loops = written_out(jaxlens.capture(f, *args))
    assert loops == ()
    assert counted.total == sum(counted.own.values())


def test_a_train_step_is_two_loops_forward_and_backward() -> None:
    f, args = programs.gpt_step(layers=6)
    counted, loops = written_out(jaxlens.capture(f, *args))
    assert [(loop.count, loop.backward) for loop in loops] == [(6, False), (6, True)]
    line = inspect.getsourcelines(programs.gpt_step)[1]
    text = inspect.getsource(programs.gpt_step).splitlines()
    at = next(n for n, row in enumerate(text) if "_gpt_layer(layer" in row)
    # In a run of all tests there is a second file of this name: then the folder is told too.
    assert {loop.line.rpartition("/")[2] for loop in loops} == {f"programs.py:{line + at}"}
    more = written_out(jaxlens.capture(*_with_layers(7)))[0].total
    assert more - counted.total == sum(loop.block for loop in loops) + _per_layer_of_adam()


def _with_layers(n: int):
    f, args = programs.gpt_step(layers=n)
    return f, *args


def _per_layer_of_adam() -> int:
    """Four weights a layer, and what the update writes for each of them."""
    return 4 * (3 + 4 + 6)


def test_programs_of_the_core() -> None:
    from jaxlens import core

    def f(x):
        for _ in range(20):
            x = core.numpy.sin(x) * x
        return x

    answer = jaxlens.times(jaxlens.capture(f, X))
    assert (answer.loops[0].count, answer.loops[0].block) == (20, 2)


def test_default_view_tells_of_a_large_unrolled_loop() -> None:
    def long(x):
        for _ in range(300):
            x = jnp.sin(x) * 0.5 + x
        return x

    assert "a loop of 300 steps was unrolled" in str(jaxlens.compile(long, X))
    assert "unrolled" not in str(jaxlens.compile(sine, X))


def test_a_librarys_unrolled_loop_is_no_advice(tmp_path: Path, monkeypatch) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    text = "def run(x):\n    for _ in range(300):\n        x = x * 2 + 1\n    return x\n"
    (library / "unrolling.py").write_text(text)
    monkeypatch.syspath_prepend(library)
    import unrolling

    (told,) = alarm(jaxlens.capture(unrolling.run, 1.0))
    assert told.text.startswith("unrolling.py:3 made 600 of 600 equations")
    assert told.weight == 0


def test_a_large_array_that_the_program_holds_is_told_first() -> None:
    table = np.random.default_rng(0).random((600, 600), np.float32)  # 1.44 MB
    first, second, *_ = jaxlens.times(lambda x: x @ jnp.asarray(table), jnp.ones((2, 600))).findings
    assert first.text.startswith("One array is closed over, `table` (f32[600,600], 1.44 MB)")
    assert "pass it as an argument" in first.text
    assert " took " in first.lead
    assert second.text.startswith("No loop of four or more like steps was unrolled")


def test_an_error_of_the_function_is_the_one_that_is_seen() -> None:
    def wrong(x):
        return x.no_such_thing

    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = jaxlens.times(wrong, X).loops
