"""The HLO opcodes with an example each: the smallest JAX program that makes it, compiled now.

What an opcode does is the glossary's sentence. The example is a row of `EXAMPLES`; the instruction
is the one that XLA prints for it, before its passes where it has one there, else after them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jaxlens
from jaxlens.errors import OptionError, nearest
from jaxlens.ir.glossary import words
from jaxlens.render.document import Block, Document, Findings, TableBlock
from jaxlens.render.text.lines import line_text
from jaxlens.report import Cell, Finding, Table, count
from jaxlens.views.listings import hlo as hlo_lines
from jaxlens.views.view import View

_POOL = 'lax.reduce_window(x, 0.0, lax.add, (2,), (2,), "VALID")'
_MAXIMA = 'lax.reduce_window(x, -jnp.inf, lax.max, (2,), (2,), "VALID")'
_CONVOLUTION = 'lax.conv(image, filter, (1, 1), "VALID")'

EXAMPLES: Mapping[str, Mapping[str, str]] = {
    "Arithmetic, element by element": {
        "add": "x + y",
        "subtract": "x - y",
        "multiply": "x * y",
        "divide": "x / y",
        "remainder": "lax.rem(x, y)",
        "power": "x ** y",
        "maximum": "jnp.maximum(x, y)",
        "minimum": "jnp.minimum(x, y)",
        "clamp": "lax.clamp(0.0, x, 1.0)",
        "negate": "-x",
        "abs": "jnp.abs(x)",
        "sign": "jnp.sign(x)",
        "floor": "jnp.floor(x)",
        "ceil": "jnp.ceil(x)",
        "round-nearest-even": "jnp.round(x)",
        "round-nearest-afz": "lax.round(x)",
    },
    "Functions, element by element": {
        "exponential": "jnp.exp(x)",
        "exponential-minus-one": "jnp.expm1(x)",
        "log": "jnp.log(x)",
        "log-plus-one": "jnp.log1p(x)",
        "sqrt": "jnp.sqrt(x)",
        "rsqrt": "lax.rsqrt(x)",
        "cbrt": "jnp.cbrt(x)",
        "sine": "jnp.sin(x)",
        "cosine": "jnp.cos(x)",
        "tan": "jnp.tan(x)",
        "atan2": "jnp.arctan2(x, y)",
        "tanh": "jnp.tanh(x)",
        "erf": "lax.erf(x)",
    },
    "Comparing, choosing, bits": {
        "compare": "x < y",
        "select": "jnp.where(p, x, y)",
        "is-finite": "jnp.isfinite(x)",
        "and": "p & q",
        "or": "p | q",
        "xor": "p ^ q",
        "not": "~p",
        "shift-left": "i << 1",
        "shift-right-arithmetic": "i >> 1",
        "shift-right-logical": "u >> 1",
        "popcnt": "lax.population_count(i)",
        "count-leading-zeros": "lax.clz(i)",
    },
    "Types": {
        "convert": "x.astype(int)",
        "bitcast-convert": "lax.bitcast_convert_type(x, jnp.int32)",
        "reduce-precision": "lax.reduce_precision(x, 5, 10)",
        "complex": "lax.complex(x, y)",
        "real": "z.real",
        "imag": "z.imag",
    },
    "Making and arranging arrays": {
        "parameter": "x + y",
        "constant": "x + 2.0",
        "iota": "x + jnp.arange(4)",
        "broadcast": "jnp.broadcast_to(t, (4,))",
        "reshape": "m.reshape(6)",
        "transpose": "m.T",
        "reverse": "x[::-1]",
        "slice": "x[1:3]",
        "concatenate": "jnp.concatenate([x, y])",
        "pad": "jnp.pad(x, 1)",
        "sort": "jnp.sort(x)",
        "topk": "lax.top_k(x, 2)",
    },
    "Reading and writing by index": {
        "gather": "x[i]",
        "scatter": "x.at[i].set(y)",
        "dynamic-slice": "lax.dynamic_slice(x, (n,), (2,))",
        "dynamic-update-slice": "lax.dynamic_update_slice(x, y[:2], (n,))",
    },
    "Many elements to one": {
        "dot": "m @ w",
        "convolution": _CONVOLUTION,
        "reduce": "x.sum()",
        "reduce-window": _POOL,
        "select-and-scatter": f"jax.grad(lambda x: {_MAXIMA}.sum())(x)",
        "custom-call": "jnp.linalg.cholesky(s)",
        "rng-bit-generator": "lax.rng_bit_generator(u, (4,))[1]",
    },
    "Computations inside computations": {
        "call": "jax.nn.relu(x)",
        "conditional": "lax.cond(n > 0, jnp.sin, jnp.cos, x)",
        "while": "lax.fori_loop(0, 9, lambda k, x: x * 2, x)",
        "tuple": "(x + y, x - y)",
        "get-tuple-element": "lax.fori_loop(0, 9, lambda k, x: x * 2, x)",
        "opt-barrier": "lax.optimization_barrier(x)",
        "after-all": "lax.after_all(lax.create_token())",
    },
    "Between devices: inside jax.shard_map over an axis named i": {
        "all-reduce": 'lax.psum(x, "i")',
        "all-gather": 'lax.all_gather(x, "i")',
        "reduce-scatter": 'lax.psum_scatter(x, "i", tiled=True)',
        "collective-permute": 'lax.ppermute(x, "i", [(0, 0)])',
        "partition-id": 'x + lax.axis_index("i")',
    },
    "Made by XLA's passes": {
        "fusion": "jnp.sin(x) * 2",
        "bitcast": "m.reshape(6)",
        "copy": "m.T",
    },
}
"""For each group of opcodes: opcode and expression."""

_INPUTS: Mapping[str, str] = {
    "x, y": "f32[4]",
    "m": "f32[2,3]",
    "w": "f32[3,2]",
    "s": "f32[3,3]",
    "t": "f32[]",
    "i": "s32[4]",
    "n": "s32[]",
    "u": "u32[4]",
    "p, q": "pred[4]",
    "z": "c64[4]",
    "image": "f32[1,1,4,4]",
    "filter": "f32[1,1,2,2]",
}
_TYPES = {name: type for names, type in _INPUTS.items() for name in names.split(", ")}


@dataclass(frozen=True, slots=True)
class OpExample:
    """An opcode with its example.

    Attributes:
        opcode: Name of the op in HLO.
        expression: The JAX expression.
        instruction: What XLA printed for it, without metadata and layouts; "" where this version
            of JAX and XLA makes no such instruction of it.
        stage: "hlo" (before XLA's passes) or "optimized"; "" with no instruction.
    """

    opcode: str
    expression: str
    instruction: str
    stage: str


def hlo_ops(*opcodes: str) -> View[Any]:
    """Shows HLO opcodes: what each does, a JAX expression that makes it, and what XLA printed.

    Each expression is lowered, and compiled if need be, when this is called; nothing is run.

    Args:
        *opcodes: Which to show; all without any.

    Raises:
        OptionError: HLO has no such opcode.
    """
    known = words("instruction")
    for opcode in opcodes:
        if opcode not in known:
            raise OptionError(f"HLO has no opcode {opcode!r}; {nearest(opcode, list(known))}")
    return View(None, lambda: _document(opcodes)).compute()


@lru_cache(256)
def example(opcode: str) -> OpExample:
    """Returns the example of an opcode, with the instruction that XLA prints for it now.

    Raises:
        KeyError: There is no example of it.
    """
    group, expression = next((g, rows[opcode]) for g, rows in EXAMPLES.items() if opcode in rows)
    try:
        capture = _captured(expression, "shard_map" in group)
        for stage in ("hlo", "optimized"):
            module = getattr(capture, stage).module
            for node in module.nodes():
                if node.opcode == opcode:
                    line = line_text(hlo_lines.instructions(module)[node.id], False)
                    return OpExample(opcode, expression, line.strip().removeprefix("ROOT "), stage)
    except (AttributeError, TypeError, NotImplementedError):
        pass  # a name that this version of JAX does not have
    return OpExample(opcode, expression, "", "")


def _captured(expression: str, mapped: bool) -> jaxlens.Capture:
    """Returns the program of an expression, whose names are those of `_INPUTS`."""
    import jax

    from jaxlens.call.arguments.written_shapes import arguments

    names = [n for n in compile(expression, "<example>", "eval").co_names if n in _TYPES]
    space = {"jax": jax, "jnp": jax.numpy, "lax": jax.lax}
    f = eval(f"lambda {', '.join(names)}: {expression}", space)  # a row of the table above
    inputs, _ = arguments(", ".join(_TYPES[name] for name in names))
    if mapped:
        partition: Any = jax.sharding.PartitionSpec
        mesh = jax.sharding.Mesh(jax.devices("cpu")[:1], ("i",))
        spec = partition("i")
        f = jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        return jaxlens.capture(f, *inputs)
    return jaxlens.capture(f, *inputs, target="cpu" if inputs else None)


def _document(opcodes: tuple[str, ...]) -> Document:
    chosen = {
        group: [opcode for opcode in rows if not opcodes or opcode in opcodes]
        for group, rows in EXAMPLES.items()
    }
    made = [example(opcode) for rows in chosen.values() for opcode in rows]
    blocks: list[Block] = [Findings(tuple(_findings(made, opcodes)))]
    for group, rows in chosen.items():
        if rows:
            table = tuple(_row(example(opcode)) for opcode in rows)
            columns = ("op", "what it does", "in JAX", "what XLA printed")
            blocks.append(TableBlock(Table(group, columns, table)))
    rest = [
        o for o in opcodes or words("instruction") if not any(o in r for r in EXAMPLES.values())
    ]
    if rest:
        cells = tuple((Cell(opcode), Cell(_meaning(opcode))) for opcode in rest)
        title = "No example: of other devices, of XLA's own passes, or written in other ops"
        blocks.append(TableBlock(Table(title, ("op", "what it does"), cells)))
    return Document("hlo_ops", "HLO ops, and what XLA prints for them", tuple(blocks))


def _findings(made: list[OpExample], opcodes: tuple[str, ...]) -> Iterator[Finding]:
    if not made:
        return
    yield Finding(
        f"{count(len(made), 'opcode')} with an example: each expression was lowered now, and "
        f"the instruction is XLA's own text, without metadata and layouts."
    )
    inputs = "; ".join(f"{names} {type}" for names, type in _INPUTS.items())
    yield Finding(f"The inputs: {inputs}.")
    missing = [e.opcode for e in made if not e.instruction]
    if missing:
        yield Finding(f"Not made by this version: {', '.join(missing)}.", "unknown")


def _row(made: OpExample) -> tuple[Cell, ...]:
    printed = made.instruction or "not made by this version"
    return (Cell(made.opcode), Cell(_meaning(made.opcode)), Cell(made.expression), Cell(printed))


def _meaning(opcode: str) -> str:
    return words("instruction")[opcode].sentence
