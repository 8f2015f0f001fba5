"""A training's step, split into the parts of one bar: `step_split(summaries) -> StepSplit`.

Seconds are of one batch, over the whole training: its waits, its steps and every start of its
workers. Where ranks train together, the bar is that of the rank in the middle by its pace (its
own computing and its waits), and says what that rank waited for slower ones. Parts are never below
zero and add up to the step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from slurm_ext.core.findings.loader_refusal import read_by_a_thread
from slurm_ext.core.findings.strands import training_phases
from slurm_ext.core.stalls.data_stall import AT_HOME, DataStall, WorkerCosts, split_wait
from slurm_ext.core.stalls.rank_waits import exposed_s, link_shares
from slurm_ext.core.stats import median_low
from slurm_ext.core.trainings import Training, largest_training

MIN_BATCHES = 4  # the first ones only empty the prefetch queue
MOST_SECONDS = 1e9  # of a batch: beyond, nobody measured it

_Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSplit:
    """Seconds of one batch, part by part; `au` is MLPerf Storage's accelerator utilisation.

    `rank_skew_s`: the slowest rank's own computing beyond the middle rank's; that is `slow_rank`.
    Both are None where fewer than two ranks are known.
    """

    computing_s: float
    communicating_s: float  # exposed: nothing was computed meanwhile
    slow_rank_s: float  # waiting for another rank
    fetch_s: float  # waiting for data whose workers waited for storage, or for a lock
    preparation_s: float  # waiting for data whose workers computed
    cores_s: float  # waiting for data whose workers waited for a core
    starting_s: float  # of workers, and the first batches that they make
    crowded_s: float  # the step had no core
    other_s: float  # a wait that no worker's time explains
    au: float
    rank_skew_s: float | None
    slow_rank: int | None
    ranks: int

    @property
    def parts(self) -> dict[str, float]:
        """Each part by its name, in the order of the bar."""
        return {name: float(getattr(self, f"{name}_s")) for name in PARTS}

    @property
    def step_s(self) -> float:
        """The whole step: the sum of its parts."""
        return sum(self.parts.values())

    @property
    def numbers(self) -> tuple[float, ...]:
        """All that was worked out, in seconds of a batch, and the accelerator's share."""
        return *[getattr(self, f"{name}_s") for name in PARTS], self.au, self.rank_skew_s or 0.0

    @property
    def data_s(self) -> float:
        """All waiting for data."""
        return self.fetch_s + self.preparation_s + self.cores_s + self.starting_s


PARTS = (
    "computing",
    "communicating",
    "slow_rank",
    "fetch",
    "preparation",
    "cores",
    "starting",
    "crowded",
    "other",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rank:
    """One process of a training, in seconds of a batch."""

    summary: _Json
    wait_s: float
    step_s: float
    startup_s: float
    first_wait_s: float
    passes: float  # for each batch
    wait_queued_s: float
    step_queued_s: float
    exposed_s: float
    costs: WorkerCosts

    @property
    def computing_s(self) -> float:
        """Its own: of the step what is no waiting for other ranks."""
        return self.step_s - self.exposed_s

    @property
    def pace_s(self) -> float:
        """Seconds from one synchronisation to its next readiness."""
        return self.wait_s + self.computing_s


def step_split(summaries: Sequence[_Json]) -> StepSplit | None:
    """The split of a job's largest training; None: nothing was long enough, or it cannot be."""
    training = largest_training(summaries)
    return None if training is None else split_of_training(training)


def split_of_training(training: Training) -> StepSplit | None:
    """The split of one training; None: it was not long enough, or it cannot be."""
    if any(read_by_a_thread(loader) for _, loader in training.members):
        return None  # what its waits are of the training's time, nobody measured
    ranks = [rank for member in training.members if (rank := _rank(*member))]
    if not ranks:
        return None
    together = [rank for rank in ranks if rank.summary.get("communication")] or ranks[:1]
    middle = median_low([rank.pace_s for rank in together])
    place = next(n for n, rank in enumerate(together) if rank.pace_s == middle)
    link = link_shares([rank.summary for rank in together])[place]
    split = _split(together[place], link, together)
    return split if all(map(isfinite, split.numbers)) else None  # what nobody measured overflows


def _split(rank: _Rank, link: float, ranks: Sequence[_Rank]) -> StepSplit:
    starting = min(rank.wait_s, _starting_s(rank))
    own = rank.wait_queued_s if rank.costs.workers >= AT_HOME else 0.0  # at home it is the fetch's
    cores = min(rank.wait_s - starting, own)
    wait_s = rank.wait_s - starting - cores
    data: DataStall = split_wait(wait_s, rank.step_s, rank.costs)
    crowded = min(rank.computing_s, rank.step_queued_s)
    skew_s, slow_rank = _skew(ranks)
    return StepSplit(
        computing_s=rank.computing_s - crowded,
        communicating_s=rank.exposed_s * link,
        slow_rank_s=rank.exposed_s * (1 - link),
        fetch_s=data.fetch_s,
        preparation_s=data.preparation_s,
        cores_s=cores + data.cores_s,
        starting_s=rank.startup_s + starting,
        crowded_s=crowded,
        other_s=data.unexplained_s,
        au=_au(rank, link),
        rank_skew_s=skew_s,
        slow_rank=slow_rank,
        ranks=len(ranks),
    )


def _starting_s(rank: _Rank) -> float:
    """Waits for first batches, less what making a batch takes anyway."""
    if rank.costs.workers < AT_HOME:
        return 0.0
    making_s = rank.costs.cpu_s + rank.costs.queued_s + rank.costs.blocked_s
    return max(0.0, rank.first_wait_s - rank.passes * making_s)


def _au(rank: _Rank, link: float) -> float:
    """Computing's share of the time, without the wait for the first batch of a pass."""
    busy_s = rank.step_s - rank.exposed_s * (1 - link)
    whole_s = rank.step_s + max(0.0, rank.wait_s - rank.first_wait_s)
    return busy_s / whole_s if whole_s > 0 else 0.0


def _skew(ranks: Sequence[_Rank]) -> tuple[float | None, int | None]:
    if len(ranks) < 2:
        return None, None
    slowest = max(ranks, key=lambda rank: rank.computing_s)
    middle = median_low([rank.computing_s for rank in ranks])
    rank = slowest.summary.get("rank")
    return slowest.computing_s - middle, rank if type(rank) is int else None


_SECONDS = ("wait_s", "step_s", "first_wait_s", "fetch_wall_s", "fetch_cpu_s", "fetch_queued_s")
_CROWDED = ("wait_queued_s", "step_queued_s")
_COUNTS = ("batches", "samples", "steps", "epochs", "fetch_samples", "wall_s")
_SUMMED = (*_SECONDS, *_CROWDED, *_COUNTS)


def _rank(summary: _Json, loader: _Json) -> _Rank | None:
    """One process's sums as seconds of a batch; None: too few, or no machine measured them."""
    sums = _sums(loader)
    batches, exposed = sums["batches"], exposed_s(summary)
    if batches < MIN_BATCHES or not sums["samples"] > 0 or not sums["wall_s"] > 0:
        return None
    most_s = MOST_SECONDS * batches
    seconds = [exposed, *[sums[name] for name in _SECONDS]]
    if not 0 <= min(seconds) <= max(seconds) <= most_s:
        return None
    means = {name: sums[name] / batches for name in _SUMMED}
    communication = summary.get("communication") or {}
    return _Rank(
        summary=summary,
        wait_s=means["wait_s"],
        step_s=means["step_s"],
        startup_s=min(MOST_SECONDS, (loader.get("startup_s") or 0.0) / batches),
        first_wait_s=means["first_wait_s"],
        passes=means["epochs"],
        wait_queued_s=means["wait_queued_s"],
        step_queued_s=means["step_queued_s"],
        exposed_s=min(
            means["step_s"], exposed * (communication.get("per_step") or 0.0) * means["steps"]
        ),
        costs=_costs(sums, means["samples"]),
    )


def _sums(loader: _Json) -> dict[str, float]:
    """Sums over the training's phases in one loop, for a record has many; and workers' time."""
    sums = dict.fromkeys((*_SUMMED, "worked_s"), 0.0)
    for phase in training_phases(loader):
        sums["worked_s"] += phase["workers"] * (phase.get("wall_s") or 0.0)
        for name in _SUMMED:
            sums[name] += phase.get(name) or 0.0
    return sums


def worker_costs(loader: _Json, batch: float) -> WorkerCosts:
    """Workers' seconds for a batch of so many samples; of a loader that took time."""
    return _costs(_sums(loader), batch)


def _costs(sums: Mapping[str, float], batch: float) -> WorkerCosts:
    """Workers' seconds for a batch of so many samples."""
    fetched, cpu_s, queued_s = sums["fetch_samples"], sums["fetch_cpu_s"], sums["fetch_queued_s"]
    batch_s = batch / fetched if fetched > 0 else 0.0
    return WorkerCosts(
        cpu_s=cpu_s * batch_s,
        queued_s=queued_s * batch_s,
        blocked_s=max(0.0, sums["fetch_wall_s"] - cpu_s - queued_s) * batch_s,
        workers=sums["worked_s"] / sums["wall_s"] if sums["wall_s"] > 0 else 0.0,
    )
