"""Facts of this node from Slurm: its CPUs as Slurm counts them, idle ones, and jobs' ends."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from slurm_ext.core.errors import SlurmError
from slurm_ext.slurm.client import SlurmClient

EVERY_S = 300.0  # and whenever a job of the node starts or ends: every node asks slurmctld
EVERY_WHERE_LENT_S = 15.0  # where idle CPUs are given to jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNodeView:
    """As of the last answer; None: Slurm has not answered yet."""

    cpus: int | None = None
    idle_cpus: int = 0
    end_s: Mapping[int, float] = field(default_factory=dict)  # when a job's time is up, Unix


class SlurmNodeQuery:
    """Asks now and then; an answer that does not come leaves the last one, without idle CPUs."""

    def __init__(self, client: SlurmClient, *, lends_idle: bool) -> None:
        self._client = client
        self._every_s = EVERY_WHERE_LENT_S if lends_idle else EVERY_S
        self._lends_idle = lends_idle
        self._due_s = 0.0
        self._jobs: frozenset[str] = frozenset()
        self.view = SlurmNodeView()

    def look(self, node: str, jobs: frozenset[str]) -> SlurmNodeView:
        """The view of now, asked again where it is old or other jobs run."""
        now = time.monotonic()
        if now >= self._due_s or jobs != self._jobs:
            self._due_s, self._jobs = now + self._every_s, jobs
            try:
                self.view = self._ask(node)
            except SlurmError:
                self.view = SlurmNodeView(cpus=self.view.cpus, end_s=self.view.end_s)
        return self.view

    def _ask(self, node: str) -> SlurmNodeView:
        cpus = next((info.cpus for info in self._client.nodes() if info.name == node), None)
        running = [job for job in self._client.jobs() if job.state in ("RUNNING", "SUSPENDED")]
        here = [job for job in running if job.nodes == node]
        elsewhere_too = any("," in job.nodes or "[" in job.nodes for job in running)
        busy = sum(job.cpus or 0 for job in here)
        idle = 0 if cpus is None or elsewhere_too else max(0, cpus - busy)
        return SlurmNodeView(
            cpus=cpus,
            idle_cpus=idle if self._lends_idle else 0,
            end_s={job.job_id: float(job.end_time_s) for job in here if job.end_time_s},
        )
