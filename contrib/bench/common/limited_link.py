"""Network namespaces with a limited link between them: ranks that share nothing but a slow wire."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slurm_ext.core.errors import MissingError, SandboxError

INTERFACE = "rank0"
_BURST, _LATENCY = "256kb", "400ms"
_LONGEST_S = 900.0  # of a run


@dataclass(frozen=True, slots=True)
class Place:
    """One rank's namespace and address."""

    namespace: str
    address: str

    @property
    def prefix(self) -> tuple[str, ...]:
        """Words before a command that runs there; `ip netns exec` would hide /sys."""
        return ("nsenter", f"--net=/run/netns/{self.namespace}")

    @property
    def environment(self) -> dict[str, str]:
        """Variables that gloo needs there."""
        return {"GLOO_SOCKET_IFNAME": INTERFACE}


@contextlib.contextmanager
def linked(ranks: int, mbit: float) -> Iterator[list[Place]]:
    """Namespaces on one bridge; each sends at most `mbit` Mbit/s. Raises MissingError.

    They are gone afterwards, with all that still runs in them.
    """
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "tc", "nsenter"))):
        raise MissingError("namespaces with a limited link", "run as root, with iproute2 installed")
    own = f"dlqb{os.getpid()}"
    places = [Place(f"{own}r{rank}", f"10.213.77.{rank + 1}") for rank in range(ranks)]
    hub = f"{own}hub"
    try:
        _ip("netns", "add", hub)
        _ip("-n", hub, "link", "add", "bridge0", "type", "bridge")
        _ip("-n", hub, "link", "set", "bridge0", "up")
        for place in places:
            _plug(hub, place, mbit)
        yield places
    finally:
        for name in (*(place.namespace for place in places), hub):
            _remove(name)


def to_their_end(ranks: Sequence["subprocess.Popen[str]"]) -> None:
    """Wait for all ranks, and leave none behind. Raises SandboxError where one fails."""
    try:
        for rank, process in enumerate(ranks):
            _, said = process.communicate(timeout=_LONGEST_S)
            if process.returncode:
                raise SandboxError(f"rank {rank} failed: {said[-500:]}")
    finally:
        for process in ranks:
            process.kill()
            process.communicate()


def _plug(hub: str, place: Place, mbit: float) -> None:
    name, cable = place.namespace, f"to{place.address.rpartition('.')[2]}"
    _ip("netns", "add", name)
    peer = ("peer", "name", INTERFACE, "netns", name)
    _ip("-n", hub, "link", "add", cable, "type", "veth", *peer)
    _ip("-n", hub, "link", "set", cable, "master", "bridge0", "up")
    _ip("-n", name, "address", "add", f"{place.address}/24", "dev", INTERFACE)
    for device in ("lo", INTERFACE):
        _ip("-n", name, "link", "set", device, "up")
    limit = ("tbf", "rate", f"{mbit:g}mbit", "burst", _BURST, "latency", _LATENCY)
    _run(["tc", "-n", name, "qdisc", "add", "dev", INTERFACE, "root", *limit])


def _remove(name: str) -> None:
    pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, check=False).stdout
    for pid in pids.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), 9)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _ip(*words: str) -> None:
    _run(["ip", *words])


def _run(argv: Sequence[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingError(f"{' '.join(argv)}: {done.stderr.strip()}", "look at its message")
