"""The whole program of `gpu` while each of its rows fails in turn: the others stay measured."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from contrib.bench.gpu import __main__ as program
from contrib.bench.gpu.here import Here
from contrib.bench.gpu.one import outcome
from contrib.bench.gpu.page import page
from contrib.bench.gpu.table import ROWS, RowKind
from tests.bench.gpu.gpu_here import here, rows_are

NAMES = [kind.name for kind in ROWS]
# A row's process: the one that is named fails in its way, the others measure one figure.
ONE = """
import json, os, sys, time
from pathlib import Path
name, path = sys.argv[1], Path(sys.argv[3])
failing, way = Path("failing").read_text().split(maxsplit=1)
if name == failing:
    exec(way)
figure = {"value": 1.0, "low": None, "high": None, "n": 1, "unit": ""}
found = {"status": "measured", "why": "", "figures": {"x": figure}, "absent": {}, "facts": {}}
path.write_text(json.dumps(found))
"""
WAYS = (
    "raise RuntimeError('CUDA error: an illegal memory access was encountered')",
    "os.kill(os.getpid(), 11)",
    "time.sleep(600)",
    "path.write_text('{'); sys.exit(3)",
)


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree whose rows are processes that do as they are told; without a GPU's look at it."""
    rows_are(ONE, tmp_path, monkeypatch, clean_s=0.5, least_s=0.0)
    monkeypatch.setattr(program, "surroundings", lambda _: (here(tmp_path, device="cuda"), {}))
    return tmp_path


@pytest.mark.parametrize("failing", NAMES)
def test_each_row_fails_alone(failing: str, whole: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """By an exception, a crash, a hang, or half an answer: it is named, and the rest is there."""
    way = WAYS[NAMES.index(failing) % len(WAYS)]
    (whole / "failing").write_text(f"{failing} {way}")
    told = whole / "page.md"
    known = {"only": None, "quick": False, "seconds": 60.0, "page": told}
    found = program.result(argparse.Namespace(**known))
    rows = found["figures"]["rows"]
    assert list(rows) == NAMES
    assert {name for name in NAMES if rows[name]["status"] != "measured"} == {failing}
    assert (rows[failing]["status"], bool(rows[failing]["why"])) == ("failed", True)
    assert json.loads(json.dumps(found)) == found
    assert told.read_text() == page(found)
    assert f"failed: {rows[failing]['why']}" in told.read_text()
    said = capfd.readouterr().err.splitlines()
    assert said[0].startswith("budget: 60 s: buckets ")
    assert len(said) == 1 + len(NAMES)


@pytest.mark.parametrize("kind", ROWS, ids=lambda kind: kind.name)
def test_a_row_whose_programs_fail_is_one_line(
    kind: RowKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that end at once with CUDA's words: the row fails or is absent, with a reason."""
    words = "raise SystemExit('CUDA error: no kernel image is available')"
    broken = [sys.executable, "-c", words]
    monkeypatch.setattr(Here, "command", lambda *_: broken)
    monkeypatch.setattr("contrib.bench.gpu.rows.ranks._PROGRAM", "/nowhere/rank.py")
    found: dict[str, Any] = outcome(kind, here(tmp_path, gpus=("0", "1")))
    assert found["status"] in ("failed", "absent")
    assert found["why"]
    assert "\n" not in found["why"]
    if kind.name in ("buckets", "pairs", "probe", "loader", "stalls"):
        assert "no kernel image is available" in found["why"]
