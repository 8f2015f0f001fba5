"""Loaders of one process that train one after the other, in turns, side by side, or zipped.

Pure. A strand is what one training of a process reads: its largest loader first, and those that
it was fed from besides (the same data in batches of another size, another task's data in turn).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

FEWEST_STEPS = 20  # of a process that is judged
FED = 0.8  # of its steps, made with batches that its loaders had just handed out
AT_ONCE = 1.2  # of the process's time: loaders that add up to more ran together
ALONE = 0.5  # of a loader's steps, made without another loader's batch

_Json = Mapping[str, Any]


def training_phases(loader: _Json) -> Sequence[_Json]:
    """A loader's phases with steps, where there is any such; else all of them."""
    phases: Sequence[_Json] = loader["phases"]
    return [phase for phase in phases if phase.get("steps")] or phases


def total(loader: _Json, name: str) -> float:
    """Sum of a figure over a loader's phases: those with steps, where there is any such."""
    return float(sum([phase.get(name) or 0 for phase in training_phases(loader)]))


def wall_s(loader: _Json) -> float:
    """Wall time of a loader's passes, with the starts of its workers and the making of its data."""
    made_s = total(loader, "wall_s") + total(loader, "gathered_s")
    return made_s + (loader.get("startup_s") or 0.0)


class Strand(NamedTuple):
    """One training of a process: what it reads, with the weight of its largest loader."""

    stepped: bool
    samples: float
    loaders: list[_Json]


def strands(summary: _Json) -> list[Strand]:
    """The loaders of a process that delivered anything: those that steps used, then the largest.

    None where most steps were made with batches kept from before: their rate is no loader's.
    """
    if _fed_from_memory(summary):
        return []
    weighed = [
        Strand(total(loader, "steps") > 0, samples, [loader])
        for loader in summary.get("loaders") or ()
        if (samples := total(loader, "samples")) > 0
    ]
    weighed.sort(key=lambda strand: strand[:2], reverse=True)
    training = [strand.loaders[0] for strand in weighed if strand.stepped]
    if len(training) > 1 and at_once(summary, training):
        return [weighed[0]._replace(loaders=_beside(training))]
    return _by_model(weighed) if len(training) > 1 else weighed


def _fed_from_memory(summary: _Json) -> bool:
    steps = (summary.get("optimizer") or {}).get("steps") or 0
    loaders = summary.get("loaders") or ()
    phases = [p for loader in loaders for p in loader["phases"] if p.get("steps") is not None]
    passes = sum([p.get("epochs") or 0 for p in phases])
    counted = sum([p["steps"] for p in phases])
    return bool(phases) and steps >= FEWEST_STEPS and counted + passes < FED * steps


def _by_model(weighed: list[Strand]) -> list[Strand]:
    by_model: list[Strand] = []
    for strand in weighed:
        same = (other for other in by_model if _one_model(other.loaders[0], strand.loaders[0]))
        other = next(same, None)
        by_model.append(strand) if other is None else other.loaders.extend(strand.loaders)
    return by_model


def seconds(summary: _Json, strand: Sequence[_Json]) -> float:
    """Time that a strand took: all of its loaders', or the longest's if they ran together."""
    walls = [wall_s(loader) for loader in strand]
    return max(walls) if len(walls) > 1 and at_once(summary, strand) else sum(walls)


def at_once(summary: _Json, loaders: Sequence[_Json]) -> bool:
    """Return True if these loaders of a process cannot have run one after the other."""
    lived_s = (summary.get("ended_s") or 0.0) - (summary.get("started_s") or 0.0)
    if any(total(loader, "steps") for loader in loaders):
        lived_s -= sum([total(loader, "wall_s") for loader in _evaluating(summary, loaders)])
    return 0 < AT_ONCE * lived_s < sum([total(loader, "wall_s") for loader in loaders])


def _evaluating(summary: _Json, loaders: Sequence[_Json]) -> list[_Json]:
    """Loaders without a step, whose time is not that of those which train."""
    others = [
        loader for loader in summary.get("loaders") or () if all(loader is not ld for ld in loaders)
    ]
    return [loader for loader in others if not total(loader, "steps")]


def _beside(training: Sequence[_Json]) -> list[_Json]:
    """Of loaders that run together, those that count: of zipped ones the largest alone."""
    alone = [loader for loader in training if _steps_alone(loader)]
    return alone if alone and alone[0] is training[0] else [training[0]]


def _steps_alone(loader: _Json) -> bool:
    """True if its steps took no other loader's batch; an older probe did not tell."""
    phases = training_phases(loader)
    if any(phase.get("shared_steps") is None for phase in phases):
        return False
    return total(loader, "shared_steps") < ALONE * total(loader, "steps")


def _one_model(one: _Json, other: _Json) -> bool:
    """True if one model was stepped with both loaders' batches, of one dataset, one at a time."""
    same = all(one.get(name) == other.get(name) for name in ("model", "dataset", "style"))
    return same and one.get("model") is not None and _steps_alone(one) and _steps_alone(other)
