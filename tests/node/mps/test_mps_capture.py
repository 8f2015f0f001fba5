"""The script that records a real MPS works, and the stand-in has what it looks at."""

import json
import subprocess
import sys
from pathlib import Path

from tests.mps_standin import install

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
    assert "Starting control daemon" in seen["logs"]["control.log"]
