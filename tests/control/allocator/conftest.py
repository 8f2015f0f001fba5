"""Fixtures of these tests."""

from pathlib import Path

import pytest

from slurm_ext.node.common.spool_layout import Spool


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """A node's spool."""
    spool = Spool(str(tmp_path / "spool"))
    spool.prepare()
    return spool
