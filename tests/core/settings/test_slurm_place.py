"""Slurm's commands are found where a site has them, with nothing set and nothing on PATH."""

import os
from pathlib import Path

import pytest

from slurm_ext.cli.doctor.checks import slurm_commands
from slurm_ext.core.settings import slurm_place as places
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.slurm_conf import slurm_conf
from slurm_ext.core.settings.slurm_place import SlurmPlace, slurm_bin, slurm_place
from slurm_ext.node.common import slurm_place as on_nodes
from slurm_ext.sandbox.spec import search_path

COMMANDS = ("scontrol", "squeue", "sbatch", "sinfo")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine below a folder, without Slurm; nothing is on PATH."""
    monkeypatch.setattr(places, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    monkeypatch.delenv("SLURM_CONF", raising=False)
    return tmp_path


def slurm_at(prefix: Path) -> str:
    """Commands below a prefix; their folder."""
    (prefix / "bin").mkdir(parents=True)
    for name in COMMANDS:
        (prefix / "bin" / name).write_text("#!/bin/sh\n")
        (prefix / "bin" / name).chmod(0o755)
    return str(prefix / "bin")


def runs(machine: Path, program: Path, *, deleted: str = "") -> None:
    """A process of that program, as /proc tells it."""
    pid = machine / "proc" / "12"
    pid.mkdir(parents=True)
    (pid / "exe").symlink_to(f"{program}{deleted}")


def test_a_setting_counts_first(machine: Path) -> None:
    """Whatever is there besides, and even where it names nothing: doctor says so then."""
    slurm_at(machine / "usr")
    place = slurm_place(Settings(values={"paths.slurm_bin": "/named"}))
    assert place == SlurmPlace("/named", "paths.slurm_bin")


def test_path_is_left_to_find_what_it_leads_to(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its commands may be in several folders."""
    monkeypatch.setenv("PATH", slurm_at(machine / "site"))
    assert slurm_place(Settings()) == SlurmPlace(str(machine / "site" / "bin"), "PATH")
    assert slurm_bin(Settings()) == ""


@pytest.mark.parametrize("deleted", ["", " (deleted)"])
def test_commands_are_beside_the_daemon_that_runs(machine: Path, deleted: str) -> None:
    """Also beside one whose file an update has replaced."""
    folder = slurm_at(machine / "opt" / "slurm-25")
    runs(machine, machine / "opt" / "slurm-25" / "sbin" / "slurmctld", deleted=deleted)
    assert slurm_place(Settings()) == SlurmPlace(folder, "the slurmctld that runs here")
    assert slurm_bin(Settings()) == folder


def test_a_daemon_of_another_user_is_not_believed(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any user may call a program slurmd, and have commands beside it."""
    slurm_at(machine / "home" / "eve")
    runs(machine, machine / "home" / "eve" / "sbin" / "slurmd")
    os.chown(machine / "proc" / "12", 65534, 65534) if os.geteuid() == 0 else None
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    assert slurm_place(Settings()) is None


@pytest.mark.parametrize("path", ["", "bin", "bin/scontrol"])
@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_commands_that_others_can_write_are_not_believed(
    machine: Path, path: str, mode: int
) -> None:
    """Whose process it was is told too late to trust: the files have to be root's or ours."""
    slurm_at(machine / "e")
    runs(machine, machine / "e" / "sbin" / "slurmd")
    (machine / "e" / path).chmod(mode)
    assert slurm_place(Settings()) is None


def test_a_users_link_is_not_followed_again(machine: Path) -> None:
    """It leads to safe commands while they are judged, and elsewhere later."""
    folder = slurm_at(machine / "sw")
    (machine / "e").mkdir()
    (machine / "e" / "bin").symlink_to(folder)
    runs(machine, machine / "e" / "sbin" / "slurmd")
    assert slurm_place(Settings()) == SlurmPlace(folder, "the slurmd that runs here")


def test_a_sticky_folder_keeps_what_is_ours(machine: Path) -> None:
    """Nobody else replaces root's folder in /tmp; a command in /tmp itself may be anybody's."""
    folder = slurm_at(machine / "e")
    runs(machine, machine / "e" / "sbin" / "slurmd")
    (machine / "e").chmod(0o1777)
    assert slurm_place(Settings()) == SlurmPlace(folder, "the slurmd that runs here")
    (machine / "e" / "bin").chmod(0o1777)
    assert slurm_place(Settings()) is None


@pytest.mark.parametrize("name", ["slurmd.service", "slurmctld.service.d/site.conf"])
def test_a_unit_tells_where_a_daemon_is(machine: Path, name: str) -> None:
    """The advisor's unit hides other users' processes from it."""
    folder = slurm_at(machine / "sw" / "slurm")
    unit = machine / "etc" / "systemd" / "system" / name
    unit.parent.mkdir(parents=True)
    unit.write_text(f"[Service]\nExecStart=\nExecStart=-{machine}/sw/slurm/sbin/slurmd -D -s\n")
    assert slurm_place(Settings()) == SlurmPlace(folder, str(unit))


def test_commands_are_beside_slurm_conf(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In <prefix>/etc, as a Slurm with a prefix has it; and it is found by them in turn."""
    folder = slurm_at(machine / "sw")
    conf = machine / "sw" / "etc" / "slurm.conf"
    conf.parent.mkdir()
    conf.touch()
    by_setting = Settings(values={"paths.slurm_conf": str(conf)})
    assert slurm_place(by_setting) == SlurmPlace(folder, "the place of slurm.conf")
    runs(machine, machine / "sw" / "sbin" / "slurmd")
    monkeypatch.setattr("slurm_ext.core.settings.slurm_conf.USUAL", machine / "none")
    assert slurm_conf(Settings()) == conf


def test_without_slurm_there_is_no_folder(machine: Path) -> None:
    """A folder without commands is none."""
    runs(machine, machine / "opt" / "slurm" / "sbin" / "slurmd")
    assert slurm_place(Settings()) is None
    assert slurm_bin(Settings()) == ""


def test_hooks_know_the_same_usual_places() -> None:
    """They import nothing of core, so that the list stands twice."""
    assert [f"/{folder}" for folder in places.USUAL] == list(on_nodes.USUAL)


def test_doctor_names_the_place_and_who_tells_it(machine: Path) -> None:
    """A site with two Slurms sees which one is used."""
    folder = slurm_at(machine / "opt" / "slurm")
    runs(machine, machine / "opt" / "slurm" / "sbin" / "slurmctld")
    seen = {finding.name: finding.seen for finding in slurm_commands(Settings())}
    assert seen["squeue"] == f"{folder}/squeue, by the slurmctld that runs here"


def test_a_sandbox_takes_daemons_from_beside_the_commands(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two Slurms are not mixed: another one's slurmctld comes later on PATH."""
    folder = slurm_at(machine / "opt" / "slurm")
    monkeypatch.setenv("PATH", f"{folder}:/usr/sbin")
    found = search_path().split(":")
    assert found.index(f"{machine}/opt/slurm/sbin") < found.index("/usr/sbin")
