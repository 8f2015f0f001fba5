"""Estimates a training's curve from earlier runs, and predicts its throughput at any shape.

Pure; numpy is imported where many shapes are asked at once, or cores were crowded.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, inf, log
from typing import Any

from slurm_ext.core.records import Elsewhere, Interval, Level, LoaderRun, Prediction, Shape
from slurm_ext.core.stats import NORMAL_90
from slurm_ext.model.floats import FLOATS, Arithmetic
from slurm_ext.model.throughput.curve import RECEIVE_S, SLICE_S, Curve, Point, at, is_serial
from slurm_ext.model.throughput.evidence_checks import evidence_flag, usable_runs
from slurm_ext.model.throughput.inversion import InvertedRun, LogNormal, invert_once
from slurm_ext.model.throughput.pooling import NOTHING, pooled
from slurm_ext.model.throughput.receiving import UNSEEN, ReceiveTimes, machine_of
from slurm_ext.model.throughput.storage import ceiling, knee
from slurm_ext.model.throughput.surroundings import CrowdedShares, met, others

NEAREST_FIRST = tuple(Level)
MOST_RUNS = 8  # of one level; the weights of older ones would hardly count
ENOUGH_RUNS = 4  # on one level: farther ones are not used
WIDEST_LOG_SD = 0.7  # wider than a factor of three either way is "I do not know"

# Log widths fitted with contrib/bench/curve on a quiet machine, so that nine in ten of its
# predictions from one run fall inside; what a cluster adds is calibration.py's to measure.
EFFICIENCY = LogNormal(-0.03, 0.02)
STEPS_SPREAD = 0.01  # the same script takes the same steps; its CPUs differ from run to run
PER_DOUBLING_SD = 0.01  # of workers, away from the nearest run
PER_CORE_DOUBLING_SD = 0.02
SERIAL_SD = 0.03  # between loading in the training process and in workers
FRACTION_SD = 0.07  # of what less than a core computes: pauses cost more than their time
BALANCE_SD = 0.03  # where two ceilings are near each other, for the smooth-min itself
MODEL_SD = 0.015  # of everything that the curve leaves out: no number of runs takes it away
NEAR = 1.3  # times as many cores: such runs of a step on CPUs are like each other
CONTENTION_SD = 0.3  # of the time that the training process waits for busy cores
# A step on CPUs, for each halving of its cores: threads that outnumber them wait for each other.
FEWER_CORES_SD = 0.5
OTHERS_SD = 0.3  # of the log of what other jobs on its cores cost: they come and go


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """The fitted network's estimate of a script from its text alone (throughput/artifact.py)."""

    accel: LogNormal
    wall: LogNormal
    cpu: LogNormal


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Estimated parameters of one training's curve, and the runs that they rest on."""

    accel: LogNormal  # samples/s with no waiting
    wall: LogNormal  # one worker's seconds per sample, alone on a core
    cpu: LogNormal  # CPU seconds per sample
    efficiency: LogNormal
    main_cpu_s: float
    receive_s: float  # for a batch
    slice_s: float
    sample_bytes: float
    storage_samples_per_s: float | None  # None: no run showed a ceiling
    level: Level
    runs: int
    seen: tuple[tuple[int, float], ...]  # (workers, cores) of those runs
    worker_rss_bytes: int | None
    emulated: bool
    batch_size: float
    epoch_samples: float
    bytes_per_sample: float = 0.0  # asked of storage; 0: not known
    threads: float = 0.0  # cores that a step on CPUs had for its threads; 0: an accelerator's
    grows: bool = False  # with more cores it would have more threads: nobody saw what they bring
    others: float = 0.0  # processes that crowded each core of the last runs (surroundings.py)
    receive_sd: float = 0.0  # log sd of `receive_s`
    by_other_jobs: bool = False  # such processes that the job's own cannot all be
    most_others: float = 0.0  # of the most crowded one of all these runs


def estimate(
    evidence: Mapping[Level, Sequence[LoaderRun]],
    prior: Prior | None = None,
    receives: ReceiveTimes = (),
) -> Estimate | None:
    """Estimate from similar runs on each level (newest first); None is "I do not know".

    Inconsistent runs are left out (evidence_checks.py, which also says why there is no estimate).
    Runs that share the cluster only are not enough by themselves; a prior is. `receives`: what the
    same user's other runs show of receiving batches.
    """
    if evidence_flag(evidence) is not None:
        return None
    levels, count = _needed(evidence)
    if prior is not None:  # it has learned from the whole cluster already
        levels = [(level, runs) for level, runs in levels if level is not Level.CLUSTER]
    elif not levels or levels[0][0] is Level.CLUSTER:
        return None
    near = levels[0][1] if levels else []
    pooled_estimate = _pool(levels, prior, knee(ceiling(near), near), count if levels else 0)
    if pooled_estimate.receive_sd and receives:
        pooled_estimate = _received_as(pooled_estimate, dict(receives).get(machine_of(near)))
    if max(pooled_estimate.accel.log_sd, pooled_estimate.wall.log_sd) > WIDEST_LOG_SD:
        return None
    return pooled_estimate


def predict(
    estimate: Estimate, shape: Shape, *, node_cores: int | None = None, factor: float = 1.0
) -> Prediction:
    """Throughput of `shape` with its 90 % interval.

    `node_cores`: cores the machine really has; `factor`: of the interval's width, from
    `calibration.interval_factor`.
    """
    return ShapePredictor(estimate, node_cores=node_cores, factor=factor)(shape)


class ShapePredictor:
    """Predictions of one estimate: of a shape in full, of many at once as two figures each.

    Where the last runs' cores were crowded, the next one's will be: the rate is that beside as many
    processes. What cores of its own would give stands beside it where other jobs have to be among
    those; else the interval reaches up to that.
    """

    def __init__(
        self,
        estimate: Estimate,
        *,
        node_cores: int | None = None,
        factor: float = 1.0,
        processes: int = 1,
    ) -> None:
        """As of `predict`; `processes` of a task share its cores."""
        self._known, self._curve, self._factor = estimate, curve_of(estimate), factor
        self._node_cores, self._processes = node_cores or inf, processes
        self._left = (
            CrowdedShares(self._curve, estimate.others, estimate.seen) if estimate.others else None
        )

    def __call__(self, shape: Shape) -> Prediction:
        """The prediction of one shape."""
        estimate, cores = self._known, min(shape.cpus_per_task, self._node_cores) / self._processes
        alone = _predict(estimate, self._curve, cores, self._factor, shape)
        if self._left is None:
            return alone
        crowded = _beside(alone, self._left(shape.num_workers, cores), self._factor)
        if estimate.by_other_jobs:
            return replace(crowded, elsewhere=elsewhere(alone, crowded=False))
        low = crowded.interval.low
        return replace(crowded, interval=replace(alone.interval, low=low))

    @property
    def crowded(self) -> bool:
        """True if its rates are those beside other jobs."""
        return self._left is not None and self._known.by_other_jobs

    def ends(self, cpus: Any, workers: Any) -> tuple[Any, Any]:
        """Rates and lower bounds: arrays, a row for each of `cpus`, of `workers` above zero."""
        import numpy as np  # the allocator of a node asks for single shapes alone

        many: Any = np
        curve = replace(self._curve, arithmetic=many)
        cores = np.minimum(cpus, self._node_cores)[:, None] / self._processes
        point = at(curve, workers, cores)
        rate = point.samples_per_s
        spread = NORMAL_90 * self._factor * _log_sd(self._known, many, point, workers, cores)
        if self._left is not None:
            share = self._left.of_many(workers, cores)
            rate, spread = rate * share, _crowded_spread(many, spread, share, self._factor)
        return rate, rate * np.exp(-spread)


def _crowded_spread(m: Arithmetic, spread: float, share: float, factor: float) -> float:
    return m.hypot(spread, NORMAL_90 * factor * OTHERS_SD * m.log(share))


def _beside(quiet: Prediction, share: float, factor: float) -> Prediction:
    """The prediction with so much of its rate left on crowded cores."""
    spread = _crowded_spread(FLOATS, log(quiet.samples_per_s / quiet.interval.low), share, factor)
    rate = quiet.samples_per_s * share
    limited = quiet.bottleneck in ("accelerator", "step")
    return replace(
        quiet,
        samples_per_s=rate,
        interval=Interval(rate * exp(-spread), rate * exp(spread)),
        bottleneck="cores" if limited else quiet.bottleneck,
    )


def elsewhere(prediction: Prediction, *, crowded: bool) -> Elsewhere:
    """A prediction's rate, as the one of another world."""
    return Elsewhere(prediction.samples_per_s, prediction.interval, crowded)


def core_predictor(
    estimate: Estimate, *, factor: float = 1.0
) -> Callable[[float, int], Prediction]:
    """Return `predict` for any cores of its own, fractions included, and workers."""
    curve = curve_of(estimate)

    def at_cores(cores: float, workers: int) -> Prediction:
        shape = Shape(cpus_per_task=max(1, ceil(cores)), num_workers=workers)
        return _predict(estimate, curve, cores, factor, shape)

    return at_cores


def point_at(estimate: Estimate, workers: int, cores: float) -> Point:
    """Return the point of the estimated curve."""
    return at(curve_of(estimate), workers, cores)


def _predict(
    estimate: Estimate, curve: Curve, cores: float, factor: float, shape: Shape
) -> Prediction:
    point = at(curve, shape.num_workers, cores)
    spread = NORMAL_90 * factor * _log_sd(estimate, FLOATS, point, shape.num_workers, cores)
    rate = point.samples_per_s
    return Prediction(
        shape=shape,
        samples_per_s=rate,
        interval=Interval(rate * exp(-spread), rate * exp(spread)),
        bottleneck=point.limit,
        level=estimate.level,
        runs=estimate.runs,
    )


def _needed(
    evidence: Mapping[Level, Sequence[LoaderRun]],
) -> tuple[list[tuple[Level, list[LoaderRun]]], int]:
    """Return levels with runs that no nearer level has, nearest first, while more are needed.

    And the number of usable runs of the nearest of them.
    """
    levels: list[tuple[Level, list[LoaderRun]]] = []
    taken: set[LoaderRun] = set()
    count = 0
    for level in NEAREST_FIRST:
        sound = usable_runs(evidence.get(level, ()))
        runs = [run for run in sound[:MOST_RUNS] if not taken or run not in taken]
        if runs:
            count = count or len(sound)
            levels.append((level, runs))
        if len(runs) >= ENOUGH_RUNS:
            break
        taken.update(runs)
    return levels, count


def _pool(
    levels: Sequence[tuple[Level, list[LoaderRun]]],
    prior: Prior | None,
    most_workers: float,
    count: int,
) -> Estimate:
    """Pool from the farthest level to the nearest; runs with more workers show nothing of f."""
    parameters = (prior.accel, prior.wall, prior.cpu) if prior else (NOTHING, NOTHING, NOTHING)
    efficiency, inverted = EFFICIENCY, list[InvertedRun]()
    for level, runs in reversed(levels):
        inverted = [invert_once(run) for run in runs]
        free = [row for row, run in zip(inverted, runs, strict=True) if run.workers <= most_workers]
        shown = [row.efficiency for row in free if row.efficiency is not None]
        parameters = _nearer(parameters, inverted, free or inverted, level)
        efficiency = pooled(efficiency, shown, level, EFFICIENCY.log_sd)
    level, runs = levels[0] if levels else (Level.CLUSTER, [])
    fewest = min((row.threads for row in inverted), default=0.0)
    crowd, theirs = others(runs, inverted)
    received = [s for row in inverted if (s := row.receive_s) is not None]
    return Estimate(
        accel=parameters[0],
        wall=parameters[1],
        cpu=parameters[2],
        efficiency=efficiency,
        main_cpu_s=_mean([row.main_cpu_s for row in inverted if row.threads <= NEAR * fewest]),
        receive_s=_mean(received or [_unseen_receive_s(runs)]),
        receive_sd=0.0 if received else UNSEEN.log_sd,
        slice_s=_mean([s for row in inverted if (s := row.slice_s) is not None] or [SLICE_S]),
        sample_bytes=(runs[0].sample_bytes if runs else None) or 0.0,
        storage_samples_per_s=ceiling(runs),
        level=level,
        runs=count,
        seen=tuple({(run.workers, run.cores) for run in runs}),
        worker_rss_bytes=max((run.worker_rss_bytes or 0 for run in runs), default=0) or None,
        emulated=any(run.emulated for run in runs),
        batch_size=runs[0].batch_size if runs else 0.0,
        epoch_samples=(runs[0].epoch_samples if runs else None) or inf,
        bytes_per_sample=_mean([b for run in runs if (b := run.bytes_per_sample) is not None]),
        threads=max((row.threads for row in inverted), default=0.0),
        grows=any(row.grows for row in inverted),
        others=crowd,
        by_other_jobs=theirs,
        most_others=max(map(met, runs, inverted), default=0.0),
    )


def _nearer(
    farther: tuple[LogNormal, LogNormal, LogNormal],
    inverted: Sequence[InvertedRun],
    free: Sequence[InvertedRun],
    level: Level,
) -> tuple[LogNormal, LogNormal, LogNormal]:
    widest = STEPS_SPREAD if level is Level.SCRIPT_ARGS else inf
    most = max((row.threads for row in inverted), default=0.0)
    steps = [row.accel for row in inverted if row.threads * NEAR >= most]
    return (
        pooled(farther[0], steps, level, widest),
        pooled(farther[1], [row.wall for row in free], level),
        pooled(farther[2], [row.cpu for row in inverted], level),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))


def curve_of(estimate: Estimate) -> Curve:
    """Return the estimated curve, on cores of its own."""
    return Curve(
        accel_samples_per_s=exp(estimate.accel.log_mean),
        fetch_wall_s=exp(estimate.wall.log_mean),
        fetch_cpu_s=exp(estimate.cpu.log_mean),
        main_cpu_s=estimate.main_cpu_s,
        storage_samples_per_s=estimate.storage_samples_per_s or inf,
        efficiency=exp(estimate.efficiency.log_mean),
        receive_s=estimate.receive_s,
        slice_s=estimate.slice_s,
        batch_size=estimate.batch_size,
        sample_bytes=estimate.sample_bytes,
        epoch_samples=estimate.epoch_samples,
        threads=estimate.threads,
    )


def _log_sd(estimate: Estimate, m: Arithmetic, point: Point, workers: int, cores: float) -> float:
    """Log sd of the rate: each parameter's as far as its ceiling binds, plus the distance."""
    bound, data = point.accelerator, 1 - point.accelerator
    received = 0.0  # share of the loop's time that goes into receiving batches
    if estimate.receive_sd and estimate.batch_size and not is_serial(workers):
        received = bound * point.samples_per_s * estimate.receive_s / estimate.batch_size
    widths = (
        MODEL_SD,
        bound * estimate.accel.log_sd,
        point.wall * estimate.wall.log_sd,
        point.cpu * estimate.cpu.log_sd,
        data * estimate.efficiency.log_sd,
        data * _distance_sd(estimate, m, workers, cores),
        4 * bound * data * BALANCE_SD,
        point.contention * CONTENTION_SD,
        received * estimate.receive_sd,
        bound * _threads_sd(estimate, m, cores) if estimate.threads else 0.0,
    )
    return m.sqrt(sum([width * width for width in widths]))


def _unseen_receive_s(runs: Sequence[LoaderRun]) -> float:
    """Seconds that receiving a batch may take; runs with workers must not lose them for a guess."""
    return RECEIVE_S if any(run.workers for run in runs) else exp(UNSEEN.log_mean)


def _received_as(estimate: Estimate, learned: LogNormal | None) -> Estimate:
    """The estimate with what other programs showed on such a machine, where they did."""
    if learned is None:
        return estimate
    return replace(estimate, receive_s=exp(learned.log_mean), receive_sd=learned.log_sd)


def _threads_sd(estimate: Estimate, m: Arithmetic, cores: float) -> float:
    """Log sd of a step on CPUs with other cores than seen.

    What more threads would bring nobody saw: the bound is what as many times the cores could.
    """
    fewer_sd = FEWER_CORES_SD * m.log2(estimate.threads / cores)
    more_sd = m.log(cores / estimate.threads) / NORMAL_90 if estimate.grows else 0.0
    return m.where(cores < estimate.threads, fewer_sd, more_sd)


def _distance_sd(estimate: Estimate, m: Arithmetic, workers: int, cores: float) -> float:
    """Distance of the shape from the nearest run, as a log sd of the loader's supply."""
    if m is FLOATS or not estimate.seen:
        return min([_away_sd(m, workers, cores, *where) for where in estimate.seen], default=0.0)
    many: Any = m
    seen_workers, seen_cores = many.array(estimate.seen).T[..., None, None]
    away: Any = _away_sd(m, workers, cores, seen_workers, seen_cores)
    return away.min(axis=0)  # type: ignore[no-any-return]  # of all runs at once


def _away_sd(
    m: Arithmetic, workers: int, cores: float, seen_workers: int, seen_cores: float
) -> float:
    serial = is_serial(workers) != (seen_workers == 0)
    fraction = (m.minimum(cores, seen_cores) < 1) & (cores != seen_cores)
    return (
        PER_DOUBLING_SD * abs(m.log2(m.maximum(1, workers) / m.maximum(1, seen_workers)))
        + SERIAL_SD * serial
        + PER_CORE_DOUBLING_SD * abs(m.log2(cores / seen_cores))
        + FRACTION_SD * fraction
    )
