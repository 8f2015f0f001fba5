"""Run time from the amount of work in earlier runs of the same script. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, hypot, log
from statistics import median, pstdev

from slurm_ext.core.records import Interval, Level, LoaderRun
from slurm_ext.core.stats import NORMAL_90

SAME_WORK = 1.5  # runs of one script whose work differs by more were told to do different things
LEVELS = (Level.SCRIPT_ARGS, Level.SCRIPT)  # farther ones are other work


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingWork:
    """A run's work: samples to train on, and time outside of the training loop."""

    samples: float
    log_sd: float
    outside_s: Interval  # start-up, validation, saving: the least and most that was seen
    level: Level
    runs: int

    def run_s(self, samples_per_s: float, rate: Interval) -> tuple[float, Interval]:
        """Seconds of a run at a rate, and their bounds."""
        loop_s = self.samples / samples_per_s
        doubt = NORMAL_90 * self.log_sd
        faster = exp(-hypot(doubt, log(rate.high / samples_per_s)))
        slower = exp(hypot(doubt, log(samples_per_s / rate.low)))
        low, high = self.outside_s.low, self.outside_s.high
        return (
            loop_s + (low + high) / 2,
            Interval(loop_s * faster + low, loop_s * slower + high, rate.level),
        )


def work_of(evidence: Mapping[Level, Sequence[LoaderRun]]) -> tuple[TrainingWork | None, str]:
    """The work, or the reason why it is unknown."""
    for level in LEVELS:
        whole = [run for run in evidence.get(level, ()) if _whole(run)]
        if whole:
            return _pooled(level, whole)
    return None, "no run of this script has come to its end with its samples counted"


def _pooled(level: Level, runs: Sequence[LoaderRun]) -> tuple[TrainingWork | None, str]:
    samples = [run.run_samples or 0.0 for run in runs]
    if max(samples) > SAME_WORK * min(samples):
        text = f"{min(samples):.3g} to {max(samples):.3g} samples"
        return None, f"earlier runs did different amounts of work: {text}"
    outside = [run.outside_s or 0.0 for run in runs]
    work = TrainingWork(
        samples=median(samples),
        log_sd=pstdev(map(log, samples)),
        outside_s=Interval(min(outside), max(outside)),
        level=level,
        runs=len(runs),
    )
    return work, ""


def _whole(run: LoaderRun) -> bool:
    return run.run_samples is not None and run.run_samples > 0 and run.outside_s is not None
