"""How fast a job runs beside others: the one door to all that is known of sharing.

Strongest evidence first: the pair itself, shrunk to what the table of all pairs says until its own
runs outweigh that; the table alone, where both jobs were seen beside others; their counters; and
what sharing does to jobs in general. More than two are composed of pairs.
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
"""(job, beside, device) to its speed from counters; None where what it needs was not measured."""

LOW_SDS, HIGH_SDS = 1.96, 1.44  # 90 % between them: 2.5 % below, for the lower end protects the job
LEAST_SD = 0.05  # nothing is believed more surely than this before the job itself has shown it
MOST_SEEN = 1200  # pairs in one table: its cost grows with the cube
FASTEST = log(1.5)  # sharing makes nobody faster than this: Lucid's largest noise is below it
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
"""By whether it is a CPU: what a table is filled by before a site's own pairs have chosen."""


@dataclass(frozen=True, slots=True)
class CounterModels:
    """Models from counters, by whether they are about CPUs; itself a Foretell."""

    models: Mapping[bool, CounterModel]

    def __call__(self, job: SoloProfile, beside: SoloProfile, device: str) -> RelativeSpeed | None:
        """None where no model is about that kind of device, or what it needs was not measured."""
        model = self.models.get(device == CPU)
        return None if model is None else model.predict(job, beside, device)


@dataclass(frozen=True, slots=True)
class SlowdownModel:
    """All that is known; immutable. `widths`: by evidence, how much wider than believed."""

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
        """Where anybody was seen beside anybody."""
        return frozenset(device for device, _, _ in self.met)

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = CPU
    ) -> RelativeSpeed:
        """`job`'s speed beside all of `beside` at once on `device`."""
        pairs = [self._pair(job, other, device) for other in beside]
        composed = compose(pairs, on_cpu=device == CPU)
        met = self.met.get(key(job.key, (one.key for one in beside), device))
        if met is None or len(beside) < 2:
            return composed
        return self._told(*_shrunk(_logs(composed), met), SpeedBasis.PAIR, met.runs)

    def _pair(self, job: SoloProfile, other: SoloProfile, device: str) -> RelativeSpeed:
        met = self.met.get(key(job.key, (other.key,), device))
        believed = self._completed(job, other, device)
        if met is None:
            if believed is None:
                return self._in_general(job, other, device)
            noise = sqrt(self.tables[device == CPU].kernel.noise_var)
            return self._told(*believed, noise, SpeedBasis.COMPLETED, 0)
        if believed and self.tables[device == CPU].has_pair(job.key, other.key, device):
            return self._told(*believed, met.spread, SpeedBasis.PAIR, met.runs)
        believed = believed or _logs(self._in_general(job, other, device))
        return self._told(*_shrunk(believed, met), SpeedBasis.PAIR, met.runs)

    def _completed(
        self, job: SoloProfile, other: SoloProfile, device: str
    ) -> tuple[float, float] | None:
        """Mean log speed and its sd out of the table; None where one of them is not in it."""
        table = self.tables.get(device == CPU)
        if table is None or not (
            table.has_job(job.key, device) and table.has_job(other.key, device)
        ):
            return None
        return table.predict(job.key, other.key, device)

    def _in_general(self, job: SoloProfile, other: SoloProfile, device: str) -> RelativeSpeed:
        told = self.by_counters(job, other, device) if self.by_counters else None
        if told is not None:
            return told
        return self._told(*IN_GENERAL.get(device, ON_A_GPU), 0.0, SpeedBasis.PRIOR, 0)

    def _told(
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
    """What `pairs` teach; `traits`: by a job's key, which others it is like.

    Rows that are no measurement (not finite, not positive, beside nobody) are counted, not used.
    """
    known = SlowdownModel(
        met=all_pair_stats(pairs),
        by_counters=by_counters,
        widths=widths or {},
        solos=solos or {},
        traits=traits or {},
        refused=sum(not is_usable(one) for one in pairs),
    )
    return with_tables(known, kernels or KERNELS)


def with_tables(known: SlowdownModel, kernels: Mapping[bool, CompletionKernel]) -> SlowdownModel:
    """With the tables of what it has met, one of CPUs and one of GPUs."""
    tables = {}
    for on_cpu in (True, False):
        pairs = measured_pairs(known, on_cpu)
        if pairs:
            kernel = kernels.get(on_cpu, KERNELS[on_cpu])
            tables[on_cpu] = complete(pairs, kernel=kernel, traits=known.traits)
    return replace(known, tables=tables)


def measured_pairs(known: SlowdownModel, on_cpu: bool) -> list[PairSpeed]:
    """The best measured pairs, for a table."""
    pairs = [
        (one, at) for at, one in known.met.items() if len(at[2]) == 1 and (at[0] == CPU) == on_cpu
    ]
    pairs.sort(key=lambda each: (each[0].log_sd, each[1]))
    return [
        PairSpeed(
            job=job,
            partner=partner,
            device=device,
            log_speed=one.log_speed,
            log_sd=one.log_sd,
        )
        for one, (device, job, (partner,)) in pairs[:MOST_SEEN]
    ]


def _logs(told: RelativeSpeed) -> tuple[float, float]:
    """Mean and standard deviation of the log of a told speed."""
    return log(told.mean), max(LEAST_SD, log(told.mean / told.low) / LOW_SDS)


def _shrunk(believed: tuple[float, float], met: PairStats) -> tuple[float, float, float]:
    """Mean, standard deviation and the next run's spread, of what was believed and the runs."""
    (mean, sd), own = believed, met.log_sd
    share = sd**2 / (sd**2 + own**2)
    return mean + share * (met.log_speed - mean), sd * sqrt(1.0 - share), met.spread
