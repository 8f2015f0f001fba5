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

    def script_of(self, job_id: int) -> str | None:
        """The batch script of a job that did not end; None: it has none, or we may not read it."""
        ...

    def delay(self, job_ids: Sequence[int], seconds: int) -> None:
        """Waiting jobs are not started for so long; 0: they may start now (users' --begin)."""
        ...

    def bind(self, job_id: int, node: str | None) -> None:
        """A waiting job starts on this node only; None: anywhere again (users' --nodelist)."""
        ...

    def requeue(self, job_id: int) -> None:
        """A running job ends and waits again."""
        ...
