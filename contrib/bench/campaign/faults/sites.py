"""Sites where root is nobody, users fill what is theirs, or Slurm knows no cgroups, or others."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from contrib.bench.campaign.cluster import SPEC, Cluster
from contrib.bench.campaign.faults.disks import node_spools, small_spools
from contrib.bench.campaign.faults.fault import every, nothing, on_records
from contrib.bench.campaign.faults.hooks import PYTHON, replaced

_POWERS = ("chown", "dac_override", "dac_read_search", "fowner", "fsetid")
_FILL = """
cd "$1" || exit
head -c 8M /dev/zero >filler
for n in $(seq 300); do : >"$$-$n" || break; done
mkfifo "pipe-$$"
ln -s /etc/passwd "link-$$"
mkdir -p a/b/c/d/e/f/g/h
"""


@contextmanager
def _squashed(cluster: Cluster) -> Iterator[None]:
    """Root's hooks have no power over users' files: as over NFS with root_squash."""
    drop = ",".join(f"-{power}" for power in _POWERS)
    with ExitStack() as stack:
        for hook in ("prolog", "epilog"):
            path = cluster.slurm.path(f"etc/{hook}")
            text = path.read_text().replace(
                PYTHON, f"/usr/bin/setpriv --bounding-set {drop} {PYTHON}"
            )
            stack.enter_context(replaced(path, text))
        yield


@contextmanager
def _filled(cluster: Cluster) -> Iterator[None]:
    """Users fill their run folders, on the small disk that the node's records are on."""
    with every(0.3, lambda _: _fill_all(cluster)):
        yield


def _fill_all(cluster: Cluster) -> None:
    for spool in node_spools(cluster):
        for run in (spool / "run").glob("*"):
            _fill(run)


def _fill(run: Path) -> None:
    with suppress(OSError, subprocess.TimeoutExpired):
        uid = run.stat().st_uid
        if uid:
            subprocess.run(
                ["/bin/sh", "-c", _FILL, "sh", str(run)],
                stderr=subprocess.DEVNULL,
                check=False,
                timeout=5,
                user=uid,
                group=uid,
                extra_groups=[],
            )


def _no_cgroup_v2() -> str:
    """Say why Slurm cannot have cgroup v2 here, whatever a private mount shows.

    slurmd reads /proc/self/cgroup, which has a line for each hierarchy of the kernel; one of v1
    keeps its controllers from v2, too.
    """
    hierarchies = Path("/proc/self/cgroup").read_text().splitlines()
    if len(hierarchies) > 1:
        return (
            f"slurmd ends with 'Hybrid mode is not supported': this kernel has {len(hierarchies)} "
            "hierarchies, and /proc/self/cgroup names them in a private mount, too"
        )
    return "the sandbox has cgroup v1 alone"


_NO_CGROUPS: dict[str, Any] = {
    "cgroup": False,
    "slurm_conf": f"{SPEC['slurm_conf']}\nJobAcctGatherParams=OverMemoryKill",
}
FAULTS = (
    on_records("root_squashed", "root has no power over users' files", _squashed),
    on_records("users_fill", "users fill their run folders", _filled, prepared=small_spools),
    on_records("no_cgroups", "Slurm has no cgroups", nothing, needs=_NO_CGROUPS),
    on_records("cgroup_v2", "Slurm has cgroup v2", nothing, missing=_no_cgroup_v2),
)
