"""Data loaders whose throughput curve says nothing about other numbers of CPUs and workers.

`clocks_disagree(summary, loader)` tells a run whose loader does not set the pace of its steps: it
was read ahead into memory, or read for something else besides. What ordinary programs do is
agreement: gradients added up over k batches, several optimisers, steps that GradScaler leaves out,
a slow first batch, validations and checkpoints between two passes.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any

from slurm_ext.core.findings.loader_refusal import read_by_a_thread
from slurm_ext.core.findings.strands import at_once, total, wall_s

_Json = Mapping[str, Any]

AS_LARGE = 0.5  # of the training loader's samples; a smaller loader is for validation
A_PART = 0.1  # of its samples; fewer are left by a change in the last moments
MOST_APART = 0.05
FEWEST_STEPS = 20  # of a training that is judged
WAITING = 2  # steps to come at a pass's end: a batch read ahead, gradients added up until then
LEFT_OUT = 16  # steps that GradScaler leaves out until it has found its scale


class UnsupportedLoader(IntEnum):
    """Reason to ignore a run's curve; histories hold the values."""

    ITERABLE = 1
    TWO_LOADERS = 2
    BATCH_CHANGED = 3
    CLOCKS_DISAGREE = 4
    READ_BY_A_THREAD = 5


CLAUSES: Mapping[int, str] = MappingProxyType(
    {
        UnsupportedLoader.ITERABLE: "its dataset is iterable: "
        "each worker would read all of it again",
        UnsupportedLoader.TWO_LOADERS: "it trains from two loaders at once: "
        "neither's curve is the job's",
        UnsupportedLoader.BATCH_CHANGED: "its batch size changed half-way: "
        "its runs have no one curve",
        UnsupportedLoader.CLOCKS_DISAGREE: "its steps do not follow its data loader: "
        "how fast it reads is not how fast it trains",
        UnsupportedLoader.READ_BY_A_THREAD: "a thread of its own reads its data loader: "
        "how long that one waits is not how long the training waits",
    }
)
"""The reason as a user reads it, after `left as it is:`."""


def unsupported_loader(summary: _Json, training: _Json) -> UnsupportedLoader | None:
    """Return the reason to ignore the curve of a process's training loader, or None."""
    if training.get("style") == "iterable":
        return UnsupportedLoader.ITERABLE
    if read_by_a_thread(training):
        return UnsupportedLoader.READ_BY_A_THREAD
    others = [other for other in summary.get("loaders") or () if other is not training]
    if any(_same_data(other, training) for other in others if _trains(other, training)):
        return UnsupportedLoader.BATCH_CHANGED
    large = [other for other in others if _samples(other) >= AS_LARGE * _samples(training)]
    if large and at_once(summary, [training, *large]):
        return UnsupportedLoader.TWO_LOADERS
    return UnsupportedLoader.CLOCKS_DISAGREE if clocks_disagree(summary, training) else None


def _trains(other: _Json, training: _Json) -> bool:
    """False for a loader that only evaluates: no step of an optimiser followed its batches."""
    return not total(training, "steps") or total(other, "steps") > 0


def _same_data(other: _Json, training: _Json) -> bool:
    """True if both loaders read one dataset, in batches of two sizes."""
    same = all(other.get(name) == training.get(name) for name in ("dataset", "length", "style"))
    sizes = {other.get("batch_size"), training.get("batch_size")}
    return same and len(sizes) == 2 and _samples(other) >= A_PART * _samples(training)


def _samples(loader: _Json) -> float:
    return total(loader, "samples")


def clocks_disagree(summary: _Json, training: _Json) -> bool:
    """Return True if the steps of a process were not made with its training loader's batches."""
    clock = summary.get("optimizer") or {}
    steps, seconds = clock.get("steps") or 0, clock.get("wall_s") or 0.0
    own, batches = total(training, "steps"), total(training, "batches")
    if steps < FEWEST_STEPS or _made_without_batches(summary, steps):
        return bool(steps >= FEWEST_STEPS)
    return own >= FEWEST_STEPS and (
        not (_even(batches, own) or _even(batches, steps))
        or _too_short(training, seconds)
        or (batches < (1 - MOST_APART) * steps and _too_long(summary, seconds))
    )


def _made_without_batches(summary: _Json, steps: float) -> bool:
    """True for steps after a pass had ended, unless its last batches were waiting for them."""
    phases = [p for loader in summary["loaders"] for p in loader["phases"] if "steps" in p]
    counted, passes = (sum([p.get(name) or 0 for p in phases]) for name in ("steps", "epochs"))
    return bool(phases and steps > (1 + MOST_APART) * counted + WAITING * passes)


def _even(batches: float, steps: float) -> bool:
    """True for a whole number of batches to a step, or of steps to a batch."""
    if batches >= steps:
        missing = batches / max(1, round(batches / steps)) - steps
        return -MOST_APART * steps <= missing <= max(MOST_APART * steps, LEFT_OUT)
    mean = steps / batches
    return abs(mean - round(mean)) <= MOST_APART * mean


def _too_short(training: _Json, seconds: float) -> bool:
    """True if the later epochs, which begin after the first step, took longer than all steps."""
    phases = {phase["phase"]: phase for phase in training["phases"]}
    first, later = phases.get("first_epoch"), phases.get("later")
    if not (first and later and first.get("steps")):
        return False
    return bool(seconds < (1 - MOST_APART) * (later.get("wall_s") or 0.0))


def _too_long(summary: _Json, seconds: float) -> bool:
    """True if the steps took longer than all loaders were read for."""
    read_s = sum([wall_s(loader) for loader in summary["loaders"]])
    return bool(seconds > (1 + MOST_APART) * read_s + 1)
