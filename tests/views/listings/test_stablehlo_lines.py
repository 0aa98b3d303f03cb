"""The StableHLO pane says what `lowered.as_text()` says, and every line knows its op."""

import re
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlens.errors import ReadError
from jaxlens.ir.stablehlo import reader as stablehlo
from jaxlens.ir.stablehlo.text import printed
from jaxlens.render.text.lines import line_text
from jaxlens.stages.trace.lower import stablehlo_text
from jaxlens.views.listings import stablehlo as stablehlo_lines
from tests.ir.jaxpr.test_jaxpr import loops
from tests.support import programs

pytestmark = pytest.mark.backend

X = jax.ShapeDtypeStruct((8, 4), "float32")
TABLE = np.arange(100, dtype="float32")
APPLIED = re.compile(r"\) applies stablehlo\.(\w+) ")


def several_at_once(x):
    both = (x, jnp.arange(32).reshape(8, 4))
    return jax.lax.reduce(both, (0.0, 0), lambda a, b: (a[0] + b[0], a[1] | b[1]), (0,))


def sharded(x):
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")
    inner = jax.shard_map(lambda v: v * 2, mesh=mesh, in_specs=spec, out_specs=spec)
    return jax.lax.with_sharding_constraint(inner(x), jax.sharding.NamedSharding(mesh, spec))


def announced(x):
    jax.debug.callback(lambda v: None, x)
    return x + 1


PROGRAMS = {
    **programs.SMALL,
    "loops": lambda: (loops, (X,)),
    "a branch in a loop": lambda: (
        lambda x: jax.lax.fori_loop(0, 3, lambda i, c: jax.lax.switch(i, [jnp.sin, loops], c), x),
        (X,),
    ),
    "sorting": lambda: (lambda x: (jnp.sort(x), x.at[1].add(2.0), jnp.cumsum(x)), (X,)),
    "several at once": lambda: (several_at_once, (X,)),
    "sharded": lambda: (sharded, (X,)),
    "callback": lambda: (announced, (X,)),
    "complex": lambda: (lambda x: x * (0.5 + 2j) + jnp.asarray(TABLE[:8, None] * 1j), (X,)),
    "table": lambda: (lambda x: x.sum() + TABLE, (X,)),
    "linear algebra": lambda: (jnp.linalg.svd, (X,)),
    "donated": lambda: (jax.jit(lambda x: {"new </pre>": x + 1}, donate_argnums=0), (X,)),
    "empty": lambda: (lambda x: None, (X,)),
}


@pytest.fixture(params=PROGRAMS)
def lowered(request):
    f, args = PROGRAMS[request.param]()
    return jax.jit(f).trace(*args).lower()


def read(lowered):
    module = stablehlo.read(lowered.compiler_ir("stablehlo"))
    return module, stablehlo_text(lowered)


def without_large(lines):
    """Constants of more than 16 elements are `...` in ours."""
    large = re.compile(r"dense(_resource)?<(__elided__|\"0x\w{100,}\"|\[[^>]{100,}\])>")
    return [large.sub("...", line) for line in lines]


def test_with_folds_shown_the_pane_is_what_jax_prints(lowered):
    listing = stablehlo_lines.listing(*read(lowered))
    lines = [line_text(line, True) for line in listing.lines]
    assert listing.note == ""
    assert without_large(line for line in lines if not line.startswith("// ")) == without_large(
        lowered.as_text().rstrip("\n").split("\n")
    )


def test_every_op_begins_one_line_or_is_applied_on_its_parents(lowered):
    module, text = read(lowered)
    opcodes = {node.id: node.opcode.partition(".")[2] for node in module.nodes()}
    begun = [line.node for line in printed(text, module) if line.begins]
    assert len(set(begun)) == len(begun)
    elsewhere = Counter(opcodes[id] for id in opcodes.keys() - set(begun))
    assert elsewhere == Counter(APPLIED.findall(text))


def test_each_line_names_the_op_it_is_tied_to(lowered):
    module, text = read(lowered)
    nodes = {node.id: node for node in module.nodes()}
    for line in printed(text, module):
        if line.begins:
            node = nodes[line.node]
            assert node.opcode.removeprefix("func.") in line.text
            assert all(f"%{name}" in line.text for name in node.operands)


def test_lines_between_blocks_belong_to_the_op_round_them():
    module, text = read(jax.jit(loops).trace(X).lower())
    nodes = {node.id: node.opcode for node in module.nodes()}
    between = [line for line in printed(text, module) if line.node and not line.begins]
    assert [line.text for line in between] == ["cond {", "} do {", "}"] * 2
    assert {nodes[line.node] for line in between} == {"stablehlo.while"}


def test_the_text_of_another_program_is_refused_and_still_shown():
    module, _ = read(jax.jit(loops).trace(X).lower())
    other = jax.jit(lambda x: x + 1).trace(X).lower().as_text()
    with pytest.raises(ReadError, match="line 3 of the StableHLO text is of another program"):
        list(printed(other, module))
    listing = stablehlo_lines.listing(module, other)
    assert [line_text(line, True) for line in listing.lines[1:]] == other.rstrip().split("\n")
    assert not any(line.id for line in listing.lines)


def test_deep_nesting_is_no_recursion():
    def nest(x):
        f = jnp.sin
        for _ in range(40):
            f = (lambda g: lambda v: jax.lax.while_loop(lambda c: c.sum() < 2, g, v))(f)
        return f(x)

    module, text = read(jax.jit(nest).trace(X).lower())
    assert sum(line.text == "} do {" for line in printed(text, module)) == 40
