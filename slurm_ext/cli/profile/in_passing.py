"""The depth L0: the probe's own split of a step, where no window was entered. Pure."""

from collections.abc import Iterator
from typing import Any

from slurm_ext.cli.profile.run_folder import ProfileRun
from slurm_ext.core.findings.strands import total
from slurm_ext.core.stalls.step_split import StepSplit, step_split
from slurm_ext.core.trainings import trainings


def in_passing(ended: ProfileRun) -> dict[str, Any]:
    """The probe's own split of a step, without intervals; {} where there is none."""
    split = step_split(ended.summaries)
    if split is None or split.step_s <= 0:
        return {}
    first = next(trainings(ended.summaries))
    loaders = [loader for _, loader in first.members]
    return {
        "depth": "L0",
        "ranks": split.ranks,
        "workers": round(max(loader["started_workers"] for loader in loaders)),
        "steps": int(sum(total(loader, "batches") for loader in loaders)),
        "step": {"value": split.step_s, "low": None, "high": None},
        "parts": [
            {"name": name, "part_of": part_of, "value": value, "low": None, "high": None}
            | {"share": value / split.step_s}
            for name, part_of, value in _passing_parts(split)
        ],
        "au": split.au,
    }


def _passing_parts(split: StepSplit) -> Iterator[tuple[str, str | None, float]]:
    yield "computing", None, split.computing_s
    yield "communicating", None, split.communicating_s + split.slow_rank_s
    yield "slow rank", "communicating", split.slow_rank_s
    yield "data", None, split.data_s
    for name in ("fetch", "cores", "preparation", "starting"):
        yield name, "data", split.parts[name]
    yield "no core", None, split.crowded_s
    yield "other", None, split.other_s
