"""Windows of all ranks as one answer: parts of a step with intervals, what to do first. Pure.

The document (`--json`), times in seconds of a step:
- v, command, depth: L1 (windows), L1+trace (windows, and communication by the profiler's traces:
  FSDP), L0 (what the probe saw in passing) or null; why_not: no windows
- how: how the run ended; said: its last words, where it failed
- ranks, workers (of each rank's loader), steps, elapsed_s, ended (precise, steps, seconds)
- step, data, hidden: {value, low, high}, null where it is not known; intervals of 90 %
- parts: [{name, part_of, value, low, high, share}]: those without part_of add up to the step
- au: accelerator utilisation, the share of a step that does not wait for data (MLPerf Storage)
- first: the largest part that can be removed; null where none is known to be worth it
- notes; saves, files: what was counted instead of done
- windows: [{kind, at_s, mean_s, steps}]
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from slurm_ext.cli.profile.from_windows import from_windows
from slurm_ext.cli.profile.in_passing import in_passing
from slurm_ext.cli.profile.run_folder import ProfileRun
from slurm_ext.cli.profile.traced import Series, traced_series
from slurm_ext.probe.windows.plan import BOTH, CACHED, NORMAL, TRACED

KINDS = {
    NORMAL: "normal",
    CACHED: "cached batches",
    "S": "without gradient sync",
    BOTH: "both",
    TRACED: "cached batches, traced",
}
_Json = Mapping[str, Any]


def document(command: str, ended: ProfileRun) -> dict[str, Any]:
    """The answer of one run, by the deepest way that it allows."""
    trainings = _trainings(ended.windows)
    entered = max(trainings, key=_steps, default=[])
    whole: dict[str, Any] = {"v": 1, "command": command, "depth": None, "how": ended.how}
    whole |= {"why_not": None, "said": "", "ranks": None, "workers": None, "steps": 0}
    whole |= {"elapsed_s": None, "ended": None, "step": None, "data": None, "hidden": None}
    whole |= {"parts": [], "au": None, "first": None, "notes": [], "windows": []}
    for name in ("saves", "files"):
        whole[name] = dict(sum((Counter(rank[name]) for rank in ended.windows), Counter()))
    series = _series(entered)
    if series and all(map(any, series.values())):
        several = len(trainings) > 1
        found = from_windows(entered, series, _of(entered, ended) if several else ended)
        if several:
            found["notes"].insert(0, f"{len(trainings)} trainings ran: this is the largest one")
        return whole | found
    whole["why_not"] = _why_not(ended)
    whole["said"] = ended.said if ended.how != "ended" else ""
    return whole | in_passing(ended)


def _trainings(documents: Sequence[_Json]) -> list[list[_Json]]:
    """Processes with windows, by training and rank; ranks of one go through the same windows."""
    found: list[dict[int, _Json]] = []
    for process in (document for document in documents if document["windows"]):
        ranks = next((ranks for ranks in found if _joins(process, ranks)), None)
        if ranks is None:
            found.append(ranks := {})
        ranks[process["rank"]] = process
    return [[ranks[rank] for rank in sorted(ranks)] for ranks in found]


def _joins(process: _Json, ranks: Mapping[int, _Json]) -> bool:
    """True for one more rank of the same world that trained at the same time."""
    other = next(iter(ranks.values()))
    first, last = sorted((process, other), key=itemgetter("began"))
    together = last["began"] < first["began"] + first["elapsed_s"]
    return together and process["world"] == other["world"] and process["rank"] not in ranks


def _steps(entered: Sequence[_Json]) -> int:
    return sum(len(window["steps"]) for rank in entered for window in rank["windows"])


def _of(entered: Sequence[_Json], ended: ProfileRun) -> ProfileRun:
    """The run without the summaries of other processes."""
    pids = {rank["pid"] for rank in entered}
    return replace(ended, summaries=[one for one in ended.summaries if one["pid"] in pids])


def _series(entered: Sequence[_Json]) -> Series:
    """Steps of the windows of each kind, as means over the ranks."""
    if not entered:
        return {}
    rows = list(zip(*(rank["windows"] for rank in entered), strict=False))
    kinds = dict.fromkeys(row[0]["kind"] for row in rows)
    series = {
        kind: [_means([rank["steps"] for rank in row]) for row in rows if row[0]["kind"] == kind]
        for kind in kinds
    }
    return {**series, **traced_series(entered)}


def _means(ranks: Sequence[Sequence[float]]) -> list[float]:
    return [sum(steps) / len(ranks) for steps in zip(*ranks, strict=False)]


def _why_not(ended: ProfileRun) -> str:
    """Return the reason of the process that came furthest."""
    if not ended.windows:
        return (
            "no Python process with torch ran under the probe (PYTHONPATH was replaced, or a"
            " container has no dlqueue?): what a training saves was saved"
        )
    furthest = max(ended.windows, key=lambda window: int(window["requests"]))
    return str(furthest["why_not"] or "every window had a validation in it")
