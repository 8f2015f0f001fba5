"""Predicts the speed of a job beside others, from all that is known of sharing.

Strongest evidence first: the pair itself, shrunk towards the completed table until its own runs
outweigh that; the table alone, if both jobs were measured beside others; their counters; and the
effect of sharing on jobs in general. More than two jobs are composed of pairs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log, sqrt

from slurm_ext.core.gpu_sharing import CorunMeasurement, RelativeSpeed, SoloProfile, SpeedBasis
from slurm_ext.model.slowdown.completion import Completion, PairSpeed, complete
from slurm_ext.model.slowdown.completion_kernel import CompletionKernel, JobTraits, Role
from slurm_ext.model.slowdown.composition import compose
from slurm_ext.model.slowdown.counter_model import CounterModel
from slurm_ext.model.slowdown.pair_measurement import (
    PairKey,
    PairStats,
    all_pair_stats,
    is_usable,
    key,
)

CounterPredictor = Callable[[SoloProfile, SoloProfile, str], RelativeSpeed | None]
"""(job, beside, device) to its speed from counters; None if they were not measured."""

LOW_SDS, HIGH_SDS = 1.96, 1.44  # 90 % between them: 2.5 % below, for the lower end protects the job
LEAST_SD = 0.05  # of a log speed: no prediction is surer before the job's own runs
MOST_SEEN = 1200  # pairs in one table: its cost grows with the cube
FASTEST = log(1.5)  # sharing makes no job faster than this: Lucid's largest noise is below it
CPU = "cpu"
# Jobs in general. GPU: median and spread of Gavel's pairs on a P100 (0.6, log sd 0.25), the spread
# wider by what separates them from other GPUs. CPU: neighbours of NTUA's nginx reach 0.1.
IN_GENERAL = {CPU: (log(0.75), 0.6)}
ON_A_GPU = (log(0.6), 0.4)
KERNELS = {
    True: CompletionKernel(
        level=IN_GENERAL[CPU][0],
        level_var=0.1,
        sensitivity=Role(family=0.04, own=0.04, vector=0.04),
        pressure=Role(family=0.04, own=0.04, vector=0.04),
        theirs_var=0.02,
        both_var=0.01,
    ),
    False: CompletionKernel(),
}
"""Kernel of a table before a site's own pairs have chosen one: True for CPUs, False for GPUs."""


@dataclass(frozen=True, slots=True)
class CounterModels:
    """Counter models: True for CPUs, False for GPUs. Callable as a CounterPredictor."""

    models: Mapping[bool, CounterModel]

    def __call__(self, job: SoloProfile, beside: SoloProfile, device: str) -> RelativeSpeed | None:
        """Predict a speed; None without a model of that kind of device, or without counters."""
        model = self.models.get(device == CPU)
        return None if model is None else model.predict(job, beside, device)


@dataclass(frozen=True, slots=True)
class SlowdownModel:
    """All knowledge of sharing; immutable. `widths`: factor on intervals, by evidence."""

    met: Mapping[PairKey, PairStats] = field(default_factory=dict)
    tables: Mapping[bool, Completion] = field(default_factory=dict)  # of CPUs: True; GPUs: False
    by_counters: CounterPredictor | None = None
    widths: Mapping[SpeedBasis, float] = field(default_factory=dict)
    solos: Mapping[str, SoloProfile] = field(
        default_factory=dict
    )  # jobs that were seen alone, by key
    traits: Mapping[str, JobTraits] = field(default_factory=dict)
    refused: int = 0  # rows that are no measurement

    @property
    def devices(self) -> frozenset[str]:
        """Devices on which pairs were measured."""
        return frozenset(device for device, _, _ in self.met)

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = CPU
    ) -> RelativeSpeed:
        """Speed of `job` beside all of `beside` at once on `device`."""
        pairs = [self._pair(job, other, device) for other in beside]
        composed = compose(pairs, on_cpu=device == CPU)
        met = self.met.get(key(job.key, (corunner.key for corunner in beside), device))
        if met is None or len(beside) < 2:
            return composed
        return self._speed(*_shrunk(_logs(composed), met), SpeedBasis.PAIR, met.runs)

    def _pair(self, job: SoloProfile, other: SoloProfile, device: str) -> RelativeSpeed:
        met = self.met.get(key(job.key, (other.key,), device))
        prior = self._completed(job, other, device)
        if met is None:
            if prior is None:
                return self._in_general(job, other, device)
            noise = sqrt(self.tables[device == CPU].kernel.noise_var)
            return self._speed(*prior, noise, SpeedBasis.COMPLETED, 0)
        if prior and self.tables[device == CPU].has_pair(job.key, other.key, device):
            return self._speed(*prior, met.spread, SpeedBasis.PAIR, met.runs)
        prior = prior or _logs(self._in_general(job, other, device))
        return self._speed(*_shrunk(prior, met), SpeedBasis.PAIR, met.runs)

    def _completed(
        self, job: SoloProfile, other: SoloProfile, device: str
    ) -> tuple[float, float] | None:
        """Mean log speed and its sd from the table; None if one of the jobs is not in it."""
        table = self.tables.get(device == CPU)
        if table is None or not (
            table.has_job(job.key, device) and table.has_job(other.key, device)
        ):
            return None
        return table.predict(job.key, other.key, device)

    def _in_general(self, job: SoloProfile, other: SoloProfile, device: str) -> RelativeSpeed:
        speed = self.by_counters(job, other, device) if self.by_counters else None
        if speed is not None:
            return speed
        return self._speed(*IN_GENERAL.get(device, ON_A_GPU), 0.0, SpeedBasis.PRIOR, 0)

    def _speed(
        self, mean: float, sd: float, spread: float, by: SpeedBasis, runs: int
    ) -> RelativeSpeed:
        wide = sqrt(sd**2 + spread**2) * self.widths.get(by, 1.0)
        ends = (mean - LOW_SDS * wide, mean, mean + HIGH_SDS * wide)
        low, middle, high = (exp(min(at, FASTEST)) for at in ends)
        return RelativeSpeed(mean=middle, low=low, high=high, evidence=by, runs=runs)


def slowdown_model(
    pairs: Sequence[CorunMeasurement],
    solos: Mapping[str, SoloProfile] | None = None,
    *,
    traits: Mapping[str, JobTraits] | None = None,
    by_counters: CounterPredictor | None = None,
    widths: Mapping[SpeedBasis, float] | None = None,
    kernels: Mapping[bool, CompletionKernel] | None = None,
) -> SlowdownModel:
    """Build a model from `pairs`; `traits`: facts of each job, by key.

    Rows that are no measurement (not finite, not positive, no partner) are counted, not used.
    """
    model = SlowdownModel(
        met=all_pair_stats(pairs),
        by_counters=by_counters,
        widths=widths or {},
        solos=solos or {},
        traits=traits or {},
        refused=sum(not is_usable(pair) for pair in pairs),
    )
    return with_tables(model, kernels or KERNELS)


def with_tables(model: SlowdownModel, kernels: Mapping[bool, CompletionKernel]) -> SlowdownModel:
    """Fill the tables from the measured pairs, one of CPUs and one of GPUs."""
    tables = {}
    for on_cpu in (True, False):
        pairs = measured_pairs(model, on_cpu)
        if pairs:
            kernel = kernels.get(on_cpu, KERNELS[on_cpu])
            tables[on_cpu] = complete(pairs, kernel=kernel, traits=model.traits)
    return replace(model, tables=tables)


def measured_pairs(model: SlowdownModel, on_cpu: bool) -> list[PairSpeed]:
    """The best measured pairs, for a table."""
    pairs = [
        (stats, at)
        for at, stats in model.met.items()
        if len(at[2]) == 1 and (at[0] == CPU) == on_cpu
    ]
    pairs.sort(key=lambda pair: (pair[0].log_sd, pair[1]))
    return [
        PairSpeed(
            job=job,
            partner=partner,
            device=device,
            log_speed=stats.log_speed,
            log_sd=stats.log_sd,
        )
        for stats, (device, job, (partner,)) in pairs[:MOST_SEEN]
    ]


def _logs(speed: RelativeSpeed) -> tuple[float, float]:
    """Mean and standard deviation of the log of a predicted speed."""
    return log(speed.mean), max(LEAST_SD, log(speed.mean / speed.low) / LOW_SDS)


def _shrunk(prior: tuple[float, float], met: PairStats) -> tuple[float, float, float]:
    """Combine a prior (mean, sd) with the runs: mean, sd and the next run's spread."""
    (mean, sd), own = prior, met.log_sd
    share = sd**2 / (sd**2 + own**2)
    return mean + share * (met.log_speed - mean), sd * sqrt(1.0 - share), met.spread
