"""What is known of sharing as a folder: one file, `slowdown.json`, with its own checksum.

It holds what was met, the jobs alone, and the kernels and widths that training chose; tables are
filled in again when it is loaded. No pickle, no arrays: numbers that a person can read.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from slurm_ext.facts.errors import ModelError
from slurm_ext.facts.sharing import Evidence, Solo
from slurm_ext.model.completion_kernel import ROLES, Kernel, Role, Trait
from slurm_ext.model.meeting import Key, Meeting, key
from slurm_ext.model.slowdown import KERNELS, ByCounters, Slowdowns, tabled
from slurm_ext.model.slowdown_counters import CountersModel
from slurm_ext.model.slowdown_counters_artifact import packed, unpacked

FORMAT = 1
FILE = "slowdown.json"
MAX_BYTES = 32 << 20
_KINDS = {True: "cpu", False: "gpu"}


@dataclass(frozen=True, slots=True)
class Artifact:
    """A loaded model; `about` is what training said of it (window, scores, runs)."""

    name: str
    about: Mapping[str, Any]
    slowdowns: Slowdowns
    kernels: Mapping[bool, Kernel]


def pack(
    known: Slowdowns, kernels: Mapping[bool, Kernel], about: Mapping[str, Any]
) -> dict[str, bytes]:
    """The files of a model, by name; the same model always gives the same bytes.

    `about` has at least `window_s`, when the first and the last run that it learnt from ended.
    """
    body: dict[str, Any] = {
        "format": FORMAT,
        "about": dict(about),
        "kernels": {_KINDS[on_cpu]: asdict(one) for on_cpu, one in kernels.items()},
        "widths": {one.name: width for one, width in sorted(known.widths.items())},
        "met": [[*at, asdict(one)] for at, one in sorted(known.met.items())],
        "solos": {name: _alone(one) for name, one in sorted(known.solos.items())},
        "counters": {_KINDS[on_cpu]: packed(one) for on_cpu, one in _models(known).items()},
        "traits": {name: asdict(one) for name, one in sorted(known.traits.items())},
    }
    body["sha256"] = _checksum(body)
    return {FILE: json.dumps(body, indent=0).encode()}


def load(folder: Path) -> Artifact:
    """The model in `folder`. Raises ModelError naming the file and what is wrong with it."""
    path = folder / FILE
    body = _body(path)
    try:
        known = Slowdowns(
            met=dict(_met(row) for row in body["met"]),
            widths={Evidence[name]: _positive(width) for name, width in body["widths"].items()},
            solos={name: Solo(key=name, **one) for name, one in body["solos"].items()},
            traits={name: _trait(one) for name, one in body["traits"].items()},
        )
        about = body["about"]
        _window(about["window_s"])
        named = {kind: on_cpu for on_cpu, kind in _KINDS.items()}
        kernels = {named[kind]: _kernel(one) for kind, one in body["kernels"].items()}
        models = {named[kind]: unpacked(one) for kind, one in body["counters"].items()}
        known = replace(known, foretell=ByCounters(models) if models else None)
        whole = tabled(known, kernels)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{path}: {error!r}; train again") from None
    return Artifact(folder.resolve().name, about, whole, {**KERNELS, **kernels})


def current(models: Path) -> Path | None:
    """The serving model's folder under `models`, or None where none was promoted."""
    link = models / "slowdown" / "current"
    return link.resolve() if link.exists() else None


def _models(known: Slowdowns) -> Mapping[bool, CountersModel]:
    return known.foretell.models if isinstance(known.foretell, ByCounters) else {}


def _window(ends: Any) -> None:
    first, last = (float(end) for end in ends)
    if not first <= last:
        raise ValueError(f"window_s = {ends!r}")


def _alone(one: Solo) -> dict[str, Any]:
    return {
        "features": dict(sorted(one.features.items())),
        "mem_bytes": one.mem_bytes,
        "gpu_mem_bytes": one.gpu_mem_bytes,
    }


def _met(row: Any) -> tuple[Key, Meeting]:
    device, job, partners, one = row
    meeting = Meeting(**one)
    if not all(isfinite(float(value)) for value in one.values()) or meeting.log_sd <= 0:
        raise ValueError(f"met {job}: {one}")
    return key(str(job), [str(name) for name in partners], str(device)), meeting


def _trait(one: Mapping[str, Any]) -> Trait:
    return replace(Trait(**one), vector=tuple(float(each) for each in one["vector"]))


def _kernel(one: Mapping[str, Any]) -> Kernel:
    parts: dict[str, Any] = {}
    for name, value in one.items():
        free = name in {"level", "device_share"}
        parts[name] = _role(value) if name in ROLES else float(value) if free else _positive(value)
    return Kernel(**parts)


def _role(one: Mapping[str, Any]) -> Role:
    role = replace(Role(**one), lengths=tuple(_positive(each) for each in one["lengths"]))
    for value in (role.family, role.own, role.vector, role.size_length):
        _positive(value)
    return role


def _positive(value: Any) -> float:
    if not 0 < float(value) < float("inf"):
        raise ValueError(f"{value!r}: expected a number above 0")
    return float(value)


def _body(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(_read(path))
        if not isinstance(body, dict) or body.pop("sha256", None) != _checksum(body):
            raise ValueError("does not match its checksum")
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: {error}; train again") from None
    if body.get("format") != FORMAT:
        raise ModelError(f"{path}: is of another version of dlqueue; train again")
    return body


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise ModelError(f"{path}: is larger than any model of dlqueue")
    return data


def _checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
