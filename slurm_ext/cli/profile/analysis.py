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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from operator import itemgetter
from statistics import mean
from typing import Any

from slurm_ext.cli.profile.run_folder import ProfileRun
from slurm_ext.cli.profile.traced import SLOW, Series, collectives, traced_series
from slurm_ext.core.findings.strands import total
from slurm_ext.core.stalls.data_stall import WorkerCosts, split_wait
from slurm_ext.core.stalls.step_split import StepSplit, step_split, worker_costs
from slurm_ext.core.trainings import largest_training, trainings
from slurm_ext.probe.windows import estimate
from slurm_ext.probe.windows.estimate import EXPOSED, Figure
from slurm_ext.probe.windows.exposed import HIDDEN
from slurm_ext.probe.windows.plan import BOTH, CACHED, NORMAL, TRACED

WORTH = 0.025  # of a step: less is not advised on
_LEAST_SHARE = 0.005  # of a data stall: a smaller part of it is not named
_TRACED = "traced "  # a figure by traces, before its name
_SLOWEST = "K"  # the slowest rank's own computing beyond the mean one's
_ADVICE = {
    "fetch": "faster storage or a local copy, or more workers",
    "cores": "more cores for the workers that there are",
    "preparation": "more workers, each with a core, or cheaper preparation",
    "data": "more workers",
    "slow rank": "the rank that computes longest: its node, or its share of the data",
    "communicating": "larger or fewer gradient buckets, or a faster link",
}
_SHARDED = (  # FSDP's own options: they are advised, never set
    "prefetching (fully_shard: set_modules_to_forward_prefetch; FSDP: forward_prefetch),"
    " reshard_after_forward=False where memory allows, or a faster link"
)
_TRACE_COSTS = 0.05  # of a step: more is told
_Json = Mapping[str, Any]


def document(command: str, ended: ProfileRun) -> dict[str, Any]:
    """The answer of one run, by the deepest way that it allows."""
    entered = _by_rank(ended.windows)
    whole: dict[str, Any] = {"v": 1, "command": command, "depth": None, "how": ended.how}
    whole |= {"why_not": None, "said": "", "ranks": None, "workers": None, "steps": 0}
    whole |= {"elapsed_s": None, "ended": None, "step": None, "data": None, "hidden": None}
    whole |= {"parts": [], "au": None, "first": None, "notes": [], "windows": []}
    for name in ("saves", "files"):
        whole[name] = dict(sum((Counter(rank[name]) for rank in ended.windows), Counter()))
    series = _series(entered)
    if series and all(map(any, series.values())):
        return whole | _from_windows(entered, series, ended)
    whole["why_not"] = _why_not(ended)
    whole["said"] = ended.said if ended.how != "ended" else ""
    return whole | _in_passing(ended)


# -- L1: windows -------------------------------------------------------------------------------


def _by_rank(documents: Sequence[_Json]) -> list[_Json]:
    """The processes with windows, by their rank; all of them went through the same ones."""
    by_rank = {document["rank"]: document for document in documents if document["windows"]}
    return [by_rank[rank] for rank in sorted(by_rank)]


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


def _from_windows(entered: Sequence[_Json], series: Series, ended: ProfileRun) -> dict[str, Any]:
    first = entered[0]
    workers = max(rank["workers"] for rank in entered)
    figures = _estimates(entered, series, workers)
    step, data = figures["step"], figures["data"]
    parts = [*_parts(figures), *_data_parts(data, step, ended.summaries)]
    return {
        "depth": "L1+trace" if EXPOSED in series else "L1",
        "ranks": max(first["world"], len(entered)),
        "workers": workers,
        "steps": sum(len(steps) for windows in series.values() for steps in windows),
        "elapsed_s": max(rank["elapsed_s"] for rank in entered),
        "ended": first["ended"],
        "step": _row(step),
        "data": _row(data),
        "hidden": _row(figures["hidden"]) if "hidden" in figures else None,
        "parts": [{**part, "share": part["value"] / step.value} for part in parts],
        "au": min(1.0, 1 - data.value / step.value),
        "first": _first(parts, step, traced=EXPOSED in series),
        "notes": [*_notes(entered, figures, step), *_trace_notes(series, figures)],
        "windows": [_window(window) for window in first["windows"]],
    }


def _estimates(entered: Sequence[_Json], series: Series, workers: int) -> dict[str, Figure]:
    figures = estimate.figures_of(list(series))
    if BOTH in series and len(entered) > 1:
        series = {**series, _SLOWEST: _slowest(entered, series[BOTH])}
        figures[SLOW] = lambda means: means[_SLOWEST]
    for name in {*collectives(series), SLOW, HIDDEN} & series.keys():
        figures[_TRACED + name] = itemgetter(name)
    return estimate.estimates(series, figures, block=max(workers, 1), seed=0)


def _slowest(entered: Sequence[_Json], mean: Sequence[Sequence[float]]) -> list[list[float]]:
    """Steps of the rank that computes longest, less those of the mean rank."""
    own = [[w["steps"] for w in rank["windows"] if w["kind"] == BOTH] for rank in entered]
    longest = max((windows for windows in own if any(windows)), key=estimate.mean)
    return [
        [a - b for a, b in zip(steps, means, strict=False)]
        for steps, means in zip(longest, mean, strict=False)
    ]


def _parts(figures: Mapping[str, Figure]) -> Iterator[dict[str, Any]]:
    yield {"name": "computing", "part_of": None, **_row(figures["computing"])}
    if "communication" in figures:
        yield {"name": "communicating", "part_of": None, **_row(figures["communication"])}
    for name in (SLOW, *(name for name in sorted(figures) if name.startswith(_TRACED))):
        if name in figures and name != _TRACED + HIDDEN:
            label = name.removeprefix(_TRACED)
            yield {"name": label, "part_of": "communicating", **_row(figures[name])}
    yield {"name": "data", "part_of": None, **_row(figures["data"])}


def _data_parts(data: Figure, step: Figure, summaries: Sequence[_Json]) -> Iterator[dict[str, Any]]:
    """Parts of the data stall; nothing where it is none, or its costs are not known."""
    costs = batch_costs(summaries)
    if costs is None or data.low <= 0:
        return
    shares = split_wait(data.value, step.value - data.value, costs)
    for name, value in asdict(shares).items():
        share = value / data.value
        if share >= _LEAST_SHARE:
            row = {"value": value, "low": share * data.low, "high": share * data.high}
            yield {"name": name.removesuffix("_s"), "part_of": "data", **row}


def batch_costs(summaries: Sequence[_Json]) -> WorkerCosts | None:
    """Workers' seconds for a batch of the job's training, mean of its ranks; None: not measured."""
    first = largest_training(summaries)
    loaders = [loader for _, loader in first.members if total(loader, "batches")] if first else []
    costs_by_loader = [
        worker_costs(loader, total(loader, "samples") / total(loader, "batches"))
        for loader in loaders
    ]
    if not costs_by_loader or not any(
        cost.cpu_s + cost.queued_s + cost.blocked_s for cost in costs_by_loader
    ):
        return None
    means = {
        name: mean(getattr(cost, name) for cost in costs_by_loader)
        for name in asdict(costs_by_loader[0])
    }
    return WorkerCosts(**means)


def _row(figure: Figure) -> dict[str, float]:
    return {"value": figure.value, "low": figure.low, "high": figure.high}


def _first(parts: Sequence[dict[str, Any]], step: Figure, *, traced: bool) -> dict[str, Any] | None:
    """The largest part that surely is, and that something can be done about."""
    divided = {part["part_of"] for part in parts} - {"communicating"}
    worth = [
        part
        for part in parts
        if part["name"] in _ADVICE
        and part["name"] not in divided
        and part["low"] > 0
        and part["value"] >= WORTH * step.value
    ]
    if not worth:
        return None
    largest = max(worth, key=lambda part: float(part["value"]))
    wording = {**_ADVICE, "communicating": _SHARDED} if traced else _ADVICE
    return {"name": largest["name"], "seconds": largest["value"], "do": wording[largest["name"]]}


def _notes(entered: Sequence[_Json], figures: Mapping[str, Figure], step: Figure) -> Iterator[str]:
    if "hidden" in figures:
        hidden = figures["hidden"]
        if hidden.low > 0 and hidden.value >= WORTH * step.value:
            yield (
                f"fixing the data would uncover {1e3 * hidden.value:.3g} ms of communication"
                f" ({1e3 * hidden.low:.3g} to {1e3 * hidden.high:.3g}), hidden behind the wait now"
            )
    elif entered[0]["world"] > 1 and entered[0]["no_sync"] and "communication" not in figures:
        yield f"communication is not told apart: {entered[0]['no_sync']}"
        yield from sorted({rank["no_trace"] for rank in entered if rank.get("no_trace")})
    missing = entered[0]["world"] - len(entered)
    if missing > 0:
        yield f"{missing} of {entered[0]['world']} ranks left no windows: means are of the others"
    for fault in sorted({fault for rank in entered for fault in rank["faults"]}):
        yield f"the profile itself failed: {fault}"


def _trace_notes(series: Series, figures: Mapping[str, Figure]) -> Iterator[str]:
    """Communication that computing hides, and what the profiler itself cost."""
    if EXPOSED not in series:
        return
    hidden = figures[_TRACED + HIDDEN].value
    yield f"{1e3 * hidden:.3g} ms of communication a step lie behind computing and cost nothing"
    slower = estimate.mean(series[TRACED]) / estimate.mean(series[CACHED]) - 1
    if slower > _TRACE_COSTS:
        yield f"traced steps took {slower:.0%} longer: computing may hide more without the trace"


def _window(window: _Json) -> dict[str, Any]:
    steps = window["steps"]
    average = sum(steps) / len(steps) if steps else None
    return {"kind": window["kind"], "at_s": window["at_s"], "mean_s": average, "steps": len(steps)}


# -- L0: in passing ----------------------------------------------------------------------------


def _in_passing(ended: ProfileRun) -> dict[str, Any]:
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


def _why_not(ended: ProfileRun) -> str:
    """Return the reason of the process that came furthest."""
    if not ended.windows:
        return "no Python process with torch ran under the probe (PYTHONPATH was replaced?)"
    furthest = max(ended.windows, key=lambda window: int(window["requests"]))
    return str(furthest["why_not"] or "every window had a validation in it")


KINDS = {
    NORMAL: "normal",
    CACHED: "cached batches",
    "S": "without gradient sync",
    BOTH: "both",
    TRACED: "cached batches, traced",
}
