"""What the probe counts of real DataLoaders, and the summaries that it leaves."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.probe.conftest import SCENARIOS, Environment, Python, told

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "probe" / "v1.json").read_text())

Measured = tuple[dict[str, Any], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def measured(
    tmp_path_factory: pytest.TempPathFactory, environment: Environment, python: Python
) -> Measured:
    """The `measure` group's results, and the summaries of its process and of the child it forks."""
    run_dir = tmp_path_factory.mktemp("measured") / "run"
    env = environment(run_dir, DLQUEUE_DECISION="d1-0123456789abcdef", RANK="3", WORLD_SIZE="4")
    done = python([*SCENARIOS, "measure"], env)
    assert done.returncode == 0, done.stderr
    found = [json.loads(path.read_text()) for path in run_dir.glob("summary-*.json")]
    return told(done)["measure"][0], found


@pytest.fixture(scope="module")
def summaries(measured: Measured) -> list[dict[str, Any]]:
    """Of the process and of its child."""
    return measured[1]


def test_storage_waits_are_told_from_work(measured: Measured) -> None:
    """A fetch that sleeps costs wall seconds and little CPU; its bytes are counted."""
    row = measured[0]["slow_storage"]["rows"][0]
    first, later = row["phases"]
    assert [p["phase"] for p in (first, later)] == ["first_epoch", "later"]
    for phase in (first, later):
        assert (phase["samples"], phase["batches"], phase["epochs"]) == (64, 16, 1)
        assert phase["fetch_samples"] == 64
        assert phase["fetch_wall_s"] >= 64 * 0.01
        assert phase["fetch_cpu_s"] < phase["fetch_wall_s"] / 2
        assert phase["bytes_read"] >= 64 * 1000
        assert phase["workers"] == pytest.approx(2)
        assert phase["wall_s"] == pytest.approx(phase["wait_s"] + phase["step_s"])
    assert row["worker_rss_bytes"] > 1 << 20


def test_work_at_home_is_measured_at_home(measured: Measured) -> None:
    """Without workers the fetches, the waiting and the steps of this process are counted apart."""
    (phase,) = measured[0]["busy_at_home"]["rows"][0]["phases"]
    assert (phase["samples"], phase["batches"], phase["fetch_samples"]) == (100, 13, 100)
    assert phase["step_s"] >= 13 * 0.005
    assert 0 < phase["fetch_cpu_s"] <= phase["fetch_wall_s"] <= phase["wait_s"]
    assert phase["workers"] == 0


def test_the_summary_has_the_golden_form(summaries: list[dict[str, Any]]) -> None:
    """Key by key and type by type what tests/golden/probe/v1.json promises to readers."""
    golden_loader = GOLDEN["loaders"][0]
    for summary in summaries:
        assert _shape(summary, GOLDEN) == []
        for loader in summary["loaders"]:
            assert _shape(loader, golden_loader) == []
            for phase in loader["phases"]:
                assert _shape({k: phase[k] for k in golden_loader["phases"][0]}, phase) == []
    assert {(s["rank"], s["world_size"]) for s in summaries} == {(3, 4)}
    assert {s["directive"]["decision"] for s in summaries} == {"d1-0123456789abcdef"}


def _shape(got: dict[str, Any], golden: dict[str, Any]) -> list[str]:
    """Keys that differ, and values whose type is neither the golden one's nor null."""
    wrong = sorted(got.keys() ^ golden.keys())
    for key in got.keys() & golden.keys():
        kinds: Any = type(golden[key])
        if kinds in (int, float):
            kinds = (int, float)
        if None not in (got[key], golden[key]) and not isinstance(got[key], kinds):
            wrong.append(f"{key}: {got[key]!r}")
    return wrong


def test_a_forked_child_has_its_own_summary(summaries: list[dict[str, Any]]) -> None:
    """The parent's file stays the parent's: three loaders there, the child's one apart."""
    assert sorted(len(summary["loaders"]) for summary in summaries) == [1, 3]
    assert all(summary["finished"] for summary in summaries)


def test_a_killed_job_leaves_a_summary(
    tmp_path: Path, environment: Environment, python: Python
) -> None:
    """SIGKILL after a second: what was measured until shortly before is there, not finished."""
    env = environment(tmp_path / "run")
    done = python([*SCENARIOS, "killed"], env)
    assert done.returncode == -9
    (path,) = (tmp_path / "run").glob("summary-*")
    summary = json.loads(path.read_text())
    assert summary["finished"] is False
    assert summary["loaders"][0]["phases"][0]["batches"] > 20


def test_a_run_folder_that_is_gone_harms_nobody(
    tmp_path: Path, environment: Environment, python: Python
) -> None:
    """The folder removed, or never there: the job runs, silently."""
    env = environment(tmp_path / "run", DLQUEUE_NUM_WORKERS="2")
    (tmp_path / "run").rmdir()
    code = (
        "import torch; from torch.utils.data import *\n"
        "d = TensorDataset(torch.arange(40))\n"
        "print([int(i) for (b,) in DataLoader(d, batch_size=4) for i in b] == list(range(40)))\n"
        "print(sum(len(b) for (b,) in DataLoader(d, batch_size=4, num_workers=1)))"
    )
    done = python(["-c", code], env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n40\n", "")
