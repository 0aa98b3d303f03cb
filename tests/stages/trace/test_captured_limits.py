"""Programs with large captured arrays: compiled as they are, or with arguments in their place."""

import json
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxlib import _hlo

import jaxlens
from jaxlens.errors import UnavailableError
from jaxlens.stages.compile import interruptible
from jaxlens.stages.trace import captured_limits

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]

ROWS, COLUMNS = 5_000, 1_000  # 20 MB: above the size from which stand-ins were compiled before
TABLE = np.random.default_rng(0).random((ROWS, COLUMNS), dtype=np.float32)
X = np.ones(COLUMNS, np.float32)


@jax.jit
def inner(x):
    return TABLE @ jnp.cos(x)


@jax.jit
def reads(x):
    return (TABLE @ x).sum() + (TABLE @ (2 * x)).max() + inner(x).min()


@jax.jit
def folds(x):
    return jnp.asarray(TABLE)[::-1] @ x


def fingerprint(text: str) -> str:
    return _hlo.hlo_module_from_text(text).to_string(_hlo.HloPrintOptions.fingerprint())


def words(answer: object) -> str:
    return " ".join(str(answer).split())


@pytest.fixture(scope="module")
def program():
    assert TABLE.nbytes > captured_limits.LARGE
    return jaxlens.capture(reads, X)


@pytest.fixture(scope="module")
def bare():
    return reads.lower(X).compile()


@pytest.fixture
def limited(monkeypatch) -> None:
    monkeypatch.setattr(captured_limits, "MOST", 1_000_000)
    monkeypatch.setattr(captured_limits, "LARGE", 1_000_000)


def test_it_is_the_program_that_runs(program, bare):
    assert fingerprint(program.optimized.raw) == fingerprint(bare.as_text())
    assert program.deviations == ()
    assert "Not what runs" not in str(jaxlens.hlo(program))
    costs = bare.cost_analysis()
    assert program.cost == {key: costs[key] for key in sorted(costs)}
    assert "stablehlo.constant dense_resource<__elided__>" in program.stablehlo.text
    assert all(len(program.stage(n).text) < 30_000 for n in ("stablehlo", "hlo", "optimized"))


def test_its_memory_is_what_xla_says(program, bare):
    sizes = bare.memory_analysis()
    assert program.memory.arguments == sizes.argument_size_in_bytes == X.nbytes
    assert program.memory.outputs == sizes.output_size_in_bytes
    assert program.memory.temporaries == sizes.temp_size_in_bytes
    answer = jaxlens.memory(program)
    # One array, although three equations read it in two bodies.
    assert [v.kind for v in answer.at_peak if v.bytes == TABLE.nbytes] == ["constant"]
    assert TABLE.nbytes <= answer.peak < 1.1 * TABLE.nbytes
    assert "are constants (closed over: TABLE, " in words(answer)


def test_it_runs(program, bare):
    np.testing.assert_allclose(program.driver.run(1).outputs, bare(X), rtol=1e-6)


def test_what_is_folded_is_found_and_timed():
    program = jaxlens.capture(folds, X)
    times = jaxlens.times(program)
    slowest = times.compile.passes[0]
    assert slowest.name == "constant_folding"
    answer = jaxlens.captured(program)
    assert answer.folding == slowest.seconds
    assert [(fold.bytes, fold.opcode) for fold in answer.folded if fold.bytes == TABLE.nbytes] == [
        (TABLE.nbytes, "reverse")
    ]
    assert answer.stages["executable"][1] >= TABLE.nbytes
    assert fingerprint(program.optimized.raw) == fingerprint(folds.lower(X).compile().as_text())


def test_what_is_computed_before_the_first_pass_is_timed():
    program = jaxlens.capture(lambda x: jnp.maximum(TABLE, 0.5) @ x, X)
    times = jaxlens.times(program)
    groups = times.compile.groups
    assert max(groups, key=groups.get) == "conversion to HLO"
    assert sum(groups.values()) == pytest.approx(times.compile.seconds)
    assert "Conversion to HLO took" in times.text(times=True)


def test_a_stand_in_says_so_in_every_view_and_saved(limited, tmp_path):
    program = jaxlens.capture(reads, X)
    views = [
        verb(program)
        for verb in (
            jaxlens.jaxpr,
            jaxlens.hlo,
            jaxlens.compile,
            jaxlens.explore,
            jaxlens.memory,
            jaxlens.times,
            jaxlens.captured,
            jaxlens.cost,
            jaxlens.fusion,
        )
    ]
    for view in views:
        second = words(view).split("Not what runs: ", 1)[1]
        assert second.startswith(
            "from StableHLO on this is a stand-in that takes `TABLE` (f32[5000"
            ",1000], 20 MB) as an argument, where jax.jit compiles it into "
            "the program: the limit of that is 1 MB here."
        )
        assert "Not what runs: from StableHLO on" in view.html()
    assert "- Of the stand-in, " in jaxlens.times(program).text(times=True)
    assert f"Not what runs: {program.deviations[0]}" in jaxlens.receipt(program).stable
    program.save(tmp_path / "saved")
    loaded = jaxlens.load(tmp_path / "saved")
    assert loaded.deviations == program.deviations != ()
    assert words(jaxlens.captured(loaded)) == words(jaxlens.captured(program))


def test_a_stand_in_takes_each_array_once_under_its_name(limited):
    program = jaxlens.capture(reads, X)
    assert program.memory.arguments == TABLE.nbytes + X.nbytes
    answer = jaxlens.memory(program)
    large = [value for value in answer.at_peak if value.bytes == TABLE.nbytes]
    assert [(value.name, value.kind) for value in large] == [("TABLE", "argument")]
    np.testing.assert_allclose(program.driver.run(1).outputs, reads(X), rtol=1e-6)
    assert [leaf.name for leaf in program.program.inputs] == ["x"]


def test_what_a_stand_in_folds_is_not_denied(limited):
    answer = jaxlens.captured(folds, X)
    assert "What was folded is not known: a stand-in was compiled" in words(answer)
    assert "nothing was folded" not in words(answer)


def test_no_more_memory_is_taken_than_there_is(monkeypatch):
    monkeypatch.setattr(captured_limits, "available", lambda: 10 * TABLE.nbytes - 1)
    program = jaxlens.capture(reads, X)
    (sentence,) = program.deviations
    assert "into the program: that may take 200 MB of memory, and less is free." in sentence
    assert program.memory.arguments == TABLE.nbytes + X.nbytes


def test_memory_that_is_free_is_known_here():
    free = captured_limits.available()
    assert free is None or 2**20 < free < 2**50


def test_a_compile_that_takes_too_long_ends_as_a_stand_in(monkeypatch, capfd):
    monkeypatch.setattr(interruptible, "_POLL", 0.001)
    monkeypatch.setattr(captured_limits, "SILENT", 0.0)
    monkeypatch.setattr(captured_limits, "LONGEST", 0.0)
    program = jaxlens.capture(folds, X)
    assert program.deviations == ()
    answer = words(jaxlens.memory(program))
    assert (
        "jaxlens: XLA compiles folds with 20 MB of captured arrays in it" in capfd.readouterr().err
    )
    assert "XLA had not done that after 0 s (it cannot be stopped" in answer
    assert program.memory.arguments == TABLE.nbytes + X.nbytes
    assert "constant" not in program.stablehlo.text.partition("dense_resource")[1]
    late = jaxlens.capture(folds, X)
    assert late.stablehlo.module.nodes()
    with pytest.raises(UnavailableError, match="asked for `optimized` first"):
        jaxlens.memory(late).peak


def test_the_core_s_programs_too(limited):
    from jaxlens import core

    table = core.numpy.asarray(TABLE)

    def f(x):
        return core.numpy.sum(table * x)

    program = jaxlens.capture(f, X)
    assert program.deviations
    assert program.memory.arguments == TABLE.nbytes + X.nbytes


LOOKS = """
    import json, resource, time
    import numpy as np
    import jax
    import jax.numpy as jnp
    import jaxlens

    def used():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def look(table):
        f = lambda x: table @ x + (table @ (2 * x)).sum()
        capture = jaxlens.capture(f, np.ones(1024, np.float32))
        for verb in (jaxlens.jaxpr, jaxlens.hlo, jaxlens.cost, jaxlens.fusion):
            len(str(verb(capture))), len(verb(capture).html())
        return capture

    def costs(table):
        # Only what goes beyond the most that was used is seen: all of that is made to be in use.
        pages = int(open("/proc/self/statm").read().split()[1])
        full = np.ones(max(used() - pages * resource.getpagesize(), 0), np.uint8)
        before, start = used(), time.process_time()
        assert look(table).deviations
        return used() - before, time.process_time() - start

    look(np.ones((4, 1024), np.float32))  # what the first look of a process takes
    shape = 2**16, 1024  # `asarray` would leave a copy that is freed in the background
    placed = {"np": np.ones(shape, np.float32), "jnp": jax.block_until_ready(jnp.ones(shape))}
    print(json.dumps({name: costs(table) for name, table in placed.items()}))
"""


@pytest.fixture(scope="module")
def costs():
    code = textwrap.dedent(LOOKS)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
@pytest.mark.parametrize("placed", ["np", "jnp"])
def test_a_quarter_of_a_gigabyte_costs_a_second_and_64_mib(costs, placed):
    memory, seconds = costs[placed]
    assert memory < 64 * 2**20
    assert seconds < 1
