"""Forks of which libraries do not warn: the program as written would not have made them."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Iterator

_TOKENIZERS = "TOKENIZERS_PARALLELISM"


@contextlib.contextmanager
def quiet_forks() -> Iterator[None]:
    """Meanwhile Hugging Face's tokenizers write nothing at a fork.

    Up to 0.21 they write four lines for each fork after their threads were at work, and compute
    with one thread in the fork, unless the environment says what they are to do. It says the same
    here: to them and in the fork only, for `os.environ` stays as it is.
    """
    if "tokenizers" not in sys.modules or _TOKENIZERS in os.environ:
        yield
        return
    os.putenv(_TOKENIZERS, "false")
    try:
        yield
    finally:
        os.unsetenv(_TOKENIZERS)
