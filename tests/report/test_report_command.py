"""`dlqueue report`: every format tells the same, and no input breaks it."""

import csv
import io
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli import main
from slurm_ext.cli.common.output import put_file
from slurm_ext.core.errors import HistoryError, InputError
from slurm_ext.history.store.store import History, open_history
from slurm_ext.history.views.period_view import Period, select_runs
from slurm_ext.report.formats import FORMATS
from slurm_ext.report.formatting import name
from tests.report.conftest import HOSTILE, RUNS, site

YEAR_S = 365 * 86400.0
NOW_S = 1_790_000_000.0
ORDINARY = {
    "cluster": "c",
    "restart": 0,
    "node": "n1",
    "state": "COMPLETED",
    "source": "epilog",
    "ingested_s": NOW_S,
    "cpus": 2,
    "gpus": 0,
    "user": "ada",
    "start_s": NOW_S - 100,
    "end_s": NOW_S,
    "elapsed_s": 100.0,
}
DECIDED = {
    "state": "claimed",
    "decided_s": NOW_S,
    "mode": "act",
    "action": "change",
    "reason": "why",
    "before_samples_per_s": 50,
    "after_samples_per_s": 500,
    "factor": 1,
    "edits": "{}",
}

RATES = {"samples_per_s": 100.0, "low": 80.0, "high": 125.0}


def document(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> dict[str, Any]:
    """The report of a folder's history as JSON."""
    assert main(["report", "--config", str(folder / "dlqueue.toml"), "--json", *words]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def tables(told: dict[str, Any]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Rows by section and table."""
    return {
        (section["key"], table["key"]): table["rows"]
        for section in told["sections"]
        for table in section["tables"]
    }


def put_run(folder: Path, number: int = 1, **columns: Any) -> None:
    """Add one run to the folder's history."""
    row = {
        **ORDINARY,
        "record_id": f"r{number}",
        "job_id": number,
        **columns,
    }
    with open_history(folder / "history.db") as history:
        insert(history, "runs", row)


def insert(history: History, table: str, row: Mapping[str, Any]) -> None:
    """Add one row."""
    places = ", ".join("?" * len(row))
    statement = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})"
    history.conn.execute(statement, list(row.values()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A site with an empty history."""
    open_history(tmp_path / "history.db").close()
    site(tmp_path)
    return tmp_path


def test_json_is_not_written_under_another_formats_name(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A browser would show it as text, and a script that waits for it reads nothing."""
    page = folder / "r.html"
    words = ["report", "--config", str(folder / "dlqueue.toml"), "--json", "--output"]
    assert main([*words, str(page)]) == 2
    assert f"--json would write JSON into {page}" in capsys.readouterr().err
    assert not page.exists()
    assert main([*words, str(folder / "r.json")]) == 0
    assert json.loads((folder / "r.json").read_text())["v"]


def test_what_was_made_up_is_found_again(
    whole_history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every section has its figures, and they are those that went in."""
    told = document(capsys, whole_history)
    rows = tables(told)
    assert told["runs"] == RUNS
    assert sum(row["decisions"] for row in rows["ledger", "counts"]) == RUNS // 3
    assert sum(row["runs"] for row in rows["groups", "partition"]) == RUNS
    changed, control = rows["gain", "groups"]
    assert changed["decisions"] > 5 * control["decisions"] > 0
    assert changed["ratio"] > 1.2
    assert rows["queue", "moves"]
    assert rows["energy", "models"]
    assert rows["colocation", "pairs"]
    (held,) = (row for row in rows["predictions", "calibration"] if row["promised"] == 0.9)
    assert held["low"] <= 0.9 + 0.1


def test_the_gain_is_against_the_control_group(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rates of 130 against 100 are +30 %, whatever was believed: here, of both, 50 as written."""
    with open_history(folder / "history.db") as history, history.transaction():
        for number in range(40):
            token, held = f"t{number}", number % 2
            rate = (100.0 if held else 130.0) * (1 + 0.01 * (number // 2 % 5))
            run = {"id": number, "record_id": token, "job_id": number, "decision": token}
            insert(history, "runs", {**ORDINARY, **run})
            insert(history, "loader_runs", {"run": number, "samples_per_s": rate})
            decided = {**DECIDED, "token": token, "holdout": held, "job_id": number}
            insert(history, "decisions", decided)
    told = document(capsys, folder)
    (row,) = tables(told)["gain", "gain"]
    assert told["sections"][0]["answer"].startswith("+30.0 %")
    assert row["gain"] == pytest.approx(1.3)
    assert 1.25 < row["low"] < 1.3 < row["high"] < 1.35
    assert row["believed"] == pytest.approx(10)  # told, and not claimed


def test_scripts_that_are_left_as_written_are_listed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the misses of each; to an administrator by name, to others by number."""
    rates = {f"{when}_{end}": rate for when in ("before", "after") for end, rate in RATES.items()}
    with open_history(folder / "history.db") as history, history.transaction():
        for number, (user, rate) in enumerate(3 * (("ada", 300.0), ("bob", 100.0))):
            run = {"id": number, "record_id": f"t{number}", "job_id": number, "user": user}
            insert(history, "runs", {**ORDINARY, **run, "decision": f"t{number}"})
            insert(history, "loader_runs", {"run": number, "samples_per_s": rate})
            row = {**DECIDED, **rates, "token": f"t{number}", "holdout": 0, "job_id": number}
            of = {"user": user, "job_name": "train", "key_script": 7}
            of |= {"level": "same script", "runs": 1}
            insert(history, "decisions", {**row, **of})
    ada, bob = tables(document(capsys, folder, "--users", "names"))["predictions", "scripts"]
    why = "its last 3 runs were not as predicted"
    assert ada == {"script": "ada: train", "runs": 3, "inside": 0.0, "stopped": why}
    assert bob == {"script": "bob: train", "runs": 3, "inside": 1.0, "stopped": ""}
    hidden = tables(document(capsys, folder, "--users", "pseudonyms"))["predictions", "scripts"]
    assert [row["script"].split()[0] for row in hidden] == ["script", "script"]
    assert tables(document(capsys, folder, "--users", "none"))["predictions", "scripts"] == []


def test_all_formats_tell_the_same(
    whole_history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A figure of the JSON stands in the CSV; every table is in Markdown and in the page."""
    told = document(capsys, whole_history)
    config = str(whole_history / "dlqueue.toml")
    texts = {}
    for form in ("html", "md", "csv"):
        output = tmp_path / f"report.{form}"
        assert main(["report", "--config", config, "--output", str(output)]) == 0
        texts[form] = output.read_text(encoding="utf-8")
        assert output.stat().st_mode & 0o007 == 0  # other users' job names are private
    cells = {
        (row["section"], row["table"], int(row["row"]), row["column"]): row["value"]
        for row in csv.DictReader(io.StringIO(texts["csv"]))
    }
    for (section, table), rows in tables(told).items():
        for number, row in enumerate(rows, 1):
            for column, value in row.items():
                if isinstance(value, float):
                    assert float(cells[section, table, number, column]) == value
    titles = [table["title"] for section in told["sections"] for table in section["tables"]]
    assert all(f"### {title}\n" in texts["md"] for title in titles)
    assert all(f"<h3>{title}</h3>" in texts["html"] for title in titles)


def test_no_cell_of_a_csv_is_a_formula(
    whole_history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job's name does not reach out of a spreadsheet."""
    config = str(whole_history / "dlqueue.toml")
    assert main(["report", "--config", config, "--format", "csv"]) == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert not [row for row in rows if row[-1].startswith(("=", "@", "+"))]
    assert [row for row in rows if row[-1].startswith("'=HYPERLINK")]


@pytest.mark.parametrize("users", ["pseudonyms", "none"])
@pytest.mark.parametrize("form", FORMATS)
def test_nobody_is_named_where_the_site_says_so(
    whole_history: Path, users: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither a user, nor a job's name, nor an id that leads to either."""
    words = ["report", "--config", str(whole_history / "dlqueue.toml"), "--users", users]
    assert main([*words, "--format", form]) == 0
    text = capsys.readouterr().out
    assert not re.search(r"\buser\d", text)
    assert not [told for told in map(name, HOSTILE) if told in text]
    assert "job_id" not in text
    assert ("user 1" in text) == (users == "pseudonyms")


def test_the_setting_is_the_default(
    whole_history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`report.users` holds where the command line says nothing."""
    (tmp_path / "history.db").symlink_to(whole_history / "history.db")
    site(tmp_path, settings='[report]\nusers = "none"\n')
    assert ("waste", "users") not in tables(document(capsys, tmp_path))


def test_only_the_asked_for_runs(whole_history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A period and an account choose."""
    whole = document(capsys, whole_history)
    middle = (whole["since_s"] + whole["until_s"]) / 2
    from datetime import datetime

    at = datetime.fromtimestamp(middle).isoformat()  # noqa: DTZ006 (as people type it)
    before = document(capsys, whole_history, "--until", at)
    after = document(capsys, whole_history, "--since", at)
    assert before["runs"] + after["runs"] == RUNS
    assert min(before["runs"], after["runs"]) > 0
    one = document(capsys, whole_history, "--account", "group-1")
    assert [row["account"] for row in tables(one)["groups", "account"]] == ["group-1"]


@pytest.mark.parametrize("form", FORMATS)
def test_an_empty_history_is_a_report_that_says_so(
    folder: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No division by nothing, in any format."""
    assert main(["report", "--config", str(folder / "dlqueue.toml"), "--format", form]) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"user": None, "cpus": None, "elapsed_s": None, "start_s": None},
        {"elapsed_s": -5.0, "cpus": 0, "mem_bytes": 0, "node_cores": 0},
        {"user": "", "job_name": "", "account": "", "partition": ""},
        {"elapsed_s": 1e18, "submit_s": -1e18, "mem_bytes": (1 << 63) - 1, "gpus": 1 << 40},
        {"end_s": -1e12},
    ],
)
def test_one_run_of_any_kind(
    folder: Path, columns: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """What the history holds, every format tells; JSON stays JSON."""
    put_run(folder, **columns)
    for form in FORMATS:
        assert main(["report", "--config", str(folder / "dlqueue.toml"), "--format", form]) == 0
        text = capsys.readouterr().out
        assert text
        if form == "json":
            json.loads(text, parse_constant=pytest.fail)


def test_a_year_of_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs before and after it: the year's report is empty, and no bar is drawn for each day."""
    put_run(folder, 1, end_s=NOW_S - 3 * YEAR_S)
    put_run(folder, 2, end_s=NOW_S)
    told = document(capsys, folder, "--since", "2024-06-01", "--until", "2025-06-01")
    assert told["runs"] == 0
    assert tables(told)["groups", "user"] == []


def test_clocks_in_the_future_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Such runs are left out, counted, and their clocks named."""
    put_run(folder, 1, end_s=4e9)
    put_run(folder, 2, end_s=1e300)
    put_run(folder, 3, end_s=None)
    told = document(capsys, folder)
    said = " ".join(told["sections"][-1]["lead"])
    assert told["runs"] == 0
    assert "2 runs with an end more than a day in the future" in said
    assert "1 run without an end" in said


@pytest.mark.parametrize(
    ("words", "status", "named"),
    [
        (["--since", "yesterday"], 2, "--since 'yesterday' is not a time"),
        (["--until", "never"], 2, "--until 'never'"),
        (["--since", "1d", "--until", "2d"], 2, "--since 1d is not before --until 2d"),
        (["--output", "/proc/nowhere/report.html"], 1, "cannot be written"),
    ],
)
def test_wrong_words_are_one_line(
    folder: Path, words: list[str], status: int, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status, and what is valid."""
    assert main(["report", "--config", str(folder / "dlqueue.toml"), *words]) == status
    told = capsys.readouterr()
    assert named in told.err
    assert not told.out


@pytest.mark.root
def test_a_read_only_folder(tmp_path: Path) -> None:
    """An ordinary user's report into a folder of root's is one line, and leaves nothing."""
    os.seteuid(65534)
    try:
        with pytest.raises(InputError, match="cannot be written: Permission denied"):
            put_file(tmp_path / "report.html", "text")
    finally:
        os.seteuid(0)
    assert list(tmp_path.iterdir()) == []


def test_a_device_or_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    """`--output /dev/null`, as root too, or /dev/stdout behind a link: it is no file to replace."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    put_file(link, "text")
    assert os.read(reading, 10) == b"text"
    os.close(reading)
    assert (pipe.is_fifo(), link.is_symlink()) == (True, True)
    with pytest.raises(InputError, match="cannot be written: Is a directory"):
        put_file(tmp_path, "text")


def test_the_old_report_stays_where_the_disk_is_full(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The new one is written beside it; half of it is nowhere to be seen."""
    output = folder / "report.html"
    words = ["report", "--config", str(folder / "dlqueue.toml"), "--output", str(output)]
    assert main(words) == 0
    old = output.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    assert main(words) == 1
    assert "No space left on device; what was there before is untouched" in capsys.readouterr().err
    assert output.read_bytes() == old
    assert [path.name for path in folder.glob("*part*")] == []


def test_no_room_for_temporary_files_is_told_as_such(whole_history: Path) -> None:
    """It is not the history's disk that is full."""
    period = Period(since_s=0.0, until_s=4e9)
    with open_history(whole_history / "history.db", read_only=True) as history:
        history.conn.execute("PRAGMA temp.max_page_count = 8")
        with pytest.raises(HistoryError, match="SQLITE_TMPDIR names another"):
            select_runs(history, period, lambda _: None)


def test_names_in_every_writing_are_one_line() -> None:
    """Nothing breaks a line, turns its direction or hides; joined emoji stay joined."""
    told = [name(one) for one in HOSTILE]
    assert not any("\n" in one or "\u202e" in one or "\x1b" in one or "\0" in one for one in told)
    assert "👩\u200d👩\u200d👧 train" in told
    assert name("") == "(no name)"
    assert len(name("a" * 500)) == 120
