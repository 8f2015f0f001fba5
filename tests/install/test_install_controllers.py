"""Two controllers with one slurm.conf, and a record each: neither takes the other's lines out."""

from pathlib import Path
from shutil import copy2

import pytest

from slurm_ext.install import slurm_conf
from slurm_ext.install.backups import load
from tests.install.image import Site

CONF, SHIM = "/etc/slurm/slurm.conf", "/etc/slurm/job_submit.lua"
HOOKS = ("Prolog=/etc/dlqueue", "Epilog=", "TaskProlog=/etc/dlqueue", "PrologFlags=Serial,Alloc")


@pytest.fixture
def backup(site: Site, tmp_path: Path) -> Site:
    """A backup controller that has done steps 1 and 2, after the primary has done all of them."""
    assert site.run("install", "files", "hooks", "submit") == 0
    made = Site(tmp_path / "backup")
    _copy(site, made)
    assert made.run("install", "files", "service") == 0
    return made


def _copy(site: Site, other: Site) -> None:
    """What controllers have in common."""
    for name in (CONF, SHIM):
        copy2(site.path(name), other.path(name))


def test_a_backup_controller_keeps_the_lines_of_the_first(site: Site, backup: Site) -> None:
    """`install submit`, as INSTALL says, leaves all hooks in slurm.conf, byte for byte."""
    assert backup.run("install", "submit") == 0
    assert all(f"\n{line}" in backup.text(CONF) for line in HOOKS)
    assert backup.text(CONF) == site.text(CONF)
    assert backup.text(SHIM) == site.text(SHIM)
    assert load(backup.place).steps == {"files", "service", "submit"}


def test_a_lost_record_takes_no_lines_along(site: Site) -> None:
    """A controller that was set up anew has hooks in slurm.conf, and an empty /etc/dlqueue."""
    assert site.run("install", "files", "hooks", "submit") == 0
    conf = site.text(CONF)
    site.path("/etc/dlqueue").rename(site.root.parent / "lost")
    assert site.run("install", "files", "service") == 0
    assert site.run("install", "submit") == 0
    assert site.text(CONF) == conf


def test_a_backup_controller_follows_what_the_first_takes_out(site: Site, backup: Site) -> None:
    """It remembers its own steps alone: hooks that are gone from slurm.conf do not come back."""
    assert backup.run("install", "submit") == 0
    assert site.run("uninstall", "hooks") == 0
    _copy(site, backup)
    assert backup.run("install") == 0
    assert backup.text(CONF) == site.text(CONF)
    assert slurm_conf.steps_in(backup.text(CONF)) == {"submit"}
    assert not backup.path("/etc/dlqueue/hooks/site_prolog").exists()


def test_a_backup_controller_takes_out_its_own_lines_alone(site: Site, backup: Site) -> None:
    """Unless the other's step is named, or everything is to go."""
    assert backup.run("install", "submit") == 0
    assert backup.run("uninstall", "submit") == 0
    assert site.run("uninstall", "submit") == 0
    assert backup.text(CONF) == site.text(CONF)
    assert slurm_conf.steps_in(backup.text(CONF)) == {"hooks"}
    assert backup.run("install", "submit") == 0
    assert backup.run("uninstall", "hooks") == 0
    assert slurm_conf.steps_in(backup.text(CONF)) == {"submit"}
    assert backup.run("uninstall") == 0
    assert slurm_conf.steps_in(backup.text(CONF)) == set()
