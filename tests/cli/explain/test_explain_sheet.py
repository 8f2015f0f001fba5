"""Explain prints what a job used of what it asked for, over time, for one job and for an array."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli import main
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import open_history
from slurm_ext.questions.explain import whole_array
from tests.cli.test_schemas import faults

SPOOL = Path(__file__).parents[2] / "golden" / "spool"
ONE_GPU = json.loads((SPOOL / "v1-shared-gpu.json").read_text())
Explain = Callable[..., str]


def record(job_id: int, node: str = "n1", **changes: Any) -> dict[str, Any]:
    """The golden record of a job with a GPU, as another job's."""
    made: dict[str, Any] = json.loads(json.dumps(ONE_GPU))
    restart = changes.get("identity", {}).get("restart", 0)
    made["record_id"] = f"cluster-{job_id}-{restart}-{node}"
    made["identity"] |= {"job_id": job_id, "node": node}
    for part, values in changes.items():
        made[part] |= values
    return made


def task(number: int, **outcome: Any) -> dict[str, Any]:
    """A task of the array 70, which is its own job 70 + number."""
    identity = {"array_job_id": 70, "array_task_id": number}
    return record(70 + number, identity=identity, outcome=outcome)


FULL = {"mem_bytes": 512_000_000}
RECORDS = [
    record(50),
    record(60, "n1", identity={"restart": 0}, outcome={"state": "REQUEUED"}),
    record(60, "n1", identity={"restart": 1}),
    record(60, "n2", identity={"restart": 1}, allocation=FULL, outcome={"state": "NODE_FAIL"}),
    *(task(number) for number in range(24)),
    task(24, state="FAILED", exit_code=3),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder whose history has RECORDS."""
    folder = tmp_path_factory.mktemp("sheet")
    (folder / "spool").mkdir()
    for one in RECORDS:
        (folder / "spool" / f"{one['record_id']}.json").write_text(json.dumps(one))
    with open_history(folder / "history.db") as history:
        ingest_folder(history, folder / "spool", now_s=2e9)
    # No squeue in there: nobody asks a Slurm.
    paths = f'state_dir = "{folder}"\nslurm_bin = "{folder}"\n'
    (folder / "dlqueue.toml").write_text(f"[paths]\n{paths}")
    return folder


@pytest.fixture
def explain(folder: Path, capsys: pytest.CaptureFixture[str]) -> Explain:
    """`dlqueue explain` in this process; its output (failing: stderr too)."""

    def run(*words: str, status: int = 0) -> str:
        assert main(["explain", *words, "--config", str(folder / "dlqueue.toml")]) == status
        out, err = capsys.readouterr()
        return out if status == 0 else err

    return run


def told(explain: Explain, named: str) -> dict[str, Any]:
    """The document, which is as its schema says."""
    document: dict[str, Any] = json.loads(explain(named, "--json"))
    assert faults("explain", document) == []
    return document


def test_a_job_is_told_as_seff_tells_it_and_more(explain: Explain) -> None:
    """By hand: 34.5 s of 2 CPUs for 41.5 s, 41.5 s of an hour, one second in the queue."""
    said = explain("50").splitlines()
    for line in (
        "job:      50, ada's train.sh (account vision, partition gpu) on n1",
        "time:     00:00:42 of 01:00:00 (1.2 %); 00:00:01 in the queue before",
        "cpus:     0.8 of 2 busy (42 %)",
        "memory:   488 MiB of 800 MiB (61 %)",
        "gpus:     1 NVIDIA A100-SXM4-80GB, 42 % busy, at most 9 GiB of its memory in use",
        "disk:     read 150 MiB, wrote 4 KiB",
    ):
        assert line in said
    assert any(line.startswith("state:    COMPLETED, exit code 0, ended 2025-") for line in said)
    assert not [line for line in said if line.startswith("used:")]


def test_amounts_are_there_for_programs(explain: Explain) -> None:
    """What was asked, what was used, and their ratio."""
    job = told(explain, "50")["job"]
    assert (job["cpus"], job["cpus_used"]) == (2, pytest.approx(34.5 / 41.5))
    assert (job["mem_bytes"], job["mem_used_bytes"]) == (838_860_800, 512_000_000)
    assert (job["queued_s"], job["gpu_energy_j"], job["node_energy_j"]) == (1.0, 9980.75, None)


def test_use_over_time_has_a_line_for_each_resource_that_was_sampled(explain: Explain) -> None:
    """Marks as high as the share of what was held; nobody sampled its training."""
    lines = [line for line in explain("50").splitlines() if line.startswith("  ")]
    rows = {line[:9].strip(): line[10:].rstrip() for line in lines}
    assert list(rows)[:5] == ["cpus", "memory", "gpus", "gpu mem", "read/s"]
    assert rows["cpus"].endswith("0.866 of 2")
    assert rows["memory"].endswith("362 MiB of 800 MiB")
    assert set(rows["gpus"].split()[0]) <= set("▃▄▅")


def test_all_nodes_of_the_last_start_count_together(explain: Explain) -> None:
    """Twice the CPUs; memory of the fullest node; one node's failure is the job's."""
    job = told(explain, "60")["job"]
    assert (job["restart"], job["state"], job["nodes"]) == (1, "NODE_FAIL", ["n1", "n2"])
    assert (job["cpus"], job["cpus_used"]) == (4, pytest.approx(69 / 41.5))
    assert (job["mem_bytes"], job["mem"]) == (512_000_000, 1.0)
    said = explain("60")
    assert "1.7 of 4 busy" in said
    assert "of the fullest node (100 %)" in said
    assert said.count("use:      over 00:00:41 on n") == 2


def test_an_array_is_its_tasks_the_failed_first(explain: Explain) -> None:
    """However many: a line each, and none of the long part."""
    said = explain("70").splitlines()
    assert said[0] == "array:    70, 25 tasks recorded: 24 COMPLETED, 1 FAILED"
    assert said[1].startswith("task:     70_24: FAILED 3 on n1; 00:00:42; CPUs 42 %; memory")
    assert len([line for line in said if line.startswith("task:     70_")]) == 20
    assert "task:     and 5 more (--json lists them)" in said
    assert not [line for line in said if line.startswith("outcome:")]
    document = told(explain, "70")
    assert (document["job"], len(document["tasks"])) == (None, 25)


def test_of_a_large_array_the_answer_has_a_part(
    explain: Explain, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All tasks are counted; those that did not complete are looked at first, then the newest."""
    monkeypatch.setattr(whole_array, "MOST_TASKS", 5)
    said = explain("70", "--html", str(tmp_path / "job.html")).splitlines()
    assert said[0] == "array:    70, 25 tasks recorded: 24 COMPLETED, 1 FAILED"
    assert len([line for line in said if line.startswith("task:     70_")]) == 5
    part = "5 of all: those not completed first, then the newest"
    assert f"task:     and 20 more (--json lists {part})" in said
    assert f"25 tasks, 1 not completed; listed are {part}" in (tmp_path / "job.html").read_text()
    document = told(explain, "70")
    assert document["array"] == {"COMPLETED": 24, "FAILED": 1}
    numbers = [task["array_task_id"] for task in document["tasks"]]
    assert (len(numbers), len(document["runs"]), 24 in numbers) == (5, 5, True)


def test_the_task_with_its_arrays_number_is_one_task(
    explain: Explain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm gives one of the tasks the number of the array: the others are not read with it."""
    monkeypatch.setattr(whole_array, "MOST_TASKS", 24)
    document = told(explain, "70")
    assert len({run["job_id"] for run in document["runs"]}) == len(document["runs"]) == 24
    assert len(document["tasks"]) == 24


def test_a_task_is_told_by_its_arrays_name(explain: Explain) -> None:
    """As squeue names it: one job with a sheet of its own."""
    assert explain("70_24").splitlines()[0].startswith("job:      70_24, ada's train.sh")
    document = told(explain, "70_24")
    assert (document["job_id"], document["tasks"]) == (94, None)
    assert document["job"]["exit_code"] == 3


@pytest.mark.parametrize("named", ["70_99", "50_0"])
def test_a_task_that_nobody_ran_is_unknown(explain: Explain, named: str) -> None:
    """Neither another task nor the whole array stands in."""
    assert f"knows nothing of {named}" in explain(named, status=1)
