"""The depth L1: parts of a step by windows that its ranks went through, with intervals. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from operator import itemgetter
from statistics import mean
from typing import Any

from slurm_ext.cli.profile.first import WORTH, first_advice
from slurm_ext.cli.profile.run_folder import ProfileRun
from slurm_ext.cli.profile.traced import SLOW, Series, collectives
from slurm_ext.core.findings.strands import total
from slurm_ext.core.stalls.data_stall import WorkerCosts, split_wait
from slurm_ext.core.stalls.step_split import worker_costs
from slurm_ext.core.trainings import largest_training
from slurm_ext.probe.windows import estimate
from slurm_ext.probe.windows.estimate import EXPOSED, Figure
from slurm_ext.probe.windows.exposed import HIDDEN
from slurm_ext.probe.windows.plan import BOTH, CACHED, TRACED

_LEAST_SHARE = 0.005  # of a data stall: a smaller part of it is not named
_TRACED = "traced "  # a figure by traces, before its name
_SLOWEST = "K"  # the slowest rank's own computing beyond the mean one's
_TRACE_COSTS = 0.05  # of a step: more is told
_Json = Mapping[str, Any]


def from_windows(entered: Sequence[_Json], series: Series, ended: ProfileRun) -> dict[str, Any]:
    """Fields of the document that windows tell; `entered`: by rank, `series`: steps by kind."""
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
        "first": first_advice(parts, step, traced=EXPOSED in series),
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
