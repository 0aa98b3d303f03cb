"""What the tests of one process would leave to each other, the garbage collector, and bytecode."""

import builtins
import gc
import os
import sys
from pathlib import Path

# Some containers forbid bytecode, and then each process that a test starts compiles JAX, its
# libraries and this package anew: two seconds and more of each.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Here a program is compiled to be run: nobody reads its machine code, so LLVM optimises little, and
# a compile takes a third less.
ONLY_RUN = Path(__file__).parent / "core"


def pytest_configure():
    gc.disable()  # all that is made while tests are collected is kept: half a million objects


def pytest_collection_finish():
    gc.freeze()  # so that no collection goes through them again
    gc.enable()


def pytest_runtest_setup(item):
    if (jax := sys.modules.get("jax")) is not None:
        jax.config.update("jax_disable_most_optimizations", ONLY_RUN in item.path.parents)
    if (compiling := sys.modules.get("jaxlens.stages.session.compiling")) is not None:
        compiling.forget()  # the program of the test before


def pytest_runtest_teardown():
    builtins.__dict__.pop("_", None)  # doctest puts the last result there; IPython then keeps none
