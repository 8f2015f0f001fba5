"""Python's garbage collector looks at what tests make, not at all that was imported for them.

Thousands of tests and the packages that they import are hundreds of megabytes of objects, which
live to the end of the run and would be walked through again and again.
"""

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays, and is never looked at again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
