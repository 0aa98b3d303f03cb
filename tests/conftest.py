"""The garbage collector while tests are collected and run."""

import gc


def pytest_configure() -> None:
    gc.disable()  # all that is made while tests are collected is kept: half a million objects


def pytest_collection_finish() -> None:
    gc.freeze()  # so that no collection goes through them again
    gc.enable()
