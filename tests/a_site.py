"""A site for INSTALL.md to be followed on: a private Slurm, its files and its services."""

import configparser
import json
import os
import pwd
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core.settings.document import drop_ins
from slurm_ext.sandbox import Sandbox
from tests.manual import ROOT, Block
from tests.wheel import PIP
from tests.whole import until

PLACES = (
    "/etc/dlqueue",
    "/etc/systemd/system",
    "/opt/dlqueue",
    "/run/dlqueue",
    "/shared",
    "/var/lib/dlqueue",
    "/var/spool/dlqueue",
)
LIBRARIES = Path(pytest.__file__).parents[1]
HURRY = """
[advisor]
deadline_ms = 1000
reconcile_s = 0.5
breaker_s = 1
[policy]
holdout_share = 0.0
"""
"""What differs from a site: no control group by chance, and nothing that takes half a minute."""

SERVES = {
    "dlqueue": "/run/dlqueue/advisor.sock",
    "dlqueue-control": "/var/spool/dlqueue/control/status.json",
}
"""The file that tells of each unit that it serves."""


class Site:
    """A private Slurm in which the page's absolute paths lie under one folder."""

    def __init__(self, slurm: Sandbox, wheel: Path) -> None:
        self.slurm, self.wheel = slurm, wheel
        self.services: dict[str, subprocess.Popen[bytes]] = {}
        self.user: str | None = None
        slurm.path("etc/job_submit.lua").unlink()  # a sandbox has all files, named or not
        for place in PLACES:
            Path(self.there(place)).parent.mkdir(parents=True, exist_ok=True)
        for place in ("/etc/systemd/system", "/shared"):
            Path(self.there(place)).mkdir()

    def there(self, text: str) -> str:
        """A text with every path of the page moved into the sandbox."""
        root = self.slurm.layout.root
        text = re.sub("|".join(PLACES), lambda found: f"{root}/site{found[0]}", text)
        return text.replace("/etc/slurm/", f"{root}/etc/")

    @property
    def settings(self) -> Path:
        """dlqueue.toml."""
        return Path(self.there("/etc/dlqueue/dlqueue.toml"))

    def follow(self, block: Block) -> None:
        """Do what one block says."""
        if block.language == "sh":
            for line in block.text.splitlines():
                self.command(line)
        elif block.language == "toml":
            self.drop_in(self.there(block.text))
        elif block.language == "ini":
            with self.slurm.layout.slurm_conf.open("a") as file:
                file.write(self.there(block.text))
        else:
            raise AssertionError(f"nobody knows what to do with {block}")

    def command(self, line: str) -> None:
        """One line of shell; what concerns network and systemd is done by hand."""
        words = self.there(line).split()
        if words[0] == "systemctl":
            self.systemctl(*words[1:])
        elif "venv" in words:
            self.make_environment(Path(words[-1]))
        elif "--require-hashes" in words:
            return  # the packages of this environment are there already
        elif "pip" in line:
            python = Path(words[0]).with_name("python")
            pip = [*PIP, "--python", str(python), "install", "--no-deps", "--no-index"]
            subprocess.run([*pip, str(self.wheel)], check=True, timeout=200)
        elif "dlqueue install" in line:
            self.install(line)
        else:
            self.shell(line)

    def install(self, line: str) -> None:
        """`dlqueue install` into this site; its first settings are moved into the sandbox."""
        line = f"{line} --slurm-conf /etc/slurm/slurm.conf --units /etc/systemd/system"
        fresh = not self.settings.exists()
        self.shell(line)
        if fresh and self.settings.exists():
            self.settings.write_text(self.there(self.settings.read_text()))
            self.drop_in(HURRY)
            self.shell(line)

    def shell(self, line: str) -> str:
        """What a command of the page prints; it has to succeed."""
        env = {"DLQUEUE_CONFIG": str(self.settings)}
        done = self.slurm.run(["sh", "-euc", self.there(line)], env=env, cwd=ROOT)
        return str(done.stdout)

    def asked(self, command: str) -> Any:
        """The JSON that a command of dlqueue's answers."""
        return json.loads(self.shell(f"/opt/dlqueue/bin/dlqueue {command} --json"))

    def make_environment(self, folder: Path) -> None:
        """A virtual environment of its own, which borrows only our libraries."""
        python, self.user = _interpreter()
        subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
        (library,) = folder.glob("lib/python3*/site-packages")
        (library / "borrowed.pth").write_text(str(LIBRARIES))

    def drop_in(self, text: str) -> None:
        """Lines of the page, as they are, in the next file of dlqueue.d."""
        folder = self.settings.with_suffix(".d")
        (folder / f"{len(drop_ins(folder)):02d}.toml").write_text(text)

    def systemctl(self, verb: str, *words: str) -> None:
        """As systemd would, for the units of ours and for slurmctld."""
        if words and words[-1] == "slurmctld":
            self.slurm.restart("slurmctld")
        elif verb == "enable":
            self.start(words[-1])
        elif verb == "restart":
            self.stop(words[-1])
            self.start(words[-1])
        elif verb == "reload":
            self.reload()
        elif verb == "disable":
            self.stop(words[-1])
        else:
            assert (verb, words) == ("daemon-reload", ())

    def start(self, unit: str) -> None:
        """Run the installed unit as its user, who gets the folders that it asks for."""
        service = self.unit(unit)
        # A sandbox's SlurmUser is root; the advisor has to do with less, as on a site.
        name = "slurm" if "User" in service else "root"
        user = pwd.getpwnam(name if self.user is None else self.user)
        for folder in self._folders(service):
            folder.mkdir(exist_ok=True)
            os.chown(folder, user.pw_uid, user.pw_gid)
        with self.slurm.path(f"log/{unit}.log").open("ab") as log:
            process = self.services[unit] = subprocess.Popen(
                self._program(service["ExecStart"]),
                env={**self.slurm.env, "DLQUEUE_CONFIG": str(self.settings)},
                user=user.pw_uid,
                group=user.pw_gid,
                extra_groups=[],
                cwd="/",
                stdout=log,
                stderr=log,
            )
        sign = Path(self.there(SERVES[unit]))
        until(lambda: sign.exists() or process.poll() is not None, "it does not serve")
        assert process.poll() is None, self.slurm.log(unit)

    def unit(self, name: str) -> configparser.SectionProxy:
        """What the installed unit says of its service."""
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        parser.read(self.there(f"/etc/systemd/system/{name}.service"))
        return parser["Service"]

    def _folders(self, service: configparser.SectionProxy) -> list[Path]:
        """The unit's state and runtime folder, where it wants any."""
        wanted = (("/var/lib", "StateDirectory"), ("/run", "RuntimeDirectory"))
        made = [Path(self.there(f"{at}/{service[key]}")) for at, key in wanted if key in service]
        shared = Path(self.there("/shared/dlqueue"))
        return [*made, *([shared] if "User" in service and shared.exists() else [])]

    def _program(self, command: str) -> list[str]:
        """The unit's command; `dlqueue install` wrote it with this site's own paths already."""
        return (command if str(self.slurm.layout.root) in command else self.there(command)).split()

    def reload(self) -> None:
        """SIGHUP to the advisor, until it was heeded."""
        said = "refresh: settings read again"  # the history writer says so too, at another time
        before = self.slurm.log("dlqueue").count(said)
        self.services["dlqueue"].send_signal(signal.SIGHUP)
        heeded = lambda: self.slurm.log("dlqueue").count(said) > before  # noqa: E731
        until(heeded, "the advisor did not read its settings again")

    def stop(self, unit: str) -> None:
        """End a service, if it runs; systemd then removes its runtime folder."""
        service = self.unit(unit)
        process = self.services.pop(unit)
        process.terminate()
        assert process.wait(60) == 0
        if "RuntimeDirectory" in service:
            Path(self.there(f"/run/{service['RuntimeDirectory']}")).rmdir()

    def down(self) -> None:
        """End whatever runs."""
        for unit in list(self.services):
            self.stop(unit)

    def job(self, script: str, *words: str) -> tuple[int, str, list[str]]:
        """A job of the page's partition: its id, what sbatch said, what it printed."""
        job_id, said = self.slurm.sbatch("--partition=gpu", *words, script=script)
        assert self.slurm.wait(job_id) == "COMPLETED", self.slurm.output(job_id)
        return job_id, said, self.slurm.output(job_id).splitlines()

    def left(self) -> list[str]:
        """Which of the page's folders there are, and every file in them."""
        folders = [Path(self.there(place)) for place in PLACES]
        files = [path for folder in folders for path in folder.rglob("*")]
        return sorted(str(path) for path in [*folders, *files] if path.exists())


def _interpreter() -> tuple[str, str | None]:
    """A Python for /opt, and root where SlurmUser could not run it (it lies in /root, say)."""
    slurm = pwd.getpwnam("slurm")
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        try:
            subprocess.run(
                [python, "-c", "import numpy"],
                env={"PYTHONPATH": str(LIBRARIES)},
                user=slurm.pw_uid,
                group=slurm.pw_gid,
                check=True,
                stderr=subprocess.DEVNULL,
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        return python, None
    return sys.executable, "root"
