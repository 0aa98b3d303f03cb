"""Faults planted where they are known: a pass of XLA's that is wrong, and a wrong lowering."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import jax
import jax.numpy as jnp
from jax.extend import core, xla
from jax.interpreters import mlir
from jaxlib import _hlo

_STAGE = xla.PipelineStage.POST_SCHEDULER


@contextmanager
def faulty_pass(of: str, reads: str, becomes: str) -> Iterator[None]:
    """Has XLA turn an op that reads the result of another into a third, in one computation.

    Each op alone, as op by op runs them, is compiled rightly.
    """

    def change(module: bytes) -> bytes | None:
        parsed = _hlo.HloModule.from_serialized_hlo_module_proto(module)
        text = parsed.to_string()
        lines = text.split("\n")
        made = set(re.findall(rf"%?(\S+) = \S+ {reads}\(", text))
        hit = re.compile(rf" {of}\(([^)]*)\)")
        for n, line in enumerate(lines):
            found = hit.search(line)
            if found and made & set(re.findall(r"[\w.\-]+", found[1])):
                lines[n] = line.replace(f" {of}(", f" {becomes}(", 1)
        if lines == text.split("\n"):
            return None
        return bytes(_hlo.hlo_module_from_text("\n".join(lines)).as_serialized_hlo_module_proto())

    xla.register_hlo_module_transformation(change, name="planted", stage=_STAGE, platforms=("cpu",))
    try:
        yield
    finally:
        xla.clear_hlo_module_transformation("planted", _STAGE, platforms=("cpu",))


def _twice(x):
    return x * 2


twice = core.Primitive("twice_planted")
twice.def_impl(_twice)  # op by op it is right
twice.def_abstract_eval(lambda x: jax.core.ShapedArray(x.shape, x.dtype))
mlir.register_lowering(
    twice, mlir.lower_fun(lambda x: x * 2 + (x > 2).astype(x.dtype), multiple_results=False)
)


def amount(x):
    """Doubles, wrongly where it is compiled."""
    return twice.bind(jnp.asarray(x))
