"""The probe's word on a run: what it measured in the job, and what it left as the user wrote it."""

from collections.abc import Iterator, Mapping
from typing import Any

MOST_CHARACTERS = 120  # of a reason: a job's own process wrote it
NOTHING = "not measured"
WAITED = 0.1  # of the time in which it could have computed: less is not told
TOO_SHORT = "no DataLoader of torch was long enough"
NO_STEP = "the program has no step that dlqueue knows"
UNPROBED = (
    "a Python ran without dlqueue's probe (PYTHONPATH was replaced); "
    "keep it: PYTHONPATH=.:$PYTHONPATH"
)


def probe_of(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Figures of a run's Python processes, by summaries and node; None: there are none.

    `steps` and `steps_wall_s`: of the busiest optimiser of any process, null where none was seen.
    `left_alone`: why loaders kept the workers that the script gave them, each reason once; where
    nobody `asked` for others, why they would have. `loaders`: how many they are; `frameworks`:
    imported by the program; `unprobed`: Python processes without the probe, null: no Python was
    seen.
    """
    from slurm_ext.node.record.reader import leave_out_faulty

    probe = run.get("probe")
    if not isinstance(probe, dict):
        return None
    if probe.get("summaries"):
        leave_out_faulty(probe)
    summaries = probe.get("summaries") or ()
    unprobed = probe.get("unprobed")
    if not summaries and unprobed is None:
        return None
    counted = [summary["optimizer"] for summary in summaries if summary.get("optimizer")]
    none: dict[str, Any] = {}
    busiest = max(counted, key=lambda one: int(one["steps"]), default=none)
    asked = any((summary.get("directive") or {}).get("num_workers") for summary in summaries)
    found = [summary["loaders"] for summary in summaries if summary.get("loaders")]
    # What nobody asked for is told of the training alone.
    told = found if asked else [[max(some, key=_samples)] for some in found]
    loaders = [loader for some in told for loader in some]
    reasons = [loader.get("left_alone") or loader.get("fallback") for loader in loaders]
    imported = {name for summary in summaries for name in summary.get("frameworks") or ()}
    return {
        "steps": busiest.get("steps"),
        "steps_wall_s": busiest.get("wall_s"),
        "asked": asked,
        "left_alone": sorted({reason[:MOST_CHARACTERS] for reason in reasons if reason}),
        "loaders": len(loaders),
        "frameworks": sorted(imported),
        "unprobed": unprobed,
    }


def _samples(loader: Mapping[str, Any]) -> float:
    return float(sum(phase["samples"] for phase in loader["phases"]))


def measured(run: Mapping[str, Any]) -> str:
    """The throughput of a run for people: of all its ranks, or why there is none."""
    from slurm_ext.report.formatting import counted

    rate, ranks = run.get("loader_samples_per_s"), run.get("loader_ranks") or 1
    if not rate:
        return _without_rate(run["probe"])
    each = f", {rate:.4g} by each of {ranks} ranks" if ranks > 1 else ""
    emulated = ", emulated accelerator" if run.get("loader_emulated") else ""
    workers = counted(run.get("loader_workers") or 0, "worker")
    return f"{rate * ranks:.4g} samples/s with {workers}{each}{emulated}{_waited(run)}"


def _waited(run: Mapping[str, Any]) -> str:
    """The wait for cores that were at work for somebody; empty where it is small."""
    queued_s = (run.get("loader_fetch_queued_s") or 0.0) + (run.get("loader_main_queued_s") or 0.0)
    computed_s = (run.get("loader_fetch_cpu_s") or 0.0) + (run.get("loader_main_cpu_s") or 0.0)
    share = queued_s / (queued_s + computed_s) if queued_s > 0 else 0.0
    return f"; it waited for busy cores {share:.0%} of the time" if share >= WAITED else ""


def _without_rate(probe: Mapping[str, Any] | None) -> str:
    """Steps stand in for samples where batches come from no loader that the probe knows."""
    if not probe:
        return NOTHING
    if not probe["steps"]:
        return _without_steps(probe)
    steps, wall_s = probe["steps"], probe["steps_wall_s"]
    rate = f", {(steps - 1) / wall_s:.4g} a second" if steps > 1 and wall_s else ""
    return f"no samples/s: {TOO_SHORT}; {steps} optimizer steps{rate}"


def _without_steps(probe: Mapping[str, Any]) -> str:
    if probe["unprobed"]:
        return f"{NOTHING}: {UNPROBED}"
    if probe["loaders"]:
        return f"no samples/s: {TOO_SHORT}"
    imported = f" ({', '.join(probe['frameworks'])})" if probe["frameworks"] else ""
    return f"no throughput: {NO_STEP}{imported}"


def lines(probe: Mapping[str, Any]) -> Iterator[str]:
    """For people: a line for each reason to leave a loader alone."""
    said = "as the script set them" if probe["asked"] else "dlqueue would leave them alone"
    yield from (f"workers:  {said}: {reason}" for reason in probe["left_alone"])
