"""A record's split of the step against torch's profiler: waits for data, and all the rest.

The same training first without the profiler, of which the probe's summary is split as a record's
is, then under it. The profiler marks every DataLoader's __next__ and, with CUDA, every kernel. A
record's computing is all in which the loop waits for nobody, launches and Python too, and so it is
held against the profiled span less the marked waits; the kernels' own share stands beside it.
"""

from contrib.bench.gpu.here import Here
from contrib.bench.gpu.report import AbsentError, Report, repeats
from contrib.bench.gpu.trainings import Trained, Training
from slurm_ext.core.stalls.step_split import StepSplit, step_split

WARM_S, SPAN_S, PROFILED_S = 0.1, 2.5, 1.0
KINDS = {"fed": ("ready", 2), "starved": ("jpeg", 1)}


def measure(here: Here, report: Report) -> None:
    """Each kind of training with processes of its own: a record is of one training."""
    here.needs_device()
    for _ in repeats(here.seconds, least=1, most=5):
        for kind in KINDS:
            _one(here, report, kind)


def _one(here: Here, report: Report, kind: str) -> None:
    with Training(here, {}) as training:
        training.hear()
        training.run(WARM_S, *KINDS[kind], way="plain")  # kernels are loaded: the record has none
        training.run(SPAN_S, *KINDS[kind])
        split = _split(training)
        profiled = training.run(PROFILED_S, *KINDS[kind], way="profiled")
    for part, seconds in split.parts.items():
        report.add(f"{kind}_{part}", seconds / split.step_s)
    report.add(f"{kind}_au", split.au)
    _against(report, kind, split, profiled)


def _split(training: Training) -> StepSplit:
    split = step_split([training.summary()])
    if split is None:
        raise AbsentError("the summary has too few batches for a split")
    return split


def _against(report: Report, kind: str, split: StepSplit, profiled: Trained) -> None:
    """Shares of the step: the profiler slows a step, and so seconds would not compare.

    The split's start of workers is no part of the profiled span, nor of its own step here.
    """
    profile = profiled.profile or {}
    by = "kernels" if profile.get("by_kernels") else "operators of the CPU"
    report.facts[f"{kind}: device's time by"] = by
    busy_s, waited_s = profile.get("busy_s"), profile.get("wait_s")
    if busy_s is not None:
        report.add(f"{kind}_device_busy_profiler", busy_s / profiled.batch_s)
    if waited_s is None:
        report.lacks(f"{kind}: data, computing", "the profiler has no mark of a DataLoader")
        return
    steady_s, waits = split.step_s - split.starting_s, waited_s / profiled.batch_s
    for name, ours_s, theirs in (
        ("data", split.data_s - split.starting_s + split.other_s, waits),
        ("computing", split.computing_s, 1 - waits),
    ):
        report.add(f"{kind}_{name}_split", ours_s / steady_s)
        report.add(f"{kind}_{name}_profiler", theirs)
        report.add(f"{kind}_{name}_error", abs(ours_s / steady_s - theirs))
