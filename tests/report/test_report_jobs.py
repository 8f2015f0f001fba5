"""Pages of a report's jobs: reached from it, and nobody's that its reader may not see."""

import re
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli import main
from slurm_ext.history.store.store import History, open_history
from tests.report.conftest import site
from tests.report.test_report_savings import put

ADA = {"user": "ada", "job_name": "secret plan"}
ROOT = {"user": "root", "uid": 0, "job_name": "mine"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A history with three jobs of ada's and two of root's, each decided."""
    site(tmp_path)
    with open_history(tmp_path / "history.db") as history:
        for job_id in (1, 2, 3):
            put_of(history, job_id, ADA)
        for job_id in (4, 5):
            put_of(history, job_id, ROOT)
    return tmp_path


def put_of(history: History, job_id: int, whose: dict[str, Any]) -> None:
    """A user's job with its decision."""
    put(history, job_id, 1.0, 1.0, **whose)
    names = {name: whose[name] for name in whose if name != "job_name"}
    parts = ", ".join(f"{name} = ?" for name in names)
    history.conn.execute(
        f"UPDATE decisions SET {parts} WHERE job_id = ?", (*names.values(), job_id)
    )


def report(folder: Path, *words: str) -> int:
    """Exit status of a report to report.html."""
    output = str(folder / "report.html")
    return main(["report", "--config", str(folder / "dlqueue.toml"), "--output", output, *words])


def pages(folder: Path) -> list[str]:
    """Names of the pages that lie beside it."""
    return sorted(path.name for path in (folder / "report-jobs").glob("*"))


def test_each_named_job_has_its_page_and_leads_back(folder: Path) -> None:
    """Every link of the report is there; every page is linked, and is that of `explain`."""
    assert report(folder, "--jobs", "9") == 0
    text = (folder / "report.html").read_text()
    links = set(re.findall(r'<a href="(report-jobs/[^"]+)"', text))
    assert links == {f"report-jobs/{name}" for name in pages(folder)}
    assert pages(folder) == [f"{number}.html" for number in (1, 2, 3, 4, 5)]
    one = (folder / "report-jobs" / "3.html").read_text()
    assert "Job 3" in one
    assert "What it used" in one
    assert '<a href="../report.html">the report</a>' in one


def test_only_so_many_are_written(folder: Path) -> None:
    """The first that the report names; the others have no link."""
    assert report(folder, "--jobs", "2") == 0
    assert len(pages(folder)) == 2
    assert (folder / "report.html").read_text().count("report-jobs/") >= 2


def test_without_jobs_there_is_neither_page_nor_link(folder: Path) -> None:
    """The page stands alone, as before."""
    assert report(folder) == 0
    assert not (folder / "report-jobs").exists()
    assert "report-jobs" not in (folder / "report.html").read_text()


def test_a_reader_sees_his_own_jobs_alone(folder: Path) -> None:
    """No page, no row and no word of another user's; old pages of others are gone."""
    assert report(folder, "--jobs", "9") == 0
    (folder / "report-jobs" / "notes.txt").write_text("of somebody")
    assert report(folder, "--jobs", "9", "--reader", "root") == 0
    assert pages(folder) == ["4.html", "5.html", "notes.txt"]
    shown = (folder / "report.html").read_text()
    every = [shown, *((folder / "report-jobs" / f"{number}.html").read_text() for number in (4, 5))]
    assert all("mine" in text for text in every)
    assert not any("ada" in re.findall(r"\w+", text) or "secret" in text for text in every)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--jobs", "0"], "--jobs 0 is not a number from 1 to 1000"),
        (["--jobs", "1001"], "--jobs 1001 is not"),
        (["--jobs", "2", "--format", "csv"], "--output FILE.html"),
        (["--jobs", "2", "--users", "pseudonyms"], "users are pseudonyms"),
        (["--jobs", "2", "--users", "none"], "users are none"),
        (["--reader", "no-such-user"], "--reader 'no-such-user' is no user"),
        (["--reader", "nul\0"], "is no user"),
    ],
)
def test_wrong_words_write_nothing(
    folder: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, and no file."""
    assert report(folder, *words) == 2
    assert said in capsys.readouterr().err
    assert not (folder / "report.html").exists()


def test_a_folder_that_cannot_be_made_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its name; a file of that name is left alone."""
    (folder / "report-jobs").write_text("a file")
    assert report(folder, "--jobs", "2") == 1
    assert "report-jobs: cannot be written" in capsys.readouterr().err
    assert (folder / "report-jobs").read_text() == "a file"
