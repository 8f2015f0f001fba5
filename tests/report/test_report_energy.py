"""Energy in the report: by hand, from a history of a few metered runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli import main
from slurm_ext.history.store.store import open_history
from tests.history.conftest import insert
from tests.report.conftest import site
from tests.report.test_gain import put_run

HOUR_S = 3600.0
METERED: dict[str, Any] = {
    "gpus": 1,
    "elapsed_s": HOUR_S,
    "node_gpu_model": "A",
    "gpu_energy_j": 300 * HOUR_S,
}


def test_a_shared_gpu_takes_the_watts_of_its_meter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A GPU at 300 W takes 300 W, whether one run has it or two share it."""
    config = site(tmp_path)
    with open_history(tmp_path / "history.db") as history:
        for number in (1, 2, 3):
            put_run(history, number, 1.0, **METERED)
        put_run(history, 4, 1.0, **{**METERED, "gpu_energy_j": None})
        for number, other in ((1, 2), (2, 1)):
            met = {"job_id": other, "overlap_s": HOUR_S, "shared_gpus": "G"}
            insert(history.conn, "corunners", run=number, **met)
    assert main(["report", "--config", str(config), "--json"]) == 0
    sections = {each["key"]: each for each in json.loads(capsys.readouterr().out)["sections"]}
    (row,) = sections["energy"]["tables"][0]["rows"]
    assert row["gpu_energy_j"] == pytest.approx(2 * 300 * HOUR_S)
    assert row["gpu_watts"] == pytest.approx(300)
