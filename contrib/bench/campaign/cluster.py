"""The cluster that a fault is injected into: a real Slurm of several hosts with everything on."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contrib.bench.borders.attack import ATTACKER, VICTIM, as_user
from contrib.bench.campaign.holds import time_plugin
from slurm_ext.sandbox import Sandbox, SandboxSpec
from tests.whole import learn, waiting_run

NODES, CPUS = 4, 16
USERS = ("root", ATTACKER, VICTIM)
BACKUP = "backup"  # name of the second slurmctld, where there is one
STAMP = len("[2026-01-01T00:00:00.000]")
KNOWN = "known"  # the name of the jobs that dlqueue has advice on
TAUGHT = 900_000  # jobs from this number on never ran: dlqueue was taught by them
LOOPS = ("--queue", "--elastic", "--energy", "--pairs")
SETTINGS: Mapping[str, Any] = {
    "site.mode": "act",
    "policy.holdout_share": 0.0,
    "policy.change_explicit": "any",
    "node.probe": True,
    "node.transport": "stream",
    "control.mode": "shadow",
    "queue.mode": "shadow",
    "elastic.mode": "shadow",
    "energy.mode": "shadow",
    "energy.partitions": ["*"],
    "sharing.pairing": "shadow",
}
"""As dlqueue ships, but for what a site turns on: every part of it, loops in shadow."""
SPEC: Mapping[str, Any] = {
    "nodes": NODES,
    "cpus": CPUS,
    "accounting": True,
    "cgroup": True,
    "namespaces": True,
    "control": True,
    "hooks": True,
    "lua": True,
    "advisor": True,
    # A job that fits nowhere is refused at once, and thousands wait, as on a large site.
    "slurm_conf": "EnforcePartLimits=ALL\nMaxJobCount=200000",
}


@dataclass(slots=True)
class Cluster:
    """A Slurm that is up, and the loops that run beside it."""

    slurm: Sandbox
    loops: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    @property
    def socket(self) -> Path:
        """Socket on which slurmctld asks the advisor."""
        return Path(self.slurm.settings["paths.socket"] + ".submit")

    def pid(self, daemon: str) -> int:
        """Pid of a daemon that runs."""
        return int(self.slurm.status()["daemons"][daemon])

    def slurmctld_log(self) -> str:
        """Log of slurmctld, of both in the order of time where there are two."""
        logs = [self.slurm.log(name) for name in ("slurmctld", BACKUP)]
        if not logs[1]:
            return logs[0]
        lines = [line for log in logs for line in log.splitlines(keepends=True)]
        return "".join(sorted(lines, key=lambda line: line[:STAMP]))

    def reload_plugin(self) -> None:
        """Have slurmctld read job_submit.lua again, which breaks its connection to the advisor."""
        self.slurm.path("etc/job_submit.lua").touch()


@contextmanager
def cluster(
    folder: Path, needs: Mapping[str, Any], settings: Mapping[str, Any]
) -> Iterator[Cluster]:
    """Start everything; the advisor knows how every user's jobs called KNOWN run best."""
    spec = SandboxSpec(**{**SPEC, **needs}, settings={**SETTINGS, **settings})
    with Sandbox(folder / "s", spec, temporary=True) as slurm:
        time_plugin(slurm)
        _teach(slurm)
        running = Cluster(slurm)
        try:
            running.loops += [_loop(slurm, name) for name in LOOPS]
            yield running
        finally:
            _end(running.loops)


def _teach(slurm: Sandbox) -> None:
    for number, user in enumerate(USERS):
        record = waiting_run(KNOWN, TAUGHT + number)
        uid = as_user(user)["user"]
        record["identity"].update(
            {"user": user, "uid": uid, "cluster": slurm.settings["site.cluster"]}
        )
        learn(slurm, record)


def _loop(slurm: Sandbox, name: str) -> "subprocess.Popen[bytes]":
    log = slurm.path("log") / f"loop{name}.log"
    command = [sys.executable, "-m", "slurm_ext.cli", "control", name]
    with log.open("ab") as stream:
        return subprocess.Popen(command, env=slurm.env, stdout=stream, stderr=stream)


def _end(loops: "list[subprocess.Popen[bytes]]") -> None:
    for loop in loops:
        loop.terminate()
    for loop in loops:
        with suppress(subprocess.TimeoutExpired):
            loop.wait(10)
        loop.kill()
