"""Inverts one run into the parameters of its curve, without contention, with uncertainties."""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, hypot, inf, log, sqrt

from slurm_ext.core.records import LoaderRun
from slurm_ext.model.throughput.curve.costs import (
    FREE_S_PER_BYTE,
    RECEIVE_S,
    SEND_S,
    SEND_S_PER_BYTE,
    SHARPNESS,
    SLICE_S,
    Curve,
)
from slurm_ext.model.throughput.curve.points import at
from slurm_ext.model.throughput.curve.step import MOST_DELAYED
from slurm_ext.model.throughput.curve.waits import contention_s, pass_s

MEASURED_SD = 0.02  # log; what timing itself leaves open within one run
BUSY_FROM, BUSY_TO = 0.75, 0.95  # share of the cores in use where sharing them starts, is sure
EFFICIENCY_RANGE = (0.5, 1.2)
DATA_SHARE = 0.5  # of the bottleneck: from here on the run shows what its loader can supply
SLACK = 0.8  # workers at work for less of their time had a batch ready whenever one was wanted
QUEUED_DOUBT = 0.07  # log sd for each log unit of waiting for cores that is taken off a time
SPUN_SD = 0.5  # log; the most that waiting of threads for each other leaves open
LEAST_LEFT = 0.01  # of a time that something is taken off
LEAST_CPU_S = 1e-7
MOST_FILLING = 0.5  # of an epoch: with more, a run shows too little of the rest
SHOWN = 0.2  # of a time slice: a run in which less is expected of it shows nothing
LONGEST = 1.5  # time slices
MOST_RECEIVE_S = 10 * RECEIVE_S  # longer waits for a batch that is ready are of another kind


@dataclass(frozen=True, slots=True)
class LogNormal:
    """A positive quantity as a normal distribution of its logarithm."""

    log_mean: float
    log_sd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class InvertedRun:
    """The run's inversion; `efficiency` None: the accelerator hid what the loader can do."""

    accel: LogNormal
    wall: LogNormal
    cpu: LogNormal
    efficiency: LogNormal | None
    main_cpu_s: float
    receive_s: float | None  # for a batch; None: the run did not show it
    slice_s: float | None  # None: the run did not show how long a busy core is waited for
    threads: float = 0.0  # cores that the step's threads had; 0: the step is an accelerator's
    grows: bool = False  # with more cores, torch would have had more threads


def invert(run: LoaderRun) -> InvertedRun:
    """Invert one run into the parameters of `curve.Curve`."""
    run = _once_filled(run)
    main_s = _main_cpu_s(run)
    sent_s = SEND_S_PER_BYTE * (run.sample_bytes or 0.0) if run.workers else 0.0
    cpu_s = max(_less(min(run.fetch_cpu_s, run.fetch_wall_s), sent_s), LEAST_CPU_S)
    wall = _wall_alone(run, cpu_s + sent_s, main_s)
    wall = LogNormal(log(_less(exp(wall.log_mean), sent_s)), wall.log_sd)
    accel = _accel(run, main_s)
    ideal = Curve(
        accel_samples_per_s=exp(accel.log_mean),
        fetch_wall_s=exp(wall.log_mean),
        fetch_cpu_s=cpu_s,
        main_cpu_s=main_s,
        receive_s=RECEIVE_S,
        batch_size=run.batch_size,
        sample_bytes=run.sample_bytes or 0.0,
        threads=_threads(run) if run.on_cpu else 0.0,
    )
    received_s = _received_s(run, ideal)
    return InvertedRun(
        accel=accel,
        wall=wall,
        cpu=LogNormal(log(cpu_s), _crowded_sd(run)),
        efficiency=_efficiency(
            run, ideal if received_s is None else replace(ideal, receive_s=received_s)
        ),
        main_cpu_s=main_s,
        receive_s=received_s,
        slice_s=_slice_s(run, ideal),
        threads=ideal.threads,
        grows=bool(run.on_cpu) and (run.threads or inf) >= int(run.cores),
    )


invert_once = lru_cache(maxsize=4096)(invert)  # a run never changes, and many jobs rest on it


def _less(whole_s: float, part_s: float) -> float:
    """A measured time without a part of it that was measured, or is known, apart."""
    return max(LEAST_LEFT * whole_s, whole_s - part_s)


def _once_filled(run: LoaderRun) -> LoaderRun:
    """The run without what each pass over the data takes beside its batches."""
    costs = Curve(
        accel_samples_per_s=run.accel_samples_per_s,
        fetch_wall_s=run.fetch_wall_s,  # the contention is in it
        fetch_cpu_s=0.0,
        batch_size=run.batch_size,
    )
    accelerator = min(1.0, run.samples_per_s / run.accel_samples_per_s) ** SHARPNESS
    filling = pass_s(costs, run.workers, run.cores, accelerator) * run.samples_per_s
    share = min(MOST_FILLING, filling / (run.epoch_samples or inf))
    return replace(run, samples_per_s=run.samples_per_s / (1 - share))


def _main_cpu_s(run: LoaderRun) -> float:
    """Measured, or else: a process that drives a real accelerator keeps a core busy meanwhile.

    A step on CPUs may have kept all its threads busy. One that loaded its data itself has received
    no batch yet.
    """
    if run.main_cpu_s is not None:
        received_s = 0.0 if run.workers or run.on_cpu else RECEIVE_S / run.batch_size
        return run.main_cpu_s * _worked(run) + received_s
    if run.emulated:
        return RECEIVE_S / run.batch_size
    return (_threads(run) if run.on_cpu else 1.0) / run.accel_samples_per_s


def _delayed_s(run: LoaderRun, step_s: float) -> float:
    """Seconds of a step on CPUs in which its own workers delayed its threads (curve/points.py)."""
    if not (run.on_cpu and run.workers and run.step_queued_s is not None) or _threads(run) <= 1:
        return 0.0
    free = max(0.0, run.cores - _threads(run))
    beside_s = max(0.0, run.fetch_cpu_s - free / run.samples_per_s)
    by_some = (3 * step_s - 2 * beside_s) / MOST_DELAYED
    return step_s - max(step_s - beside_s, by_some, step_s / MOST_DELAYED)


def _worked(run: LoaderRun, delayed_s: float = 0.0) -> float:
    """Share of its CPU time in which a step on CPUs worked; its threads spin for each other else.

    Each operation ends when all its threads are done, so that one which has a core spins while
    another waits for one: as long as the training's own thread waited. Two threads beside six
    other processes took 11 to 13 ms of CPU for what one thread alone does in 1.65.
    """
    if not run.on_cpu or (run.threads or _threads(run)) <= 1:
        return 1.0
    waited_s = max(0.0, (run.step_queued_s or 0.0) - delayed_s)
    return max(LEAST_LEFT, 1 - waited_s * run.accel_samples_per_s)


def _outnumbered(run: LoaderRun) -> bool:
    """True if a step on CPUs has more threads than cores: ranks of one task that start as many."""
    return 1 < (run.threads or 0) > run.cores


def _threads(run: LoaderRun) -> float:
    """Cores that the threads of a step on CPUs had.

    What its workers took of them is taken off its time, where the kernel measured it.
    """
    measured = run.step_queued_s is not None
    fetching = run.samples_per_s * run.fetch_cpu_s if run.workers and not measured else 0.0
    return min(run.threads or inf, max(1.0, run.cores - fetching))


def _accel(run: LoaderRun, main_cpu_s: float) -> LogNormal:
    """The rate of the step alone: without the wait for a core in it, and without freed batches.

    A real accelerator goes on while the process that drives it waits: somewhere between none and
    all of that wait was the step's, and a uniform distribution's spread is the doubt. A step on
    CPUs is never faster than its CPU time on all its cores. Threads that outnumber its cores wait
    for each other, and will again where there are more of both: nobody knows how much of the wait
    is that.
    """
    measured_s = 1 / run.accel_samples_per_s
    freed_s = FREE_S_PER_BYTE * (run.sample_bytes or 0.0) if run.workers else 0.0
    step_s = _less(measured_s, freed_s)
    delayed_s = _delayed_s(run, step_s)
    alone_s = _less(step_s, max(run.step_queued_s or 0.0, delayed_s))
    if run.on_cpu:
        worked = _worked(run, delayed_s)
        alone_s = min(step_s, max(alone_s * worked, main_cpu_s / _threads(run)))
    if run.emulated or (run.on_cpu and not _outnumbered(run)):
        queued_sd = QUEUED_DOUBT * log(step_s / alone_s)
        spun_sd = min(SPUN_SD, -log(_worked(run)) / sqrt(12))  # none of that, to all of it
        return LogNormal(-log(alone_s), hypot(MEASURED_SD, queued_sd, spun_sd))
    doubt = log(step_s / alone_s) / sqrt(12)
    return LogNormal(-log(sqrt(alone_s * step_s)), hypot(MEASURED_SD, doubt))


def _received_s(run: LoaderRun, ideal: Curve) -> float | None:
    """Seconds to receive one batch: all of the waiting if the workers had time to spare.

    Among others on its cores, a batch is also waited for because its worker waits for a core, and
    no kernel counts that: then nothing is shown but what a wait shorter than usual bounds.
    """
    if run.workers == 0:
        return None
    waited_s = max(0.0, 1 / run.samples_per_s - 1 / run.accel_samples_per_s) * run.batch_size
    if run.main_queued_s is None or run.step_queued_s is None:
        queued_s = contention_s(ideal, run.samples_per_s, run.workers, run.cores)
    else:
        queued_s = (run.main_queued_s - run.step_queued_s) * run.batch_size
    spare = _at_work(run) < SLACK and not _among_others(run, ideal)
    received_s = max(0.0, waited_s - queued_s)
    if not spare and received_s > RECEIVE_S:
        return None
    return min(received_s, MOST_RECEIVE_S)


def _slice_s(run: LoaderRun, ideal: Curve) -> float | None:
    """Seconds that this machine keeps a woken process waiting for a busy core.

    It shows where the loop had to wait for nothing else, and is at most the loop's own wait. A wait
    that its own workers did not cause says nothing: its next run may have its cores to itself.
    """
    expected_s = contention_s(ideal, run.samples_per_s, run.workers, run.cores)
    if expected_s < SHOWN * SLICE_S or _at_work(run) >= SLACK or _among_others(run, ideal):
        return None
    seen_s = max(0.0, 1 / run.samples_per_s - 1 / run.accel_samples_per_s)
    if run.main_queued_s is not None:
        seen_s = run.main_queued_s
    elif seen_s * run.batch_size > expected_s:
        return None
    return SLICE_S * min(LONGEST, seen_s * run.batch_size / expected_s)


def _among_others(run: LoaderRun, ideal: Curve) -> bool:
    """True if the training process waited for cores longer than its own workers can hold them.

    Without workers it would not wait; so waits for others must not count as waits for workers.
    """
    own_s = contention_s(ideal, run.samples_per_s, run.workers, run.cores)
    most_s = LONGEST * max(own_s, SHOWN * SLICE_S)
    return (run.main_queued_s or 0.0) * run.batch_size > most_s


def _at_work(run: LoaderRun) -> float:
    """The share of their time in which the workers were fetching."""
    return run.samples_per_s * run.fetch_wall_s / run.workers


def _wall_alone(run: LoaderRun, cpu_s: float, main_cpu_s: float) -> LogNormal:
    """Wall seconds per sample of a worker alone on its core.

    A wait for a core that the kernel measured is subtracted.
    """
    if run.fetch_queued_s is None:
        return _guessed_alone(run, cpu_s, main_cpu_s)
    alone_s = max(_less(run.fetch_wall_s, run.fetch_queued_s), cpu_s)
    return LogNormal(log(alone_s), _crowded_sd(run))


def _crowded_sd(run: LoaderRun) -> float:
    """Log sd of a cost whose core was shared: caches were, too."""
    queued_s = min(run.fetch_queued_s or 0.0, (1 - LEAST_LEFT) * run.fetch_wall_s)
    return hypot(MEASURED_SD, QUEUED_DOUBT * log(run.fetch_wall_s / (run.fetch_wall_s - queued_s)))


def _guessed_alone(run: LoaderRun, cpu_s: float, main_cpu_s: float) -> LogNormal:
    """The same for runs without a measured wait.

    Workers that queue for cores take longer: at saturation w * u / c, however long they also wait
    for storage. So any CPU share between u over the measured wall, and 1, would fit: the middle is
    taken, and a uniform distribution's spread is the doubt.
    """
    measured = LogNormal(log(run.fetch_wall_s), MEASURED_SD)
    if run.workers == 0:
        return measured
    busy = run.samples_per_s * (cpu_s + main_cpu_s) / run.cores
    sharing = min(1.0, max(0.0, (busy - BUSY_FROM) / (BUSY_TO - BUSY_FROM)))
    least = min(1.0, cpu_s / run.fetch_wall_s)  # CPU share
    middle = (1 + least) / 2
    doubt = (1 - least) / sqrt(12) / middle
    return LogNormal(
        measured.log_mean - sharing * log(middle / least), hypot(MEASURED_SD, sharing * doubt)
    )


def _efficiency(run: LoaderRun, ideal: Curve) -> LogNormal | None:
    """Measured supply over the ideal one at the run's own shape, where the data was the limit."""
    if run.workers == 0:
        return None
    loop_s = 1 / run.accel_samples_per_s + (
        (ideal.receive_s + contention_s(ideal, run.samples_per_s, run.workers, run.cores))
        / run.batch_size
    )
    accelerator = min(1.0, run.samples_per_s * loop_s) ** SHARPNESS
    if 1 - accelerator < DATA_SHARE:
        return None
    supply = run.samples_per_s * (1 - accelerator) ** (-1 / SHARPNESS)
    low, high = EFFICIENCY_RANGE
    share = supply / _ideal_supply(run, ideal)
    return LogNormal(log(min(high, max(low, share))), MEASURED_SD / (1 - accelerator))


def _ideal_supply(run: LoaderRun, ideal: Curve) -> float:
    """Samples/s of workers that only fetch, each fetch taking as long as in this run."""
    if run.fetch_queued_s is None:
        return at(ideal, run.workers, run.cores).supply_samples_per_s
    alone_s = _less(run.fetch_wall_s, run.fetch_queued_s)
    slowed = run.fetch_wall_s / alone_s
    by_wall = run.workers / (run.fetch_wall_s + slowed * SEND_S / run.batch_size)
    return min(by_wall, run.cores / (ideal.worker_s[1] + ideal.main_cpu_s))
