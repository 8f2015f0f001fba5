"""A report for an account, a reader or without names: no move or number of anybody else's job."""

from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli import main
from slurm_ext.history.store.store import History, open_history
from slurm_ext.report.formats import FORMATS
from slurm_ext.report.formatting import without_jobs
from tests.report.conftest import site
from tests.report.test_gain import decide, put_run
from tests.report.test_report_command import DECIDED, RATES, document, insert, tables

OTHER = 7654321
ROOT: dict[str, Any] = {"user": "root", "uid": 0, "account": "physics"}
ADA: dict[str, Any] = {"user": "ada", "account": "chemistry"}
PAIR = {
    "subject": "42",
    "done": f"requeue {OTHER}",
    "why": f"42.0 at least 90%, {OTHER}.0 at least 80% of their speed alone; beside job {OTHER}",
}


def move(history: History, kind: str, job_id: int | None, **columns: Any) -> None:
    """A move of the ledger."""
    row = {
        "move_id": f"m-{kind}",
        "at_s": 1.0,
        "kind": kind,
        "mode": "act",
        "subject": str(job_id or "n1"),
        "job_id": job_id,
        "done": "nice=5",
        "why": "it goes first again",
        "before": "{}",
        "after": "{}",
        **columns,
    }
    insert(history, "moves", row)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A history of two accounts: a pair of both, a job that waits, another's job, a node."""
    site(tmp_path)
    with open_history(tmp_path / "history.db") as history:
        for job_id, whose in ((42, ROOT), (OTHER, ADA)):
            put_run(history, job_id, 1.0, job_name="train", cpus=1, start_s=1.0, **whose)
            decide(history, job_id, **whose)
        decide(history, 9, **ROOT)
        move(history, "pair", 42, **PAIR)
        move(history, "queue", 9)
        move(history, "elastic", OTHER)
        move(history, "energy", None)
    return tmp_path


def kinds(told: dict[str, Any]) -> list[str]:
    """Kinds of the moves in a report, which has one of each."""
    return [row["kind"] for row in tables(told)["queue", "moves"]]


def test_moves_are_the_accounts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A job belongs to the account of its runs, or of its decision while it has none."""
    assert kinds(document(capsys, folder)) == ["elastic", "energy", "pair", "queue"]
    assert kinds(document(capsys, folder, "--account", "physics")) == ["pair", "queue"]
    assert kinds(document(capsys, folder, "--account", "chemistry")) == ["elastic"]
    newest = tables(document(capsys, folder, "--account", "chemistry"))["queue", "last"]
    assert [row["subject"] for row in newest] == [str(OTHER)]


@pytest.mark.parametrize(
    "words",
    [
        ("--account", "physics"),
        ("--reader", "root"),
        ("--users", "pseudonyms"),
        ("--users", "none"),
    ],
)
@pytest.mark.parametrize("form", FORMATS)
def test_no_number_of_another_job_is_in_a_report_on_a_part(
    folder: Path, words: tuple[str, str], form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pair's move says that there was another job, and not which."""
    config = str(folder / "dlqueue.toml")
    assert main(["report", "--config", config, "--format", form, *words]) == 0
    text = capsys.readouterr().out
    assert "requeue another job" in text
    assert str(OTHER) not in text


def test_the_administrator_sees_which_jobs_were_a_pair(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A report on the whole site, with names, has moves as they were recorded."""
    rows = tables(document(capsys, folder))["queue", "last"]
    (pair,) = (row for row in rows if row["kind"] == "pair")
    assert pair | PAIR == pair


def test_a_readers_pages_name_no_other_job(folder: Path) -> None:
    """The page of an own job tells its moves without the numbers of others."""
    words = ["--output", str(folder / "report.html"), "--jobs", "9", "--reader", "root"]
    assert main(["report", "--config", str(folder / "dlqueue.toml"), *words]) == 0
    page = (folder / "report-jobs" / "42.html").read_text()
    assert "requeue another job" in page
    assert str(OTHER) not in page


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("it goes after job 41, place 7", "it goes after another job, place 7"),
        ("it goes after job 41_3, place 7", "it goes after another job, place 7"),
        (
            "beside it job 41 was slow beside job 40, 42",
            "beside it another job was slow beside another job",
        ),
        ("41.0 has not agreed to share", "another job has not agreed to share"),
        ("41.2 may run at 60% of its speed alone", "another job may run at 60% of its speed alone"),
        ("requeue 41", "requeue another job"),
        ("requeue 2->4 GPUs", "requeue 2->4 GPUs"),
        ("1.5 GiB of memory are needed", "1.5 GiB of memory are needed"),
    ],
)
def test_only_numbers_of_jobs_are_taken_out(words: str, shown: str) -> None:
    """Sizes, places and nice values stay."""
    assert without_jobs(words) == shown


def test_gaps_and_stopped_scripts_are_the_accounts(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs without an end and scripts that are left as written count for their own account."""
    rates = {f"{when}_{end}": rate for when in ("before", "after") for end, rate in RATES.items()}
    of = {**ADA, "job_name": "train", "key_script": 7, "level": "same script", "runs": 1}
    with open_history(folder / "history.db") as history:
        for job_id in (101, 102, 103):
            put_run(history, job_id, 300.0, **ADA)
            decided = {**DECIDED, **rates, "token": f"t{job_id}", "holdout": 0, "job_id": job_id}
            insert(history, "decisions", {**decided, **of})
        put_run(history, 104, 1.0, **{**ADA, "end_s": None})
    physics, chemistry = (
        document(capsys, folder, "--account", account)["sections"]
        for account in ("physics", "chemistry")
    )
    assert _said(chemistry) == (
        "1 script left as written until a run is as predicted.",
        ["Left out: 1 run without an end time."],
    )
    assert _said(physics) == ("", [])


def _said(sections: list[dict[str, Any]]) -> tuple[str, list[str]]:
    """The note on scripts, and the remarks on runs that no period holds."""
    by_key = {section["key"]: section for section in sections}
    (scripts,) = (t for t in by_key["predictions"]["tables"] if t["key"] == "scripts")
    return scripts["note"], by_key["missing"]["lead"]


def test_records_set_aside_are_told_by_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names of files have numbers of jobs, and a folder has thousands of them."""
    with open_history(folder / "history.db") as history:
        for name in (f"/spool/1000/{OTHER}.json", "/spool/1000/8.json", "journal"):
            insert(
                history, "set_aside", {"name": name, "source": name, "reason": "r", "aside_s": 1}
            )
    sections = document(capsys, folder, "--users", "pseudonyms")["sections"]
    (told,) = (t for s in sections for t in s["tables"] if t["key"] == "aside")
    assert [(row["source"], row["records"]) for row in told["rows"]] == [
        ("/spool/1000/", 2),
        ("journal", 1),
    ]
