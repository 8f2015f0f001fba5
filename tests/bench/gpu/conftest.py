"""Fixtures of the rows: MPS's stand-in, which other tests' daemons must not meet."""

from tests.node.conftest import only_mps

__all__ = ["only_mps"]
