"""What dlqueue asks of Slurm, whoever answers."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from slurm_ext.cluster.records import Accounting, JobInfo, NodeInfo, PartitionInfo, Start


class SlurmClient(Protocol):
    """A cluster. Every method raises SlurmError where Slurm does not answer in time, or wrongly."""

    def jobs(self) -> tuple[JobInfo, ...]:
        """Every job that slurmctld knows: pending, running, and ended within MinJobAge."""
        ...

    def partitions(self) -> tuple[PartitionInfo, ...]:
        """Every partition with its limits."""
        ...

    def nodes(self) -> tuple[NodeInfo, ...]:
        """Every node."""
        ...

    def config(self) -> Mapping[str, str]:
        """slurm.conf as slurmctld reads it: DefMemPerCPU, SlurmUser, ..."""
        ...

    def accounting(self) -> Accounting | None:
        """Limits of associations and QOS; None where Slurm enforces none."""
        ...

    def start_of(self, submission: Sequence[str], *, timeout_s: float) -> Start:
        """When `sbatch SUBMISSION` (options, script, arguments) would start; nothing is submitted.

        dlqueue itself leaves the question alone: it is answered as written, and nowhere recorded.
        """
        ...
