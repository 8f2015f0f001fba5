"""A queue policy of one's own is replayed like ours, and its faults are told by file and line."""

import json
from pathlib import Path

import pytest

from slurm_ext.cli import main

TRACE = "job,submit_s,duration_s,gpus\n1,0,100,6\n2,1,50,4\n3,2,20,2\n4,3,10,1\n"
GIVEN = """
from slurm_ext.policy.queue import Rule

def newest(jobs):
    return -jobs.submit_s

longest = Rule(name="longest", keys=lambda jobs: -jobs.estimate_s, oracle=True)

def guessed(jobs):
    return jobs.estimate_s

def broken(jobs):
    return 1 / 0

def short(jobs):
    return [1]

number = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a trace and a file of policies."""
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "given.py").write_text(GIVEN)
    (tmp_path / "torn.py").write_text("def keys(jobs:\n")
    (tmp_path / "ends.py").write_text("\nraise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def simulate(policy: str) -> int:
    """The exit status of the command."""
    return main(["simulate", "trace.csv", "--nodes", "1", "--json", "--policy", policy])


@pytest.mark.usefixtures("folder")
def test_it_stands_beside_ours(capsys: pytest.CaptureFixture[str]) -> None:
    """A function, with and without backfill, and a Rule that sees true run times."""
    assert simulate("fifo,given.py:newest,given.py:newest+backfill,given.py:longest") == 0
    rows = json.loads(capsys.readouterr().out)["policies"]
    names = [row["policy"] for row in rows]
    assert names == ["fifo", "given:newest", "given:newest+backfill", "given:longest"]
    assert rows[1]["jct_mean_s"] < rows[0]["jct_mean_s"] <= rows[3]["jct_mean_s"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("policy", "status", "told"),
    [
        ("absent.py:keys", 1, "absent.py: is no file"),
        ("given.py:absent", 1, "given.py: has no function or Rule 'absent'"),
        ("given.py:number", 1, "has no function or Rule 'number'"),
        ("torn.py:keys", 1, "torn.py:1: SyntaxError"),
        ("ends.py:keys", 1, "ends.py:2: SystemExit"),
        ("given.py:broken", 1, "given.py:13: ZeroDivisionError: division by zero"),
        ("given.py:short", 1, "shape (1,) for 4 jobs: expected one number a job"),
        ("given.py:guessed", 1, "guessed gave nan: expected finite numbers"),
        ("given.py:newest+sideways", 2, "+backfill or +ageing may follow 'newest', once"),
        ("given.py:newest,given.py:newest", 2, "names one policy twice"),
    ],
)
def test_its_faults_are_told(
    policy: str, status: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line with the file, the line where there is one, and what is expected; no traceback."""
    assert simulate(policy) == status
    out, said = capsys.readouterr()
    assert told in said
    assert (out, said.count("\n")) == ("", 1)
