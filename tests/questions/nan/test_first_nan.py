"""The first NaN of planted programs is found at its line; clean programs have none."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import jaxlens
from jaxlens.errors import OptionError, UnavailableError
from tests.questions.nan import planted
from tests.support import programs
from tests.support.paths import marked_line, run_python

ONES = np.ones(3, np.float32)


@pytest.mark.parametrize("make", planted.EVERY, ids=lambda make: make.__name__)
def test_a_planted_nan_is_found_at_its_line(make):
    f, args, opcode, iteration = make()
    line = marked_line(make)
    answer = jaxlens.first_nan(f, *args)
    assert answer.found
    assert (answer.span.line, answer.iteration) == (line, iteration)
    assert opcode in (None, answer.opcode)
    assert f"planted.py:{line}" in answer.sentence
    assert not any(getattr(arg, "is_deleted", lambda: False)() for arg in args)


def softmax(x):
    return jax.nn.softmax(jnp.where(x > 1, x, -jnp.inf), axis=-1)


def double_where(x):
    return jnp.where(x > 1, jnp.log(jnp.where(x > 1, x, 1.0)), 0.0).sum()


def counted(x):
    return jax.lax.fori_loop(0, 5, lambda n, c: c / 2 + n, x)


CLEAN = {
    "mlp_step": programs.mlp_step,
    "attention": programs.attention,
    "scan_rnn": programs.scan_rnn,
    "gpt_step": lambda: programs.gpt_step(layers=1),
    "masked softmax": lambda: (softmax, (2 * ONES,)),
    "double where": lambda: (jax.grad(double_where), (ONES,)),
    "nan_to_num": lambda: (lambda x: jnp.nan_to_num(jnp.log(-x)), (ONES,)),
    "branch not taken": lambda: (lambda x: jnp.where(x > 0, x, jnp.log(-x)), (ONES,)),
    "cond not taken": lambda: (lambda x: jax.lax.cond(x[0] > 0, jnp.sin, jnp.log, x), (ONES,)),
    "max with -inf": lambda: (lambda x: jnp.max(x, initial=-jnp.inf), (ONES,)),
    "logsumexp": lambda: (jax.nn.logsumexp, (1000 * ONES,)),
    "log_softmax": lambda: (jax.grad(lambda x: jax.nn.log_softmax(x)[0]), (1000 * ONES,)),
    "fori_loop": lambda: (counted, (ONES,)),
    "integers": lambda: (lambda x: x // 2 + 1, (np.arange(3),)),
    "sort": lambda: (lambda x: jnp.sort(x)[::-1], (ONES,)),
    "random": lambda: (lambda key: jax.random.normal(key, (8,)), (jax.random.key(0),)),
    "complex": lambda: (lambda x: jnp.fft.fft(x), (ONES,)),
    "solve": lambda: (jnp.linalg.solve, (2 * np.eye(3, dtype=np.float32), ONES)),
    "no equation": lambda: (lambda x: x, (ONES,)),
    "empty": lambda: (lambda x: jnp.log(x), (np.zeros((0, 3), np.float32),)),
}


# What removes the NaN of a value that has infinities too; `log` of 0, not of -1, is the answer.
BOTH = {
    "nansum": lambda x: jnp.nansum(jnp.log(x)),
    "nanmedian": lambda x: jnp.nanmedian(jnp.log(x)),
    "where": lambda x: jnp.where(x < 0, 0, jnp.log(x)),
    "slice": lambda x: jnp.log(x)[1:],
    "loop": lambda x: jax.lax.map(lambda y: jnp.nansum(jnp.log(y)), x[None]),
}


@pytest.mark.parametrize("f", BOTH.values(), ids=BOTH)
def test_an_infinity_beside_nan_that_no_result_gets(f):
    answer = jaxlens.first_nan(f, np.array([-1, 0, 3], np.float32))
    assert (answer.kind, answer.opcode) == ("inf", "log")
    assert "the logarithm of 0" in answer.sentence
    assert "1 of the 3 elements" in str(answer)


@pytest.mark.parametrize("make", CLEAN.values(), ids=CLEAN)
def test_a_clean_program_has_none(make):
    f, args = make()
    answer = jaxlens.first_nan(f, *args)
    assert not answer.found, str(answer)
    assert str(answer.findings[0].text) == "No NaN and no infinity in the results."


def test_an_argument_with_nan_is_named():
    answer = jaxlens.first_nan(lambda w, x: jnp.sin(w) + x, ONES, ONES * np.nan)
    assert answer.arguments == ("x",)
    assert answer.opcode == ""
    assert answer.sentence == "Argument x already contains NaN."


def in_a_scan(x):
    return jax.lax.scan(lambda c, v: (c, jnp.where(v > 0, v, jnp.sqrt(-v))), 0.0, x)[1]


SCALE, OFFSETS = jnp.ones(3), jnp.zeros((4, 3))


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (lambda x: jnp.log(OFFSETS) + x * SCALE, "It is computed from OFFSETS (captured)."),
        (lambda x: jnp.log(x * SCALE - 1), "It is computed from SCALE (captured) and x."),
    ],
)
def test_captured_arrays_that_it_is_computed_from_are_named(f, said):
    assert any(found.text.startswith(said) for found in jaxlens.first_nan(f, jnp.ones(3)).findings)


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda x: jnp.where(x > 0, x, jnp.log(-x)), "a negative number (-1)"),
        (jax.jit(lambda x: jnp.where(x > 0, x, jnp.log(-x))), "Its operands: -1."),
        (in_a_scan, "In iteration 0 of the loop"),
        (jax.vmap(lambda v: jnp.where(v > 9, jnp.arccos(v + 1), v)), "Its operands: 2."),
        (lambda x: jnp.nan_to_num(jnp.log(-x)), "`log` in test_first_nan.py:"),
        (lambda x: jnp.isnan(x / (x - 1) * 0), "0 times infinity"),
    ],
)
def test_a_nan_that_no_result_gets_is_told_with_its_line_and_operands(f, words):
    answer = jaxlens.first_nan(f, ONES)
    first, made, told = (finding.text for finding in answer.findings[:3])
    assert first == "No NaN and no infinity in the results."
    assert made.startswith("A NaN that no result gets is made by `")
    assert words in made
    assert "`jax_debug_nans` raises on it where it runs op by op" in told
    with jax.debug_nans(True), jax.disable_jit(), pytest.raises(FloatingPointError):
        f(jnp.asarray(ONES))


def _never(x, o):
    x[...] + 1


def _computed(x, o):
    o[...] = jnp.log(-x[...])


@pytest.mark.parametrize("kernel", [_never, _computed])
def test_a_pallas_kernel_computes_it_or_leaves_it_unwritten(kernel):
    shape = jax.ShapeDtypeStruct(ONES.shape, ONES.dtype)
    call = pl.pallas_call(kernel, out_shape=shape, interpret=True)
    sentence = jaxlens.first_nan(lambda x: call(x), ONES).sentence
    assert "its kernel computes it, or leaves these elements unwritten" in sentence


def test_the_cure_is_tried():
    f, args, *_ = planted.gradient_of_a_branch()
    answer = jaxlens.first_nan(f, *args)
    assert answer.trial.cured
    assert answer.trial.largest_change == 0
    assert "jnp.where" in answer.cure

    def mended(x):
        return jnp.where(x > 1, jnp.log(jnp.where(x > 1, x - 1, 1.0)), 0.0).sum()

    assert np.isfinite(jax.grad(mended)(*args)).all()


@pytest.mark.parametrize(
    ("f", "where"),
    [
        (lambda x: jnp.full(3, jnp.nan), "in the program: test_first_nan.py:"),
        (lambda x: -jnp.full(3, jnp.nan), "in the program: test_first_nan.py:"),
        (jax.jit(lambda x: (x, jnp.nan)), "in the program, as one of its results."),
        (lambda x: jax.jit(lambda: jnp.nan)(), "in the program: test_first_nan.py:"),
        (lambda x: jax.lax.cond(x[0] > 0, lambda: np.nan, lambda: 1.0), "test_first_nan.py:"),
        (lambda x: jax.lax.scan(lambda c, v: (c, jnp.nan), 0.0, x), "test_first_nan.py:"),
    ],
)
def test_a_written_nan_that_nothing_reads_is_found(f, where):
    answer = jaxlens.first_nan(f, ONES)
    assert (answer.kind, answer.inputs, answer.cure) == ("nan", (), "")
    assert "NaN is written in the program" in answer.sentence
    assert where in answer.sentence


def test_what_made_a_nan_that_no_result_gets_is_told_once():
    def f(x):
        return x, jnp.isnan(jnp.log(-x)), jnp.isnan(jnp.sqrt(-x))

    answer = jaxlens.first_nan(f, ONES)
    assert answer.unseen.opcode == "log"
    opcodes = {node.id: node.opcode for node in answer.subject().jaxpr.module.nodes()}
    assert [opcodes[ident] for ident in answer.others] == ["sqrt"]
    assert "gets (" in str(answer)
    assert "its gradient may still be NaN" in str(answer).replace("\n  ", " ")


def test_the_infinity_that_it_came_of_is_named():
    f, args, *_ = planted.overflow_of_exp()
    answer = jaxlens.first_nan(f, *args)
    made = answer.infinity_maker
    assert (made.opcode, made.span.line) == ("exp", answer.span.line - 1)
    assert "maximum" in answer.cure


def test_the_example_of_a_batch_is_named():
    f, args, *_ = planted.one_example_of_a_batch()
    answer = jaxlens.first_nan(f, *args)
    assert answer.maker.index == (3,)


def test_values_are_those_of_the_iteration():
    f, args, *_ = planted.scan_at_iteration_four()
    (operand,) = jaxlens.first_nan(f, *args).maker.values.operands
    assert operand.least == operand.most == -0.5


def test_shapes_and_core_programs_are_refused():
    with pytest.raises(OptionError, match="--nan needs arrays"):
        _ = jaxlens.first_nan(jnp.log, jax.ShapeDtypeStruct((3,), jnp.float32)).found
    cap = jaxlens.capture(jnp.log, ONES)
    assert not jaxlens.first_nan(cap).found


def test_a_loaded_capture_cannot_run(tmp_path):
    cap = jaxlens.capture(jnp.log, ONES)
    cap.save(tmp_path / "log.jaxlens")
    with pytest.raises(UnavailableError, match="run with arguments"):
        _ = jaxlens.first_nan(jaxlens.load(tmp_path / "log.jaxlens")).found


def test_random_state_and_caches_stay():
    f = jax.jit(lambda x: jnp.log(x))
    np.random.seed(1)
    before = np.random.get_state()[1].tolist()
    _ = jaxlens.first_nan(f, ONES).found
    assert np.random.get_state()[1].tolist() == before
    assert f._cache_size() == 0


_DEVICES = """
import jax
jax.config.update("jax_num_cpu_devices", 8)
import jax.numpy as jnp, numpy as np, jaxlens
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
x = np.full(16, 1e9, np.float32)
x[11] = 0.5
def local(y):
    y = jax.lax.scan(lambda c, _: (jnp.log(c), None), y, None, length=3)[0]
    return jax.lax.psum(y.sum(), "d")
for check in (True, False):
    f = jax.shard_map(local, mesh=mesh, in_specs=P("d"), out_specs=P(), check_vma=check)
    a = jaxlens.first_nan(f, x)
    print(a.opcode, a.maker.device, a.iteration)
    v = next(v for v in jaxlens.values(f, x).values if v.opcode == "log").statistics
    print(v.executions, v.elements, v.nan, v.iterations)
x = jax.device_put(x, NamedSharding(mesh, P("d")))
a = jaxlens.first_nan(lambda x: jnp.log(x - 1).sum(), x)
print(a.opcode, a.maker.index)
"""


def test_the_device_of_a_shard_map_is_named_and_devices_count_together():
    said = run_python(_DEVICES).splitlines()
    assert said == [*["log 5 1", "24 48 2 (1,)"] * 2, "log (11,)"]


def test_an_infinity_that_a_cure_leaves_is_told():
    def f(x):
        return -jnp.log(jax.nn.softmax(200 * x)[0])

    answer = jaxlens.first_nan(jax.value_and_grad(f), np.arange(3, dtype=np.float32))
    assert answer.trial.cured
    assert answer.trial.infinity_remains
    assert "but an infinity remains" in str(answer).replace("\n  ", " ")


def softmax_by_hand(x):
    e = jnp.exp(x)
    return e / jnp.sum(e, -1, keepdims=True)


LARGE = np.array([[1, 1000, 3], [1, 2, 3]], np.float32)


@pytest.mark.parametrize(
    ("f", "x", "guards"),
    [
        (softmax_by_hand, LARGE, "a bound below the overflow"),
        (lambda x: jnp.log(jnp.sum(jnp.exp(x), -1)), LARGE, "a bound below the overflow"),
        (lambda x: jnp.sum(jnp.exp(x), -1), LARGE, "a bound below the overflow"),
        (lambda x: jnp.expm1(x) / 2, LARGE, "a bound below the overflow as the operand"),
    ],
)
def test_cures_of_an_overflow_are_tried_and_change_nothing_that_is_finite(f, x, guards):
    trial = jaxlens.first_nan(f, x).trial
    assert guards in trial.guards
    assert (trial.cured, trial.infinity_remains) == (True, False)
    assert trial.largest_change < 1e-3


def test_a_result_beyond_the_largest_number_of_a_narrow_type_has_a_cure_that_is_not_tried():
    found = jaxlens.first_nan(lambda x: jnp.sum(x * x) / 4, np.array([300, 2], np.float16))
    assert found.trial is None
    assert "Compute in float32, or scale the values first. Not tried." in str(found)


def test_every_row_of_the_way_has_the_line_that_calls_a_shared_body():
    def f(x):
        y = jax.nn.relu(jnp.log(x))
        return jax.nn.relu(y - 1)

    (way,) = jaxlens.first_nan(f, np.array([-1, 2], np.float32)).report.tables
    start = inspect.getsourcelines(f)[1]
    lines = {row[1].text: [] for row in way.rows}
    for row in way.rows:
        lines[row[1].text].append(row[2].text.rpartition(":")[2])
    assert lines["max"] == [str(start + 1), str(start + 2)]
