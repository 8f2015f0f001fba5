"""Labels are restored where SELinux is; whatever restorecon says, the installation stands."""

from pathlib import Path

import pytest

from slurm_ext.cli import main
from slurm_ext.cli.doctor.selinux import labels
from slurm_ext.core.settings.document import Settings
from slurm_ext.install import selinux

CONF = "SlurmUser=nobody\n"


class Machine:
    """A site as an image, and a `restorecon` that notes what it is asked."""

    def __init__(self, folder: Path) -> None:
        self.root, self.asked = folder / "root", folder / "asked"
        self.bin = folder / "bin"
        self.bin.mkdir()
        (self.root / "etc/slurm").mkdir(parents=True)
        (self.root / "etc/slurm/slurm.conf").write_text(CONF)

    def restorecon(self, body: str = "") -> None:
        """The stand-in: `body` is what it does besides."""
        program = self.bin / "restorecon"
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {self.asked}\n{body}\n')
        program.chmod(0o755)

    def run(self, *words: str) -> int:
        """Of the whole site."""
        return main([words[0], "--root", str(self.root), *words[1:]])

    def labelled(self) -> set[str]:
        """Paths below the root that were asked for."""
        lines = self.asked.read_text().splitlines() if self.asked.exists() else []
        return {line.removeprefix(str(self.root)) for line in lines if line[0] == "/"}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """With SELinux, and the only programs that the installation may call."""
    made = Machine(tmp_path)
    (tmp_path / "selinux").mkdir()
    (tmp_path / "selinux" / "enforce").write_text("1")
    monkeypatch.setattr(selinux, "MOUNT", tmp_path / "selinux")
    monkeypatch.setattr(selinux, "_LIVE", made.root)
    monkeypatch.setattr(selinux, "_ADMIN_FOLDERS", "")
    monkeypatch.setenv("PATH", str(made.bin), prepend=":")
    return made


def test_what_was_written_is_labelled_forwards_and_backwards(machine: Machine) -> None:
    """The folder, the unit and the site's joined files; what was taken away is not asked about."""
    machine.restorecon()
    assert machine.run("install") == 0
    wanted = {"/etc/dlqueue", "/etc/slurm/slurm.conf", "/etc/systemd/system/dlqueue.service"}
    assert wanted <= machine.labelled()
    machine.asked.unlink()
    assert machine.run("uninstall") == 0
    assert "/etc/slurm/slurm.conf" in machine.labelled()
    assert "/etc/systemd/system/dlqueue.service" not in machine.labelled()
    assert (machine.root / "etc/slurm/slurm.conf").read_text() == CONF


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("echo 'no such context' >&2; exit 1", "no such context"),
        ("exit 255", "status 255"),
        (None, "no restorecon here"),
    ],
)
def test_what_cannot_be_labelled_is_said_and_stays(
    machine: Machine, capsys: pytest.CaptureFixture[str], body: str | None, why: str
) -> None:
    """One warning, exit status 0, every file in its place."""
    if body is not None:
        machine.restorecon(body)
    assert machine.run("install") == 0
    told = capsys.readouterr().err
    assert "warning: SELinux labels are not restored" in told
    assert why in told
    assert (machine.root / "etc/dlqueue/dlqueue.toml").exists()


def test_without_selinux_and_in_image_nobody_asks(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine's policy is not the one of an image that is built here."""
    machine.restorecon()
    monkeypatch.setattr(selinux, "_LIVE", Path("/"))
    assert machine.run("install") == 0
    monkeypatch.setattr(selinux, "_LIVE", machine.root)
    (selinux.MOUNT / "enforce").unlink()
    assert machine.run("uninstall") == 0
    assert machine.labelled() == set()


def test_doctor_names_wrong_labels(machine: Machine, tmp_path: Path) -> None:
    """With the command that mends them; silent where there is no SELinux."""
    config = tmp_path / "dlqueue" / "dlqueue.toml"
    config.parent.mkdir()
    settings = Settings(str(config), {})
    file = config.parent / "a from b"
    machine.restorecon(f"echo 'Would relabel {file} from user_t:s0 to etc_t:s0'")
    (found,) = labels(settings)
    assert (found.status, str(file) in found.seen) == ("warn", True)
    assert found.advice == f"restorecon -R {config.parent}"
    machine.restorecon()
    assert [found.status for found in labels(settings)] == ["ok"]
    machine.restorecon("exit 1")
    assert ["cannot be checked" in found.seen for found in labels(settings)] == [True]
    (selinux.MOUNT / "enforce").unlink()
    assert list(labels(settings)) == []
