"""Disks without room, and without inodes."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from contrib.bench.campaign.cluster import Cluster
from contrib.bench.campaign.faults.fault import Break, Fault, Hurts

_NODES_DISK = "size=4m,nr_inodes=3000"
# The decisions of ten thousand submissions fill 12 MiB; a journal of them ends at 64.
_STATES_DISK = "size=128m,nr_inodes=3000"


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """A small disk in the place of a folder, with what was in it."""
    kept = folder.with_name(f".{folder.name}-kept")
    shutil.copytree(folder, kept) if folder.exists() else kept.mkdir(parents=True)
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", options, "campaign", str(folder)]
    subprocess.run(command, check=True)
    try:
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def _small_state(cluster: Cluster) -> Iterator[None]:
    state = cluster.slurm.path("dlqueue")
    cluster.slurm.stop("advisor")
    with mounted(state, _STATES_DISK):
        cluster.slurm.start("advisor")
        yield
        cluster.slurm.stop("advisor")


@contextmanager
def small_spools(cluster: Cluster) -> Iterator[None]:
    """Each node's spool is on a small disk of its own."""
    with ExitStack() as stack:
        for folder in node_spools(cluster):
            stack.enter_context(mounted(folder, _NODES_DISK))
        yield


def node_spools(cluster: Cluster) -> list[Path]:
    """The spool folder of every node."""
    return [cluster.slurm.path(f"nodes/{node}/dlqueue") for node in cluster.slurm.nodes]


def _state(cluster: Cluster) -> list[Path]:
    return [cluster.slurm.path("dlqueue")]


def full(disk: Path) -> list[Path]:
    """Fill a disk; the files to remove."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as stream:
        try:
            while stream.write(b"x" * 4096):
                pass
        except OSError:
            pass
    return [filler]


def _inode_less(disk: Path) -> list[Path]:
    folder = disk / "fillers"
    folder.mkdir()
    try:
        for number in range(1_000_000):
            (folder / str(number)).touch()
    except OSError:
        pass
    return [folder]


def _spent(which: str, on_state: bool) -> Break:
    @contextmanager
    def broken(cluster: Cluster) -> Iterator[None]:
        disks = _state(cluster) if on_state else node_spools(cluster)
        fillers = [
            path for disk in disks for path in (full if which == "room" else _inode_less)(disk)
        ]
        yield
        for path in fillers:
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return broken


def _fault(name: str, what: str, which: str, *, on_state: bool) -> Fault:
    broken, hurts = _spent(which, on_state), Hurts.BOTH if on_state else Hurts.RECORDS
    prepared = _small_state if on_state else small_spools
    return Fault(name, what, broken, prepared=prepared, hurts=hurts)


FAULTS = (
    _fault("state_disk_full", "the advisor's disk is full", "room", on_state=True),
    _fault("state_no_inodes", "the advisor's disk has no inodes", "inodes", on_state=True),
    _fault("spool_disks_full", "the nodes' spools are full", "room", on_state=False),
    _fault("spool_no_inodes", "the nodes' spools have no inodes", "inodes", on_state=False),
)
