"""Finds runs with inconsistent numbers, and words for why a job has no estimate. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf

from slurm_ext.core.records import Level, LoaderRun

SLACK = (
    1.5  # prefetched batches, clocks and rounding: what a sound run may be over a bound of its own
)
# Cores, or samples of a batch (ranks may share one). Beyond, powers leave the range of a float.
LEAST, MOST = 1e-3, 1e18
NONE_ALIKE = "no runs like this one"
MOST_NAMED = 3  # values that are listed one by one
_DIFFERENCES = {
    "batch_size": "batches of {}",
    "gpus": "{} GPUs",
    "ranks": "{} processes",
    "nodes": "{} nodes",
    "threads": "{} threads",
}

Evidence = Mapping[Level, Sequence[LoaderRun]]


def inconsistency(run: LoaderRun) -> str | None:
    """Return the contradiction in a run's numbers in one clause; None if there is none."""
    if not (
        0 < run.samples_per_s < inf
        and 0 < run.accel_samples_per_s < inf
        and 0 < run.fetch_wall_s < inf
        and 0 < run.batch_size < inf
        and 0 < run.cores < inf
    ):
        return "it counted nothing"
    if not (LEAST <= run.batch_size < MOST and LEAST <= run.cores < MOST):
        return "it had batches or cores of a size that cannot be"
    if run.workers < 0 or not 0 <= run.fetch_cpu_s < inf:
        return "it has less than nothing"
    if run.samples_per_s > SLACK * run.accel_samples_per_s:
        return "it was faster than its own steps"
    if run.samples_per_s > SLACK * _fetched(run):
        return "it was faster than its own loader"
    if run.samples_per_s * run.fetch_cpu_s > SLACK * max(run.cores, 1.0):
        return "it computed more than its cores can"
    if run.node_cores is not None and run.cores > SLACK * run.node_cores:
        return "it had more cores than its node"
    return None


def _fetched(run: LoaderRun) -> float:
    """Samples/s that its workers, or its process, can have fetched."""
    return max(1, run.workers) / run.fetch_wall_s


def usable_runs(runs: Iterable[LoaderRun]) -> list[LoaderRun]:
    """Return the runs that a curve can be estimated from."""
    return [run for run in runs if run.doubt is None and inconsistency(run) is None]


def evidence_flag(evidence: Evidence) -> int | None:
    """Return the UnsupportedLoader flag of the newest of the nearest runs; None if it has none."""
    newest = next((runs[0] for runs in _own(evidence) if runs), None)
    return None if newest is None else newest.doubt


def why_no_estimate(evidence: Evidence) -> str:
    """Return the reason for having no estimate, in one clause for the user."""
    nearest = next((runs for runs in _own(evidence) if runs), None)
    if nearest is None:
        return f"I do not know yet: {NONE_ALIKE}"
    doubt = evidence_flag(evidence)
    if doubt is not None:
        from slurm_ext.core.unsupported_loader import CLAUSES  # `predict` waits for it

        return CLAUSES.get(doubt, "its loader is of a kind that I do not know")
    faults = [why for run in nearest if (why := inconsistency(run)) is not None]
    if len(faults) == len(nearest):
        return f"I do not believe {_runs(len(faults))} like this one: {faults[0]}"
    if len(nearest) - len(faults) == 1:
        return "I do not know yet: one run of a similar job says too little"
    what = what_differs(usable_runs(nearest))
    return f"I do not know: {_runs(len(nearest))} like this one contradict each other: {what}"


def what_differs(runs: Sequence[LoaderRun]) -> str:
    """Name what runs that should be alike differ in; their rates if nothing else is known."""
    named = []
    for name, words in _DIFFERENCES.items():
        values = sorted({value for run in runs if (value := getattr(run, name)) is not None})
        if len(values) > 1:
            some = len(values) <= MOST_NAMED
            listed = " and ".join(
                f"{value:.4g}" for value in (values if some else values[:: len(values) - 1])
            )
            named.append(words.format(listed if some else listed.replace(" and ", " to ")))
    if not named and len({run.data_key for run in runs} - {None}) > 1:
        named.append("several sets of data")
    if not named:
        rates = [run.samples_per_s for run in runs]
        named.append(f"{min(rates):.4g} to {max(rates):.4g} samples/s")
    return ", ".join(named)


def _own(evidence: Evidence) -> Iterator[Sequence[LoaderRun]]:
    """Levels that are enough by themselves, nearest first."""
    return (evidence.get(level, ()) for level in Level if level is not Level.CLUSTER)


def _runs(count: int) -> str:
    return "the only run" if count == 1 else f"{count} runs"
