"""The spool's folders: users reach their own run folder, whatever the daemon's file mask is."""

import os
from pathlib import Path

import pytest

from slurm_ext.node.common.spool_layout import Spool


@pytest.mark.parametrize("mask", [0o022, 0o077, 0])
def test_users_pass_through_a_new_spool_to_their_folder(tmp_path: Path, mask: int) -> None:
    """They see no other's; what was there before keeps its mode, the process its mask."""
    (tmp_path / "site").mkdir(mode=0o750)
    spool = Spool(str(tmp_path / "site/above/dlqueue"))
    before = os.umask(mask)
    try:
        spool.prepare()
    finally:
        after = os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in (Path(spool.root), Path(spool.run))]
    assert (modes, after) == ([0o711, 0o711], mask)
    assert [p.stat().st_mode & 0o777 for p in (tmp_path / "site", tmp_path / "site/above")] == [
        0o750,
        0o755,
    ]
