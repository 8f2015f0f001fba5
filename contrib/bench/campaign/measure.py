"""One fault from beginning to end: before it, under it, after it, and what came of everything."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from contrib.bench.campaign import accounting, records
from contrib.bench.campaign.accounting import Ran
from contrib.bench.campaign.cluster import Cluster
from contrib.bench.campaign.faults.fault import Fault, Hurts
from contrib.bench.campaign.forgotten import all_ended_by_themselves, ends, with_forgotten
from contrib.bench.campaign.load import Load
from contrib.bench.campaign.records import Recorded
from contrib.bench.campaign.row import Row, given_again, row_of
from contrib.bench.campaign.shapes import Shapes, advised, learn_shapes
from slurm_ext.core.errors import DlqueueError

HURT_S = 12.0  # a fault lasts at least so long
RECOVER_S = 150.0  # longer is called never
END_S = 200.0  # for the last job to end and to be recorded
FEW = 0.1  # of the full counts, on the way that a fault does not stand on
_UNDER, _BESIDE = 0.6, 0.2  # of the submissions and jobs: under the fault, and before and after it


@dataclass(frozen=True, slots=True)
class Counts:
    """Submissions and jobs of one row."""

    submissions: int
    jobs: int

    def of(self, fault: Fault) -> "Counts":
        """The counts of this fault."""
        few = (
            FEW if fault.hurts is Hurts.RECORDS else 1,
            FEW if fault.hurts is Hurts.SUBMISSIONS else 1,
        )
        return Counts(max(48, round(self.submissions * few[0])), max(13, round(self.jobs * few[1])))


class Measurement:
    """The course of one fault on a cluster that is up."""

    def __init__(
        self, fault: Fault, cluster: Cluster, counts: Counts, say: Callable[[str], None]
    ) -> None:
        self._fault, self._cluster, self._counts, self._say = fault, cluster, counts, say
        self._load = Load(cluster, fault.name, say)
        self._batch = self._load.batch

    def row(self) -> Row:
        """Measure. Raises DlqueueError if the cluster itself cannot be used."""
        shapes = learn_shapes(self._cluster)
        log_before = len(self._cluster.slurmctld_log())
        self._say("before")
        self._add(_BESIDE, longest_s=HURT_S)
        self._say("under the fault")
        with self._fault.broken(self._cluster):
            began_s = time.monotonic()
            self._add(_UNDER, longest_s=HURT_S / 2, shells=self._fault.shells)
            while time.monotonic() < began_s + HURT_S:
                self._batch.tend()
                time.sleep(0.2)
        healed_s = time.monotonic()
        self._say("healed")
        recovery_s = self._recovered(healed_s)
        self._say(
            f"recovered in {recovery_s:.0f} s" if recovery_s is not None else "never recovered"
        )
        self._add(_BESIDE, longest_s=1.0)
        self._settle()
        self._say("ended")
        return self._judged(shapes, log_before, recovery_s)

    def _add(self, share: float, *, longest_s: float, shells: int = 1) -> None:
        """Submit a share of everything, and look at what slurmctld has then."""
        submissions, jobs = (
            round(share * count) for count in (self._counts.submissions, self._counts.jobs)
        )
        self._load.add(submissions, jobs, longest_s=longest_s, shells=shells)

    def _recovered(self, healed_s: float) -> float | None:
        """Seconds until advice is given again and nothing that has ended is without its record."""
        due: set[str] | None = None
        late = "nothing"
        while (passed_s := time.monotonic() - healed_s) < RECOVER_S:
            self._batch.tend()
            with suppress(DlqueueError):
                missing = set(self._missing())
                due = missing if due is None else due & missing
                if not due and advised(self._cluster):
                    self._say(f"late was {late}")
                    return time.monotonic() - healed_s
                late = f"{len(due)} records, one of {min(due)}" if due else "advice"
            time.sleep(min(1.0, 0.1 + passed_s / 20))
        return None

    def _records_are_whole(self) -> bool:
        rows = records.recorded(self._cluster.slurm)
        ran = self._ran(rows)
        log = self._cluster.slurmctld_log()
        forgotten, exited = ends(log) if self._fault.no_slurm else None, all_ended_by_themselves
        otherwise = records.told_otherwise(ran, rows, forgotten, exited(ran, log))
        return not records.lost(ran, rows) and not otherwise

    def _ran(self, rows: Sequence[Recorded]) -> list[Ran]:
        """Starts by accounting, and those that it has forgotten."""
        ran = accounting.ran(self._cluster.slurm)
        return with_forgotten(ran, rows, self._cluster.slurmctld_log())

    def _missing(self) -> list[str]:
        rows = records.recorded(self._cluster.slurm)
        return records.lost(self._ran(rows), rows)

    def _settle(self) -> None:
        """Wait until every job has ended and is recorded, and then for what may come twice."""
        deadline = time.monotonic() + END_S
        while time.monotonic() < deadline:
            tended = self._batch.tend()
            with suppress(DlqueueError):
                if not self._unended() and tended and self._records_are_whole():
                    break
            time.sleep(1.0)
        self._load.look()
        time.sleep(3.0)

    def _unended(self) -> list[str]:
        """Jobs that were submitted to run and have not ended; what Slurm requeued starts now."""
        words = ["squeue", "-h", "-t", "running,completing,pending,configuring", "-o", "%A %r"]
        lines = [line.split(" ", 1) for line in self._cluster.slurm.run(words).stdout.splitlines()]
        for job_id, reason in lines:
            if reason == "BeginTime":
                self._batch.starter.start(job_id)
        held = ("JobHeldUser", "Dependency")
        return [job_id for job_id, reason in lines if not reason.startswith(held)]

    def _judged(self, shapes: Shapes, log_before: int, recovery_s: float | None) -> Row:
        slurm, log = self._cluster.slurm, self._cluster.slurmctld_log()
        rows, in_vain = records.recorded(slurm), accounting.waited_in_vain(slurm)
        everything = [*self._load.submitted, *self._batch.submitted]
        return row_of(
            self._fault.name,
            everything,
            no_slurm=self._fault.no_slurm,
            ran=self._ran(rows),
            rows=rows,
            decided_twice=records.decided_twice(slurm),
            aside=records.set_aside(slurm),
            drained=accounting.drained(slurm, log, forgets=self._fault.no_slurm, in_vain=in_vain),
            in_vain=in_vain,
            changed=shapes.wrong(everything, self._load.seen, given_again(everything)),
            log=log[log_before:],
            deadline_s=slurm.settings.get("advisor.deadline_ms", 50) / 1000,
            breaker_s=slurm.settings.get("advisor.breaker_s", 30),
            recovery_s=recovery_s,
        )
