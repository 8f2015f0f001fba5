"""A sandbox's folder is this user's alone, and what is secret in it is nobody else's."""

import os
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli import main
from slurm_ext.core.errors import MissingError, SandboxError
from slurm_ext.sandbox import Sandbox, SandboxSpec
from slurm_ext.sandbox.folder import check_parents, default_root, make_root, new_default_root
from slurm_ext.sandbox.layout import SandboxLayout
from slurm_ext.sandbox.leftovers import clean, make_state
from slurm_ext.sandbox.plan import daemons, read_plan
from slurm_ext.sandbox.render import write_files

NOBODY = 65534
FIELDS = {"first_port": 20001, "subnet": None, "slurm_version": [22, 5]}


def test_secrets_are_closed_from_their_first_byte(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The munge key is made with O_EXCL and never has a mode that others could open."""
    modes = {}
    real = os.open

    def watched(path: str, flags: int, mode: int = 0o777, **more: Any) -> int:
        if flags & os.O_CREAT:
            modes[Path(path).name] = (mode, bool(flags & os.O_EXCL and flags & os.O_NOFOLLOW))
        return real(path, flags, mode, **more)

    monkeypatch.setattr(os, "open", watched)
    plan = read_plan(SandboxSpec(accounting=True), SandboxLayout(short_folder / "s"), FIELDS)
    write_files(plan)
    secret = {name: modes[name] for name in ("munge.key", "slurmdbd.conf")}
    assert secret == {"munge.key": (0o400, True), "slurmdbd.conf": (0o600, True)}
    assert (plan.layout.etc / "munge.key").stat().st_mode & 0o777 == 0o400


def test_a_planted_key_file_is_an_error_and_stays_as_it_is(short_folder: Path) -> None:
    """A link where a secret goes is not followed."""
    plan = read_plan(SandboxSpec(), SandboxLayout(short_folder / "s"), FIELDS)
    target = short_folder / "target"
    target.write_text("old")
    plan.layout.etc.mkdir(parents=True)
    (plan.layout.etc / "munge.key").symlink_to(target)
    with pytest.raises(FileExistsError):
        write_files(plan)
    assert target.read_text() == "old"


@pytest.mark.parametrize(("private", "mode"), [(True, 0o700), (False, 0o755)])
@pytest.mark.root
def test_only_a_shared_sandbox_of_root_is_entered_by_others(
    short_folder: Path, private: bool, mode: int
) -> None:
    """Jobs of other users need a way in; nobody else does, and munged is told so."""
    spec = SandboxSpec(private=private)
    make_root(short_folder / "s", spec.folder_mode)
    assert (short_folder / "s").stat().st_mode & 0o777 == mode
    munged = daemons(read_plan(spec, SandboxLayout(short_folder / "s"), FIELDS))[0]
    assert ("--force" in munged.argv) == private


def test_the_sandbox_of_an_ordinary_user_is_private(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its jobs run as that user alone, so nobody else has to enter."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert SandboxSpec().folder_mode == 0o700


@pytest.mark.root
@pytest.mark.parametrize("fault", ["foreign", "writable", "link", "file"])
def test_a_squatted_folder_is_refused(short_folder: Path, fault: str) -> None:
    """Whoever made the folder first, or could write into it, gets no sandbox in it."""
    root = short_folder / "s"
    if fault == "link":
        root.symlink_to(short_folder)
    elif fault == "file":
        root.touch()
    else:
        root.mkdir()
        os.chown(root, NOBODY if fault == "foreign" else 0, -1)
        root.chmod(0o777 if fault == "writable" else 0o755)
    with pytest.raises(SandboxError):
        make_root(root, 0o755)
    with pytest.raises(SandboxError):
        Sandbox(root).up()
    assert not (root / "etc").exists()


@pytest.mark.root
@pytest.mark.parametrize("linked", [False, True])
def test_a_folder_below_another_users_is_refused(short_folder: Path, linked: bool) -> None:
    """Its owner could put another folder in its place, also where a link leads there."""
    theirs = short_folder / "theirs"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    (short_folder / "link").symlink_to(theirs)
    with pytest.raises(SandboxError, match="belongs to another user"):
        check_parents(
            short_folder / ("link" if linked else "theirs") / "s", entered_by_others=False
        )


def test_private_folders_may_be_below_private_ones(short_folder: Path) -> None:
    """$XDG_RUNTIME_DIR is closed to others: only a sandbox that they use may not be there."""
    short_folder.chmod(0o700)
    check_parents(short_folder / "s", entered_by_others=False)
    with pytest.raises(SandboxError, match=r"o\+x"):
        check_parents(short_folder / "s", entered_by_others=True)


def test_by_default_the_sandbox_is_in_the_users_runtime_folder(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else can make a name there, and every shell finds it again."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_folder))
    assert default_root() is None
    root = new_default_root()
    assert root == short_folder / "dlqueue-sandbox"
    make_root(root, 0o700)
    assert default_root() == root


def test_without_a_runtime_folder_the_sandbox_has_a_fresh_name_and_is_found_again(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can foresee the name; folders that are not this user's alone are passed over."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("slurm_ext.sandbox.folder.gettempdir", lambda: str(short_folder))
    monkeypatch.setattr("tempfile.tempdir", str(short_folder))
    assert default_root() is None
    first, second = new_default_root(), new_default_root()
    assert first != second
    assert first.stat().st_mode & 0o777 == 0o700
    second.chmod(0o777)  # as a squatter's, who wants root to use it
    (short_folder / "dlqueue-sandbox-link").symlink_to("/etc")
    assert default_root() == first


def test_what_cannot_come_up_leaves_no_empty_folder(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else `status` would take it for a sandbox; a folder that was named stays."""

    def missing(_: Sandbox) -> None:
        raise MissingError("munged is not installed", "on Debian: apt-get install munge")

    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("slurm_ext.sandbox.folder.gettempdir", lambda: str(short_folder))
    monkeypatch.setattr("tempfile.tempdir", str(short_folder))
    monkeypatch.setattr(Sandbox, "up", missing)
    assert main(["sandbox", "up"]) == 1
    assert not list(short_folder.iterdir())
    assert main(["sandbox", "status"]) == 1
    assert "you have no sandbox" in capsys.readouterr().err
    (short_folder / "own").mkdir()
    assert main(["sandbox", "up", "--root", str(short_folder / "own")]) == 1
    assert (short_folder / "own").exists()


@pytest.mark.root
def test_a_runtime_folder_of_another_user_is_not_used(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sudo -E` keeps the variable of the user that called it."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_folder))
    os.chown(short_folder, NOBODY, NOBODY)
    root = new_default_root()
    root.rmdir()
    assert not root.is_relative_to(short_folder)


def test_state_in_memory_has_a_fresh_private_folder_that_goes(short_folder: Path) -> None:
    """Nobody can lay it before, or read the scripts of jobs in it."""
    spec = SandboxSpec(state_on_tmpfs=True)
    plan = read_plan(spec, SandboxLayout(short_folder), FIELDS)
    make_state(plan)
    memory = plan.layout.state.readlink()
    assert memory.parent == Path("/dev/shm")
    assert memory.stat().st_mode & 0o777 == 0o700
    clean(plan, temporary=False)
    assert not memory.exists()


def test_a_state_link_that_leads_elsewhere_removes_nothing(short_folder: Path) -> None:
    """Only folders with a sandbox's name in /dev/shm are removed."""
    (short_folder / "precious").mkdir()
    (short_folder / "state").symlink_to(short_folder / "precious")
    plan = read_plan(SandboxSpec(), SandboxLayout(short_folder), FIELDS)
    clean(plan, temporary=False)
    assert (short_folder / "precious").exists()
