"""Decides a sandbox's names, ports and daemons from its spec. Nothing is started."""

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_ext.core.errors import SandboxError
from slurm_ext.sandbox.layout import PORTS, SandboxLayout, free_ports
from slurm_ext.sandbox.spec import CGROUPS, SandboxSpec, search_path, user_name

# 198.18.0.0/15 is set aside for benchmarks (RFC 2544): no real network is hidden by it.
SUBNETS = tuple(f"198.{high}.{low}" for high in (18, 19) for low in range(256))
BACKUP, BACKUP_ADVISOR = "backup", "advisor-backup"
_BACKUP_HOST = 250  # the last number of its address, beyond those of MAX_NODES
_SERVE = (sys.executable, "-m", "slurm_ext.cli", "serve", "--config")
_NICE = ("nice", "-n", "-5")  # as the unit has it (systemd/dlqueue.service); root alone may
_FIXED_PORTS = 3  # of slurmctld, slurmdbd and the stream; then one a node


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxNode:
    """One slurmd: its address, and its network namespace (None: the machine's)."""

    name: str
    address: str
    port: int
    namespace: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxDaemon:
    """One process that the supervisor runs."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]

    @property
    def log(self) -> str:
        """Name of the file for its output; daemons with a log of their own call that NAME.log."""
        ours = self.name == "mariadbd" or self.name.startswith(("advisor", "control-"))
        return f"{self.name}.{'log' if ours else 'out'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPlan:
    """Decisions of one sandbox, made once by `up`."""

    spec: SandboxSpec
    layout: SandboxLayout
    address: str  # of slurmctld and the advisor, as nodes see it
    controller_port: int
    database_port: int
    stream_port: int
    nodes: tuple[SandboxNode, ...]
    slurm_version: tuple[int, int]

    @property
    def backup(self) -> SandboxNode | None:
        """Host of the second slurmctld."""
        if not self.spec.backup:
            return None
        address = f"{self.address.rpartition('.')[0]}.{_BACKUP_HOST}"
        namespace = f"dlq{self.layout.tag}-{BACKUP}"
        port = self.controller_port
        return SandboxNode(name=BACKUP, address=address, port=port, namespace=namespace)

    @property
    def hosts(self) -> tuple[SandboxNode, ...]:
        """Nodes, and the second controller."""
        return (*self.nodes, *([self.backup] if self.backup else []))

    @property
    def host(self) -> str:
        """Short name of this machine, which slurmctld has to find in slurm.conf."""
        return socket.gethostname().partition(".")[0]

    def as_json(self) -> dict[str, Any]:
        """Return the decisions that do not follow from spec and folder; `read_plan` reads them."""
        return {
            "first_port": self.controller_port,
            "subnet": self.address.rpartition(".")[0] if self.spec.namespaces else None,
            "slurm_version": list(self.slurm_version),
        }

    @property
    def user(self) -> str:
        """Name of the user that runs the daemons."""
        return user_name()


def make_plan(spec: SandboxSpec, layout: SandboxLayout, subnet: str | None) -> SandboxPlan:
    """Choose names and free ports; `subnet` (such as 198.18.7) if nodes are separate hosts."""
    ports = free_ports(_FIXED_PORTS + spec.nodes)
    return _planned(spec, layout, subnet, ports.start, slurm_version())


def read_plan(spec: SandboxSpec, layout: SandboxLayout, fields: Mapping[str, Any]) -> SandboxPlan:
    """Read the plan that another process made. Raises ValueError, TypeError, KeyError.

    Names and commands follow from it, so that only two whitelisted values and numbers are taken.
    """
    subnet, first, (major, minor) = (fields[k] for k in ("subnet", "first_port", "slurm_version"))
    if subnet not in (SUBNETS if spec.namespaces else (None,)):
        raise ValueError(f"subnet {subnet!r}")
    if any(type(number) is not int for number in (first, major, minor)) or first not in PORTS:
        raise ValueError(f"first_port {first!r}, slurm_version {major!r}.{minor!r}")
    return _planned(spec, layout, subnet, first, (major, minor))


def _planned(
    spec: SandboxSpec,
    layout: SandboxLayout,
    subnet: str | None,
    first_port: int,
    version: tuple[int, int],
) -> SandboxPlan:
    names = layout.node_names(spec)
    nodes = tuple(
        SandboxNode(
            name=name,
            address=f"{subnet}.{number + 2}" if subnet else "127.0.0.1",
            port=first_port + _FIXED_PORTS + number,
            namespace=f"dlq{layout.tag}-{name}" if subnet else None,
        )
        for number, name in enumerate(names)
    )
    return SandboxPlan(
        spec=spec,
        layout=layout,
        address=f"{subnet}.1" if subnet else "127.0.0.1",
        controller_port=first_port,
        database_port=first_port + 1,
        stream_port=first_port + 2,
        nodes=nodes,
        slurm_version=version,
    )


def slurm_version() -> tuple[int, int]:
    """Major version of the installed Slurm, such as (22, 5). Raises SandboxError."""
    argv = ["slurmctld", "-V"]
    env = {"PATH": search_path()}
    try:
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True, timeout=10)
        major, minor = done.stdout.split()[-1].split(".")[:2]
        return int(major), int(minor)
    except (OSError, subprocess.SubprocessError, LookupError, ValueError) as error:
        raise SandboxError(f"`slurmctld -V` prints no version: {error}") from None


def daemons(plan: SandboxPlan) -> list[SandboxDaemon]:
    """Return all daemons in the order of their start."""
    spec, layout = plan.spec, plan.layout
    slurm = {"SLURM_CONF": str(layout.slurm_conf)}
    # A resumed node must have booted since: -b has slurmd report its own start as the boot.
    slurmd = ("slurmd", "-D", *(("-b",) if spec.power_saving else ()), "-N")
    return [
        SandboxDaemon(name="munged", argv=_munged(layout, spec), env={}),
        *(_database(layout) if spec.accounting else ()),
        *([_advisor(layout)] if spec.advisor else ()),
        SandboxDaemon(name="slurmctld", argv=("slurmctld", "-D"), env=slurm),
        *(_second(layout, plan.backup, advisor=spec.advisor) if plan.backup else ()),
        *(
            SandboxDaemon(
                name=node.name, argv=(*_in_namespace(node), *slurmd, node.name), env=slurm
            )
            for node in plan.nodes
        ),
        *([_control(layout, node.name) for node in plan.nodes] if spec.control else ()),
    ]


def cgroup_folders(plan: SandboxPlan) -> list[Path]:
    """Folders that Slurm leaves in the cgroup mounts (no other sandbox has these node names)."""
    if not plan.spec.cgroup:
        return []
    controllers = [path for path in CGROUPS.iterdir() if path.is_dir()]
    return [c / f"slurm_{node.name}" for c in controllers for node in plan.nodes]


def _munged(layout: SandboxLayout, spec: SandboxSpec) -> tuple[str, ...]:
    return (
        "munged",
        "--foreground",
        # Munged wants a socket that every user can reach, which a private folder is not.
        *([] if spec.folder_mode & stat.S_IXOTH else ["--force"]),
        f"--key-file={layout.etc}/munge.key",
        f"--socket={layout.munge_socket}",
        f"--pid-file={layout.run}/munged.pid",
        f"--log-file={layout.log}/munged.log",
        f"--seed-file={layout.run}/munged.seed",
    )


def _database(layout: SandboxLayout) -> list[SandboxDaemon]:
    mysql = f"{layout.run}/mysql.sock"
    mariadbd = (
        "mariadbd",
        "--no-defaults",
        f"--datadir={layout.database}",
        f"--socket={mysql}",
        f"--pid-file={layout.run}/mariadbd.pid",
        "--skip-networking",
        f"--tmpdir={layout.run}",  # it deletes what another one keeps in a folder that they share
        "--innodb-buffer-pool-size=64M",
        "--innodb-lock-wait-timeout=900",
        "--innodb-flush-log-at-trx-commit=2",
        *(["--user=root"] if os.geteuid() == 0 else []),
    )
    slurm = {"SLURM_CONF": str(layout.slurm_conf), "MYSQL_UNIX_PORT": mysql}
    return [
        SandboxDaemon(name="mariadbd", argv=mariadbd, env={}),
        SandboxDaemon(name="slurmdbd", argv=("slurmdbd", "-D"), env=slurm),
    ]


def _second(layout: SandboxLayout, host: SandboxNode, *, advisor: bool) -> list[SandboxDaemon]:
    """The second controller's daemons: slurmctld knows itself by its host's name."""
    named = f"echo {host.name} >/proc/sys/kernel/hostname"
    inside = (*_in_namespace(host), "unshare", "--uts", "sh", "-ec", f'{named}; exec "$@"', "sh")
    env, config = {"SLURM_CONF": f"{layout.backup}/etc/slurm.conf"}, layout.backup / "etc"
    serve = (*inside, *_serving(config / "dlqueue.toml"))
    return [
        SandboxDaemon(name=host.name, argv=(*inside, "slurmctld", "-D"), env=env),
        *([SandboxDaemon(name=BACKUP_ADVISOR, argv=serve, env=env)] if advisor else []),
    ]


def _advisor(layout: SandboxLayout) -> SandboxDaemon:
    argv = _serving(layout.settings)
    return SandboxDaemon(name="advisor", argv=argv, env={"SLURM_CONF": str(layout.slurm_conf)})


def _serving(settings: Path) -> tuple[str, ...]:
    return (*(_NICE if os.geteuid() == 0 else ()), *_SERVE, str(settings))


def _control(layout: SandboxLayout, node: str) -> SandboxDaemon:
    config = str(layout.node(node) / "dlqueue.toml")
    argv = (sys.executable, "-m", "slurm_ext.cli", "control", "--config", config)
    return SandboxDaemon(
        name=f"control-{node}", argv=argv, env={"SLURM_CONF": str(layout.slurm_conf)}
    )


def _in_namespace(node: SandboxNode) -> tuple[str, ...]:
    """Prefix that enters the namespace. `ip netns exec` would hide /sys and so the cgroups."""
    return ("nsenter", f"--net=/run/netns/{node.namespace}") if node.namespace else ()
