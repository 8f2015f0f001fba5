"""A cluster that is nothing but records, for tests and replay."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from slurm_ext.cluster.records import Accounting, JobInfo, NodeInfo, PartitionInfo, Start


@dataclass(slots=True)
class MemoryClient:
    """A SlurmClient that answers what its fields hold."""

    known_jobs: tuple[JobInfo, ...] = ()
    known_partitions: tuple[PartitionInfo, ...] = ()
    known_nodes: tuple[NodeInfo, ...] = ()
    known_config: Mapping[str, str] = field(default_factory=dict)
    known_accounting: Accounting | None = None
    known_scripts: Mapping[int, str] = field(default_factory=dict)
    asked: list[tuple[str, object, object]] = field(default_factory=list)  # in order
    known_start: Callable[[tuple[str, ...]], Start] = lambda _: Start(start_s=0)

    def jobs(self) -> tuple[JobInfo, ...]:
        """The jobs it was given."""
        return self.known_jobs

    def partitions(self) -> tuple[PartitionInfo, ...]:
        """The partitions it was given."""
        return self.known_partitions

    def nodes(self) -> tuple[NodeInfo, ...]:
        """The nodes it was given."""
        return self.known_nodes

    def config(self) -> Mapping[str, str]:
        """The configuration it was given."""
        return self.known_config

    def accounting(self) -> Accounting | None:
        """The accounting that it was given."""
        return self.known_accounting

    def start_of(self, submission: Sequence[str], *, timeout_s: float) -> Start:  # noqa: ARG002 (nothing here takes time)
        """What its function says of the submission."""
        return self.known_start(tuple(submission))

    def script_of(self, job_id: int) -> str | None:
        """The script that it was given."""
        return self.known_scripts.get(job_id)

    def delay(self, job_ids: Sequence[int], seconds: int) -> None:
        """Noted."""
        self.asked.append(("delay", tuple(job_ids), seconds))

    def bind(self, job_id: int, node: str | None) -> None:
        """Noted."""
        self.asked.append(("bind", job_id, node))

    def requeue(self, job_id: int) -> None:
        """Noted."""
        self.asked.append(("requeue", job_id, None))
