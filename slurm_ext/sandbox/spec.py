"""Specification of a sandbox, checked before anything is started."""

import os
import pwd
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from slurm_ext.core.errors import MissingError, SandboxError
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.slurm_place import slurm_place

MAX_NODES = 200  # more were never tested to start in time


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """The cluster to start; every count is per node. Raises SandboxError on an impossible one."""

    nodes: int = 1
    cpus: int = 2
    mem_mib: int = 8192
    gpus: int = 0
    gpu_type: str = ""  # such as a100
    sharing: str | None = None  # mps or shard
    shares_per_gpu: int = 0  # 0: 100 for mps, 4 for shard
    accounting: bool = False  # slurmdbd on a private MariaDB
    cgroup: bool = False  # cgroup v1 accounting (root)
    constrain_cores: bool = False  # each job on cores of its own (with cgroup)
    hooks: bool = False  # our Prolog, TaskProlog and Epilog
    lua: bool = False  # our job_submit.lua
    advisor: bool = False  # `dlqueue serve`
    control: bool = False  # `dlqueue control` on every node (root; its mode: control.mode)
    settings: Mapping[str, Any] = field(default_factory=dict)  # dlqueue.toml by dotted key
    state_on_tmpfs: bool = False  # slurmctld's state in memory
    namespaces: bool = False  # each node a host of its own (root)
    backup: bool = False  # a second slurmctld, and advisor, on a host of its own (namespaces)
    power_saving: bool = False  # Slurm may suspend nodes: their slurmd is stopped and started
    slurm_conf: str = ""  # lines appended to slurm.conf
    private: bool = False  # no other user enters its folder; always so unless root starts it

    def __post_init__(self) -> None:
        for fault in _faults(self):
            raise SandboxError(fault)

    @property
    def folder_mode(self) -> int:
        """Mode of the sandbox's folder: other users submit to root's, and only to that."""
        return 0o700 if self.private or os.geteuid() != 0 else 0o755

    @classmethod
    def dlqueue(cls, **changes: Any) -> "SandboxSpec":
        """Return a cluster with dlqueue's hooks, plugin and advisor."""
        return cls(**{"hooks": True, "lua": True, "advisor": True, **changes})

    def as_json(self) -> dict[str, Any]:
        """Return the fields for JSON; `SandboxSpec(**spec.as_json())` is the same spec."""
        return {**asdict(self), "settings": dict(self.settings)}


def _faults(spec: SandboxSpec) -> Iterator[str]:
    if not 1 <= spec.nodes <= MAX_NODES:
        yield f"nodes = {spec.nodes}: expected 1 to {MAX_NODES}"
    if spec.cpus < 1 or spec.mem_mib < spec.cpus or spec.gpus < 0:
        yield "a node needs at least one CPU, a MiB of memory for each, and no negative GPUs"
    if spec.sharing and {"mps", "shard"} <= set(spec.sharing.split(",")):
        yield (
            "sharing by mps and shard at once breaks Slurm: jobs get no CUDA_VISIBLE_DEVICES;"
            " choose one"
        )
    elif spec.sharing not in (None, "mps", "shard"):
        yield f"sharing = {spec.sharing!r}: expected mps or shard"
    if (spec.sharing or spec.gpu_type) and not spec.gpus:
        yield f"{'sharing by ' + spec.sharing if spec.sharing else 'a gpu_type'} needs gpus"
    if spec.gpu_type and not spec.gpu_type.isalnum():
        yield f"gpu_type = {spec.gpu_type!r}: expected letters and digits, such as a100"
    if spec.shares_per_gpu < 0 or (spec.shares_per_gpu and not spec.sharing):
        yield "shares_per_gpu needs sharing by mps or shard, and is not negative"
    if spec.control and spec.settings.get("control.mode", "off") == "off":
        yield "control needs settings with control.mode = shadow or act"
    if spec.backup and not spec.namespaces:
        yield "backup needs namespaces: two slurmctlds are two hosts"
    yield from _machine_faults(spec)


def _machine_faults(spec: SandboxSpec) -> Iterator[str]:
    if spec.constrain_cores and not (spec.cgroup and spec.cpus <= (os.cpu_count() or 1)):
        yield "constrain_cores needs cgroup, and no more CPUs than this machine has"
    if os.geteuid() != 0 and (spec.cgroup or spec.namespaces):
        yield "cgroup accounting and network namespaces need root; all else works without"


CGROUPS = Path("/sys/fs/cgroup")


CGROUP_CONTROLLERS = ("freezer", "memory", "cpuacct")


_ADMIN_FOLDERS = "/usr/local/sbin:/usr/sbin:/sbin"


def search_path() -> str:
    """PATH with the folders of daemons, which ordinary users do not have in theirs."""
    folders = os.environ.get("PATH", "/usr/bin:/bin").split(":")
    place = slurm_place(Settings())
    if place is not None:  # its daemons are beside its commands, and before those of another Slurm
        at = folders.index(place.folder) if place.folder in folders else len(folders)
        folders[at:at] = [place.folder, str(Path(place.folder).with_name("sbin"))]
    return ":".join([*folders, _ADMIN_FOLDERS])


def check_machine(spec: SandboxSpec) -> None:
    """Raise MissingError or SandboxError, with the remedy, if `spec` cannot run here."""
    for command, package in _needed(spec):
        if shutil.which(command, path=search_path()) is None:
            raise MissingError(
                f"{command} is not installed", f"on Debian: apt-get install {package}"
            )
    user_name()
    wanted = (*CGROUP_CONTROLLERS, *(("cpuset",) if spec.constrain_cores else ()))
    absent = [name for name in wanted if not (CGROUPS / name).is_dir()]
    if spec.cgroup and absent:
        raise SandboxError(
            f"cgroup accounting needs cgroup v1 here: {CGROUPS} has no {', '.join(absent)}"
        )


def user_name() -> str:
    """Name of the user that runs the daemons. Raises SandboxError."""
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise SandboxError(
            f"user {uid} has no name on this machine, and Slurm's daemons need one: in /etc/passwd"
        ) from None


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
