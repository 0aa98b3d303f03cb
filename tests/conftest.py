"""What the tests of one process would leave to each other, the garbage collector, and bytecode."""

import builtins
import gc
import os
import sys

# Some containers forbid bytecode, and then each process that a test starts compiles JAX, its
# libraries and this package anew: two seconds and more of each.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_configure():
    gc.disable()  # all that is made while tests are collected is kept: half a million objects


def pytest_collection_finish():
    gc.freeze()  # so that no collection goes through them again
    gc.enable()


def pytest_runtest_setup():
    if (compiling := sys.modules.get("jaxlens.stages.session.compiling")) is not None:
        compiling.forget()  # the program of the test before


def pytest_runtest_teardown():
    builtins.__dict__.pop("_", None)  # doctest puts the last result there; IPython then keeps none
