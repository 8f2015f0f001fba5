"""Paths and names under a sandbox's folder, and free ports."""

import hashlib
import re
import socket
import stat
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom

from slurm_ext.core.errors import SandboxError
from slurm_ext.sandbox.folder import check_parents
from slurm_ext.sandbox.spec import SandboxSpec

MAX_SOCKET_PATH = 107  # bytes; sun_path of Linux
PORTS = range(20000, 32000)  # below the ports that the kernel gives to outgoing connections
_PLAIN = re.compile(r"/[A-Za-z0-9_./+-]*")


@dataclass(frozen=True, slots=True)
class SandboxLayout:
    """Paths of one sandbox; `tag` keeps its host-wide names apart from other sandboxes'."""

    root: Path

    @property
    def tag(self) -> str:
        """Six characters that only this folder has."""
        return hashlib.sha256(str(self.root).encode()).hexdigest()[:6]

    @property
    def etc(self) -> Path:
        """Configuration files."""
        return self.root / "etc"

    @property
    def run(self) -> Path:
        """Sockets."""
        return self.root / "run"

    @property
    def log(self) -> Path:
        """One log a daemon."""
        return self.root / "log"

    @property
    def state(self) -> Path:
        """Slurmctld's StateSaveLocation."""
        return self.root / "state"

    @property
    def database(self) -> Path:
        """MariaDB's data."""
        return self.root / "db"

    @property
    def dlqueue(self) -> Path:
        """Dlqueue's state_dir."""
        return self.root / "dlqueue"

    @property
    def slurm_conf(self) -> Path:
        """The file that SLURM_CONF names."""
        return self.etc / "slurm.conf"

    @property
    def settings(self) -> Path:
        """The sandbox's dlqueue.toml."""
        return self.etc / "dlqueue.toml"

    @property
    def munge_socket(self) -> Path:
        """The private munged's socket."""
        return self.run / "munge.socket"

    @property
    def control_socket(self) -> Path:
        """Socket of the supervisor."""
        return self.run / "control.sock"

    @property
    def manifest(self) -> Path:
        """sandbox.json: what was built and by whom; its presence makes a folder a sandbox."""
        return self.root / "sandbox.json"

    @property
    def backup(self) -> Path:
        """Folder of the second controller's own files: etc and run."""
        return self.root / "backup"

    def node(self, name: str) -> Path:
        """Folder of a node: Slurm's spool, dlqueue's spool, node.json."""
        return self.root / "nodes" / name

    def node_names(self, spec: SandboxSpec) -> tuple[str, ...]:
        """Names n1, n2, ...; unique on the machine if cgroups or control use them."""
        prefix = f"sb{self.tag}n" if spec.cgroup or spec.control else "n"
        return tuple(f"{prefix}{number}" for number in range(1, spec.nodes + 1))

    def check(self, folder_mode: int) -> None:
        """Raise SandboxError if Slurm or the kernel could not use this folder safely."""
        if not _PLAIN.fullmatch(str(self.root)):
            raise SandboxError(
                f"{self.root}: Slurm's files take only letters, digits and _./+- in a path"
            )
        if len(bytes(self.munge_socket)) > MAX_SOCKET_PATH:
            raise SandboxError(
                f"{self.root} is too long for sockets in it: a unix socket's path has at most"
                f" {MAX_SOCKET_PATH} bytes; choose a shorter folder"
            )
        check_parents(self.root, entered_by_others=bool(folder_mode & stat.S_IXOTH))


def free_ports(count: int) -> range:
    """Find `count` neighbouring free TCP ports."""
    random = SystemRandom()
    for _ in range(200):
        first = random.randrange(PORTS.start, PORTS.stop - count)
        if all(map(_is_free, range(first, first + count))):
            return range(first, first + count)
    raise SandboxError(f"no {count} neighbouring free ports from {PORTS.start} to {PORTS.stop}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            # Every address: the daemons bind them all.
            probe.bind(("", port))
        except OSError:
            return False
    return True
