"""Removal of folders that users fill: whatever is in them, it ends and goes no further."""

import os
import resource
import subprocess
import time
from pathlib import Path

import pytest

from slurm_ext.node.common.files import FOLDER
from slurm_ext.node.common.removal import clear, remove_tree

LATER = 1e12  # monotonic: the clock never ends it


def _nested(top: Path, depth: int) -> None:
    """Folders one inside the other, a file in each, deeper than any path is long."""
    folder = os.open(top, FOLDER)
    for _ in range(depth):
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
        os.mkdir("a-rather-long-name", dir_fd=folder)
        below = os.open("a-rather-long-name", FOLDER, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)


def test_a_tree_deeper_than_recursion_and_descriptors(tmp_path: Path) -> None:
    """5,000 levels go with two open folders: neither the stack nor open files end it."""
    (tmp_path / "run").mkdir()
    _nested(tmp_path / "run", 5000)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ours = Path("/proc/self/fd").iterdir()  # earlier tests may have left some open
    highest = max(int(each.name) for each in ours)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 16, hard))
    try:
        assert remove_tree("run", str(tmp_path), LATER)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_a_call_that_ran_out_of_time_is_gone_on_with(tmp_path: Path) -> None:
    """Each call gets further, however short it is, and the last one finds nothing."""
    for wide in range(20):
        (tmp_path / "run" / str(wide)).mkdir(parents=True)
        _nested(tmp_path / "run" / str(wide), 20)
    assert not remove_tree("run", str(tmp_path), time.monotonic() - 1)
    calls = 0
    while not remove_tree("run", str(tmp_path), time.monotonic() + 0.002):
        calls += 1
        assert calls < 10_000
    assert list(tmp_path.iterdir()) == []


def test_links_lead_nowhere(tmp_path: Path) -> None:
    """Links to files and folders go, what they name stays; so do other names of a file."""
    precious = tmp_path / "precious"
    (precious / "inside").mkdir(parents=True)
    (precious / "file").write_text("mine")
    run = tmp_path / "run"
    (run / "below").mkdir(parents=True)
    (run / "link").symlink_to(precious)
    (run / "below" / "link").symlink_to(precious)
    (run / "below" / "file").hardlink_to(precious / "file")
    (run / "new\nline\x1b").mkdir()
    os.mkfifo(run / "below" / "fifo")
    assert remove_tree("run", str(tmp_path), LATER)
    assert (precious / "file").read_text() == "mine"
    assert (precious / "inside").is_dir()


def test_a_folder_above_that_cannot_be_entered_is_no_error(tmp_path: Path) -> None:
    """Nothing is removed through a link or without a folder; whoever asked goes on."""
    (tmp_path / "real" / "run").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert not remove_tree("run", str(tmp_path / "link"), LATER)
    assert not remove_tree("run", str(tmp_path / "nowhere"), LATER)
    assert (tmp_path / "real" / "run").is_dir()


def test_a_link_in_place_of_the_folder_is_left(tmp_path: Path) -> None:
    """Nothing behind it is touched."""
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (tmp_path / "run").symlink_to(tmp_path / "precious")
    assert not remove_tree("run", str(tmp_path), LATER)
    assert (tmp_path / "precious" / "file").exists()


def test_what_is_kept_stays_in_place(tmp_path: Path) -> None:
    """All else goes, folders with what is in them."""
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "other").touch()
    _nested(tmp_path, 3)
    folder = os.open(tmp_path, FOLDER)
    assert clear(folder, LATER, lambda entry: entry.name == "kept")
    os.close(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.root
def test_its_user_cannot_refill_it_meanwhile(tmp_path: Path) -> None:
    """A process of the user that makes folders in a loop, inside the folder, is outrun."""
    run = tmp_path / "run"
    (run / "a" / "b").mkdir(parents=True)
    for folder in (run, run / "a", run / "a" / "b"):
        os.chown(folder, 65534, 65534)
    loop = "echo go; i=0; while mkdir -p $i/x/y; do i=$((i+1)); done; echo stopped"
    refilling = subprocess.Popen(
        ["/bin/sh", "-c", loop],
        cwd=run / "a" / "b",
        user=65534,
        group=65534,
        extra_groups=[],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert refilling.stdout is not None
    try:
        assert refilling.stdout.readline() == b"go\n"
        assert remove_tree("run", str(tmp_path), time.monotonic() + 60)
        assert refilling.stdout.readline() == b"stopped\n"
    finally:
        refilling.kill()
        refilling.wait()
        refilling.stdout.close()
