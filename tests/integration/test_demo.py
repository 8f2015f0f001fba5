"""The README's first command, smaller: the closed loop as a newcomer sees it."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli.demo.loop import rejected
from slurm_ext.core.stalls import own_queue
from slurm_ext.sandbox import Sandbox

pytestmark = [pytest.mark.slurm, pytest.mark.alone]
# Epochs of the one that waits for nothing are long beside the start of its worker, busy or not.
SMALLER = {"EXAMPLE_SAMPLES": "320", "EXAMPLE_COMPUTE_SAMPLES": "1280"}
QUEUED = "fetch_queued_s + main_queued_s"  # for a sample, ready and without a core
WAITED = f"{QUEUED} > ? * ({QUEUED} + fetch_cpu_s + main_cpu_s)"
COMPUTE_RATE = 32 / 0.06  # samples/s: the emulated accelerator takes 60 ms a batch


@pytest.fixture(scope="module")
def demo() -> Iterator[dict[str, Any]]:
    """What `dlqueue demo --json` printed, and `folder` where it left its files."""
    folder = Path(tempfile.mkdtemp(prefix="dlq-"))
    folder.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "slurm_ext.cli", "demo", "--json", "--folder", str(folder)],
        env={**os.environ, **SMALLER},
        capture_output=True,
        text=True,
        timeout=390,
    )
    assert done.returncode == 0, done.stderr
    assert "once more" in done.stderr  # progress goes to stderr, stdout stays one document
    yield {**json.loads(done.stdout), "folder": folder}
    shutil.rmtree(folder)


def job(demo: dict[str, Any], name: str) -> dict[str, Any]:
    """The row of one example."""
    return next(row for row in demo["jobs"] if row["script"].startswith(name))


def test_nothing_was_hurt(demo: dict[str, Any]) -> None:
    """No job rejected, no node drained, exactly one record for each of the eight runs."""
    assert (demo["rejected_jobs"], demo["drained_nodes"], demo["records"]) == (0, 0, 8)


def test_a_rejected_submission_is_counted(sandbox: Sandbox) -> None:
    """What `rejected_jobs` says is slurmctld's own count, not a constant."""
    before = rejected(sandbox)
    refused = sandbox.run(["sbatch", "-p", "nowhere", "--wrap", "true"], check=False)
    assert refused.returncode != 0
    assert rejected(sandbox) == before + 1


def test_starved_loaders_get_workers(demo: dict[str, Any]) -> None:
    """Too few workers, for decoding or for slow storage, become more, and sbatch says so."""
    for name in ("jpeg", "slow_storage"):
        row = job(demo, name)
        assert not row["left_alone"], row
        assert row["num_workers"][1] > row["num_workers"][0]
        assert "workers" in row["message"]
        assert "--comment=dlqueue=off" in row["message"]


def test_idle_cpus_are_given_back(demo: dict[str, Any]) -> None:
    """A job that asks for eight CPUs and uses one gets fewer, and no more workers than it had.

    It keeps them only where its run waited for cores, others' or its own workers: the machine has
    two, and somebody else may want them.
    """
    row = job(demo, "greedy")
    assert row["cpus_per_task"][0] == 8
    if row["cpus_per_task"][1] == 8:
        assert waited_for_cores(demo, "greedy")
        return
    assert row["cpus_per_task"][1] < 8
    assert row["num_workers"][1] <= row["num_workers"][0]


def waited_for_cores(demo: dict[str, Any], name: str) -> bool:
    """Whether the example's first run waited notably, as its record says."""
    with closing(sqlite3.connect(demo["folder"] / "slurm/dlqueue/history.db")) as history:
        query = f"SELECT {WAITED} FROM loader_runs JOIN runs ON runs.id = run WHERE job_name = ?"
        first, *_ = history.execute(f"{query} ORDER BY job_id", (own_queue.WAITED, name))
        return bool(first[0])


def test_a_job_that_is_fine_is_left_alone_and_told_so(demo: dict[str, Any]) -> None:
    """The compute-bound training keeps everything; the line says why."""
    row = job(demo, "compute")
    if row["samples_per_s"][0] < 0.9 * COMPUTE_RATE:
        pytest.skip(
            f"the machine was so busy that it was not fine: {row['samples_per_s'][0]:.0f}/s"
        )
    assert row["left_alone"], row
    assert row["cpus_per_task"][0] == row["cpus_per_task"][1]
    assert "left as it is" in row["message"]


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
