"""What dlqueue asks of Slurm, whoever answers."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from slurm_ext.slurm.records import (
    Accounting,
    JobInfo,
    NodeInfo,
    PartitionInfo,
    PowerCommand,
    ReservationInfo,
    ResizeRequest,
    StartEstimate,
)


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

    def reservations(self) -> tuple[ReservationInfo, ...]:
        """Every reservation, those to come included."""
        ...

    def config(self) -> Mapping[str, str]:
        """slurm.conf as slurmctld reads it: DefMemPerCPU, SlurmUser, ..."""
        ...

    def accounting(self) -> Accounting | None:
        """Limits of associations and QOS; None where Slurm enforces none."""
        ...

    def start_of(self, submission: Sequence[str], *, timeout_s: float) -> StartEstimate:
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

    def requeue(self, job_id: int, *, held: bool = False) -> None:
        """A running job ends and waits again; `held`: until it is released."""
        ...

    def hold(self, job_id: int) -> None:
        """A waiting job does not start."""
        ...

    def release(self, job_id: int) -> None:
        """A held job may start; its priority is as if it had never been held."""
        ...

    def set_nice(self, job_id: int, nice: int) -> None:
        """A waiting job gives way by so many points of priority; below 0 it is preferred.

        Of an array's id: all of its tasks. Slurm keeps a priority that was set by hand.
        """
        ...

    def resize(self, job_id: int, shape: ResizeRequest) -> None:
        """A waiting job asks for other resources; what is None stays."""
        ...

    def power(self, nodes: Sequence[str], state: PowerCommand) -> None:
        """Slurm's power saving puts these nodes to sleep, or wakes them."""
        ...
