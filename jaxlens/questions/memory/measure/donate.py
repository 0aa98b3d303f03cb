"""Donates more inputs of a program, of which a copy is made."""

from collections.abc import Collection
from dataclasses import replace

from jaxlens import compat
from jaxlens.captures import Capture
from jaxlens.errors import UnavailableError
from jaxlens.ir.facts import Program
from jaxlens.stages.compile.program_text import mark_donated
from jaxlens.stages.driver import ExistingDriver, LiveDriver
from jaxlens.stages.session.existing_trace import ExistingTrace


def donating(live: LiveDriver, names: Collection[str]) -> Capture:
    """Returns the program with more inputs donated, made of a copy of the lowered one.

    Args:
        live: The driver of the program.
        names: The inputs' names.

    Raises:
        UnavailableError: The lowered program cannot be copied.
    """
    staging = live.staging
    # The jits of libraries name the inputs of the lowered program in their own way.
    users = {leaf.path: leaf.name for leaf in staging.call.inputs if leaf.path}
    inputs = tuple(
        replace(leaf, name=users.get(leaf.name, leaf.name)) for leaf in live.entry_inputs()
    )
    lowered = compat.own_copy(staging.lowered)
    if lowered is None:
        raise UnavailableError("this version of JAX copies no lowered program")
    places = [n for n, leaf in enumerate(inputs) if leaf.name in names]
    mark_donated(lowered.compiler_ir("stablehlo"), places)
    name, target = staging.call.name, staging.place.target
    inputs = tuple(replace(leaf, donated=leaf.donated or leaf.name in names) for leaf in inputs)
    cure = f"look at the capture of {name}"
    trial = ExistingTrace(
        name, inputs, target, "a trial", cure, outputs=live.outputs, make=lambda: lowered
    )
    program = Program(name, inputs, (), target, origin="with donated inputs")
    return Capture(program, ExistingDriver(trial, {}, {"jaxpr": "jaxpr"}))
