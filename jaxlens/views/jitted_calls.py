"""Says how a call of a function runs that is not jitted: op by op, or as jitted calls."""

from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.columns import columns
from jaxlens.ir.graph import Module
from jaxlens.report import count

_JIT = ("jit", "pjit")
# Equations of which JAX evaluates the body, equation by equation, outside of jit.
_EVALUATED = (
    "checkpoint",
    "closed_call",
    "custom_jvp_call",
    "custom_vjp_call",
    "custom_vmap_call",
    "remat",
    "remat2",
)


def as_written(capture: Capture) -> str:
    """Returns "it runs op by op" or what runs instead; "" for a jitted function.

    It traces the call, unless that is done.
    """
    if not capture.program.unjitted:
        return ""
    try:
        calls, others = jitted_calls(capture.jaxpr.module)
    except UnavailableError:
        return "how it runs is not known without its jaxpr, which is not held"
    if not calls:
        return "it runs op by op"
    made = count(calls, "jitted call")
    return f"it runs {made}, and the rest op by op" if others else f"its work is {made}"


def jitted_calls(jaxpr: Module) -> tuple[int, bool]:
    """Returns how many jitted calls JAX makes where it runs a jaxpr outside of jit.

    JAX runs each as one program, and each other equation as an operation by itself. `jnp.where`
    and its like are jitted by JAX: where there is other work, they are operations of it.

    Args:
        jaxpr: The jaxpr of a function that is not jitted.

    Returns:
        The number of jitted calls, and whether there is other work.
    """
    program = columns(jaxpr)
    calls = own = others = 0
    pending = [jaxpr.entry]
    for name in pending:  # which grows
        region = program.regions[name]
        others += len(region) - len(region.calls)
        for step, bodies in region.calls.items():
            opcode = program.opcodes[region.kind[step]]
            if opcode in _JIT:
                calls += 1
                own += bool(jaxpr.regions[bodies[0]].function)
            elif opcode in _EVALUATED:
                pending.append(bodies[0])
            else:
                others += 1
    return (own, True) if others else (calls, False)
