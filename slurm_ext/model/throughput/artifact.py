"""The fitted prior as a folder: `model.json` (what it is) and `weights.npz` (no pickle).

    features → tanh layer → mean and log sd of log G, log f, log u, in the targets' own scale

numpy is imported with the first prediction: a check for a model does not pay for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_ext.core.errors import ModelError
from slurm_ext.model.artifact_store import AGAIN, Artifact, ArtifactSpec, read
from slurm_ext.model.artifact_store import serialize as packed
from slurm_ext.model.throughput.estimate import Prior
from slurm_ext.model.throughput.features import NAMES, WIDTH, PriorInput, features
from slurm_ext.model.throughput.inversion import LogNormal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

TARGETS = ("log_accel_samples_per_s", "log_fetch_wall_s", "log_fetch_cpu_s")
LOG_SD_RANGE = (-4.0, 3.0)  # of a standardised target: no prediction is surer or vaguer
SPEC = ArtifactSpec(
    about="model.json",
    arrays="weights.npz",
    arrays_sum="weights_sha256",
    terms={"features": list(NAMES), "targets": list(TARGETS)},
    most_bytes=16 << 20,
)


@dataclass(frozen=True, slots=True)
class PriorArtifact(Artifact):
    """A loaded prior: `about` is model.json, `weights` the arrays by name."""

    weights: Mapping[str, "Array"]

    def prior(self, inputs: PriorInput) -> Prior:
        """Predict a job of which only these facts are known."""
        import numpy as np

        row = np.zeros((1, WIDTH))
        for slot, value in features(inputs).items():
            row[0, slot] = value
        means, sds = forward(self.weights, row)
        parameters = [
            LogNormal(float(mean), float(sd)) for mean, sd in zip(means[0], sds[0], strict=True)
        ]
        return Prior(accel=parameters[0], wall=parameters[1], cpu=parameters[2])


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


def serialize(about: Mapping[str, Any], weights: Mapping[str, "Array"]) -> dict[str, bytes]:
    """Return the files by name; the same numbers always give the same bytes."""
    return packed(SPEC, about, weights)


def load(folder: Path) -> PriorArtifact:
    """Load the artifact in `folder`. Raises ModelError naming the file and the fault."""
    about, arrays = read(SPEC, folder)
    return PriorArtifact(folder.resolve().name, about, _weights(folder / "weights.npz", arrays))


def _weights(path: Path, arrays: Mapping[str, "Array"]) -> Mapping[str, "Array"]:
    """Return the arrays if they are those of a prior. Raises ModelError."""
    import numpy as np

    hidden = arrays.get("b1")
    wanted = shapes(0 if hidden is None else hidden.size)
    if {name: array.shape for name, array in arrays.items()} != wanted:
        raise ModelError(f"{path}: holds other arrays than a prior has; {AGAIN}")
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise ModelError(f"{path}: holds numbers that are not finite; {AGAIN}")
    return arrays
