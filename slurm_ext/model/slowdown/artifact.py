"""A slowdown model as a folder: one file, `slowdown.json`, with its own checksum.

It holds the measured pairs, the jobs alone, and the kernels and widths that training chose; tables
are computed again when it is loaded. No pickle, no arrays: numbers that a person can read.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from slurm_ext.core.gpu_sharing import SoloProfile, SpeedBasis
from slurm_ext.model import artifact_store
from slurm_ext.model.slowdown.completion_kernel import ROLES, CompletionKernel, JobTraits, Role
from slurm_ext.model.slowdown.counter_artifact import from_json, to_json
from slurm_ext.model.slowdown.counter_model import CounterModel
from slurm_ext.model.slowdown.model import KERNELS, CounterModels, SlowdownModel, with_tables
from slurm_ext.model.slowdown.pair_measurement import PairKey, PairStats, key

FOLDER = "slowdown"  # of the state folder's models
FILE = "slowdown.json"
SPEC = artifact_store.ArtifactSpec(about=FILE)
_KINDS = {True: "cpu", False: "gpu"}


@dataclass(frozen=True, slots=True)
class SlowdownArtifact(artifact_store.Artifact):
    """A loaded model with the kernels of its tables."""

    slowdowns: SlowdownModel
    kernels: Mapping[bool, CompletionKernel]


def serialize(
    model: SlowdownModel, kernels: Mapping[bool, CompletionKernel], about: Mapping[str, Any]
) -> dict[str, bytes]:
    """Return the files of a model by name; the same model always gives the same bytes.

    `about` has at least `window_s`: ends of the first and the last run that it learned from.
    """
    body = {
        "about": dict(about),
        "kernels": {_KINDS[on_cpu]: asdict(kernel) for on_cpu, kernel in kernels.items()},
        "widths": {column.name: width for column, width in sorted(model.widths.items())},
        "met": [[*at, asdict(stats)] for at, stats in sorted(model.met.items())],
        "solos": {name: _alone(solo) for name, solo in sorted(model.solos.items())},
        "counters": {
            _KINDS[on_cpu]: to_json(counters) for on_cpu, counters in _models(model).items()
        },
        "traits": {name: asdict(trait) for name, trait in sorted(model.traits.items())},
    }
    return artifact_store.serialize(SPEC, body)


def load(folder: Path) -> SlowdownArtifact:
    """Load the model in `folder`. Raises ModelError naming the file and the fault."""
    artifact = artifact_store.load(SPEC, folder, _artifact)
    return replace(artifact, name=folder.resolve().name)


def _artifact(body: Mapping[str, Any], _: object) -> SlowdownArtifact:
    about = body["about"]
    _window(about["window_s"])
    named = {kind: on_cpu for on_cpu, kind in _KINDS.items()}
    kernels = {named[kind]: _kernel(kernel) for kind, kernel in body["kernels"].items()}
    models = {named[kind]: from_json(model) for kind, model in body["counters"].items()}
    slowdowns = SlowdownModel(
        met=dict(_met(row) for row in body["met"]),
        widths={
            SpeedBasis[name]: artifact_store.positive(width)
            for name, width in body["widths"].items()
        },
        solos={name: SoloProfile(key=name, **solo) for name, solo in body["solos"].items()},
        traits={name: _trait(trait) for name, trait in body["traits"].items()},
        by_counters=CounterModels(models) if models else None,
    )
    return SlowdownArtifact("", about, with_tables(slowdowns, kernels), {**KERNELS, **kernels})


def _models(model: SlowdownModel) -> Mapping[bool, CounterModel]:
    return model.by_counters.models if isinstance(model.by_counters, CounterModels) else {}


def _window(ends: Any) -> None:
    first, last = (float(end) for end in ends)
    if not first <= last:
        raise ValueError(f"window_s = {ends!r}")


def _alone(solo: SoloProfile) -> dict[str, Any]:
    return {
        "features": dict(sorted(solo.features.items())),
        "mem_bytes": solo.mem_bytes,
        "gpu_mem_bytes": solo.gpu_mem_bytes,
    }


def _met(row: Any) -> tuple[PairKey, PairStats]:
    device, job, partners, stats = row
    meeting = PairStats(**stats)
    if not all(isfinite(float(value)) for value in stats.values()) or meeting.log_sd <= 0:
        raise ValueError(f"met {job}: {stats}")
    return key(str(job), [str(name) for name in partners], str(device)), meeting


def _trait(trait: Mapping[str, Any]) -> JobTraits:
    return replace(JobTraits(**trait), vector=tuple(float(value) for value in trait["vector"]))


def _kernel(kernel: Mapping[str, Any]) -> CompletionKernel:
    parts: dict[str, Any] = {}
    for name, value in kernel.items():
        free = name in {"level", "device_share"}
        parts[name] = (
            _role(value)
            if name in ROLES
            else float(value)
            if free
            else artifact_store.positive(value)
        )
    return CompletionKernel(**parts)


def _role(one: Mapping[str, Any]) -> Role:
    role = replace(
        Role(**one), lengths=tuple(artifact_store.positive(length) for length in one["lengths"])
    )
    for value in (role.family, role.own, role.vector, role.size_length):
        artifact_store.positive(value)
    return role
