"""Checks this machine for the programs and cgroups that a sandbox needs."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from slurm_ext.core.errors import MissingError, SandboxError
from slurm_ext.sandbox.spec import SandboxSpec

CGROUPS = Path("/sys/fs/cgroup")
CGROUP_CONTROLLERS = ("freezer", "memory", "cpuacct")
_ADMIN_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"


def search_path() -> str:
    """PATH with the folders of daemons, which ordinary users do not have in theirs."""
    return f"{os.environ.get('PATH', '/usr/bin:/bin')}:{_ADMIN_FOLDERS}"


def check_machine(spec: SandboxSpec) -> None:
    """Raise MissingError or SandboxError, with the remedy, if `spec` cannot run here."""
    for command, package in _needed(spec):
        if shutil.which(command, path=search_path()) is None:
            raise MissingError(
                f"{command} is not installed", f"on Debian: apt-get install {package}"
            )
    absent = [name for name in CGROUP_CONTROLLERS if not (CGROUPS / name).is_dir()]
    if spec.cgroup and absent:
        raise SandboxError(
            f"cgroup accounting needs cgroup v1 here: {CGROUPS} has no {', '.join(absent)}"
        )


def _needed(spec: SandboxSpec) -> Iterator[tuple[str, str]]:
    """Yield commands and their Debian packages."""
    yield from (("munged", "munge"), ("slurmctld", "slurmctld"), ("slurmd", "slurmd"))
    yield "sbatch", "slurm-client"
    if spec.accounting:
        yield from (("slurmdbd", "slurmdbd"), ("mariadbd", "mariadb-server-core"))
        yield from (
            ("mariadb-install-db", "mariadb-server-core"),
            ("mariadb", "mariadb-client-core"),
        )
    if spec.namespaces:
        yield from (("ip", "iproute2"), ("nsenter", "util-linux"))
