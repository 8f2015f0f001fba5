"""One training under control: its windows, its curve, what it was given."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from slurm_ext.control.allocator import gate
from slurm_ext.control.allocator.cgroup.cpu import Share
from slurm_ext.control.allocator.cgroup.job_location import JobGoneError, UntrustedJobDirError
from slurm_ext.control.allocator.job_curve import baseline, fit, points_of, rate_at, utilisation
from slurm_ext.control.allocator.jobs import RunningJob, SpooledJob
from slurm_ext.control.allocator.measure import WorkerBounds, run_between, worker_bounds
from slurm_ext.core.records import LoaderRun
from slurm_ext.model.throughput.estimate import Estimate
from slurm_ext.policy.allocator.drift import WINDOWS, DriftState, update
from slurm_ext.policy.allocator.job_demands import JobDemand
from slurm_ext.policy.allocator.operating_points import OperatingPoint

MOST_RUNS = 8
PATIENCE = 4  # windows that one may stay open for lack of anything sure


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPace:
    """Length of a measured window, and the pause before it."""

    window_s: float
    settle_s: float  # after a change, until the queues hold only what was made since


class ControlledJob:
    """Measurements, curve and changes of one job."""

    def __init__(
        self, job: SpooledJob, note: Callable[[], None], pace: WindowPace, *, lends: bool = False
    ) -> None:
        self.job, self._pace, self._lends = job, pace, lends
        self._note = note
        self.share = Share(job.place, note=note)
        self.share_units = 1  # of what there is to divide
        self.units: int | None = None  # given by us
        self.workers: int | None = None  # asked for by us
        self.knob = WorkerBounds(now=0, least=0, most=0, baseline=0)
        self.ranks = 1
        self.measured: float | None = None  # samples/s of one process
        self.curve: Estimate | None = None
        self.agreed = False
        self.pids: tuple[int, ...] = ()
        self._runs: deque[LoaderRun] = deque(maxlen=MOST_RUNS)
        self._base: tuple[float, Sequence[Mapping[str, Any]]] = (0.0, ())
        self._watch: DriftState | None = None
        self._made: tuple[object, tuple[OperatingPoint, ...]] | None = None
        self._acted_on = False  # since its curve is known

    @property
    def changed(self) -> bool:
        """True if there is anything to undo."""
        return bool(self.share.kept) or self.workers is not None

    @property
    def bounds(self) -> tuple[object, ...]:
        """The limits that its measured rate depends on."""
        return (self.share.held_cores, self.share.pinned, self.workers)

    def look(self, running: RunningJob, most_workers: int) -> None:
        """Take note of what the training says by now."""
        summaries = running.summaries
        self.pids = tuple(s["pid"] for s in summaries)
        self.ranks = max(1, len(summaries))
        self.knob = worker_bounds(summaries, most_workers) or self.knob
        self.agreed = running.agreed
        self._measure(summaries)
        self.curve = fit(running.curve, tuple(self._runs))

    def demand(
        self, units: int, share_units: int, grain_cores: float, left_s: float | None
    ) -> JobDemand:
        """The job as the policy sees it."""
        self.share_units = share_units
        points = self._points(units, grain_cores)
        least = -(-self.job.gpus // grain_cores) if self.job.gpus else 1
        return JobDemand(
            job=self.job.key,
            points=points,
            share_units=share_units,
            now=self._now(points, grain_cores),
            agreed=self.agreed,
            news=bool(points) and not self._acted_on,
            remaining_s=left_s,
            least_units=int(min(least, share_units)),
            baseline=self._baseline(share_units, grain_cores) if points else None,
        )

    def _baseline(self, share_units: int, grain_cores: float) -> OperatingPoint | None:
        return baseline(
            self.curve, self.knob, share_units, grain_cores=grain_cores, ranks=self.ranks
        )

    def _points(self, units: int, grain_cores: float) -> tuple[OperatingPoint, ...]:
        """Operating points, computed again only if the curve or the bounds changed."""
        key = (self.curve, self.knob.least, self.knob.most, self.ranks, units)
        if self._made is None or self._made[0] != key:
            points = points_of(
                self.curve,
                self.knob,
                units,
                grain_cores=grain_cores,
                ranks=self.ranks,
                lends=self._lends and self.share.lends,
            )
            self._made = (key, points)
        return self._made[1]

    def _now(self, points: Sequence[OperatingPoint], grain_cores: float) -> OperatingPoint | None:
        if self.units is None:
            return None
        expected = next((o.samples_per_s for o in points if o.units == self.units), 0.0)
        rate = self._sure_of(grain_cores) or self.measured or expected
        reads = rate * self.curve.bytes_per_sample * self.ranks if self.curve else 0.0
        return OperatingPoint(
            units=self.units, workers=self.workers, samples_per_s=rate, io_bytes_per_s=reads
        )

    def _sure_of(self, grain_cores: float) -> float | None:
        """Its rate without what others lend it for a while, which is measured with the rest."""
        if self.share.weight is None or self.curve is None or self.units is None:
            return None
        workers = self.workers or self.knob.now
        return rate_at(self.curve, self.units, workers, grain_cores=grain_cores, ranks=self.ranks)

    def utilisation(self, cores: float, workers: int | None) -> float:
        """The part of so many cores that it computes with; all, without a curve."""
        if self.curve is None:
            return 1.0
        return min(1.0, utilisation(self.curve, cores, workers or self.knob.now, ranks=self.ranks))

    def ask(self, workers: int | None) -> None:
        """Set the number of workers that its loader uses.

        Raises JobGoneError, UntrustedJobDirError, OSError.
        """
        if workers and self.knob.movable and workers != self.workers:
            self.workers = workers
            self._note()
            gate.set_gate(self.job.run_dir, workers, uid=self.job.place.uid)

    def acted_on(self, *, changed: bool) -> None:
        """Note that the decision is applied; `changed`: its limits differ, measure again."""
        self._acted_on = self.curve is not None
        if changed:
            self._base = (time.monotonic() + self._pace.settle_s, ())
            self._watch = None

    def restore(self) -> bool:
        """Share and gate as they were; False: to be called again (see Share.restore)."""
        clean = True
        with suppress(JobGoneError, OSError):
            clean = self.share.restore()
        if self.workers is not None:
            with suppress(JobGoneError, UntrustedJobDirError):
                gate.remove_gate(self.job.run_dir, uid=self.job.place.uid)
        self.units = self.workers = None
        return clean

    def _measure(self, summaries: Sequence[Mapping[str, Any]]) -> None:
        """A window is closed when it is long enough; what it shows joins the evidence."""
        now = time.monotonic()
        since_s, base = self._base
        if now < since_s:
            return
        if not base and since_s:  # settled: begin
            self._base = (now, summaries)
            return
        if base and self._runs and now - since_s < self._pace.window_s:
            return  # without any run the first sure one is taken
        run = run_between(
            base, summaries, cpus=self.job.cpus, gpus=self.job.gpus, cores=self.share.held_cores
        )
        if run is not None:
            self._learn(run)
        elif base and now - since_s < PATIENCE * self._pace.window_s:
            return  # too little yet: the window stays open
        self._base = (now, summaries)

    def _learn(self, run: LoaderRun) -> None:
        self.measured = run.samples_per_s
        self._runs.appendleft(run)
        self._watch = update(
            self._watch or DriftState(expected=run.samples_per_s), run.samples_per_s
        )
        if self._watch.verdict == "drifted":  # what it did before is no evidence any more
            while len(self._runs) > WINDOWS:
                self._runs.pop()
            self._watch = None
