"""What root writes among another user's files is that user's."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core.ownership import (
    appendable,
    chown_to_parent,
    make_folder,
    newline_if_torn,
    read_own,
    trust_path,
)

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


def test_a_cut_line_is_ended_before_the_next(tmp_path: Path) -> None:
    """Only where there is one: an empty file, and one that ends well, get nothing."""
    for text, added in ((b"", b""), (b"a\n", b""), (b"a\nb", b"\n"), (b"\n", b"")):
        path = tmp_path / "journal"
        path.write_bytes(text)
        file = appendable(path, mode=0o600)
        try:
            assert newline_if_torn(file) == added
        finally:
            os.close(file)


def test_a_new_file_has_its_mode_and_can_be_read_back(state: Path) -> None:
    """The journal looks at its own last byte; a child of the loop does not inherit it."""
    file = appendable(state / "new", mode=0o640)
    try:
        os.write(file, b"12")
        assert os.pread(file, 2, 0) == b"12"
        assert not os.get_inheritable(file)
    finally:
        os.close(file)
    assert stat.S_IMODE((state / "new").stat().st_mode) == 0o640


def test_folders_have_the_mode_that_was_asked_for(state: Path) -> None:
    """All that are new; those that were there keep theirs."""
    (state / "old").mkdir(mode=0o700)
    make_folder(state / "old" / "a" / "b", mode=0o711)
    modes = [stat.S_IMODE((state / "old" / name).stat().st_mode) for name in (".", "a", "a/b")]
    assert modes == [0o700, 0o711, 0o711]
    make_folder(state / "old", mode=0o711)
    assert stat.S_IMODE((state / "old").stat().st_mode) == 0o700


def test_another_process_may_make_the_folder_first(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the making: nothing fails, and the rest is made."""
    make = Path.mkdir

    def slow(path: Path, *args: Any) -> None:
        if path.name == "a":
            make(path)
        make(path, *args)

    monkeypatch.setattr(Path, "mkdir", slow)
    make_folder(state / "a" / "b")
    assert (state / "a" / "b").is_dir()
    (state / "f").touch()
    with pytest.raises(NotADirectoryError) as caught:
        make_folder(state / "f")
    assert (caught.value.errno, caught.value.filename) == (20, str(state / "f"))


@needs_root
def test_root_finds_no_program_where_everybody_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the folder where it is, nor in a public one; a missing one does no harm."""
    public, own = tmp_path / "public", tmp_path / "own"
    public.mkdir()
    public.chmod(0o1777)
    own.mkdir(mode=0o755)
    monkeypatch.setenv("PATH", f".::bin:{public}:{own}:/usr/bin:/no/such")
    trust_path()
    assert os.environ["PATH"] == f"{own}:/usr/bin:/no/such"
    monkeypatch.setenv("PATH", ".")
    trust_path()
    assert os.environ["PATH"] == os.defpath


@needs_root
@pytest.mark.parametrize("fault", ["foreign", "group", "link", "folder"])
def test_only_ones_own_file_is_read(tmp_path: Path, fault: str) -> None:
    """Whoever else could have written it, or another thing of its name, is refused."""
    file = tmp_path / "file"
    file.write_bytes(b"mine")
    assert read_own(file) == b"mine"
    if fault == "foreign":
        os.chown(file, SLURM, -1)
    elif fault == "group":
        file.chmod(0o664)
    else:
        file.unlink()
        file.symlink_to("/etc/hostname") if fault == "link" else file.mkdir()
    with pytest.raises(OSError, match=r"another user|by others|symbolic|plain file"):
        read_own(file)
