"""Evidence of a run record's training loaders: `loader_run(record) -> LoaderRun`.

Pure. The record's reader has checked its fields and types. Here the numbers are judged: too few or
impossible ones are no evidence, and the result is None.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from slurm_ext.core.findings.data_key import data_key
from slurm_ext.core.findings.loader_refusal import refusal_of
from slurm_ext.core.findings.strands import total as in_all
from slurm_ext.core.findings.strands import training_phases
from slurm_ext.core.findings.used_cores import used_cores
from slurm_ext.core.records import LoaderRun, Outcome
from slurm_ext.core.stats import median
from slurm_ext.core.trainings import MAX_SAMPLES_PER_S, Training, largest_training
from slurm_ext.core.unsupported_loader import UnsupportedLoader, unsupported_loader

MIN_BATCHES = 4  # the first ones only empty the prefetch queue
MOST_LENT = 0.02  # of a phase, with lent workers at work
MIN_WALL_S = 1.0
CLOCK_SLACK = 1.1  # waits and steps are timed separately from the total
MOST_OF_ANYTHING = 1e18  # seconds or samples of one job
LEAST_OF_ANYTHING = 1e-12  # below it, quotients leave the range of a float
LEAST_CORES = 1e-3  # a process with fewer would not have come to its first batch
MAX_THREADS = 4096
MAX_MODEL_CHARS = 64

_Json = Mapping[str, Any]
_TOTALS = (
    "epochs",
    "samples",
    "batches",
    "wall_s",
    "step_s",
    "fetch_samples",
    "fetch_wall_s",
    "fetch_cpu_s",
)
_OPTIONAL = (
    "bytes_read",
    "main_cpu_s",
    "home_cpu_s",
    "fetch_queued_s",
    "step_queued_s",
    "wait_queued_s",
    "delivered_bytes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Totals:
    """Sums over one training loader's phases: seconds and counts; None where a phase lacks it."""

    epochs: float
    samples: float
    batches: float
    wall_s: float
    step_s: float
    workers: float
    fetch_samples: float
    fetch_wall_s: float
    fetch_cpu_s: float
    bytes_read: float | None
    main_cpu_s: float | None
    home_cpu_s: float | None
    fetch_queued_s: float | None
    step_queued_s: float | None
    wait_queued_s: float | None
    delivered_bytes: float | None


def loader_run(record: _Json, *, min_wall_s: float = MIN_WALL_S) -> LoaderRun | None:
    """Return the evidence of the job's largest training, or None (`run_of_training`)."""
    training = largest_training((record.get("probe") or {}).get("summaries") or ())
    return None if training is None else run_of_training(record, training, min_wall_s=min_wall_s)


def run_of_training(
    record: _Json, training: Training, *, min_wall_s: float = MIN_WALL_S
) -> LoaderRun | None:
    """Return the evidence of one process of a training, or None.

    Processes that train together share the cores, so costs are means over them and the rate is
    the median one's. The first epoch counts only if the later ones are shorter than `min_wall_s`
    or MIN_BATCHES. Where a loader's own search for a worker count stayed, its count and rate are
    those of that count. The rate of the whole job is core/trainings.py's.
    """
    sound = [
        (summary, loader, totals)
        for summary, loader in training.members
        if (totals := _totals(loader, min_wall_s)) and _is_possible(totals)
    ]
    if not sound or None in map(record["allocation"].get, _NEEDED):
        return None
    training = training.of([(summary, loader) for summary, loader, _ in sound])
    summary, loader, first = sound[0]
    summaries, loaders = [s for s, _, _ in sound], [ld for _, ld, _ in sound]
    runs = [t for _, _, t in sound]
    steady = [_settled(loader, t) or (t.workers, t.samples / t.wall_s) for _, loader, t in sound]
    trained_on = _trained_on(summary)
    node_cores = summary.get("node_cores") or record["host"].get("cores")
    fetch_samples = sum([t.fetch_samples for t in runs])
    gpus = record["allocation"].get("gpus") or 0  # a list, or its length
    return LoaderRun(
        samples_per_s=median([rate for _, rate in steady]),
        workers=round(median([workers for workers, _ in steady])),
        cores=_cores(record["allocation"], summaries, training.here, node_cores),
        batch_size=_batch_size(loader, first),
        accel_samples_per_s=sum([t.samples for t in runs]) / sum([t.step_s for t in runs]),
        fetch_wall_s=sum([t.fetch_wall_s for t in runs]) / fetch_samples,
        fetch_cpu_s=sum([t.fetch_cpu_s for t in runs]) / fetch_samples,
        worker_rss_bytes=max([ld.get("worker_rss_bytes") or 0 for ld in loaders]) or None,
        node_cores=node_cores,
        **trained_on,
        gpus=gpus if isinstance(gpus, int) else len(gpus),
        user_workers=loader.get("user_num_workers"),
        epoch_samples=_epoch_samples(loader, first),
        doubt=_doubt(training),
        startup_s=_startup_s(loaders) if any(t.workers for t in runs) else None,
        whole_samples_per_s=None if any(map(_borrowed, loaders)) else training.samples_per_s,
        refused=refusal_of(loaders),
        used_cores=used_cores(record),
        data_key=data_key(*map(loader.get, ("dataset", "length", "batch_size"))),
        **_mean_costs(runs, trained_on),
        **_whole_job(record, summaries, loaders, training.ranks),
    )


def _batch_size(loader: _Json, t: _Totals) -> float:
    """Samples of a batch: the loader's own number where one can be of that size, else the mean."""
    told: float = loader.get("batch_size") or 0
    return told if 1 <= told < MOST_OF_ANYTHING else max(1.0, t.samples / t.batches)


def _settled(loader: _Json, t: _Totals) -> tuple[float, float] | None:
    """Workers and rate where the loader's own search stayed; None: none, or one that cannot be."""
    tuned = loader.get("tuned") or {}
    rates = {trial["workers"]: trial["samples_per_s"] for trial in tuned.get("rates") or ()}
    rate = rates.get(tuned.get("workers"))
    if rate is None or not LEAST_OF_ANYTHING < rate <= CLOCK_SLACK * t.samples / t.step_s:
        return None
    return float(tuned["workers"]), float(rate)


def _trained_on(summary: _Json) -> dict[str, Any]:
    """Which processor took the steps; a probe of before did not tell, and knew stand-ins alone."""
    without = summary.get("accelerator") is None
    emulated = summary.get("emulated", without) is True
    threads = summary.get("threads")
    usable = type(threads) is int and 0 < threads <= MAX_THREADS
    return {
        "emulated": emulated,
        "on_cpu": int(without and not emulated),
        "threads": threads if usable else None,
    }


_NEEDED = ("cpus_per_task", "num_tasks", "num_nodes")


def _doubt(training: Training) -> int | None:
    """Reason to ignore the curve: the largest process's, or that another reads other data."""
    summary, loader = training.members[0]
    kinds = {(loader.get("dataset"), loader.get("batch_size")) for _, loader in training.members}
    return unsupported_loader(summary, loader) or (
        UnsupportedLoader.TWO_LOADERS if len(kinds) > 1 else None
    )


def _startup_s(loaders: Sequence[_Json]) -> float | None:
    """Mean seconds of a pass that went into starting its workers; None where it is unknown.

    The first pass is left out where there are others: it has what the probe and torch do once.
    """
    passes = sum([in_all(loader, "epochs") for loader in loaders])
    seconds = sum([loader.get("startup_s") or 0.0 for loader in loaders])
    first_s = [one for loader in loaders if (one := loader.get("first_startup_s")) is not None]
    if len(first_s) == len(loaders) and passes >= 2 * len(loaders):
        seconds, passes = max(0.0, seconds - sum(first_s)), passes - len(loaders)
    return seconds / passes if passes >= 1 and 0 <= seconds < MOST_OF_ANYTHING else None


def _whole_job(
    record: _Json, summaries: Sequence[_Json], loaders: Sequence[_Json], ranks: int
) -> dict[str, Any]:
    """Fields of the whole job: where it ran, and its samples if it was completed."""
    job = {
        "ranks": ranks,
        "nodes": record["allocation"]["num_nodes"],
        "gpu_model": _gpu_model(record, summaries) if record["allocation"].get("gpus") else None,
    }
    elapsed_s = (record.get("times") or {}).get("elapsed_s")
    if record["outcome"]["state"] != Outcome.COMPLETED or not elapsed_s:
        return job
    loop_s = median([in_all(loader, "wall_s") for loader in loaders])
    samples = sum([in_all(loader, "samples") for loader in loaders]) / len(loaders)
    if not (isfinite(samples) and loop_s <= elapsed_s * CLOCK_SLACK):
        return job
    outside_s = max(0.0, elapsed_s - loop_s)
    return {**job, "run_samples": samples * ranks, "outside_s": outside_s}


def _gpu_model(record: _Json, summaries: Sequence[_Json]) -> str | None:
    """GPU model as the training process named it, or the node's if all its GPUs are the same."""
    named = [s.get("accelerator") for s in summaries if s.get("accelerator") is not None]
    models = [m if isinstance(m, str) else "" for m in named or record["host"].get("gpus") or ()]
    same = bool(models) and all(model == models[0] for model in models)
    usable = same and models[0].isprintable() and 0 < len(models[0]) <= MAX_MODEL_CHARS
    return models[0] if usable else None


def _totals(loader: _Json, min_wall_s: float) -> _Totals | None:
    """Totals of the later epochs if they are long enough, else of all; None: still too short.

    With lent workers a loop is faster than its own cores can make it, and nobody can tell by how
    much: the job's own workers may have had to wait, as none of theirs was wanted. So such a phase
    teaches nothing. The probe tells the time without lent workers as a phase of its own, which
    counts as if there had been no loan.
    """
    own = [phase for phase in training_phases(loader) if not _is_lent(phase)]
    later = [phase for phase in own if phase["phase"] == "later"]
    for phases in (later, own):
        totals = _added(phases)
        long_enough = totals.batches >= MIN_BATCHES and totals.wall_s >= min_wall_s
        if long_enough and totals.fetch_samples > 0:
            return totals
    return None


def _epoch_samples(loader: _Json, totals: _Totals) -> float | None:
    """Samples of an epoch; one that was partly made with lent workers lies in two phases."""
    whole = _added(training_phases(loader)) if _borrowed(loader) else totals
    return whole.samples / whole.epochs if whole.epochs >= 1 else None


def _borrowed(loader: _Json) -> bool:
    return any(map(_is_lent, loader["phases"]))


def _is_lent(phase: _Json) -> bool:
    return bool((phase.get("lent_s") or 0.0) > MOST_LENT * (phase.get("wall_s") or 0.0))


def _added(phases: Sequence[_Json]) -> _Totals:
    """One loop without a call for each value, because a record has hundreds of them."""
    sums = dict.fromkeys(_TOTALS, 0.0)
    optional: dict[str, Any] = dict.fromkeys(_OPTIONAL, 0.0 if phases else None)
    worker_samples = 0.0
    for phase in phases:
        worker_samples += phase["workers"] * phase["samples"]
        for name in _TOTALS:
            sums[name] += phase.get(name) or 0
        for name, total in optional.items():
            value = phase.get(name)
            optional[name] = None if total is None or value is None else total + value
    workers = worker_samples / sums["samples"] if sums["samples"] else 0.0
    return _Totals(**sums, **optional, workers=workers)


def _is_possible(t: _Totals) -> bool:
    """True if a machine could have measured these numbers."""
    numbers = (t.samples, t.batches, t.wall_s, t.step_s, t.fetch_samples, t.fetch_wall_s)
    if not all(LEAST_OF_ANYTHING < number < MOST_OF_ANYTHING for number in numbers):
        return False  # not a number is never between
    if not (isfinite(t.fetch_cpu_s) and t.fetch_cpu_s >= 0 and 0 <= t.workers <= 4096):
        return False
    rates = (t.samples / t.wall_s, t.samples / t.step_s, t.fetch_samples / t.fetch_wall_s)
    return t.step_s <= t.wall_s * CLOCK_SLACK and max(rates) <= MAX_SAMPLES_PER_S


def _cores(
    allocation: _Json, summaries: Sequence[_Json], ranks: int, node_cores: float | None
) -> float:
    """Cores that one rank could use: by the allocation, its affinity and the machine.

    A process that may run on more of them than its job has is not kept on its job's.
    """
    tasks_here = max(1, -(-allocation["num_tasks"] // max(1, allocation["num_nodes"])))
    allocated = allocation["cpus_per_task"] * tasks_here
    bounds = [s["cores"] for s in summaries if (s.get("cores") or 0) >= LEAST_CORES]
    if not node_cores or min(bounds, default=0) <= allocated:
        bounds.append(allocated / max(ranks, tasks_here))
    if node_cores:
        bounds.append(node_cores / ranks)
    return float(min(bounds))


def _mean_costs(runs: Sequence[_Totals], trained_on: _Json) -> dict[str, Any]:
    """Costs of one sample that not every probe measures, as means over the ranks that have them."""
    costs: dict[str, list[float]] = {name: [] for name in _COSTS}
    for t in runs:
        waits = (t.step_queued_s, t.wait_queued_s)
        main = None if waits[0] is None or waits[1] is None else waits[0] + waits[1]
        cpu_s = _step_cpu_s(t, trained_on)
        # Name, total, the most that it can be, samples.
        for name, total, most, samples in (
            ("main_cpu_s", cpu_s, None, t.samples),
            ("bytes_per_sample", t.bytes_read, MOST_OF_ANYTHING, t.samples),
            ("fetch_queued_s", t.fetch_queued_s, t.fetch_wall_s, t.fetch_samples),
            ("step_queued_s", t.step_queued_s, t.step_s, t.samples),
            ("main_queued_s", main, t.wall_s, t.samples),
            ("sample_bytes", t.delivered_bytes or None, MOST_OF_ANYTHING, t.samples),
        ):
            if total is not None and (most is None or 0 <= total <= most * CLOCK_SLACK):
                costs[name].append((total if most is None else min(total, most)) / samples)
    return {name: sum(ranks) / len(ranks) if ranks else None for name, ranks in costs.items()}


def _step_cpu_s(t: _Totals, trained_on: _Json) -> float | None:
    """CPU of a training process apart from its own loading; None: nobody can tell the two apart.

    Its libraries' threads help with the loading (and spin between two calls): a probe that did not
    measure all of them meanwhile knows nothing of the step of a process that loads by itself. For a
    step on CPUs what the loading thread left is a bound, and so is each of its threads at work for
    all of the step.
    """
    if t.main_cpu_s is None:
        return None
    serial, home_s, most_s = not round(t.workers), t.home_cpu_s, inf
    if serial and trained_on["on_cpu"] and trained_on["threads"]:
        most_s = trained_on["threads"] * t.step_s
    if home_s is None:
        if serial and most_s == inf:
            return None
        home_s = t.fetch_cpu_s if serial else 0.0
    return min(max(0.0, t.main_cpu_s - home_s), most_s)


_COSTS = (
    "main_cpu_s",
    "bytes_per_sample",
    "fetch_queued_s",
    "step_queued_s",
    "main_queued_s",
    "sample_bytes",
)
