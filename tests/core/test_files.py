"""Files that others read while they are written: whole, durable, and told apart."""

import os
import stat
from pathlib import Path

import pytest

from slurm_ext.core.files import (
    file_id,
    file_version,
    replace_file,
    sync_folder,
    try_lock,
    write_new,
)


def test_readers_find_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    """The name is taken over by a rename: who has the old file open keeps it."""
    path = tmp_path / "file"
    replace_file(path, b"old")
    with path.open("rb") as old:
        replace_file(path, b"new")
        assert old.read() == b"old"
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("durable", [True, False])
def test_durable_waits_for_file_and_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    """Both reach the disk before the call returns, the file before its rename."""
    synced: list[tuple[bool, bool]] = []
    path = tmp_path / "file"

    def fsync(file: int) -> None:
        synced.append((stat.S_ISDIR(os.fstat(file).st_mode), path.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    replace_file(path, b"data", durable=durable)
    assert synced == ([(False, False), (True, True)] if durable else [])


@pytest.mark.parametrize("fails", ["fsync", "prepare", "rename"])
def test_an_error_leaves_what_stood_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """A full disk, an owner that is refused, a name that is taken: no part is left behind.

    The error names the file, also a full disk's, which comes without a name.
    """

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    path = tmp_path / "file"
    if fails == "rename":
        path.mkdir()
        (path / "inside").touch()
    else:
        path.write_bytes(b"old")
    if fails == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"(No space|directory).*file'"):
        replace_file(path, b"new", prepare=full if fails == "prepare" else lambda _: None)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert fails == "rename" or path.read_bytes() == b"old"


def test_modes_are_the_umasks_unless_they_are_set(tmp_path: Path) -> None:
    """The user's umask narrows `mode`; `prepare` is asked after it, while nobody sees the file."""
    before = os.umask(0o027)
    try:
        replace_file(tmp_path / "usual", b"")
        replace_file(tmp_path / "private", b"", mode=0o600)
        replace_file(tmp_path / "exact", b"", prepare=lambda file: os.fchmod(file, 0o755))
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"usual": 0o640, "private": 0o600, "exact": 0o755}


def test_a_part_that_a_power_cut_left_is_replaced_and_no_link_is_followed(tmp_path: Path) -> None:
    """Another user's link of the part's name must not lead root elsewhere."""
    part, elsewhere = tmp_path / ".file.part", tmp_path / "elsewhere"
    elsewhere.write_bytes(b"untouched")
    part.symlink_to(elsewhere)
    replace_file(tmp_path / "file", b"new", part=part)
    assert elsewhere.read_bytes() == b"untouched"
    assert not (tmp_path / "file").is_symlink()
    assert not part.is_symlink()


def test_one_process_holds_a_lock(tmp_path: Path) -> None:
    """A second descriptor is refused until the first is closed; folders can be locked too."""
    first, second = (os.open(tmp_path, os.O_RDONLY) for _ in range(2))
    assert try_lock(first)
    assert not try_lock(second)
    os.close(first)
    assert try_lock(second)
    os.close(second)


def test_a_file_is_the_same_while_it_is_written_to_and_another_once_replaced(
    tmp_path: Path,
) -> None:
    """A database grows and is the same; a settings file that was saved is another version."""
    path, link = tmp_path / "file", tmp_path / "link"
    assert file_id(path) is None
    assert file_version(path) is None
    assert file_version(path / "below") is None
    path.write_bytes(b"one")
    os.utime(path, ns=(1, 1))
    first, version = file_id(path), file_version(path)
    assert version is not None
    assert version[1:] == (1, 3)
    path.write_bytes(b"longer")
    os.utime(path, ns=(1, 1))
    assert file_id(path) == first
    assert file_version(path) != version  # by its size alone
    path.write_bytes(b"two")
    os.utime(path, ns=(2, 1))
    assert file_version(path) == version
    os.utime(path, ns=(1, 2))
    assert file_version(path) != version  # by its time alone
    replace_file(path, b"two")
    assert file_id(path) != first
    link.symlink_to(path)
    assert file_version(link) == file_version(path)
    assert file_version(link, follow=False) != file_version(path)


def test_a_folder_that_is_none_cannot_be_synced(tmp_path: Path) -> None:
    """The error is the system's."""
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        sync_folder(tmp_path / "file")


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o400])
def test_a_new_file_has_its_bytes_and_its_mode(tmp_path: Path, mode: int) -> None:
    """Whatever the process's mask is."""
    mask = os.umask(0o077)
    try:
        write_new(tmp_path / "file", b"secret", mode=mode)
    finally:
        os.umask(mask)
    assert (tmp_path / "file").read_bytes() == b"secret"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_what_lies_at_a_new_files_place_is_left(tmp_path: Path) -> None:
    """A file, and a link to one that is there or is not: somebody may have laid it there."""
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "open").symlink_to("none")
    for name in ("file", "link", "open"):
        with pytest.raises(FileExistsError):
            write_new(tmp_path / name, b"secret", mode=0o600)
    assert (tmp_path / "file").read_bytes() == b"old"
    assert not (tmp_path / "none").exists()
