"""Interface of all Slurm clients."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from slurm_ext.slurm.records import (
    AccountedEnd,
    Accounting,
    EnforcedLimits,
    JobInfo,
    NodeInfo,
    PartitionInfo,
    PowerCommand,
    ReservationInfo,
    ResizeRequest,
    StartEstimate,
)


class SlurmClient(Protocol):
    """A cluster. Every method raises SlurmError if Slurm fails or does not answer in time."""

    def jobs(self) -> tuple[JobInfo, ...]:
        """List the jobs that slurmctld knows: pending, running, and ended within MinJobAge."""
        ...

    def partitions(self) -> tuple[PartitionInfo, ...]:
        """List the partitions with their limits."""
        ...

    def nodes(self) -> tuple[NodeInfo, ...]:
        """List the nodes."""
        ...

    def reservations(self) -> tuple[ReservationInfo, ...]:
        """List the reservations, future ones included."""
        ...

    def config(self) -> Mapping[str, str]:
        """Return slurm.conf as slurmctld reads it: DefMemPerCPU, SlurmUser, ..."""
        ...

    def accounting(self) -> Accounting | None:
        """Return limits of associations and QOS; None if Slurm enforces none."""
        ...

    def limits(self, user: str, qos: Sequence[str]) -> tuple[EnforcedLimits, ...]:
        """List limits with their use: of these QOS, all accounts, and the user in them."""
        ...

    def operators(self) -> frozenset[str]:
        """Return names of users whose AdminLevel is Operator or Administrator; none without."""
        ...

    def ends(self, job_ids: Sequence[int], since_s: float) -> tuple[AccountedEnd, ...]:
        """List starts of these jobs that ran since then, by slurmdbd; none without it."""
        ...

    def start_of(self, submission: Sequence[str], *, timeout_s: float) -> StartEstimate:
        """Estimate the start of `sbatch SUBMISSION` (options, script, arguments); submit nothing.

        dlqueue's own job_submit plugin neither edits nor records it.
        """
        ...

    def script_of(self, job_id: int) -> str | None:
        """Return the batch script of a job that has not ended; None if there is none to read."""
        ...

    def delay(self, job_ids: Sequence[int], seconds: int) -> None:
        """Keep waiting jobs from starting for so long; 0: they may start now (users' --begin)."""
        ...

    def bind(self, job_id: int, node: str | None) -> None:
        """Have a waiting job start on this node only; None: on any again (users' --nodelist)."""
        ...

    def requeue(self, job_id: int, *, held: bool = False) -> None:
        """End a running job and let it wait again; with `held` until it is released."""
        ...

    def hold(self, job_id: int) -> None:
        """Keep a waiting job from starting."""
        ...

    def release(self, job_id: int) -> None:
        """Let a held job start, with its usual priority."""
        ...

    def set_nice(self, job_id: int, nice: int) -> None:
        """Lower a waiting job's priority by `nice` points; below 0 it rises.

        An array's id stands for all of its tasks. Slurm keeps a priority that was set by hand.
        """
        ...

    def resize(self, job_id: int, request: ResizeRequest) -> None:
        """Change the resources that a waiting job asks for; None leaves one as it is."""
        ...

    def power(self, nodes: Sequence[str], state: PowerCommand) -> None:
        """Put nodes to sleep or wake them, by Slurm's power saving."""
        ...
