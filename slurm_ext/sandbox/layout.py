"""Paths and names under a sandbox's folder, its manifest, and free ports."""

import hashlib
import json
import os
import re
import socket
import stat
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom

from slurm_ext.core.errors import SandboxError, unreadable
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

    def node(self, name: str) -> Path:
        """Folder of a node: Slurm's spool, dlqueue's spool, node.json."""
        return self.root / "nodes" / name

    def node_names(self, spec: SandboxSpec) -> tuple[str, ...]:
        """Names n1, n2, ...; unique on the machine if cgroups or control use them."""
        prefix = f"sb{self.tag}n" if spec.cgroup or spec.control else "n"
        return tuple(f"{prefix}{number}" for number in range(1, spec.nodes + 1))

    def check(self) -> None:
        """Raise SandboxError if Slurm or the kernel could not use this folder."""
        if not _PLAIN.fullmatch(str(self.root)):
            raise SandboxError(
                f"{self.root}: Slurm's files take only letters, digits and _./+- in a path"
            )
        if len(bytes(self.munge_socket)) > MAX_SOCKET_PATH:
            raise SandboxError(
                f"{self.root} is too long for sockets in it: a unix socket's path has at most"
                f" {MAX_SOCKET_PATH} bytes; choose a shorter folder"
            )
        for folder in filter(Path.exists, self.root.parents):
            mode = folder.stat().st_mode
            if mode & (stat.S_IWGRP | stat.S_IWOTH) and not mode & stat.S_ISVTX:
                raise SandboxError(
                    f"{folder} can be written by others, and munge refuses a socket below such a"
                    f" folder: chmod go-w {folder}, or choose one under /tmp"
                )
            if not mode & stat.S_IXOTH:
                raise SandboxError(
                    f"{folder} cannot be entered by others, and munge demands that of every"
                    f" folder above its socket: chmod o+x {folder}, or choose one under /tmp"
                )


WRITTEN = {"root", "spec", "plan", "temporary", "daemons", "undo", "remove", "cgroups", "control"}


def read_manifest(root: Path) -> dict[str, object]:
    """Read the sandbox.json of `root`. Raises SandboxError if there is no sandbox."""
    path = SandboxLayout(root).manifest
    try:
        owner = path.lstat().st_uid
        manifest = json.loads(path.read_text())
    except FileNotFoundError:
        raise SandboxError(f"{root} is no sandbox: `dlqueue sandbox up` makes one") from None
    except NotADirectoryError:
        raise SandboxError(f"{root} is no folder, so no sandbox") from None
    except (OSError, ValueError) as error:
        raise SandboxError(str(unreadable(str(path), error))) from None
    if owner != os.geteuid():  # it names commands to run and files to remove
        raise SandboxError(f"{root} is another user's sandbox: choose another folder with --root")
    if not isinstance(manifest, dict) or not manifest.keys() >= WRITTEN:
        raise SandboxError(f"{path} was not written by `dlqueue sandbox up`, or is incomplete")
    return dict(manifest)


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
