"""The runs behind an answer, and what would change it, for people. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slurm_ext.core.records import Level

_EXACT = Level.SCRIPT_ARGS.value


def past(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """`job 1042: 2 CPUs, 0 workers, 190 samples/s`, one run each."""
    for run in runs:
        text = shape(run["cpus"], run["num_workers"])
        yield f"job {run['job_id']}: {text}, {run['samples_per_s']:.4g} samples/s"


def shape(cpus: float, workers: int) -> str:
    """`1 CPU, 10 workers`; a part of a CPU may be lent: `1.5 CPUs`."""
    from slurm_ext.report.formatting import counted  # `predict` starts without it

    return f"{cpus:g} CPU{'' if cpus == 1 else 's'}, {counted(workers, 'worker')}"


def would_change(answer: Mapping[str, Any], min_gain: float) -> str | None:
    """Return what would lead to another answer; None where dlqueue may not look at the job at all.

    `said` is the document of `dlqueue predict --json`; `min_gain` as `policy.min_gain`.
    """
    if not answer["eligible"]:
        return None
    if answer["predicted_after"] is None:
        return "one run of it that the probe measures"
    stay = answer.get("workers_stay")
    if answer["action"] == "leave" and stay is not None and stay == answer["why"]:
        return "its workers may move once its newest run says nothing against it"
    written = answer["predicted_before"]["samples_per_s"]
    best = max(
        answer["predicted_after"]["samples_per_s"],
        (answer["maximum"] or {}).get("samples_per_s", 0),
    )
    edge = f"{best / (1 + min_gain):.4g} samples/s as written"
    if answer["action"] == "leave":
        measured = f"it is changed where it runs below {edge} ({written:.4g} expected)"
    elif best >= written * (1 + min_gain):
        measured = f"it is left as it is where it runs above {edge} ({written:.4g} expected)"
    else:
        measured = "it keeps its CPUs where fewer turn out to cost speed"
    if answer["level"] == _EXACT:
        return measured
    return f"{measured}; a run of this very script counts more than {answer['level']}"
