"""A run's energy: by each meter that there was, from old histories too, and told by explain."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli.explain.text import lines
from slurm_ext.history.ingest.rows import energy_of
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store import schema
from slurm_ext.history.store.column_types import drop_checks
from slurm_ext.history.store.store import History, open_history
from slurm_ext.questions.explain.document import explained

GOLDEN = Path(__file__).parents[2] / "golden" / "spool" / "v1-shared-gpu.json"
UUID = "GPU-5a1f0e6c-8d2b-4f39-9c7e-1b2a3c4d5e6f"
ENERGY = "SELECT gpu_energy_j, node_energy_j FROM runs"


def counter(name: str, value: float | None, source: str) -> dict[str, Any]:
    """One counter of a record."""
    return {"name": name, "unit": "J", "source": source, "value": value}


def take(folder: Path, *counters: dict[str, Any]) -> History:
    """A history with the golden run of a GPU, and more counters."""
    record = json.loads(GOLDEN.read_text())
    names = {each["name"] for each in counters}
    record["counters"] = [c for c in record["counters"] if c["name"] not in names] + [*counters]
    (folder / "spool").mkdir()
    (folder / "spool" / "a.json").write_text(json.dumps(record))
    history = open_history(folder / "history.db")
    ingest_folder(history, folder / "spool", now_s=1_760_000_100.0)
    return history


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """One run with two GPUs and a metered node."""
    more = [
        counter("gpu_energy", 9980.75, f"nvml/{UUID}"),
        counter("gpu_energy", 19.25, "nvml/GPU-2"),
        counter("node_energy_cpu", 3000.0, "rapl/node"),
        counter("node_energy_dram", 600.0, "rapl/node"),
    ]
    with take(tmp_path, *more) as taken:
        yield taken


def test_each_meter_has_its_column(history: History) -> None:
    """GPUs are added up; the node's is processors and memory; the GPUs' kind is kept."""
    assert history.conn.execute(ENERGY).fetchall() == [(10000.0, 3600.0)]
    (kind,) = history.conn.execute("SELECT node_gpu_model FROM runs").fetchone()
    assert kind == "NVIDIA A100-SXM4-80GB"


def test_explain_names_the_meters(history: History) -> None:
    """What it took, by what, and how much of the node was the job's."""
    document = explained(history, "1043")
    energy = document["runs"][0]["energy"]
    assert (energy["gpu_source"], energy["node_source"]) == ("nvml", "rapl/node")
    told = next(line for line in lines(document) if line.startswith("energy:"))
    assert told == (
        "energy:   2.78 Wh by its GPUs (NVML); 1 Wh by all processors of the node (RAPL),"
        " of whose 2 cores it held 2"
    )


def test_no_meter_is_no_energy(tmp_path: Path) -> None:
    """Absent, never zero; explain says nothing."""
    with take(tmp_path, counter("gpu_energy", None, "none")) as history:
        assert history.conn.execute(ENERGY).fetchall() == [(None, None)]
        document = explained(history, "1043")
    assert document["runs"][0]["energy"] is None
    assert not [line for line in lines(document) if line.startswith("energy:")]


def test_the_whole_boards_meter_holds_the_others() -> None:
    """The board's is not added to what it includes; a negative reading is none."""
    found = energy_of(
        [
            (("node_energy_all", "J", "rapl/node"), 50.0),
            (("node_energy_cpu", "J", "rapl/node"), 30.0),
            (("gpu_energy", "J", "nvml/a"), -1.0),
        ]
    )
    assert found == (None, 50.0)


def test_runs_of_an_older_history_get_theirs(history: History) -> None:
    """The migration adds up the counters that were kept."""
    drop_checks(history.db, "runs")
    for column in ("node_gpu_model", "gpu_energy_j", "node_energy_j"):
        history.conn.execute(f"ALTER TABLE runs DROP COLUMN {column}")
    schema.energy_of_runs(history.db)
    assert history.conn.execute(ENERGY).fetchall() == [(10000.0, 3600.0)]
