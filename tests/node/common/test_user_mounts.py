"""FUSE in a run folder: root opens nothing where a user's program would have to answer."""

import time
from pathlib import Path

import pytest

from slurm_ext.node.common import files
from slurm_ext.node.common.removal import remove_tree
from slurm_ext.node.record.summaries import collect

ROOT = "1 2 0:1 / / rw - ext4 /dev/vda rw\n"
LINE = "36 35 0:53 / {} rw,nosuid,nodev - {} sshfs rw,user_id=5\n"


@pytest.mark.parametrize(
    ("point", "kind", "is_one"),
    [
        ("{run}", "fuse", True),
        ("{run}/a\\040b", "fuse.sshfs", True),
        ("{run}x", "fuse", False),
        ("{run}", "tmpfs", False),  # a site's, with a size
        ("/", "fuse", False),
    ],
)
def test_a_users_file_system_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, kind: str, is_one: bool
) -> None:
    """Neither read nor removed; what root mounted is no fault."""
    run = tmp_path / "5.0"
    run.mkdir()
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 2 0:1 / / rw - ext4 /dev/vda rw\n" + LINE.format(point.format(run=run), kind)
    )
    monkeypatch.setattr(files, "MOUNTS", str(mounts))
    assert files.has_user_mounts(str(run)) == is_one
    found = collect(str(run), run.stat().st_uid, time.monotonic() + 10)
    assert bool(found.faults) == is_one
    assert remove_tree("5.0", str(tmp_path), time.monotonic() + 10) != is_one


def test_without_a_list_of_mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without /proc has none that is known."""
    monkeypatch.setattr(files, "MOUNTS", str(tmp_path / "none"))
    assert not files.has_user_mounts(str(tmp_path))
