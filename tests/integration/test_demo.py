"""The README's first command: what a newcomer is shown, however busy the machine is."""

import re
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli.demo.loop import rejected
from slurm_ext.sandbox import Sandbox
from tests.integration.a_demo import demo

__all__ = ["demo"]  # a fixture
pytestmark = [pytest.mark.slurm, pytest.mark.journey]


def test_nothing_was_hurt(demo: dict[str, Any]) -> None:
    """No job rejected, no node drained, exactly one record for each of the eight runs."""
    assert (demo["rejected_jobs"], demo["drained_nodes"], demo["records"]) == (0, 0, 8)


def test_a_rejected_submission_is_counted(sandbox: Sandbox) -> None:
    """What `rejected_jobs` says is slurmctld's own count, not a constant."""
    before = rejected(sandbox)
    refused = sandbox.run(["sbatch", "-p", "nowhere", "--wrap", "true"], check=False)
    assert refused.returncode != 0
    assert rejected(sandbox) == before + 1


def test_every_prediction_has_its_interval_and_its_label(demo: dict[str, Any]) -> None:
    """The interval holds the prediction; without a GPU every figure is labelled emulated."""
    for row in demo["jobs"]:
        low, high = row["interval"]
        assert low < row["predicted_samples_per_s"] < high
        assert row["emulated"] == ("emulated" in row["message"])


def test_every_epoch_saw_the_same_samples(demo: dict[str, Any]) -> None:
    """No sample lost or doubled by the rewrite; where the order was fixed, it is the same."""
    for number in range(1, 5):
        texts = [said_by(demo, number), said_by(demo, number + 4)]
        before, after = (re.findall(r"\d+ samples, set \w+", text) for text in texts)
        assert before == after
        assert before
    slow_storage = [said_by(demo, 4), said_by(demo, 8)]  # the one that does not shuffle
    before, after = (re.findall(r"order (\w+)", text) for text in slow_storage)
    assert before == after


def test_the_report_holds_the_table(demo: dict[str, Any]) -> None:
    """The file that `report` names is there and holds every script."""
    text = Path(demo["report"]).read_text(encoding="utf-8")
    assert all(row["script"].partition(".")[0].split("_")[0] in text for row in demo["jobs"])


def said_by(demo: dict[str, Any], job_id: int) -> str:
    """A job's own output."""
    path: Path = demo["folder"] / "slurm" / "out" / f"{job_id}.txt"
    return path.read_text(encoding="utf-8")
