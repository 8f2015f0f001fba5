"""The script that records a real MPS works, and the stand-in has what it looks at."""

import json
import subprocess
import sys
from pathlib import Path

from slurm_ext.node.mps.rules import faults
from tests.mps_standin import install

GENUINE = Path(__file__).parents[1] / "data" / "mps" / "h100-580.json"
ALIKE = ("get_server_list", "get_default_active_thread_percentage", "nonsense")
SCRIPT = Path(__file__).parents[3] / "contrib" / "fixtures" / "capture_mps.py"


def test_it_captures_and_leaves_nothing(short_folder: Path, only_mps: None) -> None:
    """Every step of a daemon's life without clients, as the manual has it."""
    control = install(short_folder / "bin")
    out = short_folder / "seen.json"
    argv = [sys.executable, str(SCRIPT), str(out), "--control", str(control), "--gpu", "GPU-cafe0"]
    subprocess.run(argv, check=True, timeout=60, cwd=SCRIPT.parents[2])
    seen = json.loads(out.read_text())
    assert seen["without a daemon"]["out"] == "Cannot find MPS control daemon process\n"
    assert [seen[name]["status"] for name in ("start", "second start")] == [0, 1]
    assert seen["files"].keys() >= {"control", "nvidia-cuda-mps-control.pid"}
    assert [each["server"] for each in seen["processes"]] == [False]
    assert seen["commands"]["get_server_list"]["status"] == 0
    assert seen["after quit"]["processes"] == []
    genuine = json.loads(GENUINE.read_text())
    for name in ("without a daemon", "start", "second start"):
        assert [seen[name][part] for part in ("status", "out")] == [
            genuine[name][part] for part in ("status", "out")
        ]
    for command in ALIKE:
        assert seen["commands"][command]["out"] == genuine["commands"][command]["out"]
    assert "Starting control daemon" in seen["logs"]["control.log"]


def test_a_genuine_fault_is_found_in_its_log() -> None:
    """An H100 under driver 580: a fault is told once a second, and nothing before it."""
    seen = json.loads(GENUINE.read_text())
    log = seen["logs after the fault"]["server.log"]
    before, _, after = log.partition("Status of client {PID: 595")
    assert faults(before) == []
    ((when, what),) = faults(after)
    assert when == "2026-11-26 19:39:45.638"
    assert "encountered a fatal GPU error" in what
    assert seen["after the fault"]["get_server_status 586"]["out"] == "FAULT\n"
