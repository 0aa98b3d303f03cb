"""Figures of loops, of parts of arrays and of complex numbers, against counts by hand."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import jaxlens
from jaxlens.errors import UnavailableError
from jaxlens.ir.hlo.traffic import Traffic
from jaxlens.pytest_plugin import receipt_record
from jaxlens.questions.sharding.facts import Collective, Sharding
from jaxlens.questions.sharding.report import report as sharding_report
from tests.support import fixed_captures as fixed
from tests.support.paths import TEXTS

ROW = 512 * 4
TABLE = jax.ShapeDtypeStruct((1000, 512), jnp.float32)
I = jax.ShapeDtypeStruct((), jnp.int32)  # noqa: E741
IDS = jax.ShapeDtypeStruct((32,), jnp.int32)
VECTOR = jax.ShapeDtypeStruct((1024,), jnp.complex64)
SQUARE = jax.ShapeDtypeStruct((64, 64), jnp.complex64)
X = jnp.ones((8, 8))


def steps(n):
    return lambda x: lax.scan(lambda c, _: (jnp.sin(c) @ c * 0.1, None), x, None, length=n)[0]


def until(test, step, start=0, body=lambda x: x * 2):
    def f(x, n):
        return lax.while_loop(
            lambda s: test(s[0], n), lambda s: (step(s[0]), body(s[1])), (start, x)
        )

    return f


@pytest.mark.parametrize(
    ("f", "trips"),
    [
        (until(lambda i, n: i < 10, lambda i: i + 1), 10),
        (until(lambda i, n: i <= 10, lambda i: i + 2), 6),
        (until(lambda i, n: i > 3, lambda i: i - 2, start=10), 4),
        (until(lambda i, n: i >= 0, lambda i: i + -1, start=5), 6),
        (until(lambda i, n: i < 0, lambda i: i + 1), 0),
        (until(lambda i, n: i < n, lambda i: i + 1), None),
        (until(lambda i, n: i < 10, lambda i: i * 2, start=1), None),
        (until(lambda i, n: i < 10, lambda i: i - 1), None),  # for ever
        (until(lambda i, n: i < 10, lambda i: 5 - i), None),
    ],
)
def test_trips_are_those_of_a_counter_between_literals_or_unknown(f, trips) -> None:
    receipt = jaxlens.receipt(f, X, 3)
    if trips is not None:  # 64 products and a step of the counter a trip, and a test more
        assert receipt.flops == trips * 65 + trips + 1
        return
    with pytest.raises(UnavailableError, match=r"parts_and_memories.py:\d+ runs an unknown number"):
        _ = receipt.flops


def test_ten_times_the_steps_are_ten_times_what_a_run_does() -> None:
    few, many = (jaxlens.capture(steps(n), jnp.ones((64, 64))) for n in (8, 80))
    was, now = (jaxlens.receipt(capture).figures() for capture in (few, many))
    more = now["executions"] - was["executions"]
    assert (more > 0, more % 72) == (True, 0)  # each kernel of the loop 72 times more
    assert now["flops"] == 10 * was["flops"] == 80 * (2 * 64**3 + 64**2)
    assert 9 < now["moved"] / was["moved"] <= 10
    assert now["xla_bytes"] == was["xla_bytes"]  # as its title says
    said = jaxlens.compare(few, many).findings[0].text
    assert "more bytes moved" in said
    assert "kernel executions instead of" in said


def test_a_loop_of_unknown_trips_is_named_or_its_sum_unknown() -> None:
    x = jnp.ones((300, 300))
    # Of a product, as XLA may make one kernel of a loop that computes little.
    loop = until(lambda i, n: i < n, lambda i: i + 1, body=lambda x: jnp.sin(x) @ x)
    capture = jaxlens.capture(loop, x, 3)
    of = "A run with one pass of the loop at test_loops_parts_and_memories.py:"
    fused, cost = jaxlens.fusion(capture), jaxlens.cost(capture, roofline="h100")
    assert any(of in finding.text for finding in fused.findings)
    assert (fused.moved, fused.saved, fused.left) == (None, None, None)
    assert (cost.flops, cost.mfu) == (None, None)
    assert any("On H100" in f.text and of[2:] in f.text for f in cost.findings)
    facts = jaxlens.receipt(capture).figures()
    assert [facts[name] for name in ("flops", "moved", "executions")] == [None] * 3
    both = " ".join(f.text for f in jaxlens.compare(capture, capture).findings)
    assert "runs an unknown number of times" in both


def test_a_record_of_other_counts_is_not_compared() -> None:
    receipt = jaxlens.receipt(steps(8), X)
    earlier = {**receipt_record.record(receipt, compiled=False), "version": 3}
    found = receipt_record.changes(earlier, receipt, compiled=False)
    assert found.left_out == ("it was written with another version of jaxlens: not compared",)


def over(body, carry=0.0):
    return lambda t: lax.scan(body(t), carry, jnp.arange(8))[0]


def carried(table):
    def body(c, i):
        return (c[0] + c[1][i, 0], c[1]), None

    return lax.scan(body, (0.0, table), jnp.arange(8))[0][0]


@pytest.mark.parametrize(
    ("f", "args", "size"),
    [
        (lambda t, i: t[i].sum(1), (TABLE, IDS), 32 * ROW + 2 * 128),
        (lambda t, i: lax.dynamic_slice(t, (i, 0), (1, 512)), (TABLE, I), 2 * ROW + 4),
        (lambda t: t[3:5].sum(), (TABLE,), 2 * ROW + 4),
        (jax.jit(lambda t, i: jax.jit(lambda u: u.T[:, i])(t)), (TABLE, I), 2 * ROW + 4),
        (lambda t, i: i + 1, (TABLE, I), 8),
        (over(lambda t: lambda c, i: (c + t[i].sum(), None)), (TABLE,), 8 * ROW + 4),
        (lambda t: lax.scan(lambda c, x: (c + x[0], None), 0.0, t)[0], (TABLE,), 4004),
        (lambda t: lax.scan(lambda c, x: (c + x.sum(), None), 0.0, t)[0], (TABLE,), 1000 * ROW + 4),
        (
            lambda t: lax.scan(
                lambda c, i: ((c[0] + c[1][i, 0], c[1]), None), (0.0, t), jnp.arange(8)
            )[0][0],
            (TABLE,),
            8 * 4 + 4,
        ),
        (
            lambda t, i: lax.cond(i > 0, lambda u: u[0], lambda u: u[1] * 2, t),
            (TABLE, I),
            2 * ROW + 4,
        ),
        (lambda t, i: t[i].sum() + t.sum(), (TABLE, I), 1000 * ROW + 8),
        (lambda t, i: jax.checkpoint(lambda u: jnp.sin(u[i]).sum())(t), (TABLE, I), ROW + 8),
        (jax.jit(lambda t, i: t.at[i].set(1.0), donate_argnums=0), (TABLE, I), 2 * ROW + 4),
        (lambda t, i: t.at[i].set(1.0), (TABLE, I), 2000 * ROW + 4),
    ],
)
def test_bytes_are_of_the_parts_that_are_read(f, args, size) -> None:
    assert jaxlens.receipt(f, *args).bytes == size


HALF = "%h = f16[100,8] convert(%p)"
FUSED = (TEXTS / "fusion_of_parts.hlo.txt").read_text()


@pytest.mark.parametrize(
    ("body", "type_", "read", "written"),
    [  # the index of 4 bytes and the update of 32 are read whole where they are used
        (
            "%h = f16[100,8] convert(%p)\n ROOT %r = f16[1,8] slice(%h), slice={[0:1]}",
            "f16[1,8]",
            32,
            16,
        ),
        ("ROOT %r = f32[1,8] fusion(%p, %i), kind=kLoop, calls=%inner", "f32[1,8]", 36, 32),
        ("ROOT %r = f32[100,8] copy(%p)", "f32[100,8]", 3200, 3200),
        ("ROOT %r = f32[100,8] dynamic-update-slice(%p, %u, %i, %i)", "f32[100,8]", 36, 32),
        (
            "%w = f32[100,8] dynamic-update-slice(%p, %u, %i, %i)\n"
            "  ROOT %r = f32[100,8] negate(%w)",
            "f32[100,8]",
            3236,
            3200,
        ),
        ("ROOT %r = f32[1,8]{1,0:S(1)} dynamic-slice(%p, %i, %i)", "f32[1,8]{1,0:S(1)}", 36, 0),
    ],
)
def test_a_fusion_reads_the_parts_that_it_takes(body, type_, read, written) -> None:
    module = fixed.module(FUSED.replace("BODY", body).replace("TYPE", type_))
    moved = Traffic(module).moved(module.body().nodes[-1])
    assert (moved.read[0], moved.written.get(0, 0)) == (read, written)


@pytest.mark.parametrize(
    ("opcode", "groups", "said"),
    [
        ("collective-permute", [(n, n + 1) for n in range(7)], "7 of 8 devices send 256 B each a"),
        ("collective-permute", [(0, 5)], "1 of 8 devices sends 256 B a"),
        (
            "collective-permute",
            [(n, (n + 1) % 8) for n in range(8)],
            "Each of 8 devices sends 256 B",
        ),
        ("collective-permute", [(n, n) for n in range(8)], "None of 8 devices sends 0 B a"),
        ("all-to-all", [(0, 1), (2, 3)], "4 of 8 devices send 128 B each a"),
        ("all-gather", [(0, 1, 2, 3), (4, 5), (6,), (7,)], "6 of 8 devices send up to 192 B a"),
        ("all-reduce", [tuple(range(8))], "Each of 8 devices sends 448 B a"),
    ],
)
def test_devices_that_send_are_counted(opcode, groups, said) -> None:
    found = Collective("c", opcode, 256, tuple(groups), (), 1, ())
    facts = Sharding(8, (), (), (), (), (found,), _subject=jaxlens.sharding(steps(1), X).subject())
    assert sharding_report(facts).findings[0].text.startswith(said)


@pytest.mark.parametrize(
    ("f", "args", "flops"),
    [
        (lambda a, b: a @ b, (SQUARE, SQUARE), 8 * 64**3),
        (lambda a: a * a[::-1], (VECTOR,), 6 * 1024),
        (lambda a: a + a[::-1], (VECTOR,), 2 * 1024),
        (lambda a: a.sum(), (VECTOR,), 2 * 1023),
        (jnp.fft.fft, (VECTOR,), 5 * 1024 * 10),
        (jnp.fft.fft2, (SQUARE,), 5 * 64 * 64 * 12),
        (jnp.fft.rfft, (jax.ShapeDtypeStruct((1024,), jnp.float32),), 5 * 1024 * 10 // 2),
    ],
)
def test_complex_numbers_count_as_operations_on_real_ones(f, args, flops) -> None:
    answer = jaxlens.cost(f, *args)
    assert answer.flops == flops
    assert sum(kernel.flops for kernel in answer.kernels) == flops
