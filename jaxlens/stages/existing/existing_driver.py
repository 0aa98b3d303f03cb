"""Captures of an existing Traced, Lowered, StableHLO module or unoptimised HLO."""

from collections.abc import Mapping

from jaxlens.captures import Capture
from jaxlens.ir.driver import Driver
from jaxlens.ir.facts import Input, Program, Stage, Target
from jaxlens.stages.driver import ExistingDriver
from jaxlens.stages.session.existing_trace import ExistingTrace


def captured(
    staging: ExistingTrace,
    stages: Mapping[str, Stage] | None = None,
    missing: Mapping[str, str] | None = None,
) -> Capture:
    """Returns the capture of an existing trace or lowering; see `ExistingDriver`."""
    driver = ExistingDriver(staging, stages or {}, missing or {})
    return read_capture(driver, staging.call.name, staging.call.inputs, staging.place.target)


def read_capture(
    driver: Driver, name: str, inputs: tuple[Input, ...], target: Target, origin: str = ""
) -> Capture:
    """Returns the capture of a program that a driver reads.

    Args:
        driver: The driver.
        name: The program's name.
        inputs: The array leaves of its arguments.
        target: The target.
        origin: What it was read from, by default the driver's `holder`.
    """
    origin = f"read from {origin or driver.holder}"
    return Capture(Program(name, inputs, (), target, origin=origin), driver)
