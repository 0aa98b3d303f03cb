"""The memory lens against XLA's heap simulator and JAX's own list of residuals."""

import functools
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax._src.ad_checkpoint import saved_residuals
from jax.lax import scan

import jaxlens
from jaxlens.errors import UnavailableError
from jaxlens.ir.hlo import buffers
from jaxlens.ir.hlo.live_ranges import live
from jaxlens.report import amount
from tests.support import programs
from tests.support.paths import run_python

pytestmark = pytest.mark.backend


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return value, at


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a protocol buffer's message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 0:
            value, at = _varint(data, at)
        else:
            size, at = _varint(data, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
            value, at = data[at : at + size], at + size
        yield key >> 3, value


def _heap_peak(assignment: bytes) -> int:
    """Peak bytes of XLA's heap simulator trace, replayed."""
    sizes, traces = {}, []
    for number, value in _fields(assignment):
        if number == 1:  # a logical buffer: id, size
            known = dict(reversed(list(_fields(value))))
            sizes[known.get(1, 0)] = known.get(2, 0)
        elif number == 4:  # a heap trace: events
            traces.append([dict(_fields(v)) for n, v in _fields(value) if n == 1])
    most = 0
    for events in traces:
        home, users = {}, {}
        for event in events:
            kind, buffer = event.get(1, 0), event.get(2, 0)
            if kind == 1:  # free
                users[home[buffer]].discard(buffer)
                continue
            shared = event.get(5, 0) if kind == 2 else buffer  # else allocate
            home[buffer] = home.get(shared, shared)
            users.setdefault(home[buffer], set()).add(buffer)
            most = max(most, sum(sizes[b] for b, held in users.items() if held))
    return most


def heap_peak(f, args) -> int:
    with tempfile.TemporaryDirectory() as folder:
        options = {"xla_dump_to": folder, "xla_dump_hlo_as_proto": True}
        f.lower(*args).compile(compiler_options=options)
        (path,) = Path(folder).glob("*after_optimizations.hlo.pb")
        assignment = next(value for number, value in _fields(path.read_bytes()) if number == 3)
        return _heap_peak(assignment)


def attention_loss(params, x):
    """Four layers of attention in a scan."""

    def layer(x, p):
        q, k, v = (x @ p[name] for name in "qkv")
        scores = jnp.einsum("btd,bsd->bts", q, k)
        weights = jax.nn.softmax(scores)
        return x + jnp.einsum("bts,bsd->btd", weights, v), None

    return jnp.mean(jax.lax.scan(layer, x, params)[0] ** 2)


def attention_step(params, x):
    grads = jax.grad(attention_loss)(params, x)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


PARAMS = {name: jnp.ones((4, 32, 32)) for name in "qkv"}
X = jnp.ones((2, 64, 32))


def nested(w, x):
    @jax.jit
    def inner(a):
        return jnp.tanh(a @ w)

    return jax.lax.fori_loop(0, 3, lambda _, a: inner(a) + inner(a * 2), x)


@functools.cache
def step() -> jaxlens.Capture:
    return jaxlens.capture(jax.jit(attention_step, donate_argnums=0), PARAMS, X)


@pytest.mark.parametrize("name", ["mlp_step", "attention", "scan_rnn", "conv_fft", "nested"])
def test_the_peak_of_temporaries_is_that_of_xlas_heap_simulator(name):
    own = (nested, (jnp.ones((16, 16)), jnp.ones((8, 16))))
    f, args = own if name == "nested" else programs.SMALL[name]()
    ranges = live(buffers.read(jaxlens.capture(f, *args).buffers))
    worst = max(_temporaries(ranges))
    assert worst == pytest.approx(heap_peak(jax.jit(f), args), abs=64)  # tables of pointers


def _temporaries(found) -> Iterator[int]:
    """Bytes of temporaries at each position, counted without the lens."""
    for position in range(found.end + 1):
        places = {}
        for one in found.values:
            if one.holder == "temporary" and one.start <= position <= one.end:
                places[one.place] = max(places.get(one.place, 0), one.buffer.size)
        yield sum(places.values())


def test_a_donating_train_step_is_within_two_percent_of_the_heap_simulator():
    ranges = live(buffers.read(step().buffers))
    theirs = heap_peak(jax.jit(attention_step, donate_argnums=0), (PARAMS, X))
    assert max(_temporaries(ranges)) == pytest.approx(theirs, rel=0.02)
    use = jaxlens.memory(step())
    assert use.peak <= use.reserved
    # Arguments stay, donated ones count once though results lie in them.
    assert (
        use.kind("argument") == use.arguments == sum(p.nbytes for p in PARAMS.values()) + X.nbytes
    )
    assert use.kind("result") == 0


def test_the_line_of_the_attention_weights_owns_the_peak_of_the_train_step():
    use = jaxlens.memory(step())
    code = attention_loss.__code__.co_firstlineno
    softmax = f"test_memory_real.py:{code + 6}"
    assert next(iter(use.by_line)) == softmax
    largest = use.at_peak[0]
    assert (largest.bytes, largest.line) == (4 * 2 * 64 * 64 * 4, softmax)  # four layers' worth
    assert largest.saved
    assert largest.stacked
    first = use.findings[0].text
    assert "jax.nn.softmax(scores)" in first
    assert "saved for the backward pass" in first
    kept = next(f.text for f in use.findings if f.text.startswith("Autodiff saves"))
    assert use.facts.saved.bytes > use.peak / 2
    assert kept.endswith("; --checkpoint tries what jax.checkpoint would change.")


def mlp(params, x):
    hidden = jnp.tanh(x @ params["w1"] + params["b1"])
    return jnp.sum(jax.nn.relu(hidden @ params["w2"]) ** 2)


@jax.custom_vjp
def clip(x):
    return jnp.sin(x)


clip.defvjp(lambda x: (jnp.sin(x), (x * 2, jnp.cos(x))), lambda kept, g: (g * kept[1] + kept[0],))

W, ROWS = jnp.ones((8, 16)), jnp.ones((32, 8))


def rnn(w, xs):
    def cell(h, x):
        h = jnp.tanh(h @ w + x)
        return h, h.sum()

    return jax.lax.scan(cell, jnp.zeros(16), xs)[1].sum()


LOSSES = {
    "mlp": (mlp, ({"w1": W, "b1": jnp.ones(16), "w2": jnp.ones((16, 4))}, ROWS)),
    "custom_vjp": (lambda w, x: jnp.sum(clip(x @ w) ** 3), (W, ROWS)),
    "jit": (lambda w, x: jax.jit(lambda a: jnp.exp(a) * jnp.sin(a))(x @ w).sum(), (W, ROWS)),
    "checkpoint": (
        lambda w, x: jax.checkpoint(lambda a: jnp.exp(a) * jnp.sin(a))(x @ w).sum(),
        (W, ROWS),
    ),
    "cond": (
        lambda w, x: jax.lax.cond(w[0, 0] > 0, jnp.sin, lambda y: y * jnp.exp(y), x @ w).sum(),
        (W, ROWS),
    ),
    "rnn": (rnn, (jnp.eye(16), jnp.ones((20, 16)))),
    "attention": (attention_loss, (PARAMS, X)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_residuals_are_those_that_jax_lists(name):
    f, args = LOSSES[name]
    grad = jax.grad(f, argnums=tuple(range(len(args))))
    ours = jaxlens.memory(grad, *args).residuals
    theirs = [
        (str(aval.dtype), aval.shape)
        for aval, said in saved_residuals(f, *args)
        # Inputs stay anyway; JAX makes a constant when the backward pass begins.
        if "from the argument" not in said and not (name == "mlp" and "broadcast_in_dim" in said)
    ]
    found = [(one.type.dtype, one.type.shape) for one in ours]
    named = {"f32": "float32", "i32": "int32", "bool": "bool"}
    assert sorted((named[dtype], shape) for dtype, shape in found) == sorted(theirs)


def test_checkpoint_is_tried_on_the_body_of_a_scan():
    answer = jaxlens.memory(step(), checkpoint=True)
    text = answer.findings[0].text
    assert text.startswith("With jax.checkpoint round each scan's body (")
    assert ".py:" in text.partition(") the peak")[0]
    whole, products, body, *_ = answer.tried
    assert whole.saved == 0  # all is computed again
    assert products.saved < answer.facts.saved.bytes
    assert body.peak < 0.7 * answer.peak
    # The forward pass is done once more at most.
    forward = jaxlens.cost(attention_loss, PARAMS, X).flops
    before = jaxlens.cost(step()).flops
    assert before < body.flops <= before + 1.05 * forward
    assert "jax.lax.scan(jax.checkpoint(body" in str(answer)
    assert jax.lax.scan.__module__.startswith("jax.")
    assert "wrap" not in jax.vjp.__code__.co_freevars


def test_checkpoint_tried_by_hand_is_the_same_program():
    def by_hand(params, x):
        return jax.grad(jax.checkpoint(attention_loss))(params, x)

    tried = jaxlens.memory(jaxlens.capture(jax.grad(attention_loss), PARAMS, X), checkpoint=True)
    own = jaxlens.memory(by_hand, PARAMS, X)
    assert tried.tried[0].peak == own.peak
    assert tried.tried[0].saved == own.facts.saved.bytes


def step_of_layer(x, w):
    return jnp.tanh(jnp.tanh(x @ w) @ w.T)


SCANS = {  # of a loop whose body `mark` marks
    "scan": lambda mark, ws, x: scan(mark(lambda x, w: (step_of_layer(x, w), None)), x, ws)[0],
    "fori_loop": lambda mark, ws, x: jax.lax.fori_loop(
        0, 4, mark(lambda i, x: step_of_layer(x, ws[i])), x
    ),
    "map": lambda mark, ws, x: jax.lax.map(mark(lambda r: step_of_layer(r, ws[0])), x[:, None]),
}


@pytest.mark.parametrize("loop", SCANS)
def test_every_loop_that_jax_makes_a_scan_of_is_checkpointed(loop):
    def loss(mark, ws, x):
        return SCANS[loop](mark, ws, x).sum()

    def gradient(mark):
        return jax.grad(functools.partial(loss, mark))

    args = jnp.ones((4, 16, 16)), jnp.ones((256, 16))
    program = jaxlens.capture(gradient(lambda body: body), *args)
    answer = jaxlens.memory(program, checkpoint=True)
    marked = jaxlens.memory(gradient(functools.partial(jax.checkpoint, prevent_cse=False)), *args)
    body = next(way for way in answer.tried if way.name.startswith("each scan's body"))
    assert (body.why, body.peak, body.saved) == ("", marked.peak, marked.saved.bytes)
    assert body.peak < 0.9 * answer.peak


def test_without_a_gradient_there_is_nothing_to_checkpoint():
    answer = jaxlens.memory(jaxlens.capture(jnp.sin, X), checkpoint=True)
    with pytest.raises(UnavailableError, match="nothing is differentiated"):
        str(answer)


def test_donated_inputs_and_why_some_find_no_result():
    f = jax.jit(lambda a, b, c: (a + b[0], c.astype(jnp.bfloat16)), donate_argnums=(0, 1, 2))
    with pytest.warns(UserWarning, match="donated buffers were not usable"):
        donations = jaxlens.memory(f, jnp.ones((8, 8)), jnp.ones((4, 8)), jnp.ones(3)).donations
    assert [(d.name.split()[0], d.result) for d in donations] == [
        ("a", "result[0]"),
        ("b", ""),
        ("c", ""),
    ]
    assert donations[1].why == "no result has the size of f32[4,8]"
    why = "no result has the size of f32[3]; result[1] has its shape, but is bf16"
    assert donations[2].why == why


def test_a_result_of_another_type_and_the_same_size_reuses_a_buffer():
    functions = (lambda x: (x * 2).reshape(8, 4), lambda x: (x * 2).astype(jnp.int32))
    for function in functions:
        before = jaxlens.memory(jax.jit(function), jnp.ones((4, 8)))
        assert [(d.name, d.donated) for d in before.donations] == [("x", False)]
        after = jaxlens.memory(jax.jit(function, donate_argnums=0), jnp.ones((4, 8)))
        assert [(d.name, d.result) for d in after.donations] == [("x", "result")]


def test_a_peak_at_the_tuple_of_results_is_at_the_end() -> None:
    x = jnp.ones((64, 64))
    use = jaxlens.memory(lambda x: (x + 1, x @ x), x)
    assert use.moment == "at the end, when all results are there"
    assert use.moment in str(use).replace("\n  ", " ")
    assert jaxlens.memory(lambda x: (jnp.sin(x) @ x).sum(), x).moment.startswith("when ")


SHARDED = """
import jax, jax.numpy as jnp, jaxlens
mesh = jax.make_mesh((8,), ("d",))
parts = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
x = jax.device_put(jnp.ones((1024, 1024)), parts)
step = lambda p, g: p - 0.1 * g
for f in (jax.jit(step), jax.jit(step, donate_argnames="p")):
    print(jaxlens.memory(f, x, x).findings[-1].text)
"""


def test_donation_is_in_bytes_of_one_device_as_the_peak_is() -> None:
    eight = "--xla_force_host_platform_device_count=8"
    possible, done = run_python(SHARDED, XLA_FLAGS=eight).splitlines()
    assert possible.startswith("Donation could save at most 524 kB: 1 result")  # of 4.19 MB
    assert done == "1 donated input (524 kB) has a result in place."


def test_the_bytes_beside_a_line_are_those_of_the_table():
    def loss(weights, x):
        for w in weights:
            x = jax.nn.silu(jax.lax.conv(x, w, (1, 1), "SAME"))
        return (x**2).sum()

    seen = jaxlens.memory(jax.grad(loss), [jnp.ones((8, 8, 3, 3))] * 2, jnp.ones((4, 8, 32, 32)))
    # XLA gives no line to some of the convolutions: the links find it.
    assert any(value.line and value.span is None for value in seen.facts.at_peak)
    ((share, size),) = re.findall(r"silu.*#\s+(\d+)%, ([\d.]+ MB)", str(seen))
    most = max(seen.facts.by_line.values())
    assert (int(share), size) == (round(100 * most / seen.facts.peak), amount(most))
