"""Decides a sandbox's names, ports and daemons from its spec. Nothing is started."""

import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from slurm_ext.core.errors import SandboxError
from slurm_ext.sandbox.layout import SandboxLayout, free_ports
from slurm_ext.sandbox.spec import CGROUPS, SandboxSpec, search_path


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
        ours = self.name in ("advisor", "mariadbd") or self.name.startswith("control-")
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
    def host(self) -> str:
        """Short name of this machine, which slurmctld has to find in slurm.conf."""
        return socket.gethostname().partition(".")[0]

    def as_json(self) -> dict[str, Any]:
        """Return the decisions without spec and layout; `from_json` reads them."""
        fields = asdict(self)
        return {k: v for k, v in fields.items() if k not in ("spec", "layout")}

    @classmethod
    def from_json(
        cls, spec: SandboxSpec, layout: SandboxLayout, fields: Mapping[str, Any]
    ) -> "SandboxPlan":
        """Read the plan that another process made."""
        nodes = tuple(SandboxNode(**node) for node in fields["nodes"])
        major, minor = fields["slurm_version"]
        changes = {"nodes": nodes, "slurm_version": (major, minor)}
        return cls(spec=spec, layout=layout, **{**fields, **changes})

    @property
    def user(self) -> str:
        """Name of the user that runs the daemons."""
        return pwd.getpwuid(os.geteuid()).pw_name


def make_plan(spec: SandboxSpec, layout: SandboxLayout, subnet: str | None) -> SandboxPlan:
    """Choose names and free ports; `subnet` (such as 198.18.7) if nodes are separate hosts."""
    ports = free_ports(3 + spec.nodes)
    names = layout.node_names(spec)
    nodes = tuple(
        SandboxNode(
            name=name,
            address=f"{subnet}.{number + 2}" if subnet else "127.0.0.1",
            port=ports[3 + number],
            namespace=f"dlq{layout.tag}-{name}" if subnet else None,
        )
        for number, name in enumerate(names)
    )
    return SandboxPlan(
        spec=spec,
        layout=layout,
        address=f"{subnet}.1" if subnet else "127.0.0.1",
        controller_port=ports[0],
        database_port=ports[1],
        stream_port=ports[2],
        nodes=nodes,
        slurm_version=slurm_version(),
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
        SandboxDaemon(name="munged", argv=_munged(layout), env={}),
        *(_database(layout) if spec.accounting else ()),
        *([_advisor(layout)] if spec.advisor else ()),
        SandboxDaemon(name="slurmctld", argv=("slurmctld", "-D"), env=slurm),
        *(
            SandboxDaemon(
                name=node.name, argv=(*_in_namespace(node), *slurmd, node.name), env=slurm
            )
            for node in plan.nodes
        ),
        *([_control(layout, node.name) for node in plan.nodes] if spec.control else ()),
    ]


def cgroup_folders(plan: SandboxPlan) -> list[str]:
    """Folders that Slurm leaves in the cgroup mounts (no other sandbox has these node names)."""
    if not plan.spec.cgroup:
        return []
    controllers = [path for path in CGROUPS.iterdir() if path.is_dir()]
    return [str(c / f"slurm_{node.name}") for c in controllers for node in plan.nodes]


def _munged(layout: SandboxLayout) -> tuple[str, ...]:
    return (
        "munged",
        "--foreground",
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


def _advisor(layout: SandboxLayout) -> SandboxDaemon:
    argv = (sys.executable, "-m", "slurm_ext.cli", "serve", "--config", str(layout.settings))
    return SandboxDaemon(name="advisor", argv=argv, env={"SLURM_CONF": str(layout.slurm_conf)})


def _control(layout: SandboxLayout, node: str) -> SandboxDaemon:
    config = str(layout.node(node) / "dlqueue.toml")
    argv = (sys.executable, "-m", "slurm_ext.cli", "control", "--config", config)
    return SandboxDaemon(
        name=f"control-{node}", argv=argv, env={"SLURM_CONF": str(layout.slurm_conf)}
    )


def _in_namespace(node: SandboxNode) -> tuple[str, ...]:
    """Prefix that enters the namespace. `ip netns exec` would hide /sys and so the cgroups."""
    return ("nsenter", f"--net=/run/netns/{node.namespace}") if node.namespace else ()
