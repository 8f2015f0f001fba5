"""Figures of a run of a mix, from its batches' logs. Pure.

- a job's rate: its samples over the time from its first batch to its last;
- samples_per_s, the aggregate: samples of all jobs during the loaded window, from the moment when
  as many jobs train as fit to the moment when fewer do for good, over the window's length;
- while_loaded_samples_per_s: the same over only those stretches of it in which so many train. The
  window has the gaps between them, too, and whether a gap is in it hangs on tenths of a second;
- makespan_s: from the first submission to the last batch of all; mean_completion_s: the jobs' mean
  from submission to last batch;
- worst_job_ratio: the least of the jobs' rates, each over the same job's rate under Slurm as it is
  in the same mix and seed; mean_job_ratio: their mean;
- jobs_cpu_s: CPU seconds of the jobs, with what the probe adds.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

Batches = Sequence[tuple[float, int]]
"""(seconds since the run began, samples so far) of each batch of one job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """One job of a run."""

    kind: str
    submit_s: float
    batches: Batches
    cpu_s: float = 0.0

    @property
    def span_s(self) -> tuple[float, float]:
        """From the first batch to the last."""
        return self.batches[0][0], self.batches[-1][0]

    @property
    def samples_per_s(self) -> float:
        """The rate between them."""
        (begin_s, first), (end_s, last) = self.batches[0], self.batches[-1]
        return (last - first) / (end_s - begin_s)

    def samples_in(self, begin_s: float, end_s: float) -> int:
        """Samples whose batch came after `begin_s` and up to `end_s`."""
        return self._until(end_s) - self._until(begin_s)

    def _until(self, moment_s: float) -> int:
        return max((count for at_s, count in self.batches if at_s <= moment_s), default=0)


def window(jobs: Sequence[Trained], loaded: int) -> tuple[float, float]:
    """From when `loaded` jobs train at once to when they last do; all of the time if never."""
    busy = stretches(jobs, loaded)
    return busy[0][0], busy[-1][1]


def stretches(jobs: Sequence[Trained], loaded: int) -> list[tuple[float, float]]:
    """Stretches of time in which `loaded` jobs train at once; the whole time if there is none."""
    moments = sorted({moment for job in jobs for moment in job.span_s})
    busy = [
        (begin_s, end_s)
        for begin_s, end_s in itertools.pairwise(moments)
        if sum(job.span_s[0] <= begin_s and end_s <= job.span_s[1] for job in jobs) >= loaded
    ]
    return busy or [(moments[0], moments[-1])]


def aggregate(jobs: Sequence[Trained], loaded: int) -> float:
    """Samples/s of all jobs together in the loaded window."""
    begin_s, end_s = window(jobs, loaded)
    return sum(job.samples_in(begin_s, end_s) for job in jobs) / (end_s - begin_s)


def while_loaded(jobs: Sequence[Trained], loaded: int) -> float:
    """Samples/s of all jobs together while enough of them train."""
    busy = stretches(jobs, loaded)
    samples = sum(job.samples_in(*stretch) for job in jobs for stretch in busy)
    return samples / sum(end_s - begin_s for begin_s, end_s in busy)


def makespan_s(jobs: Sequence[Trained]) -> float:
    """From the first submission to the last batch."""
    return max(job.span_s[1] for job in jobs) - min(job.submit_s for job in jobs)


def figures(
    jobs: Sequence[Trained], base: Sequence[Sequence[Trained]], loaded: int
) -> dict[str, float]:
    """One run's figures against runs of the same jobs under Slurm as it is."""
    rates = [job.samples_per_s for job in jobs]
    usual = [mean(run[n].samples_per_s for run in base) for n in range(len(jobs))]
    ratios = [rate / as_is for rate, as_is in zip(rates, usual, strict=True)]
    return {
        "samples_per_s": aggregate(jobs, loaded),
        "while_loaded_samples_per_s": while_loaded(jobs, loaded),
        "makespan_s": makespan_s(jobs),
        "mean_completion_s": mean(job.span_s[1] - job.submit_s for job in jobs),
        "worst_job_ratio": min(ratios),
        "mean_job_ratio": mean(ratios),
        "jobs_cpu_s": sum(job.cpu_s for job in jobs),
    }


def over_seeds(runs: Sequence[Mapping[str, float]]) -> dict[str, object]:
    """Means over the runs, the worst of all for the worst job; least and most of each as spread."""
    keys = [key for key in runs[0] if key != "seed"]
    figures: dict[str, object] = {
        key: round((min if key == "worst_job_ratio" else mean)([run[key] for run in runs]), 4)
        for key in keys
    }
    spread = {
        key: [round(min(run[key] for run in runs), 4), round(max(run[key] for run in runs), 4)]
        for key in keys
    }
    return figures | {"repeats": len(runs), "spread": spread}
