"""Which of the runs found for a submission say something of it: one rule for all who ask. Pure.

Keys know the program, not what it ran on. A run without an accelerator says nothing of a job that
asks for one, nor one over other data of this data: what differs in kind is left out. Another model
of GPU, or another number of them, differs in degree: it widens.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import hypot, log2

from slurm_ext.advisor.evidence.asked import model_asked
from slurm_ext.core.gpu_request import devices_per_node, gpus_of, is_model, nodes_of
from slurm_ext.core.records import SCRIPT_LEVELS, Level, LoaderRun, Submission

Evidence = Mapping[Level, Sequence[LoaderRun]]
PER_DOUBLING_SD = 0.05  # of the same on twice the GPUs, for each of them
FEWEST_ELSEWHERE = 2  # runs of other scripts that have to agree before a job is changed by them
SAME_BATCH = 1.1  # ratio of mean batches that are one size, the last of an epoch being smaller
_OF_ITS_KIND = tuple(level for level in Level if level is not Level.CLUSTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlikeRuns:
    """Runs that say something of a submission, and how far from it they are."""

    evidence: dict[Level, list[LoaderRun]]
    accel_sd: float = 0.0  # log sd that the accelerator's rate has beside what runs show


def of_its_kind(evidence: Evidence, job: Submission) -> dict[Level, list[LoaderRun]]:
    """The runs with the accelerators that the job asks for, over the data that it reads."""
    asks = _asks_for_devices(job)
    fitting = {
        level: [run for run in runs if why_other_kind(run, job, asks=asks) is None]
        for level, runs in evidence.items()
    }
    newest = _newest(fitting, SCRIPT_LEVELS)
    if newest is None:
        return _without_empty(fitting)
    return _without_empty(
        {
            level: runs
            if level is Level.CLUSTER
            else [run for run in runs if run.gpus != newest.gpus or same_data(run, newest)]
            for level, runs in fitting.items()
        }
    )


def alike(evidence: Evidence, job: Submission) -> AlikeRuns:
    """Of these, the runs on as many GPUs of the model that it asks for, where there are any."""
    runs, widths = of_its_kind(evidence, job), list[float]()
    kind = model_asked(job)
    if kind is not None:
        from slurm_ext.model.throughput.pooling import OTHER_MODEL_SD  # `predict` waits for it

        models = {run.gpu_model for run in _all(runs)}
        its = {model for model in models if is_model(kind, model)}
        same = _only(runs, [run for run in _all(runs) if run.gpu_model in its]) if its else {}
        other = not same and any(models)
        runs, widths = same or runs, [OTHER_MODEL_SD] if other else []
    asked = gpus_of(job)
    newest = _newest(runs, _OF_ITS_KIND)
    if not asked or newest is None:
        return AlikeRuns(evidence=runs, accel_sd=hypot(*widths))
    same = _only(runs, [run for run in _all(runs) if _gpus(run) in (asked, 0)])
    if not same:
        counted = [run for run in _all(runs) if _gpus(run) == _gpus(newest)]
        same = _only(runs, counted)
        widths.append(PER_DOUBLING_SD * abs(log2(asked / _gpus(newest))))
    elif newest.nodes is not None:
        widths.append(PER_DOUBLING_SD * abs(log2(nodes_of(job) / max(1, newest.nodes))))
    return AlikeRuns(evidence=same, accel_sd=hypot(*widths))


def _asks_for_devices(job: Submission) -> bool:
    return devices_per_node(job) > 0


def why_other_kind(run: LoaderRun, job: Submission, *, asks: bool) -> str | None:
    """Reason for the run's accelerators to say nothing of the job; None: they may.

    `asks`: for accelerators, which a long list says slowly.
    """
    without = run.on_cpu == 1 or (run.gpus == 0 and run.emulated)
    if asks and without:
        return "its runs had no GPU"
    # A whole node brings its GPUs along, whether they are asked for or not.
    if not asks and run.gpus > 0 and run.on_cpu != 1 and job.shared != 0:
        return "its runs had GPUs, and it asks for none"
    return None


def why_none_left(evidence: Evidence, job: Submission) -> str | None:
    """Reason for the nearest runs to say nothing of the job; None: some do, or there are none."""
    nearest = next((evidence[level] for level in _OF_ITS_KIND if evidence.get(level)), ())
    asks = _asks_for_devices(job)
    reasons = [why_other_kind(run, job, asks=asks) for run in nearest]
    return reasons[0] if reasons and None not in reasons else None


def array_differs(evidence: Evidence, job: Submission) -> bool:
    """True if the job is an array whose tasks, going by its runs, do not do the same work."""
    if job.array is None:
        return False
    runs = next((evidence[level] for level in SCRIPT_LEVELS if evidence.get(level)), ())
    asks = _asks_for_devices(job)
    fitting = [run for run in runs if why_other_kind(run, job, asks=asks) is None]
    return not all(same_data(run, fitting[0]) for run in fitting)


def why_not_acting(level: Level, runs: Sequence[LoaderRun]) -> str:
    """Reason for runs of another script or arguments to change no job; empty: they may."""
    if level in SCRIPT_LEVELS:
        return ""
    if len(runs) < FEWEST_ELSEWHERE:
        return "one run of other arguments is too little to change it"
    if None in {run.data_key for run in runs}:
        return "runs of other arguments, over data that is not known, change nothing"
    if len({run.data_key for run in runs}) > 1:
        return "its runs trained on several sets of data"
    return ""


def same_data(run: LoaderRun, other: LoaderRun) -> bool:
    """True if both read the same data in batches of one size, as far as is known."""
    if run.data_key is not None and other.data_key is not None:
        return run.data_key == other.data_key
    smaller, larger = sorted((run.batch_size, other.batch_size))
    return not larger > SAME_BATCH * smaller


def _gpus(run: LoaderRun) -> int:
    """GPUs of the run's whole job."""
    return run.gpus * (run.nodes or 1)


def _newest(evidence: Evidence, levels: Iterable[Level]) -> LoaderRun | None:
    return next((evidence[level][0] for level in levels if evidence.get(level)), None)


def _all(evidence: Evidence) -> list[LoaderRun]:
    return [run for level in _OF_ITS_KIND for run in evidence.get(level, ())]


def _only(evidence: Evidence, kept: Sequence[LoaderRun]) -> dict[Level, list[LoaderRun]]:
    """These of the runs, and all of the cluster's; nothing where there are none."""
    if not kept:
        return {}
    known = set(map(id, kept))  # a run is one object on all levels, and slow to compare
    return _without_empty(
        {
            level: [run for run in runs if level is Level.CLUSTER or id(run) in known]
            for level, runs in evidence.items()
        }
    )


def _without_empty(runs: dict[Level, list[LoaderRun]]) -> dict[Level, list[LoaderRun]]:
    return {level: found for level, found in runs.items() if found}
