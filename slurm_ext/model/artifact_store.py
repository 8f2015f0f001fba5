"""A model as a folder: a JSON file and, for some kinds, arrays (no pickle).

Every kind of model is written by `serialize` and read by `read`. The JSON holds the version of its
kind, the terms that its numbers are about, and the checksums of the arrays and of itself. numpy is
imported only where there are arrays.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from slurm_ext.core.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[np.float64]]

AGAIN = "train again"
Model = TypeVar("Model")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactSpec:
    """Layout of one kind of model in its folder.

    `terms` must be the same in the JSON: a model over other terms would answer nonsense.
    `signed` is False for kinds whose first releases wrote the JSON without its own checksum.
    """

    about: str
    arrays: str | None = None
    terms: Mapping[str, Any] = field(default_factory=dict)
    arrays_sum: str = "arrays_sha256"
    signed: bool = True
    version: int = 1
    most_bytes: int = 64 << 20  # of each file


@dataclass(frozen=True, slots=True)
class Artifact:
    """A model read from its folder: the folder's name, and training's figures."""

    name: str
    about: Mapping[str, Any]


def serialize(
    spec: ArtifactSpec,
    body: Mapping[str, Any],
    arrays: "Mapping[str, NDArray[Any]] | None" = None,
) -> dict[str, bytes]:
    """Return the files by name; the same numbers always give the same bytes."""
    whole = {"format": spec.version, **spec.terms, **body}
    files = {}
    if spec.arrays is not None:
        files[spec.arrays] = _zipped(arrays or {})
        whole[spec.arrays_sum] = hashlib.sha256(files[spec.arrays]).hexdigest()
    whole["sha256"] = _checksum(whole)
    return {spec.about: json.dumps(whole, indent=1).encode(), **files}


def read(spec: ArtifactSpec, folder: Path) -> tuple[dict[str, Any], "Arrays"]:
    """Read JSON and arrays and check both. Raises ModelError naming the file at fault."""
    body = _body(spec, folder / spec.about)
    if spec.arrays is None:
        return body, {}
    path = folder / spec.arrays
    data = _bytes(path, spec.most_bytes)
    if hashlib.sha256(data).hexdigest() != body.get(spec.arrays_sum):
        raise ModelError(f"{path}: does not match its checksum; {AGAIN}")
    return body, _arrays(path, data)


def load(
    spec: ArtifactSpec, folder: Path, build: "Callable[[dict[str, Any], Arrays], Model]"
) -> "Model":
    """Read a folder and build its model. Raises ModelError naming the file and the fault."""
    body, arrays = read(spec, folder)
    with naming_file(folder / spec.about):
        return build(body, arrays)


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Turn errors of building a model from a file into a ModelError that names `path`."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    except KeyError as error:
        raise ModelError(f"{path}: holds no {error}; {AGAIN}") from None
    except (ArithmeticError, AttributeError, IndexError, TypeError, ValueError) as error:
        raise ModelError(f"{path}: {error}; {AGAIN}") from None


def positive(value: Any) -> float:
    """Return a finite number above 0. Raises ValueError, or TypeError if it is no number."""
    if not 0 < float(value) < inf:
        raise ValueError(f"{value!r}: expected a number above 0")
    return float(value)


def current(models: Path) -> Path | None:
    """Folder of the serving model among `models`; None if none was promoted.

    Raises ModelError if the folder may not be entered.
    """
    link = models / "current"
    try:
        return link.resolve(strict=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, RuntimeError) as error:  # no permission, or links in a circle
        raise ModelError(f"{link}: cannot be read: {error}") from None


def _body(spec: ArtifactSpec, path: Path) -> dict[str, Any]:
    try:
        body = json.loads(_bytes(path, spec.most_bytes))
        if not isinstance(body, dict):
            raise ValueError("is no model")
        if body.get("format") != spec.version:
            raise ValueError(f"is of another version of dlqueue, format {body.get('format')!r}")
        signature = body.pop("sha256", None)
        if signature != _checksum(body) and (spec.signed or signature is not None):
            raise ValueError("does not match its checksum")
        if strange := [name for name, terms in spec.terms.items() if body.get(name) != terms]:
            raise ValueError(f"is of another version of dlqueue, with other {', '.join(strange)}")
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: {error}; {AGAIN}") from None
    return body


def _bytes(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > most:
        raise ModelError(f"{path}: is larger than any model of dlqueue")
    return data


def _zipped(arrays: "Mapping[str, NDArray[Any]]") -> bytes:
    import numpy as np

    out = io.BytesIO()
    np.savez(out, **{name: arrays[name] for name in sorted(arrays)})  # type: ignore[arg-type]  # numpy's stub confuses ** with allow_pickle
    return out.getvalue()


def _arrays(path: Path, data: bytes) -> "Arrays":
    import numpy as np

    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return {name: np.asarray(archive[name], dtype=np.float64) for name in archive.files}
    except (AttributeError, TypeError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise ModelError(f"{path}: is not an archive of arrays: {error}; {AGAIN}") from None


def _checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
