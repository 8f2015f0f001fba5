"""`dlqueue jobs` lists each job once, with what was used of what it held."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from contrib.bench.common import synthetic_history
from slurm_ext.cli import main
from slurm_ext.cli.jobs import table
from slurm_ext.cli.run.end_line import end_json
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import open_history

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "spool" / "v1.json").read_text())
HOSTILE = "\x1b[2J[red]x[/red]|\n'); DROP"
Dlqueue = Callable[..., str]


def record(job_id: int, node: str = "n1", restart: int = 0, **changes: Any) -> dict[str, Any]:
    """The golden record as another job's: one that ends later the larger its number."""
    made: dict[str, Any] = json.loads(json.dumps(GOLDEN))
    made["record_id"] = f"cluster-{job_id}-{restart}-{node}"
    made["identity"] |= {"job_id": job_id, "node": node, "restart": restart}
    made["times"]["end_s"] += job_id
    for part, values in changes.items():
        made[part] |= values
    return made


RECORDS = [
    record(1, identity={"job_name": HOSTILE}),
    record(2, "n1"),
    record(2, "n2", outcome={"state": "NODE_FAIL"}, allocation={"mem_bytes": 400_000_000}),
    record(3, restart=0, outcome={"state": "REQUEUED"}),
    record(3, restart=1),
    record(4, identity={"user": "bob", "array_job_id": 4, "array_task_id": 7}),
]


@pytest.fixture
def dlqueue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Dlqueue:
    """`dlqueue jobs` in this process over RECORDS; its output (failing: stderr too)."""
    spool = tmp_path / "spool"
    spool.mkdir()
    for one in RECORDS:
        (spool / f"{one['record_id']}.json").write_text(json.dumps(one))
    with open_history(tmp_path / "history.db") as history:
        ingest_folder(history, spool, now_s=2e9)
    config = tmp_path / "dlqueue.toml"
    config.write_text(f'[paths]\nstate_dir = "{tmp_path}"\n')
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str, status: int = 0) -> str:
        assert main(["jobs", *words, "--config", str(config)]) == status
        out, err = capsys.readouterr()
        return out if status == 0 else out + err

    return run


def listed(out: str) -> list[dict[str, Any]]:
    """Jobs of --json."""
    jobs: list[dict[str, Any]] = json.loads(out)["jobs"]
    return jobs


def test_a_job_is_one_line_of_its_last_start(dlqueue: Dlqueue) -> None:
    """Newest first; two nodes are one job, and a requeued one is as it ended last."""
    jobs = listed(dlqueue("--all", "--json"))
    assert [(job["job_id"], job["restart"]) for job in jobs] == [(4, 0), (3, 1), (2, 0), (1, 0)]
    assert [job["state"] for job in jobs] == ["COMPLETED", "COMPLETED", "NODE_FAIL", "COMPLETED"]
    assert (jobs[2]["nodes"], jobs[2]["cpus"]) == (["n1", "n2"], 4)


def test_shares_are_of_what_it_held(dlqueue: Dlqueue) -> None:
    """By hand: 34.5 s of 2 CPUs for 41.5 s, 380 MB of 839 MB, 41.5 s of an hour, no GPU."""
    (job,) = listed(dlqueue("--user", "bob", "--json"))
    assert job["cpu"] == pytest.approx(34.5 / 83)
    assert job["mem"] == pytest.approx(380_000_000 / 838_860_800)
    assert job["time"] == pytest.approx(41.5 / 3600)
    assert (job["gpu"], job["gpus"]) == (None, 0)
    fullest = listed(dlqueue("--all", "--json"))[2]
    assert fullest["mem"] == pytest.approx(0.95)


def test_waiting_is_the_figure_of_the_end_line(dlqueue: Dlqueue) -> None:
    """What `dlqueue run` says at a program's end is what `jobs` says of it, first pass included."""
    (job,) = listed(dlqueue("--user", "bob", "--json"))
    at_its_end = json.loads(end_json(1, {"record": RECORDS[-1]}, None, []))["waited_share"]
    assert job["wait"] == at_its_end
    assert job["wait"] == pytest.approx((4.5 + 8.0) / (4.5 + 3.5 + 8.0 + 7.0), abs=1e-4)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--user", "ada"), [3, 2, 1]),
        (("--user", "ada", "--limit", "2"), [3, 2]),
        (("--all", "--state", "node_fail"), [2]),
        (("--all", "--state", "REQUEUED"), []),
        (("--all", "--node", "n[2-3]"), [2]),
        (("--all", "--partition", "gpu", "--since", "2025-01-01"), [4, 3, 2, 1]),
        (("--all", "--since", "1m"), []),
        (("--user", "nobody-of-that-name"), []),
        (("--all", "2", "4_7"), [4, 2]),
        (("--all", "4,1"), [4, 1]),
        (("--user", "ada", "4"), []),
    ],
)
def test_conditions_all_hold(dlqueue: Dlqueue, words: tuple[str, ...], found: list[int]) -> None:
    """User, number, state at the end, node, partition, time."""
    assert [job["job_id"] for job in listed(dlqueue(*words, "--json"))] == found


def test_without_a_word_the_jobs_are_ones_own(dlqueue: Dlqueue) -> None:
    """Whoever runs this test ran none of them, and is told so."""
    assert "no finished job of" in dlqueue()


def test_a_narrow_terminal_shortens_names_first(
    dlqueue: Dlqueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """States and figures stay whole at 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = dlqueue("--all")
    assert "NODE_FAIL" in shown
    assert "SAMPLES/S" in shown


def test_people_and_programs_read_it(dlqueue: Dlqueue) -> None:
    """Names stay text; an array's member has Slurm's name; fields are parted by one character."""
    shown = dlqueue("--all")
    assert "4_7" in shown
    assert "NODE_FAIL" in shown
    assert "[red]x[/red]" in shown
    assert "\x1b" not in shown
    head, *rows = dlqueue("--all", "--parsable").splitlines()
    assert {row.count("|") for row in (head, *rows)} == {head.count("|")}
    assert len(rows) == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--limit", "0"), "--limit 0: a number from 1 to 1000000000 is wanted"),
        (("--limit", "9" * 20), "a number from 1 to 1000000000 is wanted"),
        (("--state", "DONE"), "expected some of COMPLETED"),
        (("--node", "n[3"), "is no list of hosts"),
        (("--since", "soon"), "is not a time"),
    ],
)
def test_wrong_words_are_answered(dlqueue: Dlqueue, words: tuple[str, ...], said: str) -> None:
    """By what would be right."""
    assert said in dlqueue(*words, status=2)


def test_nothing_measured_is_a_dash() -> None:
    """Neither nought nor a full bar."""
    absent: Mapping[str, Any] = dict.fromkeys(table._SHARES)
    assert [table._share(name, value).text for name, value in absent.items()] == ["-"] * 5


def test_many_jobs_are_read_in_order(tmp_path: Path) -> None:
    """Of a longer history only the newest are looked at, each once."""
    from slurm_ext.history.views.job_efficiency import JobFilter, newest_jobs

    spool = tmp_path / "spool"
    synthetic_history.write_records(spool, 1, 60)
    with open_history(tmp_path / "history.db") as history:
        ingest_folder(history, spool, now_s=2e9)
    with open_history(tmp_path / "history.db", read_only=True) as history:
        jobs = newest_jobs(history, JobFilter(), 25)
    ends = [job["end_s"] for job in jobs]
    assert ends == sorted(ends, reverse=True)
    assert len({job["job_id"] for job in jobs}) == 25
