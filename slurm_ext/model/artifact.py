"""The fitted prior as a folder: `model.json` (what it is) and `weights.npz` (no pickle).

    features → tanh layer → mean and log sd of log G, log f, log u, in the targets' own scale

`model.json` holds the checksum of the weights and of itself. numpy is imported when the first
number is asked for: whoever only asks whether there is a model does not pay for it.
"""

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_ext.facts.errors import ModelError
from slurm_ext.model.estimate import Prior
from slurm_ext.model.features import NAMES, WIDTH, Known, features
from slurm_ext.model.lesson import Belief

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FORMAT = 1
TARGETS = ("log_accel_samples_per_s", "log_fetch_wall_s", "log_fetch_cpu_s")
LOG_SD_RANGE = (-4.0, 3.0)  # of a standardised target: nothing is surer or vaguer than this
MAX_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Artifact:
    """A loaded prior: `about` is model.json, `weights` the arrays by name."""

    name: str
    about: Mapping[str, Any]
    weights: Mapping[str, "Array"]

    def prior(self, known: Known) -> Prior:
        """Beliefs about a job of which only these facts are known."""
        import numpy as np

        row = np.zeros((1, WIDTH))
        for slot, value in features(known).items():
            row[0, slot] = value
        means, sds = forward(self.weights, row)
        beliefs = [
            Belief(float(mean), float(sd)) for mean, sd in zip(means[0], sds[0], strict=True)
        ]
        return Prior(accel=beliefs[0], wall=beliefs[1], cpu=beliefs[2])


def forward(weights: Mapping[str, "Array"], rows: "Array") -> tuple["Array", "Array"]:
    """Means and standard deviations of TARGETS (columns) for `rows` of features."""
    import numpy as np

    hidden = np.tanh(rows @ weights["w1"] + weights["b1"])
    out = hidden @ weights["w2"] + weights["b2"]
    half = len(TARGETS)
    sds = np.exp(np.clip(out[:, half:], *LOG_SD_RANGE))
    scale = weights["scale"]
    return weights["shift"] + out[:, :half] * scale, sds * scale * weights["widen"]


def shapes(hidden: int) -> dict[str, tuple[int, ...]]:
    """The arrays of a prior with so many hidden units."""
    targets = len(TARGETS)
    vectors = dict.fromkeys(("shift", "scale", "widen"), (targets,))
    matrices = {"w1": (WIDTH, hidden), "b1": (hidden,), "w2": (hidden, 2 * targets)}
    return {**matrices, "b2": (2 * targets,), **vectors}


def pack(about: Mapping[str, Any], weights: Mapping[str, "Array"]) -> dict[str, bytes]:
    """The files of an artifact, by name; the same numbers always give the same bytes."""
    import numpy as np

    out = io.BytesIO()
    np.savez(out, **{name: weights[name] for name in sorted(weights)})  # type: ignore[arg-type]  # numpy's stub confuses ** with allow_pickle
    arrays = out.getvalue()
    body = {
        "format": FORMAT,
        "features": list(NAMES),
        "targets": list(TARGETS),
        **about,
        "weights_sha256": hashlib.sha256(arrays).hexdigest(),
    }
    body["sha256"] = _checksum(body)
    return {"model.json": json.dumps(body, indent=1).encode(), "weights.npz": arrays}


def load(folder: Path) -> Artifact:
    """The artifact in `folder`. Raises ModelError naming the file and what is wrong with it."""
    about = _about(folder / "model.json")
    arrays = _read(folder / "weights.npz")
    if hashlib.sha256(arrays).hexdigest() != about["weights_sha256"]:
        raise ModelError(f"{folder / 'weights.npz'}: does not match its checksum; train again")
    return Artifact(folder.resolve().name, about, _arrays(folder / "weights.npz", arrays))


def current(models: Path) -> Path | None:
    """The serving artifact's folder under `models`, or None where none was promoted."""
    link = models / "current"
    return link.resolve() if link.exists() else None


def _about(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(_read(path))
        if not isinstance(body, dict) or body.pop("sha256", None) != _checksum(body):
            raise ValueError("does not match its checksum")
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: {error}; train again") from None
    if body.get("format") != FORMAT or body.get("features") != list(NAMES):
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


def _arrays(path: Path, data: bytes) -> dict[str, "Array"]:
    import zipfile

    import numpy as np

    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: np.asarray(archive[name], dtype=np.float64) for name in archive.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise ModelError(f"{path}: is not an archive of arrays: {error}") from None
    wanted = shapes(len(arrays["b1"]) if arrays.get("b1") is not None else 0)
    if {name: array.shape for name, array in arrays.items()} != wanted:
        raise ModelError(f"{path}: holds other arrays than a prior has")
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise ModelError(f"{path}: holds numbers that are not finite")
    return arrays


def _checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
