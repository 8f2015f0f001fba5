"""Gavel's PyTorch pairs: one table a GPU (MIT licence, Stanford FutureData)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite, log2
from pathlib import Path

from contrib.bench.colocation.tables import Cells, positive, read

COLUMNS = (
    "gpu",
    "job_a",
    "model_a",
    "bs_a",
    "job_b",
    "model_b",
    "bs_b",
    "solo_a",
    "solo_b",
    "rel_a",
    "rel_b",
    "infeasible",
)


@dataclass(frozen=True, slots=True)
class Table:
    """One GPU's pairs: relative speeds of (job, beside), by job its rate alone, model and batch."""

    gpu: str
    pairs: list[tuple[str, str]] = field(default_factory=list)  # unordered, infeasible ones too
    speeds: dict[tuple[str, str], float] = field(default_factory=dict)
    solo: dict[str, float] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, float] = field(default_factory=dict)  # log2 of the batch; 0: it has none


def gpus(folder: Path) -> Iterator[Path]:
    """The tables of a folder."""
    yield from sorted((folder / "gpu_coloc").glob("gavel_pytorch_pairs_*.csv*"))


def table(path: Path) -> tuple[Table, list[str]]:
    """A GPU's table and what was left out of it. Raises InputError naming the file."""
    rows, skipped = read(path, COLUMNS, _row)
    name = path.name.removeprefix("gavel_pytorch_pairs_").split(".")[0]
    made = Table(name)
    for cells in rows:
        _put(made, cells)
    return made, skipped


def _row(cells: Cells) -> Cells:
    for side in ("a", "b"):
        positive(cells, f"solo_{side}")
        if not isfinite(float(cells[f"bs_{side}"])):
            raise ValueError(f"bs_{side} = {cells[f'bs_{side}']!r}: expected a number")
        if cells["infeasible"] == "0":
            positive(cells, f"rel_{side}")
    return cells


def _put(made: Table, cells: Mapping[str, str]) -> None:
    a, b = cells["job_a"], cells["job_b"]
    made.pairs.append((a, b))
    for job, side in ((a, "a"), (b, "b")):
        made.solo[job] = float(cells[f"solo_{side}"])
        made.models[job] = cells[f"model_{side}"]
        made.sizes[job] = log2(max(1.0, float(cells[f"bs_{side}"])))
    if cells["infeasible"] == "0":
        made.speeds[a, b] = float(cells["rel_a"])
        if a != b:
            made.speeds[b, a] = float(cells["rel_b"])
