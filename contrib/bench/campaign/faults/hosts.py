"""Hosts whose clock is set, whose /proc hides others, which boot, and whose disks are small."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from contrib.bench.campaign.cluster import Cluster
from contrib.bench.campaign.faults.advisor import advisor_with
from contrib.bench.campaign.faults.clock import clock, no_compiler, stepping
from contrib.bench.campaign.faults.disks import full, mounted, node_spools
from contrib.bench.campaign.faults.fault import Fault, every, on_records
from contrib.bench.campaign.faults.hooks import PYTHON, replaced

HOUR_S = 3600
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_HOOKS = ("prolog", "task_prolog", "epilog")


@contextmanager
def _nodes_clocks(cluster: Cluster) -> Iterator[None]:
    """Hooks and samplers live an hour later, then an hour earlier, and so on."""
    with clock(cluster.slurm.path("clock")) as stepped, ExitStack() as stack:
        words = f"/usr/bin/env LD_PRELOAD={stepped.library} CLOCK_STEP={stepped.step} {PYTHON}"
        for hook in _HOOKS:
            path = cluster.slurm.path(f"etc/{hook}")
            shipped = path.read_text()
            stack.enter_context(replaced(path, shipped.replace(PYTHON, words)))
        with every(2.0, stepping(stepped, HOUR_S)):
            yield


@contextmanager
def _advisors_clock(cluster: Cluster) -> Iterator[None]:
    """The advisor and the history writer live an hour later, then an hour earlier, and so on."""
    with (
        clock(cluster.slurm.path("clock")) as stepped,
        advisor_with(cluster, LD_PRELOAD=str(stepped.library), CLOCK_STEP=str(stepped.step)),
        every(2.0, stepping(stepped, HOUR_S)),
    ):
        yield


def _shares_mounts() -> str:
    """Say what is missing for faults that change /proc: other people's /proc must stay."""
    if os.environ.get("CAMPAIGN_MOUNTS") == "own":
        return ""
    return "needs mounts of its own: CAMPAIGN_MOUNTS=own unshare --mount python -m ..."


@contextmanager
def _hidden(_: Cluster) -> Iterator[None]:
    subprocess.run(["mount", "-t", "proc", "-o", "hidepid=2", "proc", "/proc"], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", "/proc"], check=True)


@contextmanager
def _booted(cluster: Cluster) -> Iterator[None]:
    """Every node loses its power, and comes back with another boot's id."""
    named = cluster.slurm.path("boot_id")
    named.write_text(f"{uuid4()}\n")
    for node in cluster.slurm.nodes:
        cluster.slurm.kill_node(node)
    subprocess.run(["mount", "--bind", str(named), _BOOT_ID], check=True)
    for node in cluster.slurm.nodes:
        cluster.slurm.start(node)
    yield  # the id stays: it is this boot's from now on


@contextmanager
def _own_boot_id(_: Cluster) -> Iterator[None]:
    try:
        yield
    finally:
        subprocess.run(["umount", _BOOT_ID], check=False)


@contextmanager
def _small_run_folders(cluster: Cluster) -> Iterator[None]:
    """Run folders on disks of their own, as on /run, which are full."""
    with ExitStack() as stack:
        folders = [spool / "run" for spool in node_spools(cluster)]
        for folder in folders:
            stack.enter_context(mounted(folder, "size=64k,mode=0755"))
        fillers: list[Path] = [path for folder in folders for path in full(folder)]
        yield
        for path in fillers:
            path.unlink()


FAULTS = (
    on_records(
        "nodes_clocks",
        "the nodes' clocks go forward and back by an hour",
        _nodes_clocks,
        missing=no_compiler,
    ),
    Fault(
        "advisors_clock",
        "the advisor's clock goes forward and back by an hour",
        _advisors_clock,
        missing=no_compiler,
    ),
    on_records(
        "proc_hidden", "/proc hides other users' processes", _hidden, missing=_shares_mounts
    ),
    on_records(
        "all_rebooted",
        "every node loses its power and has another boot's id",
        _booted,
        prepared=_own_boot_id,
        missing=_shares_mounts,
    ),
    on_records("run_folders_full", "run folders are on full disks of 64 KB", _small_run_folders),
)
