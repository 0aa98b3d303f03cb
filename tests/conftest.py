"""What the tests of one process would leave to each other, and the garbage collector."""

import builtins
import gc


def pytest_configure() -> None:
    gc.disable()  # all that is made while tests are collected is kept: half a million objects


def pytest_collection_finish() -> None:
    gc.freeze()  # so that no collection goes through them again
    gc.enable()


def pytest_runtest_teardown() -> None:
    builtins.__dict__.pop("_", None)  # doctest puts the last result there; IPython then keeps none
