"""Live measurements: the difference of two summaries of one training, as a run of its own. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slurm_ext.core.loader_run import loader_run
from slurm_ext.core.records import LoaderRun

LEAST_S = 0.5  # of a loop: a training that runs now is waiting for an answer
MIXED = 0.25  # mean workers that far from a whole number: the gate moved meanwhile
_Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerBounds:
    """The training loader's workers: now, and what they can be asked to be."""

    now: int
    least: int
    most: int
    baseline: int  # what the script asks for

    @property
    def movable(self) -> bool:
        """True if more than one number of workers is possible."""
        return self.least < self.most


def run_between(
    before: Sequence[_Json],
    after: Sequence[_Json],
    *,
    cpus: int,
    gpus: int,
    cores: float | None,
) -> LoaderRun | None:
    """Run of one process between two looks; None if it is too little to be sure.

    `cores`: the share that the job was held to; None: as Slurm left it. No `before` is everything
    since its start.
    """
    summaries = list(difference(before, after))
    ranks = max(1, len(summaries))
    record = {
        "probe": {"summaries": summaries},
        "allocation": {
            "cpus_per_task": max(1, cpus // ranks),
            "num_tasks": ranks,
            "num_nodes": 1,
            "gpus": [""] * gpus,
        },
        "host": {"cores": None},
        "outcome": {"state": "RUNNING"},
    }
    try:
        run = loader_run(record, min_wall_s=LEAST_S)
    except (TypeError, ValueError, LookupError, ArithmeticError):
        return None  # a user may write anything into a summary
    if run is None or cores is None:
        return run
    return replace(run, cores=cores / ranks)


def difference(before: Sequence[_Json], after: Sequence[_Json]) -> list[dict[str, Any]]:
    """Summaries of what happened since, of processes and loaders that are still the same."""
    earlier = {summary.get("pid"): summary for summary in before}
    kept = []
    for summary in after:
        old = earlier.get(summary.get("pid"))
        if before and old is None:
            continue
        loaders = _loaders(old or {"loaders": []}, summary)
        if loaders:
            # Its steps are counted since its start, and cannot be held against these loaders.
            kept.append({**summary, "loaders": loaders, "optimizer": None})
    return kept


def worker_bounds(summaries: Sequence[_Json], most: int) -> WorkerBounds | None:
    """Bounds of the busiest loader of the first process; None without a loader."""
    loaders = [ld for s in summaries for ld in s["loaders"] if isinstance(ld, dict)]
    busiest = max(loaders, key=_samples, default=None)
    if busiest is None:
        return None
    gate, highest = busiest.get("gate"), busiest.get("most_workers")
    if type(gate) is int and type(highest) is int and highest > 0:
        least, highest = min(gate, 1), max(gate, min(highest, most))
        return WorkerBounds(now=gate, least=least, most=highest, baseline=_baseline(busiest))
    now = _baseline(busiest)
    return WorkerBounds(now=now, least=now, most=now, baseline=now)


def _baseline(loader: _Json) -> int:
    own = loader.get("user_num_workers")
    return own if type(own) is int and own >= 0 else 0


def _loaders(old: _Json, new: _Json) -> list[dict[str, Any]]:
    before = {ld.get("id"): ld for ld in old["loaders"] if isinstance(ld, dict)}
    kept = []
    for loader in new["loaders"]:
        if not isinstance(loader, dict):
            continue
        lately = _lately(before.get(loader.get("id")), loader)
        if lately is not None:
            kept.append({**loader, "phases": [lately]})
    return kept


def _lately(old: _Json | None, new: _Json) -> dict[str, Any] | None:
    """One phase of what came since; None: nothing, or with workers that changed meanwhile."""
    now, then = _cumulative(new), {} if old is None else _cumulative(old)
    phase = {name: now[name] - then.get(name, 0.0) for name in now if old is None or name in then}
    wall_s = phase.get("wall_s", 0.0)
    if phase.get("samples", 0) <= 0 or wall_s <= 0:
        return None
    workers = phase["workers"] / wall_s
    if abs(workers - round(workers)) > MIXED:
        return None
    return {**phase, "phase": "later", "workers": max(0.0, workers)}


def _cumulative(loader: _Json) -> dict[str, float]:
    """All phases added up; workers as worker-seconds."""
    total: dict[str, float] = {}
    for phase in loader.get("phases") or ():
        for name, value in phase.items():
            if isinstance(value, (int, float)):
                much = value * phase.get("wall_s", 0.0) if name == "workers" else value
                total[name] = total.get(name, 0.0) + much
    return total


def _samples(loader: _Json) -> float:
    return _cumulative(loader).get("samples", 0.0)
