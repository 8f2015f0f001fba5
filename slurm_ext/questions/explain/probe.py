"""The probe's word on a run: what it measured in the job, and what it left as the user wrote it.

`dlqueue run` prints it while its user waits: a run without a summary imports nothing more.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from slurm_ext.core.trainings import Training

MOST_CHARACTERS = 120  # of a reason: a job's own process wrote it
NOTHING = "not measured"
WAITED = 0.1  # of its time: less waiting for cores is not told, and explains no miss
FROM_MEMORY = "its steps were made with batches that it had kept"
UNCOUNTED = "nobody knows how many samples a batch has: its parts differ in length"
TOO_SHORT = "no DataLoader of torch was long enough"
NO_STEP = "the program has no step that dlqueue knows"
MARK = "put each step into jax.profiler.StepTraceAnnotation, and its steps are counted"
UNPROBED = (
    "a Python ran without dlqueue's probe (PYTHONPATH was replaced); "
    "keep it: PYTHONPATH=.:$PYTHONPATH"
)


def probe_of(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Figures of a run's Python processes, by summaries and node; None: there are none.

    `steps` and `steps_wall_s`: of the busiest optimiser of any process, null where none was seen.
    `tuned`: where each loader that tuned itself stayed, and the rates of the counts it measured.
    `trainings`: samples_per_s, samples, workers and ranks of each, largest first (trainings.py).
    `uncounted`: batches of a loader do not tell how many samples they have.
    `buckets`: sizes (KiB) of gradient buckets that a decision set, or why none is; null: neither.
    `left_alone`: why loaders kept the workers that the script gave them, each reason once; where
    nobody `asked` for others, why they would have. `loaders`: how many they are; `frameworks`:
    imported by the program; `unprobed`: Python processes without the probe, null: no Python was
    seen.
    """
    probe = run.get("probe")
    if not isinstance(probe, dict):
        return None
    if probe.get("summaries"):
        from slurm_ext.node.record.reader import leave_out_faulty

        leave_out_faulty(probe)
    summaries = probe.get("summaries") or ()
    unprobed = probe.get("unprobed")
    if not summaries and unprobed is None:
        return None
    counted = [summary["optimizer"] for summary in summaries if summary.get("optimizer")]
    none: dict[str, Any] = {}
    busiest = max(counted, key=lambda loader: int(loader["steps"]), default=none)
    directed = any((summary.get("directive") or {}).get("num_workers") for summary in summaries)
    by_process = [summary["loaders"] for summary in summaries if summary.get("loaders")]
    # What nobody asked for is told of the training alone.
    shown = by_process if directed else [[max(some, key=_samples)] for some in by_process]
    loaders = [loader for some in shown for loader in some]
    reasons = [loader.get("left_alone") or loader.get("fallback") for loader in loaders]
    imported = {name for summary in summaries for name in summary.get("frameworks") or ()}
    return {
        "steps": busiest.get("steps"),
        "steps_wall_s": busiest.get("wall_s"),
        "asked": directed,
        "trainings": _trainings(run, summaries),
        "uncounted": any(_is_uncounted(loader) for some in by_process for loader in some),
        "left_alone": sorted({reason[:MOST_CHARACTERS] for reason in reasons if reason}),
        "loaders": len(loaders),
        "buckets": _buckets(summaries),
        "tuned": [loader["tuned"] for loader in loaders if loader.get("tuned")],
        "frameworks": sorted(imported),
        "unprobed": unprobed,
    }


def _buckets(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The gradient buckets that a decision set, or why it could not; None: neither."""
    buckets = [(summary.get("communication") or {}).get("buckets") or {} for summary in summaries]
    chosen = next(
        (schedule for schedule in buckets if schedule.get("caps") or schedule.get("left_alone")),
        None,
    )
    if chosen is None:
        return None
    why = chosen.get("left_alone")
    return {"caps": chosen.get("caps"), "left_alone": why and why[:MOST_CHARACTERS]}


def _is_uncounted(loader: Mapping[str, Any]) -> bool:
    batches = sum(phase.get("batches") or 0 for phase in loader["phases"])
    return batches > 0 and not _samples(loader)


def _samples(loader: Mapping[str, Any]) -> float:
    return float(sum(phase["samples"] for phase in loader["phases"]))


def _trainings(
    run: Mapping[str, Any], summaries: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    if not summaries:
        return []
    from slurm_ext.core.trainings import trainings

    found = [_training(training) for training in trainings(summaries)]
    workers = _kept_workers(run) if found else None
    if workers is not None:
        found[0]["workers"] = workers
    return found


def _kept_workers(run: Mapping[str, Any]) -> int | None:
    """Workers of the largest training as the history keeps them: where its search stayed.

    `run` is the history's row, or a record before it is one.
    """
    if "allocation" not in run:
        return run.get("loader_workers")
    from slurm_ext.core.loader_run import loader_run

    kept = loader_run(run)
    return None if kept is None else kept.workers


def _training(training: Training) -> dict[str, Any]:
    from slurm_ext.core.findings.strands import total, training_phases

    phases = [phase for _, loader in training.members for phase in training_phases(loader)]
    samples = sum(phase["samples"] for phase in phases)
    workers = sum(phase["workers"] * phase["samples"] for phase in phases) / samples
    return {
        "samples_per_s": training.samples_per_s,
        "samples": sum(total(loader, "samples") for _, loader in training.members),
        "workers": round(workers),
        "ranks": training.ranks,
    }


def measured(run: Mapping[str, Any]) -> str:
    """The throughput of a run for people: of all its ranks and the whole run, or why none."""
    rate, ranks = run.get("loader_samples_per_s"), run.get("loader_ranks") or 1
    if not rate:
        return _without_rate(run["probe"])
    from slurm_ext.report.formatting import counted

    samples_per_s = rate_of(run) or 0.0
    by_rank = f", {samples_per_s / ranks:.4g} by each of {ranks} ranks" if ranks > 1 else ""
    steady = (
        f" (steady {rate * ranks:.4g})" if f"{rate * ranks:.3g}" != f"{samples_per_s:.3g}" else ""
    )
    emulated = ", emulated accelerator" if run.get("loader_emulated") else ""
    workers = counted(run.get("loader_workers") or 0, "worker")
    return f"{samples_per_s:.4g} samples/s{steady} with {workers}{by_rank}{emulated}{_waited(run)}"


def rate_of(run: Mapping[str, Any]) -> float | None:
    """Samples/s of all ranks over the whole run, as predictions are scored; None: not measured."""
    steady = (run.get("loader_samples_per_s") or 0.0) * (run.get("loader_ranks") or 1)
    return run.get("loader_whole_samples_per_s") or steady or None


def _waited(run: Mapping[str, Any]) -> str:
    share = waited_for_cores(run)
    return f"; it waited for a core {share:.0%} of its time" if share >= WAITED else ""


def waited_for_cores(run: Mapping[str, Any]) -> float:
    """The share of its time that the loop, or a worker's fetch, was ready and had no core."""
    rate, fetch_s = run.get("loader_samples_per_s") or 0.0, run.get("loader_fetch_wall_s")
    main = (run.get("loader_main_queued_s") or 0.0) * rate
    worker = (run.get("loader_fetch_queued_s") or 0.0) / fetch_s if fetch_s else 0.0
    return min(1.0, max(main, worker))


def _without_rate(probe: Mapping[str, Any] | None) -> str:
    """Steps stand in for samples where batches come from no loader that the probe knows."""
    if not probe:
        return NOTHING
    if not probe["steps"]:
        return _without_steps(probe)
    steps, wall_s = probe["steps"], probe["steps_wall_s"]
    rate = f", {(steps - 1) / wall_s:.4g} a second" if steps > 1 and wall_s else ""
    kept = probe.get("loaders") and not probe.get("trainings")
    why = UNCOUNTED if probe.get("uncounted") else FROM_MEMORY if kept else TOO_SHORT
    return f"no samples/s: {why}; {steps} optimizer steps{rate}"


def _without_steps(probe: Mapping[str, Any]) -> str:
    if probe["unprobed"]:
        return f"{NOTHING}: {UNPROBED}"
    if probe["loaders"]:
        return f"no samples/s: {TOO_SHORT}"
    names = probe["frameworks"]
    imported = f" ({', '.join(names)})" if names else ""
    return f"no throughput: {NO_STEP}{imported}{f'; {MARK}' if 'jax' in names else ''}"


def lines(probe: Mapping[str, Any]) -> Iterator[str]:
    """For people: a line for each training of several, and for each reason to leave a loader."""
    from slurm_ext.report.formatting import counted

    trained = probe.get("trainings") or ()
    for training in trained if len(trained) > 1 else ():
        value = training["samples_per_s"]
        rate = "no rate" if value is None else f"{value:.4g} samples/s"
        ranks = f", {training['ranks']} ranks" if training["ranks"] > 1 else ""
        workers = counted(training["workers"], "worker")
        yield f"training: {training['samples']:.4g} samples, {rate}, {workers}{ranks}"
    yield from (
        f"tuned:    {_search(search)}" for search in probe.get("tuned") or () if search["rates"]
    )
    if buckets := probe.get("buckets"):
        kept = f"stay as they are: {buckets['left_alone']}"
        yield f"buckets:  gradient buckets {kept if buckets['left_alone'] else 'of its decision'}"
    wish = "as the script set them" if probe["asked"] else "dlqueue would leave them alone"
    yield from (f"workers:  {wish}: {reason}" for reason in probe["left_alone"])


def _search(tuned: Mapping[str, Any]) -> str:
    """The count where a loader's search stayed, and the rate of each count that it measured."""
    from slurm_ext.report.formatting import counted

    rates = [f"{trial['workers']}: {trial['samples_per_s']:.3g}" for trial in tuned["rates"]]
    measured_s = tuned.get("settled_s")
    after = "" if measured_s is None else f" after {measured_s:.0f} s of measuring"
    workers = tuned.get("workers")
    stays = "no count yet" if workers is None else f"{counted(workers, 'worker')}{after}"
    return f"{stays} (samples/s by workers: {', '.join(rates)})"
