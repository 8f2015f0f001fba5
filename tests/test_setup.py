"""setup.sh says exactly what is missing, and touches nothing, where it cannot install."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.manual import ROOT

SCRIPT = Path("contrib") / "packaging" / "setup.sh"
TOOLS = ("sh", "tr", "id", "dirname", "sort", "apt-get")


class Machine:
    """A clone's setup.sh with a PATH of its own: of Slurm's commands only those in /usr/sbin."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, folder / "bin"
        (folder / SCRIPT.parent).mkdir(parents=True)
        shutil.copy2(ROOT / SCRIPT, folder / SCRIPT)
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool) or "/usr/bin/false")
        self.command("python3", "exit 0")

    def command(self, name: str, body: str) -> None:
        """A stand-in for a command."""
        (self.bin / name).unlink(missing_ok=True)
        (self.bin / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.bin / name).chmod(0o755)

    def setup(self, *purpose: str) -> str:
        """What setup.sh says, as an ordinary user; it has to fail and to leave nothing behind."""
        before = sorted(self.folder.rglob("*"))
        user = {"user": "nobody"} if os.geteuid() == 0 else {}
        done = subprocess.run(
            ["/bin/sh", self.folder / SCRIPT, *purpose],
            env={"PATH": str(self.bin)},
            capture_output=True,
            text=True,
            timeout=60,
            **user,  # type: ignore[call-overload] # a mapping hides which keyword it is
        )
        assert done.returncode == 1
        assert sorted(self.folder.rglob("*")) == before
        return str(done.stdout + done.stderr)

    def missing(self, *purpose: str) -> set[str]:
        """Debian's names of what setup.sh would install."""
        return set(self.setup(*purpose).partition("missing: ")[2].partition(". As root")[0].split())


@pytest.fixture
def machine(short_folder: Path) -> Machine:
    """One without Slurm's client commands."""
    return Machine(short_folder)


def test_an_ordinary_user_is_told_the_command(machine: Machine) -> None:
    """Which packages, and the line that root has to type."""
    said = machine.setup("demo")
    packages = said.partition("missing: ")[2].partition(". As root")[0]
    assert "slurm-client" in packages.split()
    assert f"As root: apt-get install --no-install-recommends {packages}." in said
    assert "predict" in said


def test_another_system_is_told_what_to_look_for(machine: Machine) -> None:
    """Without apt-get: Debian's names, and what they stand for."""
    (machine.bin / "apt-get").unlink()
    said = machine.setup()
    assert "slurm-client" in said
    assert "no apt-get" in said
    assert "Lua plugin, munge, luasocket" in said


def test_no_python_at_all(machine: Machine) -> None:
    """The first thing that is needed is named first."""
    (machine.bin / "python3").unlink()
    assert "python3 is missing" in machine.setup()


def test_an_old_python(machine: Machine) -> None:
    """Its version, the one that is needed, and how to name another."""
    machine.command("python3", '[ "$1" = -V ] && echo Python 3.9.2; exit 1')
    said = machine.setup()
    assert "Python 3.11 or newer is needed" in said
    assert "Python 3.9.2" in said
    assert "PYTHON=" in said


def test_the_demo_needs_no_package_of_the_tests(machine: Machine) -> None:
    """Nobody who tries dlqueue installs a browser; the tests, alone, find all they need."""
    for_demo, for_tests = machine.missing("demo"), machine.missing("test")
    assert {"chromium", "prometheus", "fish"} <= for_tests - for_demo
    assert {"slurm-client"} <= for_demo <= for_tests  # the rest is in this machine's /usr/sbin
    assert machine.missing() == for_tests


def test_the_documentation_needs_no_slurm(machine: Machine) -> None:
    """Only a virtual environment."""
    machine.command("python3", '[ "$1" = -c ] && case $2 in *venv*) exit 1 ;; esac; exit 0')
    assert machine.missing("docs") == {"python3-venv"}


def test_another_purpose(machine: Machine) -> None:
    """A word that it does not know is told, with those it does."""
    assert "dmeo: expected demo, test, docs or mutants" in machine.setup("dmeo")


@pytest.mark.parametrize("target", ["demo", "docs", "test"])
def test_a_target_sets_up_its_own(target: str) -> None:
    """`make demo`, `make docs` and `make test` call setup.sh for what they need themselves."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    made = subprocess.run(
        ["make", "-nB", target], cwd=ROOT, env=outside, capture_output=True, text=True
    )
    assert made.stdout.splitlines()[0] == f"{SCRIPT} {target}"
