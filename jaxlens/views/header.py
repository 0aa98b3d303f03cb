"""The first line of every output: the function, its arguments, and the target."""

from jaxlens.ir.facts import Program, Static, Target
from jaxlens.program.sentences import named_inputs

_STATIC = 60  # characters of a static value
_STATICS = 6  # static values: a model of Equinox has one for each activation
# XLA autotunes by measuring candidates on the GPU.
_UNTUNED = ": autotuning is off, a real one's program may differ"


def header_line(program: Program, runs: str = "") -> str:
    """`grad(loss)(params, x) with params['w'] f32[8,4], x f32[8]; n=3 static; on cpu`.

    Args:
        program: The program.
        runs: How the call runs as it is written, if the function is not jitted.
    """
    parts = [program.call]
    if program.inputs:
        parts.append(f"with {named_inputs(program.inputs)}")
    elif program.call != "expression":
        parts.append("without array inputs")
    if program.statics:
        more = f" and {len(program.statics) - _STATICS} more" * (len(program.statics) > _STATICS)
        shown = ", ".join(map(_static, program.statics[:_STATICS]))
        parts.append(f"and static {shown}{more}")
    call = " ".join([*parts, where(program.target)])
    jit = "jitted for this look" + (f" (as written, {runs})" if runs else "")
    asides = [program.engine, jit if program.unjitted else "", program.origin]
    return ", ".join([call, *program.flags, *filter(None, asides)])


def where(target: Target) -> str:
    """ "on cpu", "on 8 x NVIDIA H200 (gpu)", "for TPU v5e (tpu), which is not here"."""
    kind = target.platform
    if not kind:
        return "for a device that is not named"
    if target.kind and target.kind.lower() != target.platform:
        kind = f"{target.kind} ({target.platform})"
    if target.devices > 1:
        kind = f"{target.devices} x {kind}"
    if not target.absent:
        return f"on {kind}"
    return f"for {kind}, which is not here{_UNTUNED if target.platform == 'gpu' else ''}"


def _static(static: Static) -> str:
    cut = "..." if len(static.text) > _STATIC else ""
    return f"{static.name}={static.text[:_STATIC]}{cut}"
