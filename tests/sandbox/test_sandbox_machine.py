"""A machine that lacks something says what, and how to get it."""

from pathlib import Path

import pytest

from slurm_ext.core.errors import MissingError, SandboxError
from slurm_ext.sandbox import Sandbox, SandboxSpec
from slurm_ext.sandbox.spec import check_machine


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH."""
    monkeypatch.setattr("slurm_ext.sandbox.spec.search_path", lambda: str(tmp_path))
    return tmp_path


def install(folder: Path, *names: str) -> None:
    """Programs of those names."""
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


def test_without_slurm_up_says_how_to_get_it_and_makes_nothing(
    bare: Path, short_folder: Path
) -> None:
    """The package is named and the folder not even created."""
    with pytest.raises(MissingError, match=r"munged is not installed; .*apt-get install munge"):
        Sandbox(short_folder / "s").up()
    assert not (short_folder / "s").exists()


def test_only_what_was_asked_for_is_needed(bare: Path) -> None:
    """MariaDB is missed only where accounting is wanted."""
    install(bare, "munged", "slurmctld", "slurmd", "sbatch")
    check_machine(SandboxSpec())
    with pytest.raises(MissingError, match="slurmdbd is not installed"):
        check_machine(SandboxSpec(accounting=True))


@pytest.mark.root
def test_cgroup_v2_is_no_place_for_cgroup_v1(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the controllers are not mounted, the error names them."""
    install(bare, "munged", "slurmctld", "slurmd", "sbatch")
    monkeypatch.setattr("slurm_ext.sandbox.spec.CGROUPS", tmp_path)
    (tmp_path / "memory").mkdir()
    with pytest.raises(SandboxError, match="has no freezer, cpuacct"):
        check_machine(SandboxSpec(cgroup=True))
