"""Evidence of a run record's training loaders: `loader_run(record) -> LoaderRun`.

Pure. The record's reader has checked its fields and types. Here the numbers are judged: too few or
impossible ones are no evidence, and the result is None.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import median
from typing import Any

from slurm_ext.core.records import LoaderRun, Outcome
from slurm_ext.core.unsupported_loader import unsupported_loader

MIN_BATCHES = 4  # the first ones only empty the prefetch queue
MIN_WALL_S = 1.0
MAX_SAMPLES_PER_S = 1e9
CLOCK_SLACK = 1.1  # waits and steps are timed separately from the total
MOST_OF_ANYTHING = 1e18  # seconds or samples of one job
LEAST_OF_ANYTHING = 1e-12  # below it, quotients leave the range of a float
MAX_RANKS = 1_000_000  # a larger world_size is not believed
MAX_MODEL_CHARS = 64

_Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Totals:
    """One training loader's phases, added up; seconds and counts."""

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
    fetch_queued_s: float | None
    step_queued_s: float | None
    wait_queued_s: float | None
    delivered_bytes: float | None


def loader_run(record: _Json, *, min_wall_s: float = MIN_WALL_S) -> LoaderRun | None:
    """Return the evidence of one training process of the job, or None.

    Ranks of one job run in step with each other, so costs are means over ranks and the rate is
    the median rank's. The first epoch counts only if the later ones are shorter than `min_wall_s`
    or MIN_BATCHES.
    """
    ranks = _ranks(record)
    totals = [_totals(loader, min_wall_s) for _, loader in ranks]
    sound = [(*rank, t) for rank, t in zip(ranks, totals, strict=True) if t and _sound(t)]
    if not sound:
        return None
    summary, loader, _ = sound[0]
    runs = [t for _, _, t in sound]
    node_cores = summary.get("node_cores") or record["host"].get("cores")
    return LoaderRun(
        samples_per_s=median(t.samples / t.wall_s for t in runs),
        workers=round(median(t.workers for t in runs)),
        cores=_cores(record, [s for s, _, _ in sound], node_cores),
        batch_size=loader.get("batch_size") or runs[0].samples / runs[0].batches,
        accel_samples_per_s=_ratio(runs, "samples", "step_s"),
        fetch_wall_s=_ratio(runs, "fetch_wall_s", "fetch_samples"),
        fetch_cpu_s=_ratio(runs, "fetch_cpu_s", "fetch_samples"),
        main_cpu_s=_mean([_main_cpu_s(t) for t in runs]),
        worker_rss_bytes=max((ld.get("worker_rss_bytes") or 0 for _, ld, _ in sound)) or None,
        bytes_per_sample=_mean([_per_sample(t.bytes_read, t) for t in runs]),
        node_cores=node_cores,
        emulated=summary.get("accelerator") is None,
        gpus=len(record["allocation"].get("gpus") or ()),
        user_workers=loader.get("user_num_workers"),
        epoch_samples=runs[0].samples / runs[0].epochs if runs[0].epochs >= 1 else None,
        fetch_queued_s=_mean(
            [_queued(t.fetch_queued_s, t.fetch_wall_s, t.fetch_samples) for t in runs]
        ),
        step_queued_s=_mean([_queued(t.step_queued_s, t.step_s, t.samples) for t in runs]),
        main_queued_s=_mean([_main_queued_s(t) for t in runs]),
        sample_bytes=_mean([_per_sample(t.delivered_bytes or None, t) for t in runs]),
        doubt=unsupported_loader(summary, loader),
        **_whole(record, [s for s, _, _ in sound], [ld for _, ld, _ in sound]),
    )


def _whole(record: _Json, summaries: Sequence[_Json], loaders: Sequence[_Json]) -> dict[str, Any]:
    """Fields of the whole job: where it ran, and its samples if it was completed."""
    ranks = _world(summaries)
    place = {
        "ranks": ranks,
        "nodes": record["allocation"]["num_nodes"],
        "gpu_model": _gpu_model(record, summaries),
    }
    elapsed_s = (record.get("times") or {}).get("elapsed_s")
    if record["outcome"]["state"] != Outcome.COMPLETED or not elapsed_s:
        return place
    loop_s = median(_sum(loader["phases"], "wall_s") for loader in loaders)
    samples = sum(_sum(loader["phases"], "samples") for loader in loaders) / len(loaders)
    if not (isfinite(samples) and loop_s <= elapsed_s * CLOCK_SLACK):
        return place
    outside_s = max(0.0, elapsed_s - loop_s)
    return {**place, "run_samples": samples * ranks, "outside_s": outside_s}


def _world(summaries: Sequence[_Json]) -> int:
    """Training processes on all nodes; never fewer than there are summaries."""
    worlds = [s.get("world_size") for s in summaries]
    sizes = [size for size in worlds if type(size) is int and size <= MAX_RANKS]
    return max([len(summaries), *sizes])


def _gpu_model(record: _Json, summaries: Sequence[_Json]) -> str | None:
    """GPU model as the training process named it, or the node's if all its GPUs are the same."""
    if not record["allocation"].get("gpus"):
        return None
    named = [s.get("accelerator") for s in summaries if s.get("accelerator") is not None]
    models = [m if isinstance(m, str) else "" for m in named or record["host"].get("gpus") or ()]
    same = bool(models) and all(model == models[0] for model in models)
    usable = same and models[0].isprintable() and 0 < len(models[0]) <= MAX_MODEL_CHARS
    return models[0] if usable else None


def _ranks(record: _Json) -> list[tuple[_Json, _Json]]:
    """Process summary and training loader of each rank: those that delivered most samples."""
    best: dict[int, tuple[float, _Json, _Json]] = {}
    for summary in (record.get("probe") or {}).get("summaries") or ():
        for loader in summary.get("loaders") or ():
            samples = sum(phase["samples"] for phase in loader["phases"])
            rank = summary.get("rank") or 0
            if samples > best.get(rank, (0,))[0]:
                best[rank] = (samples, summary, loader)
    return [(summary, loader) for _, (_, summary, loader) in sorted(best.items())]


def _totals(loader: _Json, min_wall_s: float) -> _Totals | None:
    """Totals of the later epochs if they are long enough, else of all; None: still too short."""
    later = [phase for phase in loader["phases"] if phase["phase"] == "later"]
    for phases in (later, loader["phases"]):
        long_enough = (
            _sum(phases, "batches") >= MIN_BATCHES and _sum(phases, "wall_s") >= min_wall_s
        )
        if long_enough and _sum(phases, "fetch_samples") > 0:
            return _added(phases)
    return None


def _added(phases: Sequence[_Json]) -> _Totals:
    samples = _sum(phases, "samples")
    return _Totals(
        epochs=_sum(phases, "epochs"),
        samples=samples,
        batches=_sum(phases, "batches"),
        wall_s=_sum(phases, "wall_s"),
        step_s=_sum(phases, "step_s"),
        workers=sum(p["workers"] * p["samples"] for p in phases) / samples if samples else 0,
        fetch_samples=_sum(phases, "fetch_samples"),
        fetch_wall_s=_sum(phases, "fetch_wall_s"),
        fetch_cpu_s=_sum(phases, "fetch_cpu_s"),
        bytes_read=_known_sum(phases, "bytes_read"),
        main_cpu_s=_known_sum(phases, "main_cpu_s"),
        fetch_queued_s=_known_sum(phases, "fetch_queued_s"),
        step_queued_s=_known_sum(phases, "step_queued_s"),
        wait_queued_s=_known_sum(phases, "wait_queued_s"),
        delivered_bytes=_known_sum(phases, "delivered_bytes"),
    )


def _sound(t: _Totals) -> bool:
    """True if a machine could have measured these numbers."""
    numbers = (t.samples, t.batches, t.wall_s, t.step_s, t.fetch_samples, t.fetch_wall_s)
    if not all(LEAST_OF_ANYTHING < number < MOST_OF_ANYTHING for number in numbers):
        return False
    if not (isfinite(t.fetch_cpu_s) and t.fetch_cpu_s >= 0 and 0 <= t.workers <= 4096):
        return False
    rates = (t.samples / t.wall_s, t.samples / t.step_s, t.fetch_samples / t.fetch_wall_s)
    return t.step_s <= t.wall_s * CLOCK_SLACK and max(rates) <= MAX_SAMPLES_PER_S


def _cores(record: _Json, summaries: Sequence[_Json], node_cores: float | None) -> float:
    """Cores that one rank could use: by the allocation, its affinity and the machine."""
    allocation = record["allocation"]
    ranks = len(summaries)
    tasks_here = max(1, -(-allocation["num_tasks"] // max(1, allocation["num_nodes"])))
    allocated = allocation["cpus_per_task"] * tasks_here / max(ranks, tasks_here)
    bounds = [allocated, *(s["cores"] for s in summaries if s.get("cores"))]
    if node_cores:
        bounds.append(node_cores / ranks)
    return float(min(bounds))


def _main_cpu_s(t: _Totals) -> float | None:
    """CPU seconds of the training process for one sample; None if it loads the data itself.

    Its libraries' threads then help with the loading (and spin between two calls), so that the
    process's CPU time less the loading thread's is no measure of the step.
    """
    if t.main_cpu_s is None or round(t.workers) == 0:
        return None
    return t.main_cpu_s / t.samples


def _main_queued_s(t: _Totals) -> float | None:
    if t.step_queued_s is None or t.wait_queued_s is None:
        return None
    return _queued(t.step_queued_s + t.wait_queued_s, t.wall_s, t.samples)


def _queued(total_s: float | None, whole_s: float, samples: float) -> float | None:
    """Seconds of waiting for a core for one sample, at most all of them."""
    if total_s is None or not 0 <= total_s <= whole_s * CLOCK_SLACK:
        return None
    return min(total_s, whole_s) / samples


def _per_sample(total: float | None, t: _Totals) -> float | None:
    return None if total is None or not 0 <= total < 1e18 else total / t.samples


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _ratio(runs: Sequence[_Totals], above: str, below: str) -> float:
    return float(sum(getattr(t, above) for t in runs) / sum(getattr(t, below) for t in runs))


def _sum(phases: Sequence[_Json], name: str) -> float:
    return float(sum(phase.get(name) or 0 for phase in phases))


def _known_sum(phases: Sequence[_Json], name: str) -> float | None:
    values = [phase.get(name) for phase in phases]
    return None if not values or None in values else float(sum(v for v in values if v is not None))
