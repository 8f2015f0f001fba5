"""Two controllers and one state folder: the advisor beside the slurmctld in charge serves.

The other one waits for its turn. It is called by the first question of its own slurmctld, which
asks only while it is in charge: then it claims the folder, the one that serves sees the claim,
ends, and is started again to wait (by systemd). A claim is a file with a host's name. Advisors of
two clusters never take turns: the second one is refused.
"""

import logging
import os
import select
import signal
import socket
import threading
from collections.abc import Collection
from pathlib import Path

from slurm_ext.advisor.service.unix_socket import peer_uid
from slurm_ext.core.errors import AdvisorError
from slurm_ext.core.files import replace_file, try_lock

LOCK, CLAIM = "advisor.lock", "advisor.claim"
LOOK_S = 1.0
_MOST_BYTES = 512  # of the names of a host and a cluster
_MOST_CHARS = 100  # of a cluster's name
log = logging.getLogger(__name__)


def owner_of(lock: int) -> tuple[str, str]:
    """Host and cluster of the advisor that holds the lock; empty what it did not write there."""
    host, _, cluster = os.pread(lock, _MOST_BYTES, 0).decode(errors="replace").partition("\n")
    return host.strip(), cluster.strip()


def other_cluster(lock: int, own: str) -> str:
    """The owner's cluster where it is not `own`; empty also where an older advisor wrote none."""
    cluster = owner_of(lock)[1]
    return "" if cluster == _one_line(own) else cluster


def _one_line(cluster: str) -> str:
    return " ".join(cluster[:_MOST_CHARS].split())


def sign(lock: int, state_dir: Path, cluster: str) -> None:
    """Write this host's and cluster's names as the owner's, and drop the claim that led here."""
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{socket.gethostname()}\n{_one_line(cluster)}".encode(), 0)
    (state_dir / CLAIM).unlink(missing_ok=True)


def wait_for_turn(
    lock: int, state_dir: Path, door: socket.socket, trusted: Collection[int]
) -> None:
    """Wait until the lock is ours; claim it when a `trusted` one asks at `door`. AdvisorError."""
    log.info("the advisor of %s serves; waiting until slurmctld asks here", owner_of(lock)[0])
    while not try_lock(lock):
        if select.select([door], [], [], LOOK_S)[0] and _asked(door, trusted):
            try:
                replace_file(state_dir / CLAIM, socket.gethostname().encode(), mode=0o640)
            except OSError as error:
                raise AdvisorError(f"{state_dir} cannot be used: {error.strerror}") from None
            log.info("slurmctld asks here: the advisor of %s is to end", owner_of(lock)[0])


def _asked(door: socket.socket, trusted: Collection[int]) -> bool:
    """Turn one connection away; its submission goes on as written. True if a trusted one asks."""
    try:
        client, _ = door.accept()
    except OSError:
        return False
    with client:
        client.settimeout(LOOK_S)
        try:
            return peer_uid(client) in trusted and bool(client.recv(1))
        except OSError:
            return False


class ClaimWatch(threading.Thread):
    """Ends this process as SIGTERM does, as soon as another host claims the state folder."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(name="claim", daemon=True)
        self._path, self._stop_asked = state_dir / CLAIM, threading.Event()

    def run(self) -> None:
        """Look every second until stopped."""
        while not self._stop_asked.wait(LOOK_S):
            if claimant := self._claimant():
                log.info("slurmctld asks at %s now: its advisor takes over", claimant)
                os.kill(os.getpid(), signal.SIGTERM)
                return

    def _claimant(self) -> str:
        """Name of the other host that claims; empty without one."""
        try:
            name = self._path.read_bytes()[:_MOST_BYTES].decode(errors="replace").strip()
        except OSError:
            return ""
        return "" if name == socket.gethostname() else name

    def stop(self) -> None:
        """End soon."""
        self._stop_asked.set()
