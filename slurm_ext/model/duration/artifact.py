"""A duration model as a folder: `duration.json` (plan, start, bounds) and `duration.npz`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from slurm_ext.model import artifact_store
from slurm_ext.model.duration.adaptive_bounds import AdaptiveBounds
from slurm_ext.model.duration.key_statistics import STATISTICS
from slurm_ext.model.duration.model import DurationModel
from slurm_ext.model.duration.state import FeaturePlan
from slurm_ext.model.forest_arrays import forest_from_arrays, forests_to_arrays

FOLDER = "duration"  # of the state folder's models
TYPED = "typed"  # in `about`: it has learned from jobs without what Slurm fills in
ABOUT, ARRAYS = "duration.json", "duration.npz"
SPEC = artifact_store.ArtifactSpec(
    about=ABOUT, arrays=ARRAYS, terms={"what": list(STATISTICS)}, signed=False
)
FORESTS = ("mean", "plain", "median", "low", "high")


@dataclass(frozen=True, slots=True)
class DurationArtifact:
    """A served model, the bounds that it starts with, and training's figures.

    `about` may hold `window_s`: the first submission and the last end that it learned from.
    """

    durations: DurationModel
    bounds: AdaptiveBounds
    about: Mapping[str, Any] = field(default_factory=dict)


def serialize(artifact: DurationArtifact) -> dict[str, bytes]:
    """Return the files by name; the same model always gives the same bytes."""
    model = artifact.durations
    forests = {name: getattr(model, name) for name in FORESTS}
    body = {
        "about": dict(artifact.about),
        "levels": model.plan.levels,
        "numbers": model.plan.numbers,
        "start": model.start,
        "depths": {name: forest.depth for name, forest in forests.items()},
        "bounds": {"low": artifact.bounds.low, "high": artifact.bounds.high},
    }
    return artifact_store.serialize(SPEC, body, forests_to_arrays(forests))


def load(folder: Path) -> DurationArtifact:
    """Load the model in `folder`. Raises ModelError naming the file and the fault."""
    return artifact_store.load(SPEC, folder, _artifact)


def _artifact(body: dict[str, Any], arrays: "artifact_store.Arrays") -> DurationArtifact:
    plan = FeaturePlan(
        levels=tuple(tuple(str(name) for name in level) for level in body["levels"]),
        numbers=tuple(str(name) for name in body["numbers"]),
    )
    depths, width = body["depths"], len(plan.features)
    forests = {
        name: forest_from_arrays(arrays, name, depth=int(depths[name]), width=width)
        for name in FORESTS
        if name in depths or name != "median"
    }
    forests.setdefault("median", forests["mean"])  # models of earlier releases have no other
    start, bounds = float(body["start"]), AdaptiveBounds()
    low, high = ([float(at) for at in body["bounds"][side]] for side in ("low", "high"))
    if not all(map(isfinite, (start, *low, *high))) or not len(low) == len(high) == len(bounds.low):
        raise ValueError("holds no usable start or bounds")
    bounds.low, bounds.high = low, high
    return DurationArtifact(
        DurationModel(plan, start, **forests), bounds, dict(body.get("about", {}))
    )
