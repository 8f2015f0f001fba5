"""What root writes among another user's files is that user's."""

import os
import stat
from pathlib import Path

import pytest

from slurm_ext.core.ownership import appendable, chown_to_parent, make_folder

SLURM = 64_030
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives files to another user")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder, where this is root that of another user."""
    folder = tmp_path / "state"
    folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, SLURM, SLURM)
    return folder


@needs_root
def test_all_that_is_new_belongs_to_the_folders_owner(state: Path) -> None:
    """Folders above as well, a file for appending, a link itself; modes whatever the umask."""
    before = os.umask(0o077)
    try:
        make_folder(state / "a" / "b")
        os.close(appendable(state / "a" / "b" / "c", mode=0o600))
        (state / "link").symlink_to("/etc/passwd")
        chown_to_parent(state / "link")
    finally:
        os.umask(before)
    for name in ("a", "a/b", "a/b/c", "link"):
        assert (state / name).lstat().st_uid == SLURM
    assert stat.S_IMODE((state / "a").stat().st_mode) == 0o750
    assert Path("/etc/passwd").stat().st_uid == 0


@needs_root
def test_what_was_there_stays_whose_it_was(state: Path) -> None:
    """A site that gave it to somebody had its reasons."""
    (state / "a").mkdir()
    (state / "f").write_text("1")
    make_folder(state / "a")
    os.close(appendable(state / "f", mode=0o600))
    assert (state / "a").stat().st_uid == (state / "f").stat().st_uid == 0


def test_lines_are_appended_and_no_link_is_followed(state: Path) -> None:
    """Nor is a FIFO waited for."""
    (state / "f").write_text("1")
    with os.fdopen(appendable(state / "f", mode=0o600), "ab") as file:
        file.write(b"2")
    assert (state / "f").read_text() == "12"
    (state / "link").symlink_to(state / "f")
    os.mkfifo(state / "fifo")
    for name in ("link", "fifo", "none/x"):
        with pytest.raises(OSError, match=name):
            appendable(state / name, mode=0o600)


def test_a_file_in_its_place_is_no_folder(state: Path) -> None:
    """The error names it."""
    (state / "f").write_text("1")
    for path in (state / "f", state / "f" / "a"):
        with pytest.raises(NotADirectoryError, match="f"):
            make_folder(path)
