"""One bar of a run's step: computing, communicating, and every kind of waiting."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

WIDTH = 60  # letters of a bar
LEAST = 0.005  # of the step: a smaller part has no words
SKEWED = 0.05  # of the step: ranks that differ by less are alike
LINE = 80
_START = itemgetter("job_id", "restart")
# Part: its letter in the bar, and its words.
WORDS = {
    "computing": ("C", "computing"),
    "communicating": ("X", "communicating"),
    "slow_rank": ("R", "waiting for a slower rank"),
    "fetch": ("F", "waiting for data: fetching"),
    "preparation": ("P", "waiting for data: preparing"),
    "cores": ("Q", "waiting for data: no core"),
    "starting": ("S", "waiting for data: starting workers"),
    "crowded": ("q", "computing: no core"),
    "other": (".", "other"),
}


def stalls_of(runs: Sequence[Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
    """Parts of the step by the run's id: `{step_s, parts, au, rank_skew_s, slow_rank, ranks}`.

    Seconds of a batch. Ranks of all nodes of one start of a job are looked at together; a run whose
    summaries were not kept has the parts of its own node's ranks.
    """
    by_rank: dict[int, dict[str, Any]] = {}
    for start in dict.fromkeys(map(_START, runs)):
        nodes = [run for run in runs if _START(run) == start]
        together = _together([summary for run in nodes for summary in _summaries(run)])
        for run in nodes:
            stalls = together if _summaries(run) else _kept(run.get("split"))
            if stalls is not None:
                by_rank[run["id"]] = stalls
    return by_rank


def stalls_of_summaries(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The same of processes that ran together."""
    return _together(summaries)


def _together(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    from slurm_ext.core.stalls.step_split import step_split

    split = step_split(summaries)
    if split is None:
        return None
    more = {name: getattr(split, name) for name in ("au", "rank_skew_s", "slow_rank", "ranks")}
    return {"step_s": split.step_s, "parts": split.parts, **more}


def _summaries(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    from slurm_ext.node.record.reader import leave_out_faulty

    probe = run.get("probe")
    if not isinstance(probe, dict) or not probe.get("summaries"):
        return []
    leave_out_faulty(probe)
    return list(probe["summaries"])


def _kept(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if row is None:
        return None
    parts = {name: row[f"{name}_s"] or 0.0 for name in WORDS}
    more = {name: row[name] for name in ("au", "rank_skew_s", "slow_rank", "ranks")}
    return {"step_s": sum(parts.values()), "parts": parts, **more}


def lines(stalls: Mapping[str, Any]) -> Iterator[str]:
    """For people: the bar, its parts in words, and the rank that is slower than the others."""
    step_s, parts = stalls["step_s"], stalls["parts"]
    if step_s <= 0:
        return
    yield f"step:     {_seconds(step_s)} a batch, AU {stalls['au']:.0%}"
    yield f"          [{bar(parts)}]"
    words = [
        f"{WORDS[name][0]} {WORDS[name][1]} {_seconds(seconds)} ({seconds / step_s:.0%})"
        for name, seconds in parts.items()
        if seconds >= LEAST * step_s
    ]
    for line in textwrap.wrap("; ".join(words), LINE):
        yield f"          {line}"
    skew_s = stalls["rank_skew_s"]
    if skew_s is not None and skew_s >= SKEWED * step_s:
        slow = f"rank {stalls['slow_rank']} computes {_seconds(skew_s)} longer"
        yield f"ranks:    {slow} than the middle one of {stalls['ranks']}"


def bar(parts: Mapping[str, float], width: int = WIDTH) -> str:
    """Letters of the parts, as many as their share of the step, `width` in all."""
    whole = sum(parts.values())
    cells, reached = "", 0.0
    for name, seconds in parts.items():
        reached += seconds
        cells += WORDS[name][0] * (round(width * reached / whole) - len(cells))
    return cells


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
