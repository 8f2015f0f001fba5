"""Verdict on a run: as predicted, or what the record knows to explain why not. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slurm_ext.core.findings.loader_refusal import LoaderRefusal, why_workers_stay
from slurm_ext.questions.explain.probe import WAITED, waited_for_cores

UNKNOWN = "no reason known"


def verdict_of(
    predicted: Mapping[str, Any] | None,
    run: Mapping[str, Any],
    past: Sequence[Mapping[str, Any]],
) -> dict[str, Any] | None:
    """`{inside, side, why, beside}`; None where nothing was predicted of the run, or measured.

    `predicted`: the run's row of the view `outcomes`; `run`: as `queries.job` has it; `past`: the
    runs that the prediction rested on. `side` is below, above or null, `why` a list of reasons, and
    `beside` whether what was told beside other jobs on its cores is meant; null: one world was.
    """
    if predicted is None or None in (predicted["low"], predicted["high"], predicted["achieved"]):
        return None
    beside = predicted.get("beside")
    world = {"beside": None if beside is None else bool(beside)}
    if predicted["low"] <= predicted["achieved"] <= predicted["high"]:
        return {"inside": True, "side": None, "why": [], **world}
    side = "below" if predicted["achieved"] < predicted["low"] else "above"
    return {"inside": False, "side": side, "why": [*_why(run, past, side)] or [UNKNOWN], **world}


def line(verdict: Mapping[str, Any]) -> str:
    """The same for people."""
    world = " beside other jobs" if verdict.get("beside") else ""
    if verdict["inside"]:
        return f"verdict:  inside its interval{world}"
    why = "; ".join(verdict["why"])
    return f"verdict:  outside its interval{world}, {verdict['side']} it: {why}"


def _why(run: Mapping[str, Any], past: Sequence[Mapping[str, Any]], side: str) -> Iterator[str]:
    if side == "below":
        yield from _cores(run)
        yield from _starting(run)
    refused = run.get("loader_refused") or LoaderRefusal.NOTHING
    if refused not in (LoaderRefusal.NOTHING, LoaderRefusal.MOVED):
        yield why_workers_stay(refused)
    models = {run["gpu_model"] for run in past} - {None}
    model = run.get("loader_gpu_model")
    if model and models and model not in models:
        yield f"it ran on {model}, earlier runs on {', '.join(sorted(models))}"
    kinds = {run["data_key"] for run in past} - {None}
    if kinds and run.get("loader_data_key") not in (None, *kinds):
        yield "its data or its batch were others"


def _cores(run: Mapping[str, Any]) -> Iterator[str]:
    """Others on its cores, and how long it waited for a core."""
    beside = [
        corunner
        for corunner in run.get("corunners") or ()
        if (corunner["shared"] or {}).get("cpus")
    ]
    if beside:
        who = "another job" if len(beside) == 1 else f"{len(beside)} other jobs"
        yield f"{who} wanted the same cores"
    waited = waited_for_cores(run)
    if waited >= WAITED:
        yield f"it waited for a core {waited:.0%} of its time"


def _starting(run: Mapping[str, Any]) -> Iterator[str]:
    """Starting workers, which a short training has not made up for when it ends."""
    from slurm_ext.core.stalls.step_split import PARTS

    split = run.get("split") or {}
    step_s = sum(split.get(f"{part}_s") or 0.0 for part in PARTS)
    share = (split.get("starting_s") or 0.0) / step_s if step_s > 0 else 0.0
    if share >= WAITED:
        yield f"starting workers took {share:.0%} of its time"
