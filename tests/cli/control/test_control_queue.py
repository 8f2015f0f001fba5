"""`dlqueue control --queue`, as people call it."""

import json
from pathlib import Path

import pytest

from slurm_ext.cli import main

QUEUE = {
    "jobs": [
        {
            "job_id": n,
            "user_id": 0,
            "user_name": "ann",
            "name": f"j{n}",
            "job_state": "PENDING",
            "partition": "gpu",
            "priority": 5000,
            "state_reason": "Priority",
            "cpus": 1,
            "time_limit": minutes,
            "submit_time": 1_700_000_000,
            "tres_per_node": "gres:gpu:2",
        }
        for n, minutes in ((1, 600), (2, 30))
    ]
}


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Settings in mode off, and a Slurm that lists two jobs and fears to be changed."""
    slurm = tmp_path / "bin"
    slurm.mkdir()
    (tmp_path / "queue.json").write_text(json.dumps(QUEUE))
    asked = 'case "$*" in *config*) echo PriorityType = priority/multifactor;; *) exit 3;; esac'
    for name, script in (("squeue", f"cat {tmp_path}/queue.json"), ("scontrol", asked)):
        (slurm / name).write_text(f"#!/bin/sh\n{script}\n")
        (slurm / name).chmod(0o755)
    path = tmp_path / "dlqueue.toml"
    path.write_text(f'[paths]\nstate_dir = "{tmp_path}/state"\nslurm_bin = "{slurm}"\n')
    return str(path)


def test_off_is_refused_with_the_key(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody starts to act by accident."""
    assert main(["control", "--queue", "--config", config]) == 2
    assert "queue.mode is off: set it to shadow or act" in capsys.readouterr().err


def test_a_dry_run_works_in_any_mode(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A table for people, or one document; nothing is written."""
    assert main(["control", "--queue", "--dry-run", "--config", config]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "mode shadow: 1 action" in said
    assert "1. job 2 (ann's j2): 60 GPU-minutes (by limit)" in said
    assert "2. job 1 (ann's j1): 20 GPU-hours (by limit), nice 0 -> 10" in said
    assert main(["control", "--queue", "--dry-run", "--json", "--config", config]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["done"] for one in document["moves"]] == ["nice=10"]
    assert not (Path(config).parent / "state").exists()


def test_nobody_works_is_told(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With what to start; --restore finds nothing."""
    assert main(["control", "--queue", "status", "--config", config]) == 1
    assert "no `dlqueue control --queue` runs here" in capsys.readouterr().err
    assert main(["control", "--queue", "--restore", "--json", "--config", config]) == 0
    assert json.loads(capsys.readouterr().out) == {"restored": 0}


def test_a_slurm_that_is_away_is_one_line(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was run, and what it said."""
    (tmp_path / "bin/squeue").write_text("#!/bin/sh\necho no controller >&2\nexit 1\n")
    assert main(["control", "--queue", "--dry-run", "--config", config]) == 1
    assert "squeue --states=all --json (exit 1): no controller" in capsys.readouterr().err


def test_two_works_at_once_are_refused(config: str) -> None:
    """Each is a process of its own."""
    with pytest.raises(SystemExit):
        main(["control", "--queue", "--pairs", "--config", config])
