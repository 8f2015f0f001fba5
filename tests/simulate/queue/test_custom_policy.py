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
REMEMBERS = """
import json
from pathlib import Path

class Turns:
    '''Whoever has had fewest GPU-seconds goes first.'''

    every_s = 1

    def __init__(self):
        self.had, self.began, self.seen = {}, {}, []

    def keys(self, jobs):
        assert all(self.had.get(name) is not None for name in jobs.user)
        return [self.had[name] for name in jobs.user]

    def on_submit(self, job, now_s):
        self.had.setdefault(job.user, 0)
        self.seen.append(["submitted", job.job, job.account, now_s])

    def on_start(self, job, now_s):
        self.began[job.number] = now_s
        self.seen.append(["started", job.job, job.gpus, now_s])

    def on_end(self, job, now_s):
        self.had[job.user] += (now_s - self.began[job.number]) * job.gpus
        self.seen.append(["ended", job.job, job.vc, now_s])
        Path("seen.json").write_text(json.dumps(self.seen))

class Keyless:
    pass

class Never:
    every_s = 0
    keys = on_submit = None
    def keys(self, jobs):
        return jobs.submit_s

class Failing:
    def keys(self, jobs):
        return jobs.submit_s
    def on_end(self, job, now_s):
        raise KeyError(job.user)

class Unmade:
    def __init__(self, seconds):
        self.seconds = seconds
    def keys(self, jobs):
        return jobs.submit_s
"""
USERS = """job,submit_s,duration_s,gpus,user,account,vc
1,0,100,8,ann,a,gpu
2,1,100,8,ann,a,gpu
3,2,10,8,bob,b,gpu
4,3,100,8,ann,a,gpu
5,150,10,8,cyd,b,gpu
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a trace and a file of policies."""
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "given.py").write_text(GIVEN)
    (tmp_path / "users.csv").write_text(USERS)
    (tmp_path / "remembers.py").write_text(REMEMBERS)
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
        ("given.py:absent", 1, "given.py: has no function, class or Rule 'absent'"),
        ("given.py:number", 1, "has no function, class or Rule 'number'"),
        ("torn.py:keys", 1, "torn.py:1: SyntaxError"),
        ("ends.py:keys", 1, "ends.py:2: SystemExit"),
        ("given.py:broken", 1, "given.py:13: ZeroDivisionError: division by zero"),
        ("given.py:short", 1, "shape (1,) for 4 jobs: expected one number a job"),
        ("given.py:guessed", 1, "guessed gave nan: expected finite numbers"),
        ("remembers.py:Keyless", 1, "class 'Keyless' has no method keys(self, jobs)"),
        ("remembers.py:Never", 1, "remembers.py: every_s is 0: expected seconds over 0"),
        ("remembers.py:Failing", 1, "remembers.py:43: KeyError"),
        ("remembers.py:Unmade", 1, "TypeError"),
        ("remembers.py:Turns+ageing", 2, "a class ages its jobs itself, by every_s"),
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


def test_a_class_hears_of_every_job_and_orders_anew(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once Ann has had her 100 s on 8 GPUs, Bob's only job goes before hers, then Cyd's.

    No key is asked for before the job's submission was told, and every replay has its own object.
    """
    options = [
        "--nodes",
        "1",
        "--json",
        "--policy",
        "remembers.py:Turns,fifo,remembers.py:Turns+backfill",
    ]
    assert main(["simulate", "users.csv", *options]) == 0
    turns, fifo, backfilled = json.loads(capsys.readouterr().out)["policies"]
    seen = json.loads((folder / "seen.json").read_text())
    assert [job for what, job, *_ in seen if what == "started"] == ["1", "3", "2", "5", "4"]
    assert ["submitted", "3", "b", 2] in seen
    assert ["started", "5", 8, 210] in seen
    assert ["ended", "4", "gpu", 320] in seen
    assert turns["jct_mean_s"] < fifo["jct_mean_s"]
    assert turns["jct_mean_s"] == backfilled["jct_mean_s"]


def test_a_function_sees_all_columns(folder: Path) -> None:
    """User, account and partition of a job decide as its times and GPUs do."""
    (folder / "sees.py").write_text(
        "def bob_first(jobs):\n"
        "    assert set(jobs.vc) <= {'gpu'} and set(jobs.gpu_type) <= {''}\n"
        "    return [name != 'bob' for name in jobs.user]\n"
    )
    words = ["simulate", "users.csv", "--nodes", "1", "--policy", "fifo,sees.py:bob_first"]
    assert main([*words, "--jobs", "jobs.csv"]) == 0
    rows = [line.split(",") for line in (folder / "jobs.csv").read_text().splitlines()[1:]]
    assert {row[0]: float(row[7]) for row in rows if row[1] == "3"} == {
        "fifo": 200,
        "sees:bob_first": 100,
    }


@pytest.mark.parametrize("name", ["quiet_users", "patient"])
def test_a_function_that_looks_at_other_jobs_is_told(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its keys would know of jobs that nobody has submitted yet; a job's own columns are fine."""
    (folder / "looks.py").write_text(
        "import numpy as np\n"
        "def quiet_users(jobs):\n"
        "    _, at, n = np.unique(jobs.user, return_inverse=True, return_counts=True)\n"
        "    return n[at]\n"
        "def patient(jobs):\n"
        "    return jobs.submit_s + 86400 * np.minimum(jobs.gpus / 64, 1)\n"
    )
    assert main(["simulate", "users.csv", "--nodes", "1", "--policy", f"looks.py:{name}"]) == 0
    said = f"looks:{name} gives a job another key when other jobs stand beside it"
    assert (said in capsys.readouterr().out) == (name == "quiet_users")
