"""The HLO reader against jaxlib's own parser, on every text that compiling real programs makes."""

import itertools
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from jaxlens.ir.hlo import reader as hlo
from jaxlens.ir.hlo.passes import in_order, pass_stages
from jaxlens.ir.text_store import pack
from tests.ir.check import check
from tests.support import programs
from tests.support.paths import run_python

_hlo = pytest.importorskip("jaxlib._hlo")
pytestmark = pytest.mark.backend

# Opcodes whose name in text is not the name of their constant with hyphens.
WORDS = {
    "clz": "count-leading-zeros",
    "cos": "cosine",
    "exp": "exponential",
    "expm1": "exponential-minus-one",
    "log1p": "log-plus-one",
    "mulhi": "mulhi",
    "optimization-barrier": "opt-barrier",
    "population-count": "popcnt",
    "sin": "sine",
    "top-k": "topk",
}
ASYNC = re.compile(r"-(start|update|done)$")


def indexing():
    """Sort, gather and scatter."""

    def f(x, i):
        return jnp.sort(x)[i].sum() + x.at[i].add(2.0).cumsum() + jax.lax.top_k(x, 2)[0][0]

    return f, (jnp.arange(8.0), jnp.array([1, 3]))


def randoms():
    """Random bits, normal values, a permutation."""

    def f(key):
        a, b, c = jax.random.split(key, 3)
        return jax.random.normal(a, (4, 3)), jax.random.permutation(b, 8), jax.random.bits(c)

    return f, (jax.random.key(0),)


def linalg():
    """Calls of a library: Cholesky, a triangular solve, a QR with its gradient."""

    def f(x):
        a = x @ x.T + 4.0 * jnp.eye(4)
        low = jnp.linalg.cholesky(a)
        y = jax.scipy.linalg.solve_triangular(low, x, lower=True)
        return (y * jnp.linalg.qr(a)[1]).sum()

    return jax.grad(f), (jnp.eye(4) + 0.1,)


PROGRAMS = {
    f.__name__: f
    for f in (
        programs.mlp_step,
        programs.attention,
        programs.scan_rnn,
        programs.while_cond,
        programs.conv_fft,
        indexing,
        randoms,
        linalg,
    )
}

SHARDED = """
import sys, jax, jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)
mesh = jax.make_mesh((4, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
def f(x, w):
    y = jnp.tanh(x @ w)
    return jax.lax.with_sharding_constraint(y, NamedSharding(mesh, P("b", None))).sum(0)
s = lambda *p: NamedSharding(mesh, P(*p))
jitted = jax.jit(f, in_shardings=(s("a", "b"), s("b", None)))
lowered = jitted.lower(jnp.ones((8, 16)), jnp.ones((16, 8)))
compiled = lowered.compile(
    compiler_options={"xla_dump_to": sys.argv[1], "xla_dump_hlo_pass_re": ".*"})
open(sys.argv[1] + "/optimized", "w").write(compiled.as_text())
"""


def texts_of(folder: Path) -> dict[str, str]:
    """Text by name: each dump, and the optimised module."""
    names = [*in_order(p.name for p in folder.iterdir()), "optimized"]
    return {name: (folder / name).read_text() for name in names}


def compile_into(folder: Path, name: str) -> dict[str, str]:
    f, args = PROGRAMS[name]()
    lowered = jax.jit(f).lower(*args)
    options = {"xla_dump_to": str(folder), "xla_dump_hlo_pass_re": ".*"}
    cached = jax.config.jax_enable_compilation_cache
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        compiled = lowered.compile(compiler_options=options)
    finally:
        jax.config.update("jax_enable_compilation_cache", cached)
    (folder / "optimized").write_text(compiled.as_text())
    return texts_of(folder)


def word(opcode) -> str:
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", opcode.name.removeprefix("k")).lower()
    return WORDS.get(name, name)


def truth(text: str) -> dict[str, dict[str, tuple[str, tuple[str, ...]]]]:
    """Opcode and operands of every instruction of every computation, by jaxlib's parser."""
    found = {}
    for computation in _hlo.hlo_module_from_text(text).computations():
        names = {i.name: printed(i, text) for i in computation.instructions()}
        found[computation.name] = {
            names[i.name]: (word(i.opcode), tuple(names[o.name] for o in i.operands()))
            for i in computation.instructions()
        }
    return found


def printed(instruction, text: str) -> str:
    """Its name in the text, where jax 0.12 writes an element of `x` as `x#1` and nowhere else."""
    if word(instruction.opcode) == "get-tuple-element" and f"%{instruction.name} = " not in text:
        index = re.search(r"index=(\d+)", instruction.to_string())[1]
        short = f"{instruction.operands()[0].name}#{index}"
        return short if f"%{short}" in text else instruction.name
    return instruction.name


def read(text: str) -> dict[str, dict[str, tuple[str, tuple[str, ...]]]]:
    """The same by ours, with the rules of legal graphs tried on the way."""
    module = hlo.read(text)
    assert module.unknown == ()
    assert check(module) == []
    return {
        region.name: {node.id: (node.opcode, node.operands) for node in region.nodes}
        for region in module.regions.values()
    }


def assert_same(text: str, name: str) -> int:
    ours, theirs = read(text), truth(text)
    assert ours.keys() == theirs.keys(), name
    for computation, instructions in theirs.items():
        mine = ours[computation]
        assert mine.keys() == instructions.keys(), (name, computation)
        for node, (opcode, operands) in instructions.items():
            if opcode.startswith("async-"):  # printed as `all-gather-start` and the like
                assert ASYNC.search(mine[node][0]), (name, node)
                opcode = mine[node][0]
            assert mine[node] == (opcode, operands), (name, computation, node)
    return sum(map(len, ours.values()))


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_dump_reads_as_jaxlib_reads_it(program, tmp_path):
    texts = compile_into(tmp_path, program)
    assert len(texts) > 10
    distinct = {text: name for name, text in texts.items()}
    assert sum(assert_same(text, name) for text, name in distinct.items()) > 50


def test_a_program_of_eight_devices_reads_as_jaxlib_reads_it(tmp_path):
    run_python(SHARDED, str(tmp_path))
    texts = texts_of(tmp_path)
    opcodes = set()
    for text, name in {text: name for name, text in texts.items()}.items():
        assert_same(text, name)
        opcodes |= {node.opcode for node in hlo.read(text).nodes()}
    assert opcodes & {"all-reduce", "all-gather", "reduce-scatter", "all-reduce-start"}


FORMS = {
    "short": {"print_percent": False, "print_operand_shape": False},
    "long": {"print_operand_shape": True, "print_percent": True},
    "types, no percent": {"print_operand_shape": True, "print_percent": False},
    "no headers": {"print_program_shape": False},
    "no metadata": {"print_metadata": False, "print_backend_config": False},
    "compact": {"compact_operands": False, "include_layout_in_shapes": False},
    "large constants": {"print_large_constants": True},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("program", ["while_cond", "linalg", "attention"])
def test_every_form_of_text_reads_the_same(form, program, tmp_path):
    f, args = PROGRAMS[program]()
    lowered = jax.jit(f).lower(*args)
    for text in (lowered.as_text(dialect="hlo"), lowered.compile().as_text()):
        module = _hlo.hlo_module_from_text(text)
        options = _hlo.HloPrintOptions()
        for name, value in FORMS[form].items():
            setattr(options, name, value)
        assert read(module.to_string(options)) == read(text)


def test_dumps_become_stages_in_order(tmp_path):
    texts = compile_into(tmp_path, "mlp_step")
    names = [name for name in texts if name != "optimized"]
    stages = pass_stages(names, pack(texts[name] for name in names))
    assert stages[0].name == "before_optimizations"
    assert len({stage.stage.title for stage in stages}) == len(stages)
    assert [stage.stage.text for stage in stages] == [texts[name] for name in names]
    for earlier, later in itertools.pairwise(stages):
        assert later.changed == (earlier.stage.text != later.stage.text)
        assert (later.stage.module is earlier.stage.module) == (not later.changed)


def inner(x):
    return jnp.sin(x)


def outer(x):
    return inner(x) * 2.0


def test_frames_are_the_calls_that_python_made():
    text = jax.jit(outer).lower(1.0).compile().as_text()
    found = [node.spans for node in hlo.read(text).nodes() if node.opcode == "sine"]
    assert found
    for spans in found:
        assert [span.function for span in spans[:2]] == ["inner", "outer"]
        assert spans[0].line == inner.__code__.co_firstlineno + 1
        assert spans[1].line == outer.__code__.co_firstlineno + 1
        source = Path(__file__).read_text().splitlines()
        assert source[spans[0].line - 1][spans[0].column : spans[0].end_column] == "jnp.sin(x)"
        assert source[spans[1].line - 1][spans[1].column : spans[1].end_column] == "inner(x)"
        assert spans[-1].function == "test_frames_are_the_calls_that_python_made"
