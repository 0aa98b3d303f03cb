"""Programs with large captured arrays: compiled as they are, or not at all."""

import json
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxlib import _hlo

import jaxlens
from jaxlens.errors import UnavailableError
from jaxlens.stages.trace import captured_arrays
from tests.support.paths import run_python

pytestmark = [pytest.mark.backend, pytest.mark.reads_jax]

ROWS, COLUMNS = 5_000, 1_000  # 20 MB
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


def fingerprint(text):
    return _hlo.hlo_module_from_text(text).to_string(_hlo.HloPrintOptions.fingerprint())


def words(answer):
    return " ".join(str(answer).split())


@pytest.fixture(scope="module")
def program():
    return jaxlens.capture(reads, X)


@pytest.fixture(scope="module")
def bare():
    return reads.lower(X).compile()


@pytest.fixture
def limited(monkeypatch):
    monkeypatch.setattr(captured_arrays, "MOST", 1_000_000)


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
    assert [(fold.bytes, fold.opcode) for fold in answer.folded if fold.bytes == TABLE.nbytes] == [
        (TABLE.nbytes, "reverse")
    ]
    assert fingerprint(program.optimized.raw) == fingerprint(folds.lower(X).compile().as_text())


def test_what_is_computed_before_the_first_pass_is_timed():
    program = jaxlens.capture(lambda x: jnp.maximum(TABLE, 0.5) @ x, X)
    times = jaxlens.times(program)
    groups = times.compile.groups
    assert max(groups, key=groups.get) == "conversion to HLO"
    assert sum(groups.values()) == pytest.approx(times.compile.seconds)
    assert "Conversion to HLO took" in times.text(times=True)


def test_more_than_the_limit_is_traced_and_no_more(limited, tmp_path):
    program = jaxlens.capture(reads, X)
    why = (
        "jax.jit would copy `TABLE` (f32[5000,1000], 20 MB) into the program of reads, more than "
        "the 1 MB that are compiled here: pass it as an argument; the jaxpr is there"
    )
    for name in ("stablehlo", "hlo", "optimized", "asm"):
        with pytest.raises(UnavailableError) as raised:
            program.stage(name)
        assert str(raised.value) == why
    for verb in (jaxlens.hlo, jaxlens.compile, jaxlens.explore, jaxlens.captured, jaxlens.cost):
        assert why in words(verb(program))
        assert "would copy <code>TABLE</code>" in verb(program).html()
    assert "dot_general" in program.jaxpr.text
    assert jaxlens.captured(program).bytes == TABLE.nbytes
    assert program.deviations == ()
    program.save(tmp_path / "saved")
    loaded = jaxlens.load(tmp_path / "saved")
    assert loaded.jaxpr.text == program.jaxpr.text
    with pytest.raises(UnavailableError, match="pass it as an argument"):
        _ = loaded.optimized
    taken = jaxlens.capture(lambda table, x: (table @ x).sum(), TABLE, X)
    assert taken.memory.arguments == TABLE.nbytes + X.nbytes


def test_the_core_s_programs_too(limited):
    from jaxlens import core

    table = core.numpy.asarray(TABLE)
    with pytest.raises(UnavailableError, match="more than the 1 MB that are compiled here"):
        _ = jaxlens.capture(lambda x: core.numpy.sum(table * x), X).stablehlo


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
        for verb in (jaxlens.jaxpr, jaxlens.hlo, jaxlens.cost, jaxlens.explore):
            len(str(verb(capture))), len(verb(capture).html())
        return capture

    def costs(table):
        # Only what goes beyond the most that was used is seen: all of that is made to be in use.
        pages = int(open("/proc/self/statm").read().split()[1])
        full = np.ones(max(used() - pages * resource.getpagesize(), 0), np.uint8)
        before, start = used(), time.process_time()
        look(table)
        return used() - before, time.process_time() - start

    look(np.ones((4, 1024), np.float32))  # what the first look of a process takes
    shape = 2**16, 1024  # `asarray` would leave a copy that is freed in the background
    placed = {"np": np.ones(shape, np.float32), "jnp": jax.block_until_ready(jnp.ones(shape))}
    print(json.dumps({name: costs(table) for name, table in placed.items()}))
"""


@pytest.fixture(scope="module")
def costs():
    return json.loads(run_python(textwrap.dedent(LOOKS)))


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
@pytest.mark.parametrize("placed", ["np", "jnp"])
def test_a_quarter_of_a_gigabyte_costs_a_second_and_64_mib(costs, placed):
    memory, seconds = costs[placed]
    assert memory < 64 * 2**20
    assert seconds < 1
