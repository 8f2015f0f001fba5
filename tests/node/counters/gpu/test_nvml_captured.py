"""What an H100 answered under driver 580, as the node reads it and as its stand-in answers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.node.counters.gpu.totals import GpuTotals
from tests import cuda_standin
from tests.nvml_standin import Gpu, StandIn

ROOT = Path(__file__).parents[4]
GENUINE = json.loads((ROOT / "tests/node/data/nvml/h100-580.json").read_text())
UUID = "GPU-cafe0000-0000-0000-0000-000000000000"
EVERY_S = 0.3
SAME = ("mig", "gpm support", "no such index", "no such uuid")


def counted(stretch: str, pids: set[int]) -> dict[str, float]:
    """A job's counters of that stretch, by name."""
    totals = GpuTotals()
    for number, reading in enumerate(GENUINE[stretch]["readings"]):
        totals.see(reading, EVERY_S if number else 0.0, pids)
    return {name.partition("@")[0]: value for name, (_, value) in totals.totals("G").items()}


def test_a_job_that_computes_has_its_share_and_its_memory() -> None:
    """A program that fills a GiB again and again: all of the GPU is its own, and its 470 W.

    The energy meter moves ten times a second, so that a second tells it to 15 %.
    """
    found = counted("computing", {GENUINE["load"]["pid"]})
    assert found["gpu_util"] == pytest.approx(1.0)
    assert found["gpu_sm_active"] == pytest.approx(0.98, abs=0.03)
    assert found["gpu_job_util"] == pytest.approx(0.98, abs=0.03)
    assert found["gpu_job_mem_peak"] > 2**30
    watts = found["gpu_energy"] / (EVERY_S * (len(GENUINE["computing"]["readings"]) - 1))
    assert watts == pytest.approx(found["gpu_power_mean"], rel=0.15)


def test_another_users_job_has_nothing_of_it() -> None:
    """Nor has anybody where the GPU is idle."""
    assert counted("computing", {1})["gpu_job_util"] == 0.0
    assert counted("computing", {1})["gpu_job_mem_peak"] == 0.0
    assert counted("idle", {GENUINE["load"]["pid"]})["gpu_sm_active"] == 0.0


def test_the_counters_of_pcie_have_32_bits() -> None:
    """So that they are no running totals; NVLink's have 64, and are not there in a guest."""
    fields = {f["fieldId"]: f for f in GENUINE["computing"]["calls"]["FieldValues"][2:4]}
    assert {number: field["valueType"] for number, field in fields.items()} == {197: 1, 198: 1}


def test_rates_are_added_up_where_there_are_no_totals() -> None:
    """2,000 kB a second for two seconds."""
    totals = GpuTotals()
    for covers_s in (0.0, 1.5, 0.5):
        totals.see({"pcie_rx_kb_s": 2000}, covers_s, ())
    assert totals.totals("G")["gpu_pcie_rx@G"] == ("nvml/G", 4e6)


def test_the_stand_in_answers_as_the_genuine_one(tmp_path: Path) -> None:
    """Codes of errors, kinds of values and names of fields, by the script that records them."""
    library = StandIn(tmp_path)
    library.say(Gpu(uuid=UUID, pid=77, pid_mem=5, pid_sm=9))
    cuda = tmp_path / "cuda"
    cuda.mkdir()
    folders = f"{tmp_path}:{cuda_standin.install(cuda)['LD_LIBRARY_PATH']}"
    env = {**os.environ, **library.env, "LD_LIBRARY_PATH": folders}
    command = [sys.executable, str(ROOT / "contrib/fixtures/capture_nvml.py"), "seen.json"]
    subprocess.run(command, env=env, cwd=tmp_path, check=True, timeout=120)
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert [seen["once"][name] for name in SAME] == [GENUINE["once"][name] for name in SAME]
    for call in ("ComputeRunningProcesses", "ProcessUtilization"):
        assert _shape(seen["computing"]["calls"][call]) == _shape(
            GENUINE["computing"]["calls"][call]
        )
    for number in (2, 3):
        kinds = [
            one["computing"]["calls"]["FieldValues"][number]["valueType"] for one in (seen, GENUINE)
        ]
        assert kinds[0] == kinds[1]
    readings = [one["computing"]["readings"][1].keys() for one in (seen, GENUINE)]
    assert readings[0] - {"pcie_tx_kb_s", "pcie_rx_kb_s"} <= readings[1]


def _shape(rows: list[dict[str, Any]]) -> list[Any]:
    own = ("gpuInstanceId", "computeInstanceId")
    return [[*rows[0]], [rows[0].get(name) for name in own]]
