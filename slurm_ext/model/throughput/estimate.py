"""Estimates a training's curve from earlier runs; shape_predictor.py predicts with it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, inf

from slurm_ext.core.records import SCRIPT_LEVELS, Level, LoaderRun
from slurm_ext.model.throughput.curve.costs import RECEIVE_S, SLICE_S, Curve
from slurm_ext.model.throughput.evidence_checks import evidence_flag, usable_runs
from slurm_ext.model.throughput.inversion import InvertedRun, LogNormal, invert_once
from slurm_ext.model.throughput.measured import Measured, measured
from slurm_ext.model.throughput.pooling import NOTHING, pooled
from slurm_ext.model.throughput.receiving import UNSEEN, ReceiveTimes, machine_of
from slurm_ext.model.throughput.storage import ceiling, knee
from slurm_ext.model.throughput.surroundings import met, others

NEAREST_FIRST = tuple(Level)
MOST_RUNS = 8  # of one level; the weights of older ones would hardly count
ENOUGH_RUNS = 4  # on one level: farther ones are not used
WIDEST_LOG_SD = 0.7  # wider than a factor of three either way is "I do not know"

EFFICIENCY = LogNormal(-0.03, 0.02)  # fitted as the widths of spread.py
STEPS_SPREAD = 0.01  # the same script takes the same steps; its CPUs differ from run to run
NEAR = 1.3  # times as many cores: such runs of a step on CPUs are like each other


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
    crowded: tuple[tuple[int, float], ...] = ()  # shapes of runs whose cores were
    measured: Measured = ()  # by runs of the very script that nobody crowded


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
    crowds = [met(run, one) for run, one in zip(runs, inverted, strict=True)]
    pairs = [(run.workers, run.cores) for run in runs]
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
        seen=tuple(set(pairs)),
        worker_rss_bytes=max((run.worker_rss_bytes or 0 for run in runs), default=0) or None,
        emulated=any(run.emulated for run in runs),
        batch_size=runs[0].batch_size if runs else 0.0,
        epoch_samples=(runs[0].epoch_samples if runs else None) or inf,
        bytes_per_sample=_mean([b for run in runs if (b := run.bytes_per_sample) is not None]),
        threads=max((row.threads for row in inverted), default=0.0),
        grows=any(row.grows for row in inverted),
        others=crowd,
        by_other_jobs=theirs,
        most_others=max(crowds, default=0.0),
        crowded=tuple({pair for pair, count in zip(pairs, crowds, strict=True) if count}),
        measured=measured(runs, inverted) if level in SCRIPT_LEVELS else (),
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


def _unseen_receive_s(runs: Sequence[LoaderRun]) -> float:
    """Seconds that receiving a batch may take; runs with workers must not lose them for a guess."""
    return RECEIVE_S if any(run.workers for run in runs) else exp(UNSEEN.log_mean)


def _received_as(estimate: Estimate, learned: LogNormal | None) -> Estimate:
    """The estimate with what other programs showed on such a machine, where they did."""
    if learned is None:
        return estimate
    return replace(estimate, receive_s=exp(learned.log_mean), receive_sd=learned.log_sd)
