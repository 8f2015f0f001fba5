"""The pairing answers with what training promoted last."""

import logging
from pathlib import Path

import pytest

from slurm_ext.control.coscheduling.known_slowdowns import ServedSlowdowns
from slurm_ext.core.gpu_sharing import CorunMeasurement, SoloProfile, SpeedBasis
from slurm_ext.model.slowdown.artifact import serialize
from slurm_ext.model.slowdown.model import slowdown_model

A, B = SoloProfile(key="a"), SoloProfile(key="b")


def promote(state_dir: Path, name: str, speed: float) -> Path:
    """A model that knows one pair, serving."""
    rows = [
        CorunMeasurement(job="a", partners=("b",), speed=speed, seconds=3600.0) for _ in range(5)
    ]
    folder = state_dir / "models" / "slowdown" / name
    folder.mkdir(parents=True)
    for file, content in serialize(slowdown_model(rows), {}, {"window_s": [0.0, 1.0]}).items():
        (folder / file).write_bytes(content)
    link = folder.parent / "current"
    link.unlink(missing_ok=True)
    link.symlink_to(name)
    return folder


def test_without_a_model_jobs_are_known_in_general_only(tmp_path: Path) -> None:
    """A new site parts nobody on a guess."""
    assert ServedSlowdowns(tmp_path)().speed(A, [B]).evidence is SpeedBasis.PRIOR


def test_a_promoted_model_serves_from_the_next_round_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And the next one after it, without a restart; the log names each once, and its absence."""
    caplog.set_level(logging.INFO)
    known = ServedSlowdowns(tmp_path)
    link = promote(tmp_path, "m1", 0.5).parent / "current"
    first = known().speed(A, [B])
    assert first.evidence is SpeedBasis.PAIR
    promote(tmp_path, "m2", 0.95)
    assert known().speed(A, [B]).mean > first.mean
    link.unlink()
    assert [known().speed(A, [B]).evidence for _ in range(2)] == [SpeedBasis.PRIOR] * 2
    named = ("m1", "m2", "nothing is known any more")
    assert caplog.messages == [f"slowdowns: {one}" for one in named]


def test_a_damaged_model_leaves_the_last_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is torn is said in the log, once; the rounds go on, and mended it serves."""
    known = ServedSlowdowns(tmp_path)
    promote(tmp_path, "m1", 0.5)
    before = known().speed(A, [B])
    file = promote(tmp_path, "m2", 0.95) / "slowdown.json"
    whole = file.read_bytes()
    file.write_text("{")
    assert known().speed(A, [B]) == known().speed(A, [B]) == before
    assert len([one for one in caplog.records if one.levelname == "WARNING"]) == 1
    file.write_bytes(whole)
    assert known().speed(A, [B]).mean > before.mean
